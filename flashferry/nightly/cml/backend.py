"""Cisco Modeling Labs behind the protocol of nights: `CmlBackend`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress

from flashferry.core.redaction import masked
from flashferry.nightly import backend
from flashferry.nightly.backend import (
    DiskFile,
    LabNode,
    Leftover,
    LinkCondition,
    PlannedLink,
    Preflight,
    Progress,
    RunningLab,
    Topology,
    UploadedImage,
)
from flashferry.nightly.cml import captures, images
from flashferry.nightly.cml.access import ControllerAccess
from flashferry.nightly.cml.controller import CONNECT_S, Controller, connect
from flashferry.nightly.cml.images import with_image
from flashferry.nightly.cml.labs import (
    ARTEFACTS,
    CONDITION,
    IMPORT,
    REAP,
    START,
    STEP,
    LabParts,
    console_log,
    download,
    events,
    import_lab,
    lab_parts,
    left,
    leftovers,
    nodes_now,
    set_condition,
    start_lab,
    take_down,
)
from flashferry.nightly.cml.labs import link_id as id_of_link
from flashferry.nightly.cml.preflight import preflight
from flashferry.nightly.deadline import Clock, Deadline
from flashferry.nightly.lab_notes import nobodys
from flashferry.nightly.night import NightFault
from flashferry.nightly.topology.definitions import without_secrets

_UNDONE_S = 120.0
"""A lab that was imported and cannot be started is removed within that, or else found by its title later."""


class CmlBackend:
    """Takes labs up on a controller. Logs in when it is first asked for anything, and is to be closed.

    Args:
        access: The controller and its login.
        clock: Waits between tries.
        poll_s: Seconds between two looks at a lab that goes down.

    Attributes:
        name: `cml`.
    """

    name = "cml"

    def __init__(self, access: ControllerAccess, *, clock: Clock | None = None, poll_s: float = 1.0) -> None:
        self.access = access
        self._clock, self._poll_s = clock, poll_s
        self._controller: Controller | None = None
        self._parts: dict[str, LabParts] = {}

    def __enter__(self) -> CmlBackend:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def preflight(self, topology: Topology) -> Preflight:
        """Look whether the lab can be taken up; changes nothing.

        Raises:
            ConfigInvalid: The topology is none, or the extra `cml` is missing.
            NightFault: With `Fault.LAB`: it cannot.
        """
        return preflight(self.controller("preflight"), topology)

    def up(self, topology: Topology, *, notes: str, deadline: Deadline) -> RunningLab:
        """Import and start a lab; returns before its nodes have booted.

        Raises:
            ConfigInvalid: The topology is none.
            NightFault: With `Fault.LAB`: the controller refuses, and what was imported is removed again.
        """
        controller = self.controller(IMPORT)
        lab_id = import_lab(controller, topology, notes=notes, deadline=deadline)
        lab = RunningLab(lab_id=lab_id, title=topology.title)
        try:
            self._parts[lab_id] = lab_parts(controller, lab_id, step=IMPORT)
            start_lab(controller, lab_id, deadline=deadline)
        except NightFault:
            with suppress(NightFault):
                self.down(lab, deadline=Deadline.after(_UNDONE_S, deadline.clock))
            raise
        return lab

    def nodes(self, lab: RunningLab) -> tuple[LabNode, ...]:
        """Return the lab's nodes as they stand now.

        Raises:
            NightFault: With `Fault.LAB`: the lab is gone, or the controller does not answer that.
        """
        controller = self.controller(START)
        return nodes_now(controller, lab.lab_id, self._known(controller, lab))

    def condition(self, lab: RunningLab, link: PlannedLink) -> LinkCondition:
        """Set a link's condition and return what is in force ten seconds later at most, planned or not.

        Raises:
            NightFault: With `Fault.LAB`: it cannot be set, or nothing is in force.
        """
        controller = self.controller(CONDITION)
        return set_condition(controller, lab.lab_id, self._known(controller, lab), link)

    def console_log(self, lab: RunningLab, node: LabNode) -> str:
        """Return what a node has said on its console so far, secrets masked; empty where none is kept.

        Raises:
            NightFault: With `Fault.LAB`: the controller does not answer that.
        """
        return without_secrets(console_log(self.controller(ARTEFACTS), lab.lab_id, node.node_id))

    def artefacts(self, lab: RunningLab) -> Mapping[str, bytes]:
        """Return topology as downloaded, events and trace; what cannot be had is named in `missing.txt`."""
        controller = self.controller(ARTEFACTS)
        makers: dict[str, Callable[[], str]] = {
            "lab.yaml": lambda: nobodys(without_secrets(download(controller, lab.lab_id))),
            "lab-events.json": lambda: masked(json.dumps(events(controller, lab.lab_id), indent=1)) + "\n",
            "controller-trace.jsonl": controller.trace.text,
        }
        found, missing = {}, []
        for name, make in makers.items():
            try:
                found[name] = make().encode("utf-8", "replace")
            except NightFault as error:
                missing.append(f"{name}: {error}\n")
        return found | ({"missing.txt": "".join(missing).encode("utf-8", "replace")} if missing else {})

    def down(self, lab: RunningLab, *, deadline: Deadline) -> None:
        """Stop, wipe and remove a lab, and return once it is gone.

        Raises:
            NightFault: With `Fault.CLEANUP`: it is still there, or the controller cannot be asked.
        """
        try:
            controller = self.controller(STEP, connect_s=deadline.left_s)
        except NightFault as error:
            raise left(f"whether lab {lab.title} is still there cannot be asked", said=error.message) from None
        take_down(controller, lab, deadline=deadline, poll_s=self._poll_s)
        self._parts.pop(lab.lab_id, None)

    def leftovers(self) -> tuple[Leftover, ...]:
        """Return the labs whose title has our prefix, of whatever state and owner.

        Raises:
            NightFault: With `Fault.LAB`: the controller does not answer that.
        """
        return leftovers(self.controller(REAP))

    def capture_begin(self, lab: RunningLab, link: PlannedLink) -> None:
        """Begin to capture what goes over a link, for a quarter of an hour and 100,000 packets at most.

        Raises:
            NightFault: With `Fault.LAB`: the controller refuses, or there is no such link.
        """
        controller = self.controller(captures.STEP)
        link_id = id_of_link(self._known(controller, lab), link, step=captures.STEP)
        captures.start_capture(controller, lab.lab_id, link_id)

    def capture_end(self, lab: RunningLab, link: PlannedLink) -> bytes:
        """End a capture and return it: a pcap file.

        Raises:
            NightFault: With `Fault.LAB`: the controller has none.
        """
        controller = self.controller(captures.STEP)
        link_id = id_of_link(self._known(controller, lab), link, step=captures.STEP)
        return captures.stop_capture(controller, lab.lab_id, link_id)

    def image_of(self, disk: DiskFile, node_definition: str) -> UploadedImage:
        """Return what a disk image will be called on the controller; no request is sent."""
        return images.image_of(disk, node_definition)

    def has_image(self, image: UploadedImage) -> bool:
        """Return whether nodes can boot an image already.

        Raises:
            NightFault: With `Fault.LAB`: the controller does not answer that.
        """
        return images.has_image(self.controller(images.STEP), image)

    def put_image(self, disk: DiskFile, node_definition: str, *, on_progress: Progress) -> None:
        """Upload a disk image and define it.

        Raises:
            ConfigInvalid: The file cannot be read.
            NightFault: With `Fault.LAB`: the controller refuses.
        """
        images.put_image(self.controller(images.STEP), disk, node_definition, on_progress=on_progress)

    def remove_image(self, image: UploadedImage) -> None:
        """Take an image away, its definition first.

        Raises:
            NightFault: With `Fault.LAB`: the controller refuses, or cannot be asked.
        """
        images.remove_image(self.controller(STEP), image)

    def with_image(self, text: str, node_definition: str, image: str | None) -> str:
        """Return a topology whose nodes of a definition boot an image; None: the controller's own choice.

        Raises:
            ConfigInvalid: It is no topology.
        """
        return with_image(text, node_definition, image)

    def controller(self, step: str, *, connect_s: float | None = None) -> Controller:
        """Return the controller, logged in to.

        Args:
            step: The step of a night that it is for.
            connect_s: Seconds for which it is tried; None: the usual ones.

        Raises:
            ConfigInvalid: The extra `cml` is missing, or the file of certificates cannot be used.
            NightFault: With `Fault.LAB`: it cannot be reached, or refuses.
        """
        if self._controller is None:
            seconds = CONNECT_S if connect_s is None else connect_s
            self._controller = connect(self.access, step=step, clock=self._clock, connect_s=seconds)
        return self._controller

    def close(self) -> None:
        """Log out, where it was logged in."""
        if self._controller is not None:
            self._controller.close()
            self._controller = None

    def _known(self, controller: Controller, lab: RunningLab) -> LabParts:
        if lab.lab_id not in self._parts:
            self._parts[lab.lab_id] = lab_parts(controller, lab.lab_id, step=START)
        return self._parts[lab.lab_id]


_IS_ONE: type[backend.LabBackend] = CmlBackend
"""Proof for the type checker."""
