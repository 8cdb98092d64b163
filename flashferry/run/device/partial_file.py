"""What a failed copy left on flash: named always, removed where it is ours, worthless, and that was allowed."""

from __future__ import annotations

from contextlib import suppress

from flashferry.core.errors import FlashferryError, Kind
from flashferry.fileserver import FileServerError
from flashferry.model.record import sentence_of
from flashferry.run.context import RunContext
from flashferry.run.device.copy_recovery import CopyRecovery
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.tickets import CopyTraces, DeviceTickets
from tasks.partial_file import CANNOT_TELL, REMOVE, FlashFile, advice, describe_partial_file, file_at, in_words


class Leftover:
    """Sees to what the copy of a device whose run failed left there."""

    def __init__(
        self,
        context: RunContext,
        events: DeviceEvents,
        keeper: RecordKeeper,
        login: DeviceLogin,
        traces: CopyTraces,
        tickets: DeviceTickets,
        recovery: CopyRecovery,
    ) -> None:
        self._context, self._events, self._keeper, self._login = context, events, keeper, login
        self._traces, self._tickets, self._recovery = traces, tickets, recovery

    def name_so_far(self) -> None:
        """Name what a failed copy left so far, before the lease ends.

        A run that is killed behind that, while a broken copy is seen to, would not know the file for its own when it
        is gone on with, and recovery does not look at a device that is not held. Nothing here may cost the lease's end.
        """
        with suppress(Exception):
            server_tells = self._ask_server()
            target = self._target_of_ours(server_tells=server_tells)
            if target is not None:
                self._name(describe_partial_file(self._login.session(), target))

    def clean_up(self) -> None:
        """Name what a failed copy left on flash; remove it where it is ours and the operator allowed that."""
        server_tells = self._ask_server()
        target = self._target_of_ours(server_tells=server_tells)
        if target is None:
            return
        if self._keeper.record.restore_failure is not None:
            # Another login would be one too many for an account that is about to be locked.
            self._name(f"{CANNOT_TELL}the device could not be looked at any more")
            return
        try:
            self._name(describe_partial_file(self._login.session(), target))
            if self._context.policy.remove_partial and server_tells and self._keeper.record.partial_file is not None:
                self._remove_worthless(target)
        except FlashferryError as error:
            if self._keeper.record.partial_file is None:
                self._name(f"{CANNOT_TELL}{sentence_of(error)}")
            self._events.tell(REMOVE.word, "failed", f"could not see to what the copy left: {sentence_of(error)}")

    def _ask_server(self) -> bool:
        """Note whether a copy was begun, and end what is left of it; tell whether the server could say so."""
        ticket = self._traces.ticket
        if ticket is None:
            return self._traces.is_from_neighbour
        try:
            self._tickets.take_account(self._context.server.progress(ticket.ticket_id))
        except FileServerError:
            return False
        finally:
            with suppress(FileServerError):  # a server that is gone honours no ticket
                self._tickets.revoke()
        return True

    def _target_of_ours(self, *, server_tells: bool) -> str | None:
        """Return where what our copy left would be: the check found nothing there, and a copy was begun.

        A server that is gone cannot tell; the file is then named, and never removed.
        """
        traces = self._traces
        is_begun = traces.ticket is not None or traces.is_from_neighbour
        if traces.order is None or traces.order.target == "null:" or not is_begun:
            return None
        if traces.is_theirs or self._keeper.record.verify is not None:
            return None
        return traces.order.target if traces.began or not server_tells else None

    def _name(self, named: str | None) -> None:
        """Keep what a failed copy left, and what to do about it."""
        told = None
        if named is not None:
            told = advice(
                named,
                image_bytes=self._context.image.size_bytes,
                is_other=self._is_other_image,
                run_id=self._context.run_id,
            )
        self._keeper.update(partial_file=named, partial_advice=told)

    def _remove_worthless(self, target: str) -> None:
        """Remove what is there once nothing writes to it any more, if it is worthless for certain."""
        self._recovery.settle()
        file = file_at(self._login.session(), target)
        self._name(in_words(file))
        if self._is_worthless(file):
            self._recovery.remove(target)
            self._keeper.update(partial_advice=None, partial_removed=True)

    def _is_worthless(self, file: FlashFile) -> bool:
        """Tell whether a file is cut off, or of another hash; one that is merely unproven is not."""
        if file.size_bytes is None:
            return False
        return self._is_other_image or file.size_bytes < self._context.image.size_bytes

    @property
    def _is_other_image(self) -> bool:
        """Tell whether the device proved that what is there is not the image."""
        failure = self._keeper.record.failure
        return failure is not None and failure.kind == Kind.IMAGE_CORRUPT
