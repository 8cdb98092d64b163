"""One RETR, and in words how a data connection may be lost."""

import errno
import os
from typing import TYPE_CHECKING, Any

from flashferry.images.files import administration, has_content_of

if TYPE_CHECKING:
    from ftpserver.accounts import Account

PEER_GONE = frozenset(
    {
        errno.ECONNRESET,
        errno.EPIPE,
        errno.ETIMEDOUT,
        errno.ENOTCONN,
        errno.ECONNABORTED,
        errno.ESHUTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
    }
)
"""Errors of a send that mean the client or the path is gone, not that the image cannot be read."""


class Retrieval:
    """One RETR: which account asked, and from which offset of which open file."""

    def __init__(self, account: "Account", file: Any, offset_bytes: int) -> None:
        self.account = account
        self.file = file
        self.offset_bytes = offset_bytes
        # Not the whole status: it takes as much room as all the rest of a RETR.
        self._opened = administration(os.fstat(file.fileno()))

    def file_changed(self) -> bool:
        """Tell whether the open file no longer has the content that was hashed."""
        return not has_content_of(self.account.grant.image.identity, self._opened, os.fstat(self.file.fileno()))


def words_for(code: int) -> str:
    """Say how a connection was lost, by its error number; 0 is an end without an error."""
    if code in (0, errno.EPIPE):
        return "the client closed the data connection early"
    return f"data connection lost: {os.strerror(code)}"
