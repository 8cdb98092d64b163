"""Have a device that has proven the image serve it to others of its site, until none of them needs it any more.

The device keeps its lease and its lines meanwhile; its session is closed while nothing is to be sent. A failure here
costs the device nothing: it has the image, and is restored like any other.
"""

from __future__ import annotations

import time
from dataclasses import replace

from flashferry.core.errors import FlashferryError
from flashferry.devices.errors import Stopped
from flashferry.model.record import sentence_of
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.slots import PATIENCE_S
from flashferry.run.device.tune import hold_lines, replace_lines
from flashferry.run.neighbours.board import SiteBoard
from tasks.neighbours.serve import SERVE, ServicePlan, ServiceReport, admit, entries_for, open_service, plan_service
from tasks.run_marker import mark_line


def is_needed(run: DeviceRun) -> bool:
    """Report the device as having the image; return whether another device of its site needs it to serve.

    Raises:
        DeviceUnreachable: The session was lost.
    """
    board, name = run.context.board, run.host.name
    if board is None:
        return False
    board.prove(name, run.session().peer_address)
    found = board.is_serving(name) and board.is_needed(name)
    if not found:
        # Devices that come later do not wait for it: it goes on with other work.
        board.end(name)
    return found


def serve(run: DeviceRun, path: str) -> None:
    """Serve a proven file while other devices need it.

    Args:
        run: The device's run.
        path: The file, for example `bootflash:image.bin`.
    """
    board, name, record = run.context.board, run.host.name, run.record
    if board is None or not record.outcome.is_good:
        return
    wan_s = record.transfer.duration_s if record.transfer is not None and record.source is None else None
    service = NeighbourService(run, board, path)
    try:
        board.prove(name, run.session().peer_address, wan_s=wan_s)
        if board.is_serving(name):
            service.serve()
    except Stopped:
        return
    except FlashferryError as error:
        run.note(f"it could not go on serving others of its site: {sentence_of(error)}")
    finally:
        board.end(name)
        if service.served:
            run.note(f"served {', '.join(service.served)} of its site")


class NeighbourService:
    """The file service of a device for others of its site.

    Attributes:
        plan: Its lines, once it is open; None before.
        served: Names of the devices that were admitted.
    """

    def __init__(self, run: DeviceRun, board: SiteBoard, path: str) -> None:
        self._run, self._board, self._path = run, board, path
        self.plan: ServicePlan | None = None
        self.served: list[str] = []

    def serve(self) -> None:
        """Admit devices until none is left, or the run stops."""
        run, board, name = self._run, self._board, self._run.host.name
        busy_at = time.monotonic()
        while not run.context.interrupted() and board.is_needed(name):
            children = board.to_admit(name)
            if children:
                busy_at = time.monotonic()
                self._take(children)
            elif not run.is_logged_out and time.monotonic() - busy_at > PATIENCE_S:
                run.log_out()

    def _take(self, children: dict[str, str]) -> None:
        """Admit some devices; where the device refuses the lines for that, it serves no further ones."""
        run, board, name = self._run, self._board, self._run.host.name
        run.connect_again()
        reason = self.admit(tuple(dict.fromkeys(children.values())))
        if reason:
            run.note(f"it does not serve others of its site: {reason}")
            run.note_event(SERVE.word, f"serves no further devices: {reason}")
            board.cannot_serve(name)
            return
        self.served += children
        run.event(SERVE.word, "note", f"serves {', '.join(children)}")
        board.admitted(name, children)

    def admit(self, addresses: tuple[str, ...]) -> str:
        """Admit addresses, and open the service before the first; return why that failed, or an empty text."""
        return self._open(addresses) if self.plan is None else self._extend(self.plan, addresses)

    def _open(self, addresses: tuple[str, ...]) -> str:
        run, mark = self._run, mark_line(self._run.context.run_id, self._run.context.owner)
        plan: ServicePlan = run.run_step(SERVE, plan_service, path=self._path, mark=mark, addresses=addresses)
        if plan.reason:
            return plan.reason
        hold_lines(run, plan.changes)
        report: ServiceReport = run.run_step(SERVE, open_service, plan=plan)
        replace_lines(run, plan.changes, report.changes)
        if not report.reason:
            self.plan = plan
        return report.reason

    def _extend(self, plan: ServicePlan, addresses: tuple[str, ...]) -> str:
        run, known = self._run, {change.ours for change in plan.changes}
        found = entries_for(run.session(), plan.number, addresses)
        # A device that returns, or shares its address with another, is admitted already.
        entries = tuple(change for change in found if change.ours not in known)
        hold_lines(run, entries)
        report: ServiceReport = run.run_step(SERVE, admit, plan=plan, entries=entries)
        replace_lines(run, entries, report.changes)
        if not report.reason:
            self.plan = replace(plan, changes=(*plan.changes, *entries))
        return report.reason
