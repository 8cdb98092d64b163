"""What is the same of a client's connection by every protocol: its place, its login and its image."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashferry.fileserver.client_session import CommandLog, Visitor
from flashferry.fileserver.fixed_login import FixedLogin, admit
from flashferry.fileserver.settings import Limits, ListenerSettings, ServerSettings
from flashferry.fileserver.ticket_accounts import Refusal, TicketRequest, issue
from flashferry.fileserver.ticket_service import TicketService
from flashferry.fileserver.transfer_records import EventKind, ServerEvent, TransferState
from flashferry.images.image import ImageFile
from flashferry.images.safe_open import FileIdentity

ADDRESS = "192.0.2.1"


class House:
    """A ticket service, an image on disk, and all that was told."""

    def __init__(self, folder: Path) -> None:
        self.events: list[ServerEvent] = []
        settings = ServerSettings(
            image_paths=(),
            listeners=(ListenerSettings(protocol="nobody:LISTENS"),),
            limits=Limits(sessions=2, anonymous_sessions_per_address=2),
        )
        self.tickets = TicketService(settings, self.events.append, clock=lambda: 100.0, wall=lambda: 1e9)
        path = folder / "a.bin"
        path.write_bytes(b"0123456789")
        self.image = ImageFile(
            name="a.bin", size_bytes=10, md5="", sha512="", path=path, identity=FileIdentity.of(path.stat())
        )
        self.visitors: list[LocalSender] = []

    def visitor(self, address: str = ADDRESS) -> "LocalSender":
        self.visitors.append(LocalSender(self.tickets, address))
        return self.visitors[-1]

    def guest(self, **request: Any) -> "LocalSender":
        """Return one that has logged in with a ticket."""
        ticket, grant = issue(TicketRequest(image_name="a.bin", **request), self.image)
        self.tickets.add(grant)
        return self.logged_in(ticket.username, ticket.password)

    def fixed_guest(self) -> "LocalSender":
        """Return one that has logged in with the fixed login."""
        self.tickets.admit(admit(FixedLogin(username="lab", password="long-enough"), (self.image,)))
        return self.logged_in("lab", "long-enough")

    def logged_in(self, username: str, password: str) -> "LocalSender":
        visitor = self.visitor()
        assert visitor.take_place()
        result = self.tickets.login(username, password, ADDRESS)
        assert not isinstance(result, Refusal)
        visitor.log_in(result)
        return visitor


class LocalSender(Visitor):
    """A client without a protocol."""

    def __init__(self, tickets: TicketService, address: str) -> None:
        self._tickets, self.client_address, self.control_syn = tickets, address, None
        self.socket = socket.socket()
        self.was_displaced = False
        self.gave_way: list[str] = []

    @property
    def tickets(self) -> TicketService:
        return self._tickets

    @property
    def settings(self) -> ServerSettings:
        return self._tickets.settings

    def evict(self) -> None:
        self.was_displaced = True
        self.leave_place()

    def yield_to_newer(self, reason: str) -> None:
        self.gave_way.append(reason)

    def send_away(self, reason: str) -> None:
        self.yield_to_newer(reason)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    for visitor in made.visitors:
        visitor.socket.close()


@pytest.mark.parametrize("name", ["tickets", "settings", "evict", "yield_to_newer", "send_away"])
def test_a_protocol_that_forgets_its_part_makes_no_client(house: House, name: str) -> None:
    """It is told when the first client comes, and not when one is to be sent away."""
    forgetful = type("Forgetful", (LocalSender,), {name: getattr(Visitor, name)})
    with pytest.raises(TypeError, match=name):
        forgetful(house.tickets, ADDRESS)


def test_who_is_counted_is_taken_off_the_books_once(house: House) -> None:
    """Also who was not let stay, and however often it is said."""
    first, second, third = (house.visitor() for _ in range(3))
    assert [one.take_place() for one in (first, second, third)] == [True, True, False]
    assert (house.tickets.sessions, house.tickets.pending_logins.count(ADDRESS)) == (3, 3)
    for one in (third, third, second, first):
        one.leave_place()
    assert (house.tickets.sessions, house.tickets.pending_logins.count(ADDRESS)) == (0, 0)


def test_a_full_house_takes_the_place_of_a_crowd(house: House) -> None:
    """The oldest of the address that has the most before their login gives way to another address."""
    crowd = [house.visitor() for _ in range(2)]
    assert all(one.take_place() for one in crowd)
    assert house.visitor("198.51.100.1").take_place()
    assert [one.was_displaced for one in crowd] == [True, False]
    assert not house.visitor("198.51.100.2").take_place()


def test_who_has_logged_in_keeps_its_place(house: House) -> None:
    """A full house of clients with tickets sends a newcomer away."""
    guests = [house.guest() for _ in range(2)]
    assert not house.visitor("198.51.100.1").take_place()
    assert not any(one.was_displaced for one in guests)


def test_a_client_that_leaves_without_its_image_is_told_with_the_reason(house: House) -> None:
    """Its ticket waits again; what the protocol says goes before what the books say."""
    guest, other = house.guest(), house.guest()
    accounts = [one.account for one in (guest, other)]
    assert [one.progress.state for one in accounts if one] == [TransferState.LOGGED_IN] * 2
    guest.leave_account()
    other.leave_account("the client asked for something else")
    assert (guest.account, other.account) == (None, None)
    told = [(one.progress.state, one.progress.last_error) for one in accounts if one]
    assert told == [
        (TransferState.WAITING, "the client left without fetching the image"),
        (TransferState.WAITING, "the client asked for something else"),
    ]


def test_a_fixed_login_has_an_account_for_each_transfer(house: House) -> None:
    """The one before is forgotten, and failed if nothing came of it."""
    guest = house.fixed_guest()
    assert (guest.account, guest.image("a.bin"), guest.image("b.bin")) == (None, house.image, None)
    first = guest.account_of(house.image)
    second = guest.account_of(house.image)
    assert first is not second
    assert first.progress.state is TransferState.FAILED
    assert house.tickets.account(first.grant.ticket_id) is None
    assert guest.account is second


def test_an_image_is_opened_once_for_one_try(house: House) -> None:
    """The newest transfer of a ticket has the others give way; the part is as it was asked for."""
    guest = house.guest(tries=3)
    account = guest.account
    assert account is not None
    other = LocalSender(house.tickets, ADDRESS)
    house.visitors.append(other)
    other.log_in(account)
    retrieval = guest.retrieve(account, 2, 5)
    assert retrieval is not None
    with retrieval.file as file:
        assert os.pread(file.fileno(), 3, retrieval.offset_bytes) == b"234"
    assert (retrieval.offset_bytes, retrieval.end_bytes, account.progress.tries_left) == (2, 5, 2)
    assert (guest.gave_way, other.gave_way) == ([], ["superseded by a new transfer with the same ticket"])


def test_an_image_that_is_another_by_now_is_told_and_costs_no_try(house: House) -> None:
    """The ticket has failed, with the reason."""
    guest = house.guest(tries=2)
    assert guest.account is not None
    house.image.path.write_bytes(b"another one")
    assert guest.retrieve(guest.account) is None
    assert (guest.account.progress.state, guest.account.progress.tries_left) == (TransferState.FAILED, 2)
    assert house.events[-1].kind is EventKind.FAILED
    assert "changed on disk since it was hashed" in house.events[-1].text


def test_nothing_is_to_be_had_before_a_login(house: House) -> None:
    """No image by any name, and nobody to tell of a client that goes."""
    visitor = house.visitor()
    assert visitor.image("a.bin") is None
    visitor.leave_account("gone")
    assert house.events == []


def test_the_log_of_a_session_keeps_its_newest_lines() -> None:
    """With their times; a line break in a command makes no second line."""
    log = CommandLog()
    assert log.lines() == ()
    for number in range(130):
        log.add(number / 10, f"NOOP {number}\nx" if number == 129 else f"NOOP {number}")
    assert (len(log.lines()), log.lines()[0], log.lines()[-1]) == (120, "1.000 NOOP 10", "12.900 NOOP 129 x")
