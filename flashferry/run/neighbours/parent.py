"""A device that has proven the image serves it to others of its site, until none of them needs it any more.

Its lease and its lines stay meanwhile; its session does not, where nothing is to be typed for a while. Whatever goes
wrong here costs the device nothing: it has the image, and is restored as any other.
"""

from __future__ import annotations

import time
from dataclasses import replace

from flashferry.core.errors import FlashferryError
from flashferry.devices.errors import Stopped
from flashferry.model.record import sentence_of
from flashferry.run.context import RunContext
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from flashferry.run.device.tuning import DeviceTuning
from flashferry.run.device.waiting import PATIENCE_S
from flashferry.run.neighbours.board import SiteBoard
from inventory.host_view import HostView
from tasks.neighbours.serve import SERVE, ServicePlan, ServiceReport, admit, entries_for, open_service, plan_service
from tasks.run_marker import mark_line


class NeighbourServing:
    """Has a device serve others of its site."""

    def __init__(
        self,
        context: RunContext,
        host: HostView,
        events: DeviceEvents,
        keeper: RecordKeeper,
        steps: StepRunner,
        login: DeviceLogin,
        tuning: DeviceTuning,
    ) -> None:
        self._context, self._host, self._events, self._keeper = context, host, events, keeper
        self._steps, self._login, self._tuning = steps, login, tuning
        self._plan: ServicePlan | None = None
        self._served: list[str] = []

    def is_wanted(self) -> bool:
        """Tell whether somebody of its site needs the device to serve, once it says that it has the image.

        Raises:
            DeviceUnreachable: The session was lost.
        """
        board = self._context.board
        if board is None:
            return False
        name = self._host.name
        board.prove(name, self._login.session().peer_address)
        is_wanted = board.is_serving(name) and board.is_needed(name)
        if not is_wanted:
            # Whoever comes later is not to wait for it: it goes on with other work.
            board.end(name)
        return is_wanted

    def serve(self, path: str) -> None:
        """Serve a proven file as long as somebody needs that.

        Args:
            path: The file, for example `bootflash:image.bin`.
        """
        board = self._context.board
        if board is None or not self._keeper.record.outcome.is_good:
            return
        transfer = self._keeper.record.transfer
        wan_s = transfer.duration_s if transfer is not None and self._keeper.record.source is None else None
        try:
            board.prove(self._host.name, self._login.session().peer_address, wan_s=wan_s)
            if board.is_serving(self._host.name):
                self._serve(board, path)
        except Stopped:
            return
        except FlashferryError as error:
            self._keeper.note(f"it could not go on serving others of its site: {sentence_of(error)}")
        finally:
            board.end(self._host.name)
            self._tell_whom()

    def _serve(self, board: SiteBoard, path: str) -> None:
        name, busy_at = self._host.name, time.monotonic()
        while not self._context.interrupted() and board.is_needed(name):
            children = board.to_admit(name)
            if children:
                busy_at = time.monotonic()
                self._take_in(board, path, children)
            elif not self._login.is_logged_out and time.monotonic() - busy_at > PATIENCE_S:
                self._login.log_out()

    def _take_in(self, board: SiteBoard, path: str, children: dict[str, str]) -> None:
        """Let some in; where the device does not take the lines for that, it gets nobody any more."""
        if self._login.is_logged_out:
            self._login.connect()
        addresses = tuple(dict.fromkeys(children.values()))
        reason = self._opened(path, addresses) if self._plan is None else self._let_in(self._plan, addresses)
        if reason:
            self._keeper.note(f"it does not serve others of its site: {reason}")
            self._events.tell(SERVE.word, "note", f"note: serves nobody more: {reason}")
            board.cannot_serve(self._host.name)
            return
        self._served += children
        self._events.tell(SERVE.word, "note", f"serves {', '.join(children)}")
        board.admitted(self._host.name, children)

    def _opened(self, path: str, addresses: tuple[str, ...]) -> str:
        """Have the device serve; return why it does not, or an empty text."""
        mark = mark_line(self._context.run_id, self._context.owner)
        plan: ServicePlan = self._steps.run(SERVE, plan_service, path=path, mark=mark, addresses=addresses)
        if plan.reason:
            return plan.reason
        self._tuning.hold(plan.changes)
        report: ServiceReport = self._steps.run(SERVE, open_service, plan=plan)
        self._tuning.held(plan.changes, report.changes)
        if not report.reason:
            self._plan = plan
        return report.reason

    def _let_in(self, plan: ServicePlan, addresses: tuple[str, ...]) -> str:
        """Let further ones in; return why they could not be, or an empty text."""
        known = {change.ours for change in plan.changes}
        found = entries_for(self._login.session(), plan.number, addresses)
        # One that comes back, or shares its address with another, is let in already.
        entries = tuple(change for change in found if change.ours not in known)
        self._tuning.hold(entries)
        report: ServiceReport = self._steps.run(SERVE, admit, plan=plan, entries=entries)
        self._tuning.held(entries, report.changes)
        if not report.reason:
            self._plan = replace(plan, changes=(*plan.changes, *entries))
        return report.reason

    def _tell_whom(self) -> None:
        if self._served:
            self._keeper.note(f"served {', '.join(self._served)} of its site")
