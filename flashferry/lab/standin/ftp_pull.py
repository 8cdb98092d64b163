"""A real FTP download over real TCP.

The timer runs from the reply that opens the transfer (150) to the closed file. IOS opens the source file before
its copy loop starts the clock, so the login is not in the figure; a public log of 2,814 bytes copied in
0.007 s, less than a login takes, supports it. It is not documented: see docs/lab.md, "Doubts".
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from flashferry.lab.standin import receive_window
from flashferry.lab.standin.ftp_protocol import announced_size
from flashferry.lab.standin.ftp_request import AbortedError, PullHooks, Sink
from flashferry.lab.standin.ftp_transfer import CHUNK_BYTES, Transfer
from flashferry.lab.standin.results import PullResult

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class Pull(Transfer):
    """One download."""

    def run(self, hooks: PullHooks) -> PullResult:
        """Fetch the file.

        Raises:
            CopyError: It failed; the words are those the device prints.
            AbortedError: `abort` was called.
        """
        with self.device_words():
            return self._fetch(hooks)

    def _fetch(self, hooks: PullHooks) -> PullResult:
        control = self.log_in()
        data = self.open_data(control, f"RETR {self.request.url.path}", refused="No such file or directory")
        if not hooks.may_begin():
            raise AbortedError
        opened_s = time.monotonic()
        sink = hooks.open_sink(announced_size(self.last_text))
        try:
            size = self._receive(data, sink, hooks.progress)
        finally:
            sink.close()
        seconds = time.monotonic() - opened_s
        self.close(data)
        self.end(control, verb="reading")
        return PullResult(size_bytes=size, seconds=seconds)

    def _receive(self, data: socket.socket, sink: Sink, progress: Callable[[int], None]) -> int:
        size = 0
        self._stop.wait(self.request.silent_start_s)
        while chunk := data.recv(CHUNK_BYTES):
            if not size:
                receive_window.after_first_data(data, self.request.tcp.window_bytes)
            receive_window.acknowledge(data)
            sink.write(chunk)
            size += len(chunk)
            progress(size)
            if self._stop.is_set():
                raise AbortedError
        if self._stop.is_set():
            raise AbortedError
        return size
