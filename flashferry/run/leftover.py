"""What a failed copy left on flash: named always, removed where it is ours, worthless, and that was allowed."""

from __future__ import annotations

from contextlib import suppress

from flashferry.core.errors import FlashferryError, Kind
from flashferry.devices.connection import session_of
from flashferry.fileserver import FileServerError
from flashferry.model.record import sentence_of
from flashferry.run.copy import CopyRun
from flashferry.run.copy_recovery import reconcile
from tasks.partial_file import CANNOT_TELL, FlashFile, advice, describe_partial_file, file_at, in_words


class LeftoverRun(CopyRun):
    """The last step of a device whose run failed."""

    def _name_leftover(self) -> None:
        """Name what a failed copy left so far, before the lease ends.

        A run that is killed behind that, while a broken copy is seen to, would not know the file for its own when it
        is gone on with, and recovery does not look at a device that is not held. Nothing here may cost the lease's end.
        """
        with suppress(Exception):
            if self._is_ours_on_flash(self._target, server_tells=self._ask_server()):
                self._name(describe_partial_file(session_of(self._task), self._target))

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
        self._update(partial_file=named, partial_advice=told)

    @property
    def _is_other_image(self) -> bool:
        """Tell whether the device proved that what is there is not the image."""
        failure = self._record.failure
        return failure is not None and failure.kind == Kind.IMAGE_CORRUPT

    def _see_to_leftover(self, target: str) -> None:
        """Name what a failed copy left on flash; remove it where it is ours and the operator allowed that."""
        server_tells = self._ask_server()
        if not self._is_ours_on_flash(target, server_tells=server_tells):
            return
        if self._record.restore_failure is not None:
            # Another login would be one too many for an account that is about to be locked.
            self._name(f"{CANNOT_TELL}the device could not be looked at any more")
            return
        try:
            self._name(describe_partial_file(session_of(self._task), target))
            if self._context.options.remove_partial and server_tells and self._record.partial_file is not None:
                self._remove_worthless(target)
        except FlashferryError as error:
            if self._record.partial_file is None:
                self._name(f"{CANNOT_TELL}{sentence_of(error)}")
            self._tell("remove", "failed", f"could not see to what the copy left: {sentence_of(error)}")

    def _ask_server(self) -> bool:
        """Note whether a copy was begun, and end what is left of it; tell whether the server could say so."""
        if self._ticket is None:
            return False
        try:
            self._take_transfer(self._context.server.progress(self._ticket.ticket_id))
        except FileServerError:
            return False
        finally:
            with suppress(FileServerError):  # a server that is gone honours no ticket
                self._context.server.revoke(self._ticket.ticket_id)
        return True

    def _is_ours_on_flash(self, target: str, *, server_tells: bool) -> bool:
        """Tell whether a file at the target is what our copy left: the check found none, and a copy was begun.

        A server that is gone cannot tell; the file is then named, and never removed.
        """
        if target == "null:" or self._ticket is None or self._is_theirs or self._record.verify is not None:
            return False
        return self._began or not server_tells

    def _remove_worthless(self, target: str) -> None:
        """Remove what is there once nothing writes to it any more, if it is worthless for certain."""
        assert self._ticket is not None
        if self._may_be_writing:
            self._do("reconcile", reconcile, case=self._case(self._ticket, target, may_repeat=False))
            self._may_be_writing = False
        file = file_at(session_of(self._task), target)
        self._name(in_words(file))
        if self._is_worthless(file):
            self._remove(target)
            self._update(partial_advice=None, partial_removed=True)

    def _is_worthless(self, file: FlashFile) -> bool:
        """Tell whether a file is cut off, or of another hash; one that is merely unproven is not."""
        if file.size_bytes is None:
            return False
        return self._is_other_image or file.size_bytes < self._context.image.size_bytes
