"""containerlab behind the protocol of nights: `ContainerlabBackend`. Never tried with KVM or a real image.

Each lab has a folder of its own: its topology, the folder that containerlab makes beside it, and `night.json`, the
notes that a lab has in Cisco Modeling Labs.

Facts
-----
By the source of containerlab 0.79.0; none of it was tried:

* `deploy` without `--reconfigure` deploys a lab that is not there and changes one that is; a night's name is new. With
  `--reconfigure` it would destroy whatever has the name first, so it is never given.
* `destroy --cleanup` ends with 0 whatever it could not remove, and where no container is left it removes the first
  folder `clab-*` beside the topology, whoever's it is. So a lab is gone when `inspect` says so, and its folder holds
  nothing else.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from flashferry.core.outside import shown
from flashferry.nightly import backend
from flashferry.nightly.backend import LabNode, Leftover, LinkCondition, PlannedLink, Preflight, RunningLab, Topology
from flashferry.nightly.containerlab.answers import Container, condition_of, container_name, containers, netem_words
from flashferry.nightly.containerlab.commands import CONTAINERLAB, DOCKER, Commands, fault
from flashferry.nightly.containerlab.kinds import KINDS
from flashferry.nightly.containerlab.preflight import KVM, preflight
from flashferry.nightly.deadline import Clock, Deadline
from flashferry.nightly.faults import Fault, NightFault
from flashferry.nightly.lab_notes import PREFIX, is_title
from flashferry.nightly.topology.day0 import without_secrets

NOTES = "night.json"

_ASK_S = 60.0
_UNDONE_S = 120.0
_POLL_S = 1.0
_MOST_NOTES = 32_768
_LINES = "20000"
_NO_CONTAINERS = "no container"


class ContainerlabBackend:
    """Takes labs up on this host.

    Args:
        folder: Each lab has a folder below it while it runs.
        clock: Waits between tries.
        kvm: The device that virtual machines need.

    Attributes:
        name: `containerlab`.
        commands: What was run.
    """

    name = "containerlab"

    def __init__(self, folder: Path, *, clock: Clock | None = None, kvm: Path = KVM) -> None:
        self._folder, self._clock, self._kvm = folder.absolute(), clock, kvm
        self.commands = Commands()

    def preflight(self, topology: Topology) -> Preflight:
        """Look whether the lab can be deployed here; changes nothing.

        Raises:
            ConfigInvalid: The topology is none, or TCP would end in QEMU instead of IOS.
            NightFault: With `Fault.LAB`: something is missing on this host.
        """
        return preflight(self.commands, topology, deadline=self._soon(), kvm=self._kvm)

    def up(self, topology: Topology, *, notes: str, deadline: Deadline) -> RunningLab:
        """Deploy a lab; returns before its nodes have booted.

        Raises:
            NightFault: With `Fault.LAB`: it could not be deployed, and what there is of it is removed again.
        """
        lab = RunningLab(lab_id=topology.title, title=topology.title)
        home, file = self._written(topology, notes)
        try:
            words = (CONTAINERLAB, "deploy", "-t", str(file))
            self.commands.told(*words, what="deploy the lab", step="import", deadline=deadline, folder=home)
        except NightFault:
            with suppress(NightFault):
                self.down(lab, deadline=Deadline.after(_UNDONE_S, deadline.clock))
            raise
        return lab

    def _written(self, topology: Topology, notes: str) -> tuple[Path, Path]:
        """Write a lab's folder and return it, and its topology."""
        home = self._folder / topology.title
        file = home / _file(topology.title)
        try:
            home.mkdir(mode=0o700, parents=True)
            # The notes first: what is deployed without them is nobody's to remove.
            _write(home / NOTES, notes)
            _write(file, topology.text)
        except OSError as error:
            raise fault(
                f"could not write the lab's folder {home}: {error.strerror}",
                step="import",
                hint="Check the folder of the artefacts and its rights",
            ) from None
        return home, file

    def nodes(self, lab: RunningLab) -> tuple[LabNode, ...]:
        """Return the lab's nodes as they stand now.

        Raises:
            NightFault: With `Fault.LAB`: the lab is gone, or containerlab does not tell.
        """
        found = self._containers(lab, step="start", deadline=self._soon())
        if not found:
            raise fault(
                f"lab {shown(lab.title)} is not there any more",
                step="start",
                hint="Somebody removed it while the night ran; 'flashferry nightly run' again",
            )
        return tuple(one.node() for one in found)

    def condition(self, lab: RunningLab, link: PlannedLink) -> LinkCondition:
        """Set a link's condition in each direction that can be had, and return what is set; the odd one of several.

        Raises:
            NightFault: With `Fault.LAB`: it cannot be set, or nothing is set then.
        """
        deadline = self._soon()
        told = {one.label: one for one in self._containers(lab, step="condition", deadline=deadline)}
        found = [
            self._set(told, label, port, link, deadline)
            for label in link.nodes
            for port in (KINDS[told[label].kind].ports if label in told and told[label].kind in KINDS else ("",))
        ]
        return next((one for one in found if one != link.condition), link.condition)

    def _set(
        self, told: Mapping[str, Container], label: str, port: str, link: PlannedLink, deadline: Deadline
    ) -> LinkCondition:
        if not port:
            raise fault(
                f"link {shown(link.label)}: expected a router {shown(label)} in the lab, found none",
                step="condition",
                hint="It may have stopped; look at 'containerlab inspect --all'",
            )
        name, netem = told[label].name, (CONTAINERLAB, "tools", "netem")
        what = f"set the condition of link {shown(link.label)} on {port}"
        words = (*netem, "set", "-n", name, "-i", port, *netem_words(link.condition))
        self.commands.told(*words, what=what, step="condition", deadline=deadline)
        words = (*netem, "show", "-n", name, "--format", "json")
        what = f"read the condition of link {shown(link.label)}"
        answer = self.commands.json(*words, what=what, step="condition", deadline=deadline)
        if (found := condition_of(answer, port)) is None:
            raise fault(
                f"link {shown(link.label)}: its condition was set on {port}, and none is there",
                step="condition",
                hint=f"Look at 'containerlab tools netem show -n {name}'; the kernel may lack sch_netem",
            )
        return found

    def console_log(self, lab: RunningLab, node: LabNode) -> str:
        """Return what a node's container has said so far, its console with it, secrets masked.

        Raises:
            NightFault: With `Fault.LAB`: docker does not tell.
        """
        words = (DOCKER, "logs", "--tail", _LINES, container_name(lab.lab_id, node.label))
        what = "read a console's log"
        ran = self.commands.run(*words, what=what, step="artefacts", deadline=self._soon())
        if ran.code != 0:
            raise fault(f"could not {what}: {ran.said}", step="artefacts", hint="Run the same command by hand")
        return without_secrets(ran.out + ran.err)

    def artefacts(self, lab: RunningLab) -> Mapping[str, bytes]:
        """Return the topology as it was deployed, and which commands were run and how they ended."""
        trace = "".join(f"{line}\n" for line in self.commands.trace)
        found = {"containerlab-trace.jsonl": trace}
        with suppress(OSError):
            found["lab.yaml"] = without_secrets((self._folder / lab.title / _file(lab.title)).read_text("utf-8"))
        return {name: text.encode("utf-8", "replace") for name, text in found.items()}

    def down(self, lab: RunningLab, *, deadline: Deadline) -> None:
        """Destroy a lab and return once no container of it is left and its folder is gone.

        Raises:
            NightFault: With `Fault.CLEANUP`: it is still there, or containerlab cannot be asked.
        """
        home = self._destroyed(lab, deadline)
        # Only what is a night's own: its notes lie there, and its name is one of ours.
        if is_title(lab.title) and home.name == lab.title and (home / NOTES).is_file():
            shutil.rmtree(home, ignore_errors=True)
            if home.exists():
                raise _left(lab, f"its folder {home} cannot be removed")

    def _destroyed(self, lab: RunningLab, deadline: Deadline) -> Path:
        """Destroy a lab until no container of it is left, and return its folder."""
        home, why = self._folder / lab.title, "a container is still there"
        while True:
            try:
                found = self._containers(lab, step="clean", deadline=deadline)
                if not found:
                    return home
                home, why = _home(found[0], home), f"{found[0].name} is {found[0].told}"
                self._destroy(lab, found[0], home, deadline)
                if not self._containers(lab, step="clean", deadline=deadline):
                    return home
            except NightFault as error:
                why = error.message
            if not deadline.pause(_POLL_S):
                raise _left(lab, why)

    def leftovers(self) -> tuple[Leftover, ...]:
        """Return the labs whose name has our prefix, with containers or with a folder of ours alone.

        Raises:
            NightFault: With `Fault.LAB`: containerlab does not tell.
        """
        labs: dict[str, Leftover] = {}
        for one in self._all(step="reap", deadline=self._soon()):
            if one.lab.startswith(PREFIX) and one.lab not in labs:
                notes = _notes(_home(one, self._folder / one.lab))
                labs[one.lab] = Leftover(lab_id=one.lab, title=one.lab, notes=notes, state=one.told)
        for home in _folders(self._folder):
            if home.name not in labs:
                labs[home.name] = Leftover(lab_id=home.name, title=home.name, notes=_notes(home), state=_NO_CONTAINERS)
        return tuple(labs.values())

    def _destroy(self, lab: RunningLab, one: Container, home: Path, deadline: Deadline) -> None:
        is_here = one.topology and Path(one.topology).is_file()
        which = ("-t", one.topology) if is_here else ("--name", lab.lab_id)
        words = (CONTAINERLAB, "destroy", *which, "--cleanup")
        folder = home if home.is_dir() else None
        self.commands.told(*words, what="destroy the lab", step="clean", deadline=deadline, folder=folder)

    def _containers(self, lab: RunningLab, *, step: str, deadline: Deadline) -> tuple[Container, ...]:
        return tuple(one for one in self._all(step=step, deadline=deadline) if one.lab == lab.lab_id)

    def _all(self, *, step: str, deadline: Deadline) -> tuple[Container, ...]:
        words = (CONTAINERLAB, "inspect", "--all", "--format", "json")
        return containers(self.commands.json(*words, what="read which labs there are", step=step, deadline=deadline))

    def _soon(self) -> Deadline:
        return Deadline.after(_ASK_S, self._clock)


def _file(title: str) -> str:
    return f"{title}.clab.yml"


def _home(one: Container, usual: Path) -> Path:
    """Return a lab's folder: where its topology lies, for another state folder's night may have made it."""
    return Path(one.topology).parent if one.topology else usual


def _notes(home: Path) -> str:
    """Return the notes that lie in a lab's folder; none where there are none that can be ours."""
    try:
        with (home / NOTES).open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_NOTES)
    except OSError:
        return ""


def _folders(folder: Path) -> tuple[Path, ...]:
    try:
        return tuple(sorted(one for one in folder.iterdir() if is_title(one.name) and not one.is_symlink()))
    except OSError:
        return ()


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _left(lab: RunningLab, why: str) -> NightFault:
    return fault(
        f"lab {shown(lab.title)} could not be removed: {why}",
        step="clean",
        hint=f"Remove it by hand: containerlab destroy --name {lab.title} --cleanup",
        kind=Fault.CLEANUP,
    )


_IS_ONE: type[backend.LabBackend] = ContainerlabBackend
"""Proof for the type checker."""
