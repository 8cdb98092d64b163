"""Keeps what is offered in force: looks at the catalogue, and lets the sites' logins fetch what is there now."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from flashferry.core.errors import FlashferryError
from flashferry.core.safe_quote import counted
from flashferry.depot.offering.refusals import Refusals
from flashferry.depot.shared_state import OPERATOR
from flashferry.depot.sync.errors import SyncStopped
from flashferry.fileserver import EventKind, ServerGone
from flashferry.fileserver.wire import SetSiteCap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flashferry.depot.offering.mirrors import Mirror
    from flashferry.depot.offering.offer import Offer, Offering
    from flashferry.depot.shared_state import SharedState
    from flashferry.fileserver import FileServer, FixedLogin, LoginFailure, ServerEvent

SCAN_EVERY_S = 1.0
_JOIN_S = 5.0

_ENDS = frozenset({EventKind.DONE, EventKind.FAILED})


class Publisher:
    """Offers a catalogue to sites, on a thread of its own.

    Args:
        server: What serves them.
        shared: What they share with the runs of this host: each site's cap.
        sites: The sites' logins and caps.
        offering: What looks at the catalogue.
        report: Takes what happened (`fetched`, `refused`) and a sentence; called from other threads.
    """

    def __init__(
        self,
        server: FileServer,
        shared: SharedState,
        sites: Mapping[str, tuple[Mirror, FixedLogin]],
        offering: Offering,
        report: Callable[[str, str], None],
    ) -> None:
        self._server, self._shared, self._sites, self._offering = server, shared, sites, offering
        self._report = report
        self._is_over = threading.Event()
        self._said: set[str] = set()
        self._refusals, self._refusing = Refusals(), threading.Lock()
        self._thread = threading.Thread(target=self._live, name="depot-offer", daemon=True)

    def start(self) -> None:
        """Have caps and logins in force, and begin to look.

        Raises:
            ServerGone: The server has ended.
        """
        for site, (mirror, _) in self._sites.items():
            if mirror.cap_bytes_per_s is not None:
                cap = SetSiteCap(site=site, cap_bytes_per_s=mirror.cap_bytes_per_s, source=mirror.cap_source)
                self._shared.state_cap(OPERATOR, cap)
        for _, login in self._sites.values():
            # At once: who comes before anything was looked at is to be known, and to find nothing yet.
            self._server.admit(login, ())
        self._server.events(self._hear)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def _live(self) -> None:
        pause_s = 0.0
        while not self._is_over.wait(pause_s):
            self._report_refusals()
            try:
                offer = self._offering.look(self._is_over.is_set)
                pause_s = 0.0 if offer is not None and offer.is_more else SCAN_EVERY_S
                if offer is not None:
                    self._publish(offer)
            except SyncStopped:
                return
            except ServerGone:
                # One that died is replaced, with its settings; one that ended for good ends us.
                pause_s = SCAN_EVERY_S
            except (FlashferryError, OSError) as error:
                pause_s = SCAN_EVERY_S
                self._once(f"what the catalogue offers could not be looked at: {error}")

    def _publish(self, offer: Offer) -> None:
        for _, login in self._sites.values():
            self._server.admit(login, offer.files)
        for one in offer.left_out:
            self._once(f"not offered: {one}")
        more = ", more are being read" if offer.is_more else ""
        what = f"{counted(offer.images, 'image')} and {counted(offer.plans, 'plan')}"
        self._server.note(f"offers {what} to {counted(len(self._sites), 'site')}{more}")

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._server.note(text)

    def _hear(self, event: ServerEvent) -> None:
        """Report transfers that are no run's, and logins that are no ticket's."""
        progress = event.progress
        if event.kind is EventKind.LOGIN_FAILED and progress is None and self._server.unattributed_failures:
            self._take_refusal(self._server.unattributed_failures[-1])
        if progress is None or progress.record is None or event.kind not in _ENDS:
            return
        if self._shared.is_owned(progress.ticket_id):
            return
        record = progress.record
        self._report(
            "fetched",
            f"site {progress.site} ({record.peer_address}) fetched {record.image_name} from byte "
            f"{record.offset_bytes}: {record.bytes_acked} bytes, {record.outcome}",
        )

    def _take_refusal(self, failure: LoginFailure) -> None:
        with self._refusing:
            text = self._refusals.take(failure, time.monotonic())
        if text:
            self._report("refused", text)

    def _report_refusals(self) -> None:
        with self._refusing:
            texts = tuple(self._refusals.due(time.monotonic()))
        for text in texts:
            self._report("refused", text)
