"""What our server saw of a device, and why its copy failed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from flashferry.core.errors import Kind

if TYPE_CHECKING:
    from flashferry.fileserver import TransferProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerView:
    """What our server saw of a device, from its first packet on; nothing is forgotten when it leaves.

    Attributes:
        client_seen: Whether a client connected from the device's address, or logged in for it.
        logged_in: Whether its ticket was used.
        came_from: Address that the login came from, or None.
        acked_bytes: Bytes of the file that it acknowledged; this only ever grows.
        failure: The last thing that went wrong by our server's account, or None.
        other_users: Users that were tried in vain from the device's address, masked.
        delivered: Whether it acknowledged the whole image, from the first byte on; None where no server of ours counts
            what the device fetches.
    """

    client_seen: bool = False
    logged_in: bool = False
    came_from: str | None = None
    acked_bytes: int = 0
    failure: str | None = None
    other_users: tuple[str, ...] = ()
    delivered: bool | None = None
    is_over: bool = False


class FailureCause(StrEnum):
    """Why a copy failed."""

    NO_CLIENT = "no client seen"
    NO_LOGIN = "no login"
    WRONG_SOURCE = "wrong source address"
    NO_DATA = "no data connection"
    BROKEN_OFF = "broken off"

    @property
    def kind(self) -> Kind:
        """Return the kind of failure that a device with it has."""
        return _KINDS[self]


_KINDS = {
    FailureCause.NO_CLIENT: Kind.NO_CLIENT,
    FailureCause.NO_LOGIN: Kind.NO_LOGIN,
    FailureCause.WRONG_SOURCE: Kind.WRONG_SOURCE,
    FailureCause.NO_DATA: Kind.NO_DATA,
    FailureCause.BROKEN_OFF: Kind.BROKEN_OFF,
}


def view_of(progress: TransferProgress) -> ServerView:
    """Return what a ticket's progress shows of the device that has it."""
    from flashferry.fileserver import TransferState

    return ServerView(
        client_seen=progress.state is not TransferState.WAITING,
        logged_in=progress.state not in {TransferState.WAITING, TransferState.CONNECTED},
        acked_bytes=progress.bytes_acked,
        failure=progress.last_error,
        delivered=delivered_whole(progress),
        is_over=progress.state.is_final,
    )


def delivered_whole(progress: TransferProgress) -> bool:
    """Return whether the client of a ticket acknowledged the whole image.

    A transfer from the middle of the image (FTP's REST, HTTP's Range) delivers its rest alone, and no copy of ours
    starts
    there: nothing is at the target before it.
    """
    from flashferry.fileserver import TransferState

    record = progress.record
    has_end = progress.state is TransferState.DELIVERED or progress.bytes_acked >= progress.size_bytes
    return has_end and (record is None or record.offset_bytes == 0)
