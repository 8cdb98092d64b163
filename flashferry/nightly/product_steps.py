"""The steps of a night that run the product: check, probe, stage, kill, resume, recover; and what they leave behind.

A copy that is to be killed in its middle must last long enough: its file is made as large as some seconds of the
night's own slowest copy, and larger again where it was over too soon.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from flashferry.core.errors import FlashferryError
from flashferry.core.units import rate, rough_megabytes
from flashferry.core.value_description import counted
from flashferry.nightly.backend import PlannedNode, Topology
from flashferry.nightly.deadline import Deadline
from flashferry.nightly.lab_steps import in_parallel
from flashferry.nightly.night import Fault, NightCopy, NightFault, NightFigure, StepName
from flashferry.nightly.product import (
    Product,
    ProductRun,
    check_ended_well,
    copies_of_probe,
    copies_of_stage,
    devices_of,
    figures_of,
    named,
)
from flashferry.nightly.routers import Configurations, Routers, check_is_the_labs
from flashferry.nightly.settings import NightSettings
from tasks.read_config import difference, fingerprint

KILLED = -9
KILL_TRIES = 3
KILL_AFTER_S = 12.0
"""What a copy that is to be killed should take at the rate of the night's slowest copy."""
_LEAST_BYTES, _FIRST_BYTES, _MOST_BYTES = 1_000_000, 8_000_000, 200_000_000
_AT_ONCE = ("--no-canary", "--wave-by", "all", "--tune", "always")
_ANY_IMAGE = "--any-image"
"""A lab may have routers of several platforms, and the description gives one image for all: stage refuses that without
this, and rightly so where routers are to boot it."""


@dataclass(slots=True, kw_only=True)
class ProductSteps:
    """Runs the product on a lab's routers and keeps its copies.

    Attributes:
        product: Runs its commands.
        settings: What is to be done.
        topology: The lab.
        folder: A folder for files that are staged only to be killed.
        copies: The timed copies so far.
        figures: What else was measured.
        killed_run: The run that was killed last; empty for none.
    """

    product: Product
    settings: NightSettings
    topology: Topology
    folder: Path
    copies: list[NightCopy] = field(default_factory=list)
    figures: list[NightFigure] = field(default_factory=list)
    killed_run: str = ""

    @property
    def actions(self) -> Mapping[StepName, Callable[[Deadline], str]]:
        """What is done at each step, in their order; each returns a sentence and raises `NightFault`."""
        return {
            StepName.CHECK: self.check,
            StepName.PROBE: self.probe,
            StepName.STAGE: self.stage,
            StepName.KILL: self.kill,
            StepName.RESUME: self.resume,
            StepName.RECOVER: self.recover,
        }

    def check(self, deadline: Deadline) -> str:
        """Look at all routers, and have each fetch a tiny file."""
        found = self._run(StepName.CHECK, "check", "check", ("--reach", *self._image, *self._server), deadline)
        return f"{counted(len(devices_of(found.document)), 'router')} fit for {self.settings.image.name}"

    def probe(self, deadline: Deadline) -> str:
        """Time copies to null:, untuned and tuned, as often as the trend's statistic wants."""
        options = ("--image", str(self.settings.image), "--seconds", f"{self.settings.probe_seconds:g}")
        for number in range(1, self.settings.copies + 1):
            found = self._run(StepName.PROBE, f"probe-{number}", "probe", (*options, *self._server), deadline)
            self.copies += copies_of_probe(found.document, self._nodes)
            self.figures += figures_of(found.document, self._nodes)
        self._check_timed()
        return self._rates("probe")

    def _check_timed(self) -> None:
        """See that each router has a tuned copy: a night that times nothing must not look like a good one."""
        timed = {copy.node for copy in self.copies if copy.verb == "probe" and copy.is_tuned}
        if missing := next((node for node in self.topology.nodes if node.label not in timed), None):
            raise NightFault(
                "no tuned copy of it was timed, though 'flashferry probe' ended well",
                fault=Fault.LAB,
                step=StepName.PROBE,
                hint="Copies may be too short to carry a rate: raise 'probe_seconds', or give its link a rate",
                host=missing.label,
            )

    def stage(self, deadline: Deadline) -> str:
        """Stage the image to flash of all routers."""
        options = (*self._image, *self._at_once, *self._server)
        found = self._run(StepName.STAGE, "stage", "stage", options, deadline)
        self.copies += copies_of_stage(found.document, self._nodes)
        self.figures += figures_of(found.document, self._nodes)
        return self._rates("stage")

    def kill(self, deadline: Deadline) -> str:
        """Stage another file and kill the run in the middle of its copies."""
        found = self._killed(StepName.KILL, deadline)
        return f"run {found.run_id} killed with SIGKILL in the middle of a copy"

    def resume(self, deadline: Deadline) -> str:
        """Go on with the run that was killed."""
        found = self._run(StepName.RESUME, "resume", "stage", ("--resume", self.killed_run), deadline)
        self.killed_run = ""
        return f"{counted(len(devices_of(found.document)), 'router')} through, restored and proven"

    def recover(self, deadline: Deadline) -> str:
        """Kill another run in the middle of its copies, and recover what it left."""
        if not self.killed_run:
            self._killed(StepName.RECOVER, deadline)
        found = self._run(StepName.RECOVER, "recover", "recover", (), deadline)
        self.killed_run = ""
        return f"{counted(len(devices_of(found.document)), 'router')} recovered after a second kill"

    @property
    def _nodes(self) -> Mapping[str, PlannedNode]:
        return {node.label: node for node in self.topology.nodes}

    @property
    def _image(self) -> tuple[str, ...]:
        given = ("--image", str(self.settings.image))
        return (*given, "--md5", self.settings.md5) if self.settings.md5 else given

    @property
    def _at_once(self) -> tuple[str, ...]:
        is_mixed = len({node.node_definition for node in self.topology.nodes}) > 1
        return (*_AT_ONCE, _ANY_IMAGE) if is_mixed else _AT_ONCE

    @property
    def _server(self) -> tuple[str, ...]:
        transport = ("--transport", self.settings.transport) if self.settings.transport else ()
        return (*transport, *self.settings.options)

    def _run(self, step: StepName, name: str, verb: str, options: Sequence[str], deadline: Deadline) -> ProductRun:
        found = self.product.run(name, verb, options, deadline=deadline)
        _check_in_time(step, found)
        check_ended_well(step, found.exit_code, found.document, found.said)
        return found

    def _killed(self, step: StepName, deadline: Deadline) -> ProductRun:
        """Return a run that was killed in the middle of its copies; its file grows until one was."""
        size_bytes = self._kill_bytes()
        for number in range(1, KILL_TRIES + 1):
            name = f"{step}-{number}"
            path = _random_file(self.folder / f"flashferry-{name}.bin", size_bytes)
            options = ("--image", str(path), "--remove-partial", *self._at_once, *self._server)
            found = self.product.killed(name, "stage", options, deadline=deadline)
            _check_in_time(step, found)
            if found.exit_code == KILLED and found.run_id:
                self.killed_run = found.run_id
                return found
            path.unlink()
            check_ended_well(step, found.exit_code, found.document, found.said)
            size_bytes = min(4 * size_bytes, _MOST_BYTES)
        raise NightFault(
            f"{KILL_TRIES} copies were over before they could be killed, the last one of {rough_megabytes(size_bytes)}",
            fault=Fault.LAB,
            step=step,
            hint="Give the lab's links a rate in the description, or leave this step out",
        )

    def _kill_bytes(self) -> int:
        slowest = min((one.rate_bytes_per_s for one in self.copies if one.is_tuned), default=None)
        kill_at_bytes = _FIRST_BYTES if slowest is None else round(slowest * KILL_AFTER_S)
        return min(max(kill_at_bytes, _LEAST_BYTES), _MOST_BYTES)

    def _rates(self, verb: str) -> str:
        """Return the median rates of a verb's copies in a sentence."""
        tuned, untuned = (
            [one.rate_bytes_per_s for one in self.copies if one.verb == verb and one.is_tuned is is_tuned]
            for is_tuned in (True, False)
        )
        words = [
            f"{counted(len(rates), 'copy', 'copies')} {name}, median {rate(median(rates))}"
            for rates, name in ((untuned, "as it is"), (tuned, "tuned"))
            if rates
        ]
        return "; ".join(words) or "no copy was timed: the routers have the image, or copies were too short"


def _check_in_time(step: StepName, found: ProductRun) -> None:
    if found.is_late:
        raise NightFault(
            f"'flashferry {found.verb}' did not end within the step's time and was ended",
            fault=Fault.PRODUCT,
            step=step,
            hint="Its events in the night's folder say what it waited for; 'limits' of the description give it more",
        )


def _random_file(path: Path, size_bytes: int) -> Path:
    """Write a file of random bytes, which no device and no link can compress."""
    with path.open("wb") as file:
        for offset in range(0, size_bytes, 1 << 20):
            file.write(os.urandom(min(1 << 20, size_bytes - offset)))
    return path


class ConfigurationProof:
    """Proves behind the product's back that routers are configured as they were.

    Args:
        routers: The routers.
        topology: The lab.
        addresses: Where SSH reaches each.
    """

    def __init__(self, routers: Routers, topology: Topology, addresses: Mapping[str, str]) -> None:
        self._routers, self._nodes, self._addresses = routers, topology.nodes, addresses
        self._before: dict[str, Configurations] = {}
        self._changed: list[str] = []

    @property
    def is_taken(self) -> bool:
        """Whether configurations were read before the product changed anything."""
        return bool(self._before)

    def take(self) -> None:
        """Read all configurations, and see that they are those of the lab's routers.

        Raises:
            NightFault: `DEVICE`: one could not be read. `LAB`: another router answers in the place of one.
        """
        read = in_parallel(self._read_first, self._nodes)
        self._before = {node.label: one for node, one in zip(self._nodes, read, strict=True)}

    def check_again(self) -> tuple[NightFigure, ...]:
        """Read all again and return how many lines more each router has; what is wrong, `check` raises."""
        found = in_parallel(self._compared, self._nodes)
        self._changed = [sentence for sentence, _ in found if sentence]
        return tuple(
            NightFigure(**named(node), what="lines left", value=float(lines))
            for node, (_, lines) in zip(self._nodes, found, strict=True)
            if lines is not None
        )

    def check(self) -> str:
        """Return a sentence about what `check_again` found.

        Raises:
            NightFault: `PRODUCT`: a configuration is not what it was, or could not be read.
        """
        if self._changed:
            raise NightFault(
                f"configurations are not what they were: {'; '.join(self._changed)}",
                fault=Fault.PRODUCT,
                step=StepName.JUDGE,
                hint="The product said otherwise, or nothing: report it with the night's folder",
                is_unrestored=True,
            )
        return f"running and startup configuration of {counted(len(self._nodes), 'router')} are what they were"

    def _read_first(self, node: PlannedNode) -> Configurations:
        address = self._addresses[node.label]
        try:
            found = self._routers.configurations(node, address)
        except FlashferryError as error:
            # Nothing of the product has been at it yet.
            hint = error.hint or "Look at its console log in the night's folder"
            message = f"its configuration cannot be read: {error.message}"
            raise NightFault(message, fault=Fault.DEVICE, step=StepName.CHECK, hint=hint, host=node.label) from error
        check_is_the_labs(node, address, found)
        return found

    def _compared(self, node: PlannedNode) -> tuple[str, int | None]:
        """Return what is not as it was, in words, and how many lines there are more; None: unknown."""
        before = self._before[node.label]
        try:
            after = self._routers.configurations(node, self._addresses[node.label])
        except FlashferryError as error:
            return f"{node.label}: cannot be read any more: {error.message}", None
        pairs = (("running", before.running, after.running), ("startup", before.startup, after.startup))
        found = {name: difference(fingerprint(was, salt=node.label), now, salt=node.label) for name, was, now in pairs}
        text = "; ".join(f"{node.label}: {name}: {changed}" for name, changed in found.items() if changed)
        return text, len(found["running"].added)
