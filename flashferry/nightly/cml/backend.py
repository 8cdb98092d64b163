"""Run the labs of nights on Cisco Modeling Labs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress

from flashferry.core.redaction import masked
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
"""Time limit for removing a lab that was imported but did not start."""


class CmlBackend:
    """Start and remove labs on a controller. Logs in with the first request; close it in the end.

    Nothing waits, except for the end of a lab: nights poll. Every method raises `NightFault` with `Fault.LAB` if the
    controller refuses or does not answer; single transport errors, such as a 502 page, are retried.

    Args:
        access: The controller and its login.
        clock: Waits between retries.
        poll_s: Interval between polls of a lab that is being removed.
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
        """Check whether the lab can start; changes nothing.

        Raises:
            ConfigInvalid: The topology is invalid, or the extra `cml` is missing.
            NoCapacity: Other labs fill the controller.
        """
        return preflight(self.controller("preflight"), topology)

    def up(self, topology: Topology, *, notes: str, deadline: Deadline) -> RunningLab:
        """Import and start a lab; returns before its nodes have booted.

        The notes are on the lab before its first node starts, because no night removes a lab without notes. If the
        start fails, the lab is removed, or else found by title later.

        Raises:
            ConfigInvalid: The topology is invalid.
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
        """Return the lab's nodes in their current state."""
        controller = self.controller(START)
        return nodes_now(controller, lab.lab_id, self._known(controller, lab))

    def condition(self, lab: RunningLab, link: PlannedLink) -> LinkCondition:
        """Set a link's condition and return the one in force, at most ten seconds later."""
        controller = self.controller(CONDITION)
        return set_condition(controller, lab.lab_id, self._known(controller, lab), link)

    def console_log(self, lab: RunningLab, node: LabNode) -> str:
        """Return a node's console output, secrets masked; empty if none is kept."""
        return without_secrets(console_log(self.controller(ARTEFACTS), lab.lab_id, node.node_id))

    def artefacts(self, lab: RunningLab) -> Mapping[str, bytes]:
        """Return topology, events and request trace by file name; `missing.txt` lists what failed."""
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
        """Stop, wipe and remove a lab, and return once it is gone; a missing lab is no error.

        Raises:
            NightFault: `CLEANUP`: it still exists, or the controller does not answer.
        """
        try:
            controller = self.controller(STEP, connect_s=deadline.left_s)
        except NightFault as error:
            raise left(f"whether lab {lab.title} is still there cannot be asked", said=error.message) from None
        take_down(controller, lab, deadline=deadline, poll_s=self._poll_s)
        self._parts.pop(lab.lab_id, None)

    def leftovers(self) -> tuple[Leftover, ...]:
        """Return the labs whose title has our prefix, of any state and owner."""
        return leftovers(self.controller(REAP))

    def capture_begin(self, lab: RunningLab, link: PlannedLink) -> None:
        """Start to capture a link's packets, at most 15 minutes and 100,000 packets."""
        controller = self.controller(captures.STEP)
        link_id = id_of_link(self._known(controller, lab), link, step=captures.STEP)
        captures.start_capture(controller, lab.lab_id, link_id)

    def capture_end(self, lab: RunningLab, link: PlannedLink) -> bytes:
        """Stop a capture and return its pcap file."""
        controller = self.controller(captures.STEP)
        link_id = id_of_link(self._known(controller, lab), link, step=captures.STEP)
        return captures.stop_capture(controller, lab.lab_id, link_id)

    def has_image(self, image: UploadedImage) -> bool:
        """Return whether an image definition exists."""
        return images.has_image(self.controller(images.STEP), image)

    def put_image(self, disk: DiskFile, node_definition: str, *, on_progress: Progress) -> None:
        """Upload a disk image and define it.

        Raises:
            ConfigInvalid: The file cannot be read.
        """
        images.put_image(self.controller(images.STEP), disk, node_definition, on_progress=on_progress)

    def remove_image(self, image: UploadedImage) -> None:
        """Remove an image and its definition; missing ones are no error."""
        images.remove_image(self.controller(STEP), image)

    def controller(self, step: str, *, connect_s: float | None = None) -> Controller:
        """Return the controller, logged in.

        Args:
            step: The step of the night, for errors.
            connect_s: Time limit; None: the default.

        Raises:
            ConfigInvalid: The extra `cml` is missing, or the certificate file is invalid.
        """
        if self._controller is None:
            seconds = CONNECT_S if connect_s is None else connect_s
            self._controller = connect(self.access, step=step, clock=self._clock, connect_s=seconds)
        return self._controller

    def close(self) -> None:
        """Log out."""
        if self._controller is not None:
            self._controller.close()
            self._controller = None

    def _known(self, controller: Controller, lab: RunningLab) -> LabParts:
        if lab.lab_id not in self._parts:
            self._parts[lab.lab_id] = lab_parts(controller, lab.lab_id, step=START)
        return self._parts[lab.lab_id]
