"""The part of a client's session that all protocols share: admission, login, and the image that it may fetch.

A protocol's session class derives from `Visitor`, and sends the replies about what is granted or refused here.

Facts
-----

- A counted session is removed from the count exactly once, however it ends, even if it was never admitted.
- A look-up returns an image that the login allows, or None; no path is resolved.
- This is a base class and not a separate object, because the two would refer to each other, and only the garbage
  collector would free a session.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from flashferry.fileserver import sockets
from flashferry.fileserver.fixed_login import FixedGrant
from flashferry.fileserver.host_capabilities import MOST_SESSIONS
from flashferry.fileserver.image_stream import Retrieval
from flashferry.fileserver.transfer_records import EventKind, TransferState
from flashferry.images.errors import ImageUnreadable
from flashferry.images.safe_open import open_unchanged

if TYPE_CHECKING:
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.ticket_accounts import Account
    from flashferry.fileserver.ticket_service import TicketService
    from flashferry.images.image import ImageFile
    from flashferry.tcp.syn import SynOptions


_LOG_LINES = 120


class CommandLog:
    """Commands and replies of a session with their times, the newest 120, secrets masked.

    They are one text, because its lines by themselves would be a tenth of the memory of a session.
    """

    __slots__ = ("_text",)

    def __init__(self) -> None:
        self._text = ""

    def add(self, elapsed_s: float, text: str) -> None:
        """Add a line, so many seconds after the start of the session."""
        line = f"{elapsed_s:.3f} {text}".replace("\n", " ")
        self._text = f"{self._text}\n{line}" if self._text else line
        if self._text.count("\n") >= _LOG_LINES:
            self._text = self._text.partition("\n")[2]

    def lines(self) -> tuple[str, ...]:
        """Return the lines, the oldest first."""
        return tuple(self._text.split("\n")) if self._text else ()


class Visitor(ABC):
    """One client's connection.

    Attributes:
        client_address: The client's address in plain form.
        control_syn: Options of the SYN of its connection; None: not recorded.
        socket: The connection.
        account: Its ticket's account; None before login, and with a fixed login before a transfer.
        fixed: The fixed login that it used, or None.
    """

    client_address: str
    control_syn: SynOptions | None
    socket: Any
    account: Account | None = None
    fixed: FixedGrant | None = None
    _is_anonymous = _is_counted = False

    @property
    @abstractmethod
    def tickets(self) -> TicketService:
        """The server's ticket service."""

    @property
    @abstractmethod
    def settings(self) -> ServerSettings:
        """The server's settings."""

    @abstractmethod
    def evict(self) -> None:
        """Close the session at once, in favour of another one."""

    @abstractmethod
    def yield_to_newer(self, reason: str) -> None:
        """End its transfer, running or waiting; the session stays if the protocol allows that."""

    @abstractmethod
    def send_away(self, reason: str) -> None:
        """End its transfer and the session."""

    # Admission.

    @property
    def most_sessions(self) -> int:
        """Most sessions of all protocols of the process together."""
        return self.settings.limits.sessions or MOST_SESSIONS

    def take_place(self) -> bool:
        """Count the session, and return whether the limits admit it, perhaps by closing one that has not logged in.

        It stays counted until `leave_place`, even if it is not admitted.
        """
        tickets, address = self.tickets, self.client_address
        tickets.sessions += 1
        self._is_counted = self._is_anonymous = True
        tickets.pending_logins.enter(address, self)
        return (
            tickets.pending_logins.count(address) <= self.settings.limits.anonymous_sessions_per_address
            and not tickets.locked_out(address)
            and self._has_place()
        )

    def _has_place(self) -> bool:
        if self.tickets.sessions <= self.most_sessions:
            return True
        other = self.tickets.pending_logins.to_displace(self.client_address, self.tickets.is_named)
        if other is not None:
            other.evict()
        return other is not None

    def leave_place(self) -> None:
        """Remove the session from the counts. Idempotent."""
        self._no_longer_anonymous()
        if self._is_counted:
            self._is_counted = False
            self.tickets.sessions -= 1

    def _no_longer_anonymous(self) -> None:
        if self._is_anonymous:
            self._is_anonymous = False
            self.tickets.pending_logins.leave(self.client_address, self)

    # Its login.

    def log_in(self, result: Account | FixedGrant) -> None:
        """Store the account or fixed login that the ticket service granted, and report the login."""
        self._no_longer_anonymous()
        audit = self.control_syn.describe() if self.control_syn else "SYN not kept by the kernel"
        if isinstance(result, FixedGrant):
            self.fixed = result
            self.tickets.report(EventKind.LOGIN, f"fixed login; {audit}", self.client_address)
            return
        self.account = result
        result.sessions.add(self)
        if result.channel is None:
            state = TransferState.LOGGED_IN
            self.tickets.change(result, EventKind.LOGIN, audit, state=state, last_error="", **self._who())

    def _who(self) -> dict[str, Any]:
        info = sockets.read_info(self.socket)
        return {
            "peer_address": self.client_address,
            "control_syn": self.control_syn,
            "rtt_s": info.rtt_s if info else None,
        }

    def leave_account(self, why: str = "") -> None:
        """Report that the client is gone, if it had logged in and no other session uses its ticket.

        Args:
            why: Why it got no image; empty takes the reason from the ticket's account.
        """
        account, self.account = self.account, None
        if account is None:
            return
        account.sessions.discard(self)
        if not account.sessions and account.progress.state is TransferState.LOGGED_IN:
            text = why or account.progress.last_error or "the client left without fetching the image"
            if self.fixed is not None:
                self.tickets.change(account, EventKind.FAILED, text, state=TransferState.FAILED)
            else:
                self.tickets.change(
                    account, EventKind.NOTICE, text, state=TransferState.WAITING, last_error=text, peer_address=None
                )
        if self.fixed is not None:
            self.tickets.forget(account.grant.ticket_id)
        else:
            self.tickets.settle(account)

    # Its image.

    def image(self, path: str) -> ImageFile | None:
        """Return the image of a path, a base name after any number of slashes, if this login allows it; else None.

        The rule is the same for every transport, because operators type the same path for each.
        """
        name = path.lstrip("/")
        if self.fixed is not None:
            return self.fixed.image(name)
        if self.account is None:
            return None
        image = self.account.grant.image
        return image if name == image.name else None

    def account_of(self, image: ImageFile) -> Account:
        """Return the account of a transfer of a session that has logged in; with a fixed login, a new one."""
        if self.fixed is not None:
            self.leave_account()
            self.account = self.tickets.open(self.fixed, image, **self._who())
            self.account.sessions.add(self)
        assert self.account is not None
        return self.account

    def retrieve(self, account: Account, offset_bytes: int = 0, end_bytes: int | None = None) -> Retrieval | None:
        """Open the account's image for a transfer, which uses an attempt and replaces earlier ones of its ticket.

        Args:
            account: Account of this session.
            offset_bytes: Offset of the requested part.
            end_bytes: Offset of the first byte after it; None for the end of the image.

        Returns:
            The image to send; None if it has changed on disk, which is reported.
        """
        image = account.grant.image
        try:
            file = os.fdopen(open_unchanged(image.path, image.identity), "rb", buffering=0)
        except ImageUnreadable as error:
            self.tickets.change(account, EventKind.FAILED, error.message, state=TransferState.FAILED)
            return None
        self.tickets.take_over(account, self)
        self.tickets.use(account)
        return Retrieval(account, file, offset_bytes, end_bytes)
