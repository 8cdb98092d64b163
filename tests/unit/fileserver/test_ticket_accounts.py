"""Tickets: what is in them, whom they let in, and that they hold no password where they need none."""

from base64 import b64encode
from pathlib import Path

import pytest

from flashferry.core.codec import encode, to_json
from flashferry.core.redaction import masked
from flashferry.fileserver.errors import SettingsInvalid
from flashferry.fileserver.ticket_accounts import (
    SshOffer,
    TicketRequest,
    issue,
    password_matches,
    plain_address,
    source_allowed,
)
from flashferry.images.image import ImageFile
from flashferry.images.safe_open import FileIdentity
from tests.some import some

IMAGE = ImageFile(
    name="a.bin",
    size_bytes=10,
    md5="0" * 32,
    sha512="0" * 128,
    path=Path("/images/a.bin"),
    identity=FileIdentity(device=1, inode=2, size_bytes=10, mtime_ns=3, ctime_ns=4),
)


def test_a_login_as_http_carries_it_is_no_more_shown_than_the_password() -> None:
    """A device's log of its own request has both in base 64, from which anybody gets them back."""
    ticket, _ = issue(TicketRequest(image_name="a.bin"), IMAGE)
    login = b64encode(f"{ticket.username}:{ticket.password}".encode()).decode()
    for text in (f"HTTPC: Authorization: Basic {login}", f"Basic {login[:12]}", login[-12:]):
        assert login[:12] not in masked(text)
        assert login[-12:] not in masked(text)


def test_only_the_right_password_matches() -> None:
    """The password of the ticket matches its grant, and nothing near it does; without a grant nothing matches."""
    ticket, grant = issue(TicketRequest(image_name="a.bin"), IMAGE)
    assert password_matches(grant, ticket.password)
    for wrong in (
        "",
        ticket.password[:-1],
        ticket.password.swapcase(),
        ticket.password + " ",
        "\udcff",
        ticket.username,
    ):
        assert not password_matches(grant, wrong)
        assert not password_matches(None, wrong)


def test_what_the_server_process_gets_holds_no_password() -> None:
    """The grant carries a salted hash alone, different for every ticket."""
    ticket, grant = issue(TicketRequest(image_name="a.bin"), IMAGE)
    assert ticket.password not in str(encode(grant))
    _, second = issue(TicketRequest(image_name="a.bin"), IMAGE)
    assert grant.password_hash_hex != second.password_hash_hex
    assert grant.salt_hex != second.salt_hex


def test_secrets_do_not_show() -> None:
    """Neither repr nor the public form of ticket and grant has the password or the hash."""
    ticket, grant = issue(TicketRequest(image_name="a.bin"), IMAGE)
    shown = f"{ticket!r} {grant!r} {to_json(ticket)} {to_json(grant)}"
    assert shown.count("a.bin") >= 2
    assert ticket.password not in shown
    assert grant.password_hash_hex not in shown


def test_credentials_are_letters_and_digits_and_never_the_same() -> None:
    """8 and 16 letters and digits; a thousand tickets share none."""
    tickets = [issue(TicketRequest(image_name="a.bin"), IMAGE)[0] for _ in range(1000)]
    assert all(len(ticket.username) == 8 and ticket.username.isalnum() for ticket in some(tickets))
    assert all(len(ticket.password) == 16 and ticket.password.isalnum() for ticket in some(tickets))
    assert len({ticket.password for ticket in tickets}) == len({ticket.ticket_id for ticket in tickets}) == 1000


@pytest.mark.parametrize(
    ("sources", "address", "allowed"),
    [
        ((), "192.0.2.1", True),
        (("192.0.2.1",), "192.0.2.1", True),
        (("192.0.2.1",), "192.0.2.2", False),
        (("192.0.2.1",), "::ffff:192.0.2.1", True),
        (("10.0.0.0/8", "192.0.2.1"), "10.9.8.7", True),
        (("10.1.2.3/8",), "10.9.8.7", True),
        (("2001:db8::/32",), "2001:db8::5", True),
        (("2001:db8::/32",), "192.0.2.1", False),
        (("fe80::1",), "fe80::1%eth0", True),
    ],
)
def test_sources(sources: tuple[str, ...], address: str, allowed: bool) -> None:
    """Addresses, networks, mapped and zoned forms are compared by meaning, not by text."""
    _, grant = issue(TicketRequest(image_name="a.bin", source_addresses=sources), IMAGE)
    assert source_allowed(grant, address) is allowed


def test_plain_addresses_lose_zone_and_mapping() -> None:
    """What is shown and compared is the address itself."""
    assert str(plain_address("::ffff:192.0.2.1")) == "192.0.2.1"
    assert str(plain_address("fe80::1%2")) == "fe80::1"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lifetime_s": 0}, "lifetime above 0 s"),
        ({"tries": 0}, "at least 1 try"),
        ({"cap_bytes_per_s": 10}, "cap of at least 1000"),
        ({"sample_interval_s": 0.01}, r"readings every 0\.05 to 60 s, found 0\.01"),
        ({"source_addresses": ("router7",)}, "IP address or network, found 'router7'"),
    ],
)
def test_impossible_requests_are_refused(wrong: dict[str, object], message: str) -> None:
    """A ticket that could never be used is an error that says what was expected."""
    with pytest.raises(SettingsInvalid, match=message):
        TicketRequest(image_name="a.bin", **wrong)  # type: ignore[arg-type]


def test_a_ticket_is_masked_from_its_first_moment_on() -> None:
    """Whoever quotes it: neither user nor password comes through, nor half of the password."""
    ticket, _ = issue(TicketRequest(image_name="a.bin"), IMAGE)
    said = masked(f"ftp://x/{ticket.username}, {ticket.password}, {ticket.password[4:]}")
    assert said == "ftp://x/***, ***, ***"


def test_a_profile_that_there_is_not_is_refused() -> None:
    """What is offered by SSH has two profiles."""
    with pytest.raises(SettingsInvalid, match="ssh profile: expected modern or legacy, found 'ancient'"):
        SshOffer(profile="ancient")


@pytest.mark.parametrize(
    ("named", "served", "is_for"),
    [((), ("x",), True), (("x",), ("x", "y"), True), (("x", "z"), ("z",), True), (("x",), ("y",), False)],
)
def test_a_ticket_is_for_a_listener_that_serves_one_of_its_transports(
    named: tuple[str, ...], served: tuple[str, ...], is_for: bool
) -> None:
    """One that names none is for any."""
    assert TicketRequest(image_name="a.bin", transports=named).is_for(served) is is_for
