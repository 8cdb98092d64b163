"""The protocols that the stand-in does not speak: what it says of them it says after trying."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.lab.standin.ftp_pull import Pull
from flashferry.lab.standin.ftp_push import Push
from flashferry.lab.standin.ftp_request import CopyError, PullHooks

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
