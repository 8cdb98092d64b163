"""Run the product's steps of a night: check, probe, stage, kill, resume, recover.

A copy to be killed must last long enough: its file is as large as some seconds of the night's slowest copy, and four
times as large after each copy that ended too soon.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from flashferry.core.units import rate, rough_megabytes, size
from flashferry.core.value_description import counted
from flashferry.nightly.backend import PlannedNode, RunningLab, Topology
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.configuration_proof import ConfigurationProof
from flashferry.nightly.deadline import Deadline
from flashferry.nightly.inventory_files import write_inventory
from flashferry.nightly.night import Fault, NightCopy, NightFault, NightFigure, StepName
from flashferry.nightly.product import (
    ProductProcesses,
    ProductRun,
    check_ended_well,
    copies_of_probe,
    copies_of_stage,
    devices_of,
    figures_of,
)
from flashferry.nightly.settings import PRODUCT_STEPS, NightSettings

KILLED = -9
KILL_TRIES = 3
KILL_AFTER_S = 12.0
"""Duration of the copy to be killed, at the rate of the night's slowest copy."""
_LEAST_BYTES, _FIRST_BYTES, _MOST_BYTES = 1_000_000, 8_000_000, 200_000_000
_AT_ONCE = ("--no-canary", "--wave-by", "all", "--tune", "always")
_ANY_IMAGE = "--any-image"
"""Option for labs with several platforms: the description has one image for all, which `stage` refuses otherwise."""


MakeProduct = Callable[[Path, Path], ProductProcesses]
"""Makes the runner of the product from its folder and the inventory."""


@dataclass(slots=True, kw_only=True)
class ProductSteps:
    """Run the product on a lab's routers and keep its measurements.

    Attributes:
        folder: Folder for files that are staged only to be killed.
        killed_run: ID of the run killed last; empty for none.
        captured: The pcap file of the captured copy; empty for none.
    """

    product: ProductProcesses
    settings: NightSettings
    topology: Topology
    folder: Path
    proof: ConfigurationProof
    copies: list[NightCopy] = field(default_factory=list)
    figures: list[NightFigure] = field(default_factory=list)
    killed_run: str = ""
    captured: bytes = b""

    @classmethod
    def prepared(
        cls,
        make: MakeProduct | None,
        scratch: Path,
        settings: NightSettings,
        topology: Topology,
        addresses: Mapping[str, str],
        proof: ConfigurationProof,
    ) -> ProductSteps:
        """Write the lab's inventory, and return the steps on it.

        Args:
            make: Makes the runner of the product; None: processes of this installation.
            scratch: An empty folder for inventory, state and output.
            settings: The night's settings.
            topology: The lab.
            addresses: SSH addresses of its routers, by label.
            proof: Compares the routers' configurations.

        Raises:
            OSError: The folder cannot be written.
        """
        inventory = write_inventory(scratch / "inventory", topology, addresses, settings.inventory_data)
        product = make(scratch, inventory) if make else ProductProcesses(scratch, inventory, settings.login)
        (scratch / "kill").mkdir()
        return cls(product=product, settings=settings, topology=topology, folder=scratch / "kill", proof=proof)

    def do(self, name: StepName, deadline: Deadline) -> str:
        """Run a step and return a sentence; the first one reads the routers' configurations before."""
        if not self.proof.is_taken:
            self.proof.take()
        actions = (self.check, self.probe, self.stage, self.kill, self.resume, self.recover)
        return dict(zip(PRODUCT_STEPS, actions, strict=True))[name](deadline)

    def why_not(self, name: StepName, failed: StepName | None) -> str:
        """Return why a step is skipped, given the first that failed; empty if it is not."""
        if name not in self.settings.does:
            return "the description leaves it out"
        if name is StepName.RESUME and not self.killed_run:
            return "no run was killed"
        if name is StepName.RECOVER and failed is not None and self.killed_run:
            return ""  # what the failed step left is restored, if possible
        return f"'{failed}' failed" if failed is not None else ""

    def check(self, deadline: Deadline) -> str:
        """Check all routers and let each fetch a tiny file."""
        found = self._run(StepName.CHECK, "check", "check", ("--reach", *self._image, *self._server), deadline)
        return f"{counted(len(devices_of(found.document)), 'router')} fit for {self.settings.image.name}"

    def probe(self, deadline: Deadline) -> str:
        """Time copies to null:, untuned and tuned, as often as the settings say."""
        for number in range(1, self.settings.copies + 1):
            found = self._run(StepName.PROBE, f"probe-{number}", "probe", (*self._probed, *self._server), deadline)
            self.copies += copies_of_probe(found.document, self._nodes)
            self.figures += figures_of(found.document, self._nodes)
        self._check_timed()
        return self._rates("probe")

    def _check_timed(self) -> None:
        """Check that each router has a tuned copy: a night without measurements must not pass as good."""
        timed = {copy.node for copy in self.copies if copy.verb == "probe" and copy.is_tuned}
        if missing := next((node for node in self.topology.nodes if node.label not in timed), None):
            raise NightFault(
                "no tuned copy of it was timed, though 'flashferry probe' ended well",
                fault=Fault.LAB,
                step=StepName.PROBE,
                hint="Copies may be too short to carry a rate: raise 'probe_seconds', or give its link a rate",
                host=missing.label,
            )

    def capture(self, backend: CmlBackend, lab: RunningLab, deadline: Deadline) -> str:
        """Capture the packets of one more tuned copy, if asked for; return the result in words, else an empty string.

        It follows the measured copies, because a capture slows the controller. A failed capture is only reported.
        """
        node = self.settings.capture_node
        if node is None:
            return ""
        link = next((one for one in self.topology.links if node in one.nodes), None)
        if link is None:
            return f"no capture: {node} is behind no link of the night"
        try:
            backend.capture_begin(lab, link)
            options = ("--tuned", "--host", node, *self._probed, *self._server)
            self.product.run("capture", "probe", options, deadline=deadline)
            self.captured = backend.capture_end(lab, link)
        except NightFault as error:
            return f"no capture: {error.message}"
        return f"{size(len(self.captured))} captured at {link.label}"

    def stage(self, deadline: Deadline) -> str:
        """Stage the image to the flash of all routers."""
        options = (*self._image, *self._at_once, *self._server)
        found = self._run(StepName.STAGE, "stage", "stage", options, deadline)
        self.copies += copies_of_stage(found.document, self._nodes)
        self.figures += figures_of(found.document, self._nodes)
        return self._rates("stage")

    def kill(self, deadline: Deadline) -> str:
        """Stage another file and kill the run during its copies."""
        found = self._killed(StepName.KILL, deadline)
        return f"run {found.run_id} killed with SIGKILL in the middle of a copy"

    def resume(self, deadline: Deadline) -> str:
        """Resume the killed run."""
        found = self._run(StepName.RESUME, "resume", "stage", ("--resume", self.killed_run), deadline)
        self.killed_run = ""
        return f"{counted(len(devices_of(found.document)), 'router')} through, restored and proven"

    def recover(self, deadline: Deadline) -> str:
        """Kill another run during its copies, then recover its devices."""
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
    def _probed(self) -> tuple[str, ...]:
        return ("--image", str(self.settings.image), "--seconds", f"{self.settings.probe_seconds:g}")

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
        check_ended_well(step, found)
        return found

    def _killed(self, step: StepName, deadline: Deadline) -> ProductRun:
        """Return a run that was killed during its copies; retry with a larger file up to `KILL_TRIES` times."""
        size_bytes = self._kill_bytes()
        for number in range(1, KILL_TRIES + 1):
            name = f"{step}-{number}"
            path = _random_file(self.folder / f"flashferry-{name}.bin", size_bytes)
            options = ("--image", str(path), "--remove-partial", *self._at_once, *self._server)
            found = self.product.killed(name, "stage", options, deadline=deadline)
            if found.exit_code == KILLED and found.run_id and not found.is_late:
                self.killed_run = found.run_id
                return found
            path.unlink()
            check_ended_well(step, found)
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


def _random_file(path: Path, size_bytes: int) -> Path:
    """Write random bytes, which neither a device nor a link can compress."""
    with path.open("wb") as file:
        for offset in range(0, size_bytes, 1 << 20):
            file.write(os.urandom(min(1 << 20, size_bytes - offset)))
    return path
