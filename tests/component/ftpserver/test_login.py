"""Who is let in: a ticket, from its address, in its time, until it is used up; and nobody else."""

import contextlib
import ftplib
import socket
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import TransferState
from flashferry.fileserver.telemetry import Snapshots
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from conftest import Bench

    from flashferry.fileserver import Ticket


def _refused(bench: "Bench", username: str, password: str, source: str = "127.0.0.1") -> str:
    with contextlib.closing(bench.connect(source)) as client:
        with pytest.raises(ftplib.error_perm) as caught:
            client.login(username, password)
        return str(caught.value)


def _last_error(bench: "Bench", ticket: "Ticket") -> str:
    return bench.until(ticket, lambda progress: bool(progress.last_error)).last_error


def test_wrong_credentials_read_the_same_for_all(bench: "Bench") -> None:
    """An unknown user, a wrong password and a foreign source get the same words, so nothing can be probed."""
    ticket = bench.ticket(source_addresses=("127.0.0.9",))
    replies = {
        _refused(bench, "nobody12", "x" * 16),
        _refused(bench, ticket.username, "x" * 16),
        _refused(bench, ticket.username, ticket.password, source="127.0.0.3"),
    }
    assert replies == {"530 Login incorrect."}


def test_a_wrong_password_is_put_down_to_its_ticket(bench: "Bench") -> None:
    """The caller can tell a wrong password from a client that never came."""
    ticket = bench.ticket()
    _refused(bench, ticket.username, "wrong")
    assert _last_error(bench, ticket) == "login refused for 127.0.0.1: wrong password"
    assert bench.server.progress(ticket.ticket_id).state is TransferState.WAITING


def test_an_unknown_user_is_counted_for_the_server(bench: "Bench") -> None:
    """A login with a user no ticket has is listed with its address and a masked name."""
    ticket = bench.ticket()
    _refused(bench, "cisco", "cisco")
    (failure,) = bench.server.unattributed_failures
    assert (failure.peer_address, failure.username_masked, failure.reason) == ("127.0.0.1", "c***", "unknown user")
    assert bench.server.progress(ticket.ticket_id).last_error == ""


def test_the_wrong_address_is_named(bench: "Bench") -> None:
    """The error names where the client came from and where it should have."""
    ticket = bench.ticket(source_addresses=("127.0.0.9",))
    _refused(bench, ticket.username, ticket.password, source="127.0.0.5")
    expected = "login refused for 127.0.0.5: wrong source address; the ticket is bound to 127.0.0.9"
    assert _last_error(bench, ticket) == expected


@pytest.mark.parametrize("sources", [("127.0.0.0/8",), ("10.0.0.0/8", "127.0.0.7")])
def test_addresses_and_networks_are_allowed(bench: "Bench", sources: tuple[str, ...]) -> None:
    """Any of several addresses or networks will do."""
    ticket = bench.ticket(source_addresses=sources)
    with bench.login(ticket, source="127.0.0.7") as client:
        assert bench.fetch(client) == bench.content
    assert bench.final(ticket).peer_address == "127.0.0.7"


_LIFE_S = 5 * PATIENCE_S
_TIMED = pytest.mark.parametrize("bench", [{"clock": True}], indirect=True)
"""For tickets that end when a test says so; it is less than what a transfer may stand still for."""


@_TIMED
def test_an_expired_ticket_is_refused_and_closed(bench: "Bench") -> None:
    """After its lifetime a ticket fails by itself, saying nobody came, and lets nobody in."""
    ticket, longer = bench.ticket(lifetime_s=_LIFE_S), bench.ticket(lifetime_s=_LIFE_S + PATIENCE_S)
    bench.pass_time(_LIFE_S)
    final = bench.final(ticket)
    assert (final.state, final.last_error) == (TransferState.FAILED, "ticket expired: no client came")
    _refused(bench, ticket.username, ticket.password)
    late = bench.until(ticket, lambda progress: "login refused" in progress.last_error)
    assert late.last_error == "login refused for 127.0.0.1: ticket expired"
    with bench.login(longer) as client:
        assert bench.fetch(client) == bench.content


def _expire(bench: "Bench") -> None:
    """Have all tickets with that life be over: one that nobody uses is closed."""
    unused = bench.ticket(lifetime_s=_LIFE_S)
    bench.pass_time(_LIFE_S)
    assert bench.final(unused).last_error == "ticket expired: no client came"


@_TIMED
def test_a_running_transfer_outlives_its_ticket(bench: "Bench") -> None:
    """Expiry stops logins, not a transfer that has begun."""
    ticket = bench.ticket(lifetime_s=_LIFE_S)
    with contextlib.closing(bench.login(ticket)) as client, bench.slow_data_connection(client) as data:
        client.sendcmd(f"RETR {bench.image_name}")
        _expire(bench)
        assert not bench.server.progress(ticket.ticket_id).state.is_final
        assert bench.read_all(data) == bench.content
    assert bench.final(ticket).state is TransferState.DELIVERED


def test_a_delivered_ticket_is_worthless(bench: "Bench") -> None:
    """After delivery neither the session nor a new login gets anything."""
    ticket = bench.ticket(tries=5)
    with bench.login(ticket) as client:
        bench.fetch(client)
        with pytest.raises(ftplib.error_perm, match="550"):
            bench.fetch(client)
    assert _refused(bench, ticket.username, ticket.password) == "530 Login incorrect."
    progress = bench.until(ticket, lambda progress: bool(progress.last_error))
    assert progress.state is TransferState.DELIVERED
    assert progress.last_error == "login refused for 127.0.0.1: ticket used up"


def test_tries_are_counted(bench: "Bench") -> None:
    """Each begun transfer takes a try; without tries left the ticket is refused."""
    ticket = bench.ticket(tries=1)
    with contextlib.closing(bench.login(ticket)) as client, bench.slow_data_connection(client):
        client.sendcmd(f"RETR {bench.image_name}")
        bench.until(ticket, lambda progress: progress.state is TransferState.TRANSFERRING)
    assert bench.final(ticket).tries_left == 0
    assert _refused(bench, ticket.username, ticket.password) == "530 Login incorrect."


def test_a_revoked_ticket_is_refused(bench: "Bench") -> None:
    """Revoking ends a ticket before anybody used it."""
    ticket = bench.ticket()
    bench.server.revoke(ticket.ticket_id)
    assert bench.final(ticket).last_error == "ticket revoked"
    assert _refused(bench, ticket.username, ticket.password) == "530 Login incorrect."


def test_a_forgotten_ticket_is_revoked_all_the_same(bench: "Bench", monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller keeps of tickets is bounded; one that it has no more of is good until it is revoked."""
    ticket = bench.ticket()
    monkeypatch.setattr(bench.server._telemetry, "_snapshots", Snapshots())
    bench.server.revoke(ticket.ticket_id)
    assert _refused(bench, ticket.username, ticket.password) == "530 Login incorrect."


def _comes_late(client: ftplib.FTP, place: tuple[str, int]) -> tuple[bytes, str]:
    """Make the data connection that a RETR waits for; return what came, and the reply."""
    with socket.create_connection(place, timeout=PATIENCE_S) as data:
        received = b"".join(iter(lambda: data.recv(65536), b""))
    with pytest.raises(ftplib.error_temp) as caught:
        client.voidresp()
    return received, str(caught.value)


def test_a_ticket_revoked_before_its_data_connection_sends_nothing(bench: "Bench") -> None:
    """A RETR that was granted and still waits for its data connection ends with its ticket, and so does its session."""
    ticket = bench.ticket()
    with contextlib.closing(bench.login(ticket)) as client:
        place = client.makepasv()
        client.sendcmd(f"RETR {bench.image_name}")
        bench.server.revoke(ticket.ticket_id)
        assert [client.getline()[:3] for _ in range(2)] == ["426", "421"]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place, timeout=PATIENCE_S)
    final = bench.server.progress(ticket.ticket_id)
    assert (final.state, final.last_error) == (TransferState.FAILED, "ticket revoked")


@_TIMED
def test_a_ticket_that_expires_before_its_data_connection_sends_nothing(bench: "Bench") -> None:
    """A RETR that was granted in time is not good for ever."""
    ticket = bench.ticket(lifetime_s=_LIFE_S)
    with contextlib.closing(bench.login(ticket)) as client:
        place = client.makepasv()
        client.sendcmd(f"RETR {bench.image_name}")
        _expire(bench)
        assert _comes_late(client, place) == (b"", "426 Transfer ended by the server.")


def test_a_ticket_delivered_elsewhere_before_its_data_connection_sends_nothing(bench: "Bench") -> None:
    """One delivery is all that a ticket is good for, also where a second session asked before the first had it."""
    ticket = bench.ticket(tries=3)
    with contextlib.closing(bench.login(ticket)) as client, bench.login(ticket) as other:
        place = client.makepasv()
        client.sendcmd(f"RETR {bench.image_name}")
        assert bench.fetch(other) == bench.content
        bench.until(ticket, lambda progress: progress.state is TransferState.DELIVERED)
        assert client.getline() == "426 Transfer ended by the server."
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place, timeout=PATIENCE_S)
    assert bench.server.progress(ticket.ticket_id).state is TransferState.DELIVERED


def test_each_ticket_opens_its_own_image_only(bench: "Bench") -> None:
    """Two tickets in one server do not open each other's image, and a mix of their credentials opens nothing."""
    first = bench.ticket()
    second = bench.ticket(bench.other_name)
    assert _refused(bench, first.username, second.password) == "530 Login incorrect."
    with bench.login(second) as client:
        with pytest.raises(ftplib.error_perm, match="550"):
            bench.fetch(client)
        assert bench.fetch(client, bench.other_name) == b"not for you"


def test_states_show_how_far_a_client_came(bench: "Bench") -> None:
    """No client, connected, logged in, and gone again without fetching are told apart."""
    ticket = bench.ticket(source_addresses=("127.0.0.8",))
    assert bench.server.progress(ticket.ticket_id).state is TransferState.WAITING
    client = bench.connect("127.0.0.8")
    connected = bench.until(ticket, lambda progress: progress.state is TransferState.CONNECTED)
    assert connected.control_syn is not None
    assert connected.peer_address == "127.0.0.8"
    client.login(ticket.username, ticket.password)
    logged_in = bench.until(ticket, lambda progress: progress.state is TransferState.LOGGED_IN)
    assert logged_in.rtt_s is not None
    client.quit()
    gone = bench.until(ticket, lambda progress: progress.state is TransferState.WAITING)
    assert gone.last_error == "the client left without fetching the image"


def test_three_failures_end_the_session_and_lock_the_address_out(bench: "Bench") -> None:
    """The third failure closes the session, and the address is turned away while no ticket names it."""
    ticket = bench.ticket()
    with contextlib.closing(bench.connect("127.0.0.66")) as client:
        for _ in range(3):
            with pytest.raises(ftplib.error_perm, match="530"):
                client.login("mallory", "guess")
        with pytest.raises((EOFError, OSError)):
            client.sendcmd("NOOP")
    with pytest.raises((ftplib.error_temp, EOFError), match=r"421|^$"):
        bench.connect("127.0.0.66")
    with bench.login(ticket) as other:
        assert bench.fetch(other) == bench.content


def test_an_address_a_ticket_names_is_never_locked_out(bench: "Bench") -> None:
    """A stranger behind the same NAT cannot lock a router out by failing on purpose."""
    ticket = bench.ticket(source_addresses=("127.0.0.66",))
    for _ in range(4):
        _refused(bench, "mallory", "guess", source="127.0.0.66")
    with bench.login(ticket, source="127.0.0.66") as client:
        assert bench.fetch(client) == bench.content


def test_credentials_fit_an_ios_command_line(bench: "Bench") -> None:
    """User and password are letters and digits, and with a long image name the copy line stays below 253."""
    ticket = bench.ticket()
    assert ticket.username.isalnum()
    assert ticket.password.isalnum()
    url = f"ftp://{ticket.username}:{ticket.password}@255.255.255.255:65535/"
    assert len(f"copy {url}{'x' * 80} bootflash:{'x' * 80}") < 253
    assert ticket.password not in repr(ticket)
