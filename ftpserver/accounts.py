"""One ticket in the serving process, and the transfer that runs under it."""

from typing import TYPE_CHECKING, Protocol

from ftpserver.records import TransferProgress, TransferState
from ftpserver.tickets import Refusal

if TYPE_CHECKING:
    from ftpserver.caps import Cap
    from ftpserver.tickets import TicketGrant


class Channel(Protocol):
    """A running transfer, as the desk needs to see it."""

    def apply_cap(self, cap: "Cap | None") -> None:
        """Put a pacing cap in force, now."""

    def cut(self, reason: str) -> None:
        """End the transfer, with a reason for its record."""


class Session(Protocol):
    """A control connection that has logged in with the ticket, as the desk needs to see it."""

    def give_way(self, reason: str) -> None:
        """End its RETR, whether it runs or waits for its data connection; the session stays."""

    def send_away(self, reason: str) -> None:
        """End its RETR and the session."""


class Account:
    """One ticket in the serving process and what has become of it."""

    def __init__(self, grant: "TicketGrant", now_s: float) -> None:
        self.grant = grant
        self.expires_s = now_s + grant.request.lifetime_s
        self.cap_bytes_per_s = grant.request.cap_bytes_per_s
        self.revoked = False
        self.channel: Channel | None = None
        self.sessions: set[Session] = set()
        self.progress = TransferProgress(
            ticket_id=grant.ticket_id,
            image_name=grant.image.name,
            state=TransferState.WAITING,
            sequence=0,
            size_bytes=grant.image.size_bytes,
            tries_left=grant.request.tries,
        )

    def refusal(self, now_s: float) -> Refusal | None:
        """Return why this ticket is no longer good; None if it is."""
        if self.revoked:
            return Refusal.REVOKED
        if self.progress.state is TransferState.DELIVERED or self.progress.tries_left < 1:
            return Refusal.USED_UP
        if now_s >= self.expires_s:
            return Refusal.EXPIRED
        return None

    def withdrawn(self, now_s: float) -> bool:
        """Tell whether a transfer that was granted may no longer begin: its data connection came too late."""
        return self.revoked or self.progress.state is TransferState.DELIVERED or now_s >= self.expires_s
