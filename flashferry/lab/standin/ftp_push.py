"""A real FTP upload over real TCP.

A refused STOR is an error in *writing* (public log: ``%Error writing ftp://.../x (Permission denied)``); what goes
wrong before it is one in *opening*, as for a download. The timer runs as it does there.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from flashferry.lab.standin.ftp_request import AbortedError, CopyError
from flashferry.lab.standin.ftp_transfer import CHUNK_BYTES, Transfer
from flashferry.lab.standin.results import PullResult

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO


class Push(Transfer):
    """One upload."""

    def run(self, source: BinaryIO, *, opened: Callable[[], None], progress: Callable[[int], None]) -> PullResult:
        """Store the file.

        Args:
            source: What is sent, from where it stands to its end.
            opened: Called in this thread when the server has opened its file.
            progress: Called in this thread with the bytes so far.

        Raises:
            CopyError: It failed; the words are those the device prints.
            AbortedError: `abort` was called.
        """
        with self.device_words():
            control = self.log_in()
            command = f"STOR {self.request.url.path}"
            data = self.open_data(control, command, refused="Permission denied", verb="writing")
            opened()
            opened_s = time.monotonic()
            size = self._send_all(data, source, progress)
            self.close(data)
            self.end(control, verb="writing")
            return PullResult(size_bytes=size, seconds=time.monotonic() - opened_s)

    def _send_all(self, data: socket.socket, source: BinaryIO, progress: Callable[[int], None]) -> int:
        size = 0
        while chunk := source.read(CHUNK_BYTES):
            try:
                data.sendall(chunk)
            except OSError as error:
                raise CopyError("writing", "I/O error") from error
            size += len(chunk)
            progress(size)
            if self._stop.is_set():
                raise AbortedError
        data.shutdown(socket.SHUT_WR)
        return size
