"""`copy ... ftp:...`: a file or a configuration goes to a server, by a real upload.

The dialogue is that of the Cisco configuration guide: host and name are asked for, each with what the command says as
its default; then ``Writing NAME`` with marks and the line that ends every copy. The name of a configuration is by
default that of the host with ``-confg`` behind it (public log: ``frs2-confg``). How many bytes a mark stands for in an
upload is not documented; here it is as many as in a download.
"""

from __future__ import annotations

import asyncio
import io
import threading
from typing import TYPE_CHECKING, BinaryIO

from flashferry.lab.standin.connections import in_own_thread
from flashferry.lab.standin.copy_files import RUNNING, STARTUP
from flashferry.lab.standin.copy_request import PUSHES, destination_url, transfer_request
from flashferry.lab.standin.ftp_client import AbortedError, CopyError
from flashferry.lab.standin.server_url import PullResult, result_line
from flashferry.lab.standin.show_files import content, shown_name, split_file

if TYPE_CHECKING:
    from flashferry.lab.standin.server_url import ServerUrl
    from flashferry.lab.standin.vty import Vty


async def copy_to_server(vty: Vty, source: str, target: str, *, vrf: str | None = None) -> None:
    """`copy FS:file ftp:...`, `copy running-config ftp:...`."""
    is_configuration = source in {RUNNING, STARTUP}
    prefix, name = split_file(source)
    if not name:
        name = await vty.terminal.ask("Source filename []? ", "")
    held = _open(vty, source if is_configuration else f"{prefix}:{name}", prefix, name)
    if held is None:
        shown = shown_name(vty.device.file_system(prefix), f"{prefix}:/{name}")
        vty.terminal.write(f"%Error opening {shown} (No such file or directory)\n")
        return
    with held:
        default = f"{vty.device.hostname.lower()}-confg" if is_configuration else name.rpartition("/")[2]
        url = await destination_url(vty, target, default)
        if url is not None:
            await _Upload(vty, url, held, vrf).run()


def _open(vty: Vty, source: str, prefix: str, name: str) -> BinaryIO | None:
    flash = vty.device.file_system(prefix)
    if flash is not None:
        entry = flash.find(name)
        return entry.path.open("rb") if entry is not None else None
    small = content(vty, source)
    return None if small is None else io.BytesIO(small)


class _Upload:
    """One upload: marks while it runs, and its end."""

    def __init__(self, vty: Vty, url: ServerUrl, source: BinaryIO, vrf: str | None) -> None:
        self._vty = vty
        self._url = url
        self._source = source
        self._vrf = vrf
        self._marks = 0
        self._is_open = False
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Send, and print what the device prints."""
        terminal, device = self._vty.terminal, self._vty.device
        try:
            request = transfer_request(device, self._url, self._vrf)
        except CopyError as error:
            device.note_guess(error.guess)
            terminal.write(f"%Error {error.verb} {self._url.shown} ({error.reason})\n")
            return
        push = PUSHES[self._url.scheme](request, device.connections, threading.Event())
        terminal.on_escape = push.abort
        closed = asyncio.ensure_future(terminal.closed.wait())
        closed.add_done_callback(lambda _: push.abort())
        try:
            result = await in_own_thread(
                lambda: push.run(self._source, opened=self._on_open, progress=self._on_bytes)
            )  # fmt: skip
        except CopyError as error:
            device.note_guess(error.guess)
            start = "\n" if self._is_open else ""
            terminal.write(f"{start}%Error {error.verb} {self._url.shown} ({error.reason})\n")
        except AbortedError:
            # As for a download, what IOS prints after Ctrl-Shift-6 is unconfirmed (facts 4.5).
            terminal.write(f"\n%Error writing {self._url.shown} (Aborted)\n")
        else:
            self._finish(result)
        finally:
            terminal.on_escape = None
            closed.cancel()

    def _finish(self, result: PullResult) -> None:
        self._show_marks(-(-result.size_bytes // self._vty.device.platform.copy.bytes_per_mark))
        self._vty.terminal.write(f"\n{result_line(result)}\n")

    def _on_open(self) -> None:
        """Called in the transfer's thread."""
        self._is_open = True
        self._loop.call_soon_threadsafe(self._vty.terminal.write, f"Writing {self._url.file_name} ")

    def _on_bytes(self, size: int) -> None:
        """Note progress; called in the transfer's thread."""
        marks = size // self._vty.device.platform.copy.bytes_per_mark
        if marks > self._marks:
            self._loop.call_soon_threadsafe(self._show_marks, marks)

    def _show_marks(self, marks: int) -> None:
        new, self._marks = marks - self._marks, max(marks, self._marks)
        self._vty.terminal.write("!" * new)
