"""The steps of a night in order: make the lab, run the product on it, compare configurations, remove the lab."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.errors import FlashferryError
from flashferry.core.state_folder import scratch_folder
from flashferry.core.units import counted, rate, rough_megabytes, size
from flashferry.images.safe_open import checked_image
from flashferry.nightly.backend import (
    Clock,
    Deadline,
    LabNode,
    NightStopped,
    NodeState,
    PlannedNode,
    Preflight,
    Progress,
    RunningLab,
    StoppableClock,
    SystemClock,
    Topology,
)
from flashferry.nightly.booting import BootedImage, BootImage
from flashferry.nightly.clean_up import NO_LAB, ReapRules, reap_labs, removable, remove_lab
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.inventory_files import write_inventory
from flashferry.nightly.lab_notes import LabNotes, new_title, only_one_night
from flashferry.nightly.lab_steps import (
    Reach,
    addresses_of,
    await_booted,
    check_licences,
    check_links,
    in_parallel,
    measure_link,
)
from flashferry.nightly.night import (
    PRODUCT_STEPS,
    Fault,
    MeasuredLink,
    Night,
    NightCopy,
    NightFault,
    NightFigure,
    NightSettings,
    NightStep,
    NoCapacity,
    Rating,
    StepName,
    StepOutcome,
)
from flashferry.nightly.product import (
    ProductProcesses,
    ProductRun,
    check_ended_well,
    copies_of_probe,
    copies_of_stage,
    devices_of,
    figures_of,
    named,
    product_version,
)
from flashferry.nightly.routers import Configurations, SshRouters, check_is_the_labs
from flashferry.nightly.step_log import SilentWatcher, StepLog, Watcher
from flashferry.nightly.thresholds import named_judgements
from tasks.read_config import difference, fingerprint


class ConfigurationProof:
    """Compare the routers' configurations before and after the product ran, in own SSH sessions."""

    def __init__(self, routers: SshRouters, topology: Topology, addresses: Mapping[str, str]) -> None:
        self._routers, self._nodes, self._addresses = routers, topology.nodes, addresses
        self._before: dict[str, Configurations] = {}
        self._changed: list[str] = []

    @property
    def is_taken(self) -> bool:
        """Whether the configurations before the product's first change were read."""
        return bool(self._before)

    def take(self) -> None:
        """Read all configurations, and check that they belong to the lab's routers.

        Raises:
            NightFault: `DEVICE`: one cannot be read. `LAB`: another router answers at an address.
        """
        read = in_parallel(self._read_first, self._nodes)
        self._before = {node.label: one for node, one in zip(self._nodes, read, strict=True)}

    def check_again(self) -> tuple[NightFigure, ...]:
        """Read all configurations again; return how many lines each router gained."""
        found = in_parallel(self._compared, self._nodes)
        self._changed = [sentence for sentence, _ in found if sentence]
        return tuple(
            NightFigure(**named(node), what="lines left", value=float(lines))
            for node, (_, lines) in zip(self._nodes, found, strict=True)
            if lines is not None
        )

    def check(self) -> str:
        """Return a sentence on the result of `check_again`.

        Raises:
            NightFault: `PRODUCT`: a configuration differs or cannot be read.
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
        """Return the differences in words, and the number of added lines; None: unknown."""
        before = self._before[node.label]
        try:
            after = self._routers.configurations(node, self._addresses[node.label])
        except FlashferryError as error:
            return f"{node.label}: cannot be read any more: {error.message}", None
        pairs = (("running", before.running, after.running), ("startup", before.startup, after.startup))
        found = {name: difference(fingerprint(was, salt=node.label), now, salt=node.label) for name, was, now in pairs}
        text = "; ".join(f"{node.label}: {name}: {changed}" for name, changed in found.items() if changed)
        return text, len(found["running"].added)


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


_LOG = logging.getLogger("flashferry.nightly")
EXPIRES_MARGIN_S = 900.0
"""Any host may remove a lab this long after the latest end of its night."""
PREFLIGHT_S, REAP_S, JUDGE_S, ARTEFACTS_S = 120.0, 600.0, 180.0, 180.0
Files = Mapping[str, bytes]
"""Content of the files to keep, by name in the night's folder."""


class NightParts(Struct, frozen=True, kw_only=True):
    """The parts of a night.

    Attributes:
        topology: Makes the lab's topology for a title.
        folder: The folder of locks and scratch files.
        judge: Returns the night with its judgements.
        write: Writes the night's folder; called again after the clean-up.
        is_stopped: Whether the operator asked to stop; unused if `clock` is a `StoppableClock`.
        boots: What routers boot; None: what the topology says.
        on_progress: Called with progress of an image upload.
        routers: Access to routers; None: SSH with the login of the settings.
        product: Makes the runner of the product from its folder and the inventory; None: processes.
    """

    backend: CmlBackend
    topology: Callable[[str], Topology]
    settings: NightSettings
    folder: Path
    judge: Callable[[Night], Night] = lambda night: night
    write: Callable[[Night, Files], None] = lambda night, files: None  # noqa: ARG005 -- the signature
    watcher: Watcher = msgspec.field(default_factory=SilentWatcher)
    is_stopped: Callable[[], bool] = lambda: False
    clock: Clock = msgspec.field(default_factory=SystemClock)
    boots: BootImage | None = None
    on_progress: Progress = lambda done, size: None  # noqa: ARG005 -- the signature
    routers: SshRouters | None = None
    product: MakeProduct | None = None


def run_night(parts: NightParts) -> Night:
    """Run a night and return it, whatever its result.

    Raises:
        ConfigInvalid: The image or topology is invalid, or another user can write to the folder. No lab was made.
        NightFault: Another night runs on this host.
    """
    # The product's processes have a folder of their own: nothing may be meant to be below ours.
    settings = replace(parts.settings, image=checked_image(parts.settings.image).absolute())
    parts = replace(parts, folder=parts.folder.absolute(), settings=settings)
    title = new_title(parts.clock.now())
    topology = parts.topology(title)
    with only_one_night(parts.folder, title), scratch_folder(parts.folder) as scratch:
        return _Flow(parts, topology, scratch).play()


class _Flow:
    """A running night."""

    def __init__(self, parts: NightParts, topology: Topology, scratch: Path) -> None:
        self._parts, self._scratch = parts, scratch
        self._settings, self._limits, self._backend = parts.settings, parts.settings.limits, parts.backend
        self._routers = parts.routers or SshRouters(parts.settings.login)
        clock = parts.clock
        self._clock = clock if isinstance(clock, StoppableClock) else StoppableClock(clock, parts.is_stopped)
        self._boots = BootedImage(parts.boots, parts.backend, self._clock, parts.on_progress)
        self._topology = self._boots.planned(topology)
        self._log = StepLog(self._clock, parts.watcher)
        self._reap_rules = ReapRules.of(parts.folder)
        self._began = self._clock.now()
        self._whole = Deadline.after(self._limits.whole_s, self._clock)
        self._preflight: Preflight | None = None
        self._is_import_started, self._is_interrupted = False, False
        self._lab: RunningLab | None = None
        self._nodes: tuple[LabNode, ...] = ()
        self._addresses: Mapping[str, str] = {}
        self._links: list[MeasuredLink] = []
        self._product: ProductSteps | None = None
        self._files: dict[str, bytes] = {}
        self._judged: Night | None = None

    def play(self) -> Night:
        """Run all steps and return the night."""
        try:
            try:
                if self._take_up():
                    self._run_product()
                self._judge_and_keep()
            except NightStopped:
                self._is_interrupted = True
        finally:
            self._clock.begin_cleaning()
            self._clean()
        night = self._night()
        self._write_last(night)
        return night

    def _step(
        self, name: StepName, action: Callable[[Deadline], str], limit_s: float, fault: Fault = Fault.LAB
    ) -> NightStep:
        return self._log.do(name, action, deadline=self._whole.within(limit_s), fault=fault)

    # -- the lab

    def _take_up(self) -> bool:
        """Start the lab; return whether the product can run on it."""
        limits = self._limits
        steps: tuple[tuple[StepName, Callable[[Deadline], str], float], ...] = (
            (StepName.PREFLIGHT, self._check_backend, PREFLIGHT_S),
            (StepName.REAP, self._reap, REAP_S),
            (StepName.IMPORT, self._import, limits.import_s),
            (StepName.START, self._start, limits.start_s),
            (StepName.REACH, self._reach, limits.reach_s),
        )
        names = [name for name, _, _ in steps]
        for number, (name, action, limit_s) in enumerate(steps):
            step = self._step(name, action, limit_s)
            # A leftover that stays is graver than all else, but does not keep tonight's lab from its work.
            if step.outcome is StepOutcome.FAILED and step.fault is not Fault.CLEANUP:
                left = (*names[number + 1 :], StepName.CONDITION, *PRODUCT_STEPS)
                self._log.skip(left, f"'{name}' failed")
                return False
        # A link that is off makes the night one that is not compared; the product is tried all the same.
        self._step(StepName.CONDITION, self._condition, limits.condition_s)
        return True

    def _check_backend(self, deadline: Deadline) -> str:  # noqa: ARG002 -- a step's signature
        try:
            return self._asked_backend()
        except NoCapacity as error:
            left = removable(self._backend, self._reap_rules, now=self._clock.now())
            if not left:
                raise
            return f"{error.message}; checked again once {counted(len(left), 'lab')} of dead nights went"

    def _asked_backend(self) -> str:
        self._preflight = found = self._backend.preflight(self._topology)
        return "; ".join((f"{found.controller} {found.version}", *found.notes))

    def _reap(self, deadline: Deadline) -> str:
        sentence = reap_labs(self._backend, self._reap_rules, deadline)
        return sentence if self._preflight is not None else f"{sentence}; {self._asked_backend()}"

    def _import(self, deadline: Deadline) -> str:
        self._topology, brought = self._boots.bring(self._topology)
        if brought:  # an upload takes what it takes
            deadline = self._whole.within(self._limits.import_s)
        ends_s = self._limits.whole_s + self._limits.clean_s + EXPIRES_MARGIN_S
        notes = LabNotes.of_this_process(self._topology.title, expires=self._began + timedelta(seconds=ends_s))
        self._is_import_started = True
        self._lab = self._backend.up(self._topology, notes=notes.text(), deadline=deadline)
        return "; ".join(filter(None, (brought, f"lab {self._lab.lab_id}")))

    def _start(self, deadline: Deadline) -> str:
        assert self._lab is not None
        self._nodes = await_booted(
            self._backend, self._lab, self._topology, poll_s=self._limits.poll_s, deadline=deadline
        )
        return f"{len(self._topology.nodes)} of {len(self._topology.nodes)} BOOTED"

    def _reach(self, deadline: Deadline) -> str:
        assert self._lab is not None
        reach = Reach(self._backend, self._lab, self._topology, self._routers)
        try:
            sentence = reach.wait(poll_s=self._limits.poll_s, deadline=deadline)
        finally:
            self._nodes = reach.nodes or self._nodes
        self._addresses = addresses_of(self._topology, self._nodes)
        check_licences(self._topology, reach.states, self._settings.target_bps)
        return sentence

    def _condition(self, deadline: Deadline) -> str:
        assert self._lab is not None
        nodes = {node.label: node for node in self._topology.nodes}
        for link in self._topology.links:
            deadline.pause(0)
            found = measure_link(
                self._backend,
                self._lab,
                link,
                lambda label, planned: self._routers.ping(nodes[label], self._addresses[label], planned),
            )
            self._links.append(found)
        return check_links(self._links)

    # -- the product

    def _run_product(self) -> None:
        first = self._settings.does[0]
        proof = ConfigurationProof(self._routers, self._topology, self._addresses)
        try:
            product = self._product = ProductSteps.prepared(
                self._parts.product, self._scratch, self._settings, self._topology, self._addresses, proof
            )
        except OSError as error:  # a full disk: the rest of the night is done all the same
            found = error
            self._step(first, lambda _: _fail(found), self._limits.product_s)
            self._log.skip((one for one in PRODUCT_STEPS if one is not first), "nothing can be written")
            return
        failed: StepName | None = None
        for name in PRODUCT_STEPS:
            if why := product.why_not(name, failed):
                self._log.skip((name,), why)
                continue
            step = self._step(
                name, self._blaming(self._product_step(product, name)), self._limits.product_s, Fault.PRODUCT
            )
            failed = failed or (name if step.outcome is StepOutcome.FAILED else None)

    def _product_step(self, product: ProductSteps, name: StepName) -> Callable[[Deadline], str]:
        def action(deadline: Deadline) -> str:
            sentence = product.do(name, deadline)
            if name is not StepName.PROBE or self._lab is None:
                return sentence
            captured = product.capture(self._backend, self._lab, deadline)
            if product.captured:
                self._files[f"capture-{self._settings.capture_node}.pcap"] = product.captured
            return "; ".join(filter(None, (sentence, captured)))

        return action

    def _blaming(self, action: Callable[[Deadline], str]) -> Callable[[Deadline], str]:
        """Return an action whose failure is the lab's fault if a node is no longer BOOTED."""

        def blamed(deadline: Deadline) -> str:
            try:
                return action(deadline)
            except FlashferryError as error:
                if (down := self._node_down()) is None:
                    raise
                raise NightFault(
                    f"the node is {down.state}, in the middle of it; {error.message}",
                    fault=Fault.LAB,
                    step=error.step or "",
                    hint="Look at its console log in the night's folder, and at the controller's load",
                    host=down.label,
                ) from error

        return blamed

    def _node_down(self) -> LabNode | None:
        """Return a router that is no longer BOOTED; None: all are, or unknown."""
        assert self._lab is not None
        try:
            self._nodes = self._backend.nodes(self._lab)
        except NightFault:
            return None
        ours = {node.label for node in self._topology.nodes}
        return next((one for one in self._nodes if one.label in ours and one.state is not NodeState.BOOTED), None)

    # -- what came of it

    def _judge_and_keep(self) -> None:
        self._log.do(
            StepName.JUDGE,
            self._blaming(self._judge) if self._lab is not None else self._judge,
            deadline=Deadline.after(JUDGE_S, self._clock),
            fault=Fault.PRODUCT,
        )
        self._log.do(StepName.ARTEFACTS, self._keep, deadline=Deadline.after(ARTEFACTS_S, self._clock))

    def _judge(self, deadline: Deadline) -> str:  # noqa: ARG002 -- a step's signature
        proof = self._product.proof if self._product is not None and self._product.proof.is_taken else None
        if proof is not None and self._product is not None:
            self._product.figures += proof.check_again()
        try:
            self._judged = self._parts.judge(self._night())
        finally:  # what is not restored is reported whatever became of the history
            words = [proof.check()] if proof is not None else []
        if red := named_judgements(self._judged.judgements, Rating.RED):
            raise NightFault(
                red,
                fault=Fault.PRODUCT,
                step=StepName.JUDGE,
                hint="The trend of each series is in the night's report",
            )
        noticed = [named_judgements(self._judged.judgements, colour) for colour in (Rating.AMBER, Rating.CHANGED_UP)]
        plain = f"{counted(len(self._judged.judgements), 'series', 'series')} judged" if self._judged.judgements else ""
        return "; ".join(filter(None, (*words, *noticed))) or plain or "nothing to judge"

    def _keep(self, deadline: Deadline) -> str:  # noqa: ARG002 -- a step's signature
        try:
            self._collect()
        finally:
            self._parts.write(self._night(), self._files)
        return f"{len(self._files)} files"

    def _collect(self) -> None:
        """Collect the files of the product and the lab, as many as possible before an error."""
        if self._product is not None:
            self._files |= self._product.product.files()
        if self._lab is None:
            return
        self._files |= self._backend.artefacts(self._lab)
        for node in self._nodes:
            if log := self._backend.console_log(self._lab, node):
                self._files[f"console/{node.label}.log"] = log.encode()

    def _clean(self) -> None:
        # Its own clock: what the night took, the clean-up does not pay for.
        deadline = Deadline.after(self._limits.clean_s, self._clock)
        self._log.do(StepName.CLEAN, self._remove, deadline=deadline, fault=Fault.CLEANUP)

    def _remove(self, deadline: Deadline) -> str:
        title, is_started = self._topology.title, self._is_import_started
        sentence = remove_lab(self._backend, self._lab, title, deadline) if is_started else NO_LAB
        return "; ".join(filter(None, (sentence, self._boots.remove(deadline))))

    def _night(self) -> Night:
        """Return the night as it is now."""
        because = self._not_comparable()
        night = Night(
            night_id=self._topology.title,
            started_at=self._began,
            ended_at=self._clock.now(),
            backend=self._backend.name,
            controller=self._preflight.controller if self._preflight else "",
            controller_version=self._preflight.version if self._preflight else "",
            kernel=platform.release(),
            tool_version=product_version(),
            steps=self._log.steps,
            nodes=self._nodes,
            links=tuple(self._links),
            copies=tuple(self._product.copies) if self._product else (),
            figures=tuple(self._product.figures) if self._product else (),
            is_comparable=not because,
            not_comparable_because=because,
            is_interrupted=self._is_interrupted,
        )
        if self._judged is None:
            return night
        # The thresholds may have set a reason already.
        judged = replace(night, judgements=self._judged.judgements)
        if not because and not self._judged.is_comparable:
            return replace(judged, is_comparable=False, not_comparable_because=self._judged.not_comparable_because)
        return judged

    def _not_comparable(self) -> str:
        if self._is_interrupted:
            return "it was ended by the operator"
        off = (step for step in self._log.steps if step.fault in (Fault.LAB, Fault.DEVICE))
        return next((f"{step.name}: {step.sentence}" for step in off), "")

    def _write_last(self, night: Night) -> None:
        """Write the folder again, with the clean-up's result; a full disk must not hide the result."""
        try:
            self._parts.write(night, self._files)
        except Exception as error:  # noqa: BLE001 -- nothing may hide what the night came to
            _LOG.error("the artefacts are not written: %s", error, exc_info=not isinstance(error, FlashferryError))


def _fail(error: Exception) -> str:
    raise error
