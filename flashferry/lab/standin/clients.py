"""The device's clients: which one carries a copy, by the protocol of its URL.

What the stand-in does not speak ends with an error, after trying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.lab.standin.ftp_pull import Pull
from flashferry.lab.standin.ftp_push import Push
from flashferry.lab.standin.ftp_request import CopyError, PullHooks
from flashferry.lab.standin.http_transfer import HttpPull, HttpPush
from flashferry.lab.standin.tftp_transfer import TftpPull, TftpPush

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from flashferry.lab.standin.results import PullResult


class SilentPull(Pull):
    """A download that connects, and then ends with an error."""

    def _fetch(self, _hooks: PullHooks) -> PullResult:
        self._connect((self.request.address, self.request.url.port))
        raise CopyError("opening", "I/O error")


class SilentPush(Push):
    """The same for an upload."""

    def run(self, _source: BinaryIO, *, opened: Callable[[], None], progress: Callable[[int], None]) -> PullResult:
        """Connect, and fail."""
        del opened, progress
        with self.device_words():
            self._connect((self.request.address, self.request.url.port))
            raise CopyError("writing", "I/O error")


PULLS: dict[str, type[Pull | TftpPull]] = {
    "ftp": Pull,
    "http": HttpPull,
    "https": HttpPull,
    "rcp": SilentPull,
    "tftp": TftpPull,
}
"""Downloads, but for those over SSH: see `flashferry.lab.standin.copy_ssh`."""

PUSHES: dict[str, type[Push | TftpPush]] = {
    "ftp": Push,
    "http": HttpPush,
    "https": HttpPush,
    "rcp": SilentPush,
    "scp": SilentPush,
    "sftp": SilentPush,
    "tftp": TftpPush,
}
"""Uploads."""

SOURCE_INTERFACE_LINES = {
    "ftp": "ip ftp source-interface",
    "http": "ip http client source-interface",
    "https": "ip http client source-interface",
    "rcp": "ip rcmd source-interface",
    "scp": "ip ssh source-interface",
    "sftp": "ip ssh source-interface",
    "tftp": "ip tftp source-interface",
}
"""The configuration line that names the interface a client's connections leave by (Cisco command references)."""
