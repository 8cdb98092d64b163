"""Who comes in by SSH: tickets and fixed logins, by password, and within bounds as with every protocol."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

import asyncssh
import pytest

from flashferry.fileserver import FixedLogin, TransferState
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from conftest import Bench


def _run(bench: "Bench", ticket: object, **more: object) -> None:
    async def main() -> None:
        async with await bench.connect(ticket, **more):  # type: ignore[arg-type]
            pass

    asyncio.run(main())


@pytest.mark.parametrize("method", ["password", "keyboard-interactive"])
def test_a_ticket_is_let_in_by_its_password(bench: "Bench", method: str) -> None:
    """By either method that carries one."""
    ticket = bench.ticket()
    _run(bench, ticket, preferred_auth=method)
    seen = bench.until(ticket, lambda seen: seen.last_error != "")
    assert (seen.state, seen.last_error) == (TransferState.WAITING, "the client left without fetching the image")


@pytest.mark.parametrize("how", ["another", "none", "key"])
def test_nobody_else_is(bench: "Bench", how: str) -> None:
    """No other password, not without one, and by no key."""
    ticket = bench.ticket()
    key = asyncssh.generate_private_key("ssh-ed25519")
    ways = {"another": {"password": "x"}, "none": {"password": None}, "key": {"password": None, "client_keys": [key]}}
    with pytest.raises((asyncssh.PermissionDenied, asyncssh.ConnectionLost)):
        _run(bench, ticket, **ways[how])
    assert bench.server.progress(ticket.ticket_id).record is None


@pytest.mark.parametrize("bench", [{"ftp": True}], indirect=True)
def test_a_ticket_for_something_else_is_refused(bench: "Bench") -> None:
    """By its transport, with the reason at the ticket."""
    ticket = bench.ticket(transports=("ftp",))
    with pytest.raises(asyncssh.PermissionDenied):
        _run(bench, ticket)
    sftp = bench.ticket(transports=("sftp",))
    run = bench.openssh(("scp", "-O"), sftp)
    assert (run.returncode, bench.got()) == (1, b"")
    assert "Not available." in run.stderr
    assert bench.openssh(("scp",), sftp).returncode == 0
    bench.delivered(sftp)


def test_a_ticket_is_bound_to_its_addresses(bench: "Bench") -> None:
    """And one who comes with it from elsewhere is told to its owner."""
    ticket = bench.ticket(source_addresses=("127.0.0.2",))
    with pytest.raises((asyncssh.PermissionDenied, asyncssh.ConnectionLost)):
        _run(bench, ticket)
    assert "wrong source address" in bench.server.progress(ticket.ticket_id).last_error
    _run(bench, ticket, local_addr=("127.0.0.2", 0))


def test_a_second_use_gives_nothing(bench: "Bench") -> None:
    """A ticket that has delivered lets nobody in any more, by this protocol or by another."""
    ticket = bench.ticket()
    assert bench.openssh(("scp", "-O"), ticket).returncode == 0
    bench.delivered(ticket)
    run = bench.openssh(("scp", "-O"), ticket)
    assert (run.returncode != 0, bench.got()) == (True, b"")
    assert "Permission denied" in run.stderr


def test_a_fixed_login_fetches_any_image_any_number_of_times(bench: "Bench") -> None:
    """Each transfer with a ticket and a record of its own."""
    bench.server.admit(FixedLogin(username="lab", password="Bench-2026.word"))
    seen: dict[str, str] = {}
    bench.server.events(
        lambda event: (
            seen.update({event.progress.ticket_id: event.progress.record.image_name})
            if event.progress is not None and event.progress.record is not None
            else None
        )
    )
    login = type("Login", (), {"username": "lab", "password": "Bench-2026.word"})
    for name, command in ((bench.image_name, ("scp", "-O")), ("other.bin", ("scp",)), (bench.image_name, ("scp",))):
        run = bench.openssh(command, login, name=name)  # type: ignore[arg-type]
        assert run.returncode == 0, run.stderr
    assert bench.settles(lambda: len(seen) == 3)
    assert sorted(seen.values()) == [bench.image_name, bench.image_name, "other.bin"]


def test_three_failures_lock_an_address_out(bench: "Bench") -> None:
    """The connection is ended at the third, and the address has none for a while, unless a ticket names it."""

    async def guess() -> int:
        tries = 0

        class Guesser(asyncssh.SSHClient):
            def password_auth_requested(self) -> str:
                nonlocal tries
                tries += 1
                return "guess"

        with contextlib.suppress(asyncssh.Error, OSError):
            await asyncssh.connect(
                "127.0.0.1", bench.port, username="x", known_hosts=None, client_factory=Guesser, client_keys=None,
                config=None, preferred_auth="password",
            )  # fmt: skip
        return tries

    assert asyncio.run(guess()) == 3
    with bench.raw() as connection:
        assert connection.recv(100) == b"Service not available, try later.\r\n"
    ticket = bench.ticket(source_addresses=("127.0.0.1",))
    assert bench.openssh(("scp", "-O"), ticket).returncode == 0
    assert len(bench.server.unattributed_failures) == 3
    assert {failure.username_masked for failure in bench.server.unattributed_failures} == {"x***"}


@pytest.mark.parametrize("bench", [{"limits": {"failed_login_delay_s": 2 * PATIENCE_S}}], indirect=True)
def test_a_failure_is_answered_late(bench: "Bench") -> None:
    """A wrong password has no answer yet when a whole copy has been made since."""
    guessed = bench.ticket()

    async def main() -> None:
        guess = asyncio.create_task(bench.connect(guessed, password="x", preferred_auth="password"))
        await asyncio.to_thread(bench.until, guessed, lambda seen: seen.last_error != "")
        ticket = bench.ticket()
        run = await asyncio.to_thread(bench.openssh, ("scp", "-O"), ticket)
        assert (run.returncode, guess.done()) == (0, False)
        guess.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await guess

    asyncio.run(main())


@pytest.mark.parametrize("bench", [{"limits": {"login_deadline_s": PATIENCE_S}, "clock": True}], indirect=True)
def test_who_does_not_log_in_is_sent_away(bench: "Bench") -> None:
    """However far it came, and its place is free again."""
    before = bench.descriptors()
    with bench.raw() as silent, bench.raw() as half:
        half.sendall(b"SSH-2.0-half\r\n")
        for connection in (silent, half):
            assert connection.recv(4) == b"SSH-"
        bench.pass_time(PATIENCE_S)
        for connection in (silent, half):
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(4096):
                    pass
    assert bench.settles(lambda: bench.descriptors() == before)


@pytest.mark.parametrize("bench", [{"limits": {"idle_s": PATIENCE_S}, "clock": True}], indirect=True)
def test_who_asks_for_nothing_is_sent_away(bench: "Bench") -> None:
    """After the login, too."""

    async def stay() -> None:
        connection = await bench.connect(bench.ticket())
        bench.pass_time(PATIENCE_S)
        await asyncio.wait_for(connection.wait_closed(), PATIENCE_S)

    asyncio.run(stay())


@pytest.mark.parametrize("bench", [{"limits": {"anonymous_sessions_per_address": 3}}], indirect=True)
def test_sessions_before_login_are_bounded_by_address(bench: "Bench") -> None:
    """A fourth gets no place; from elsewhere one does."""
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            assert stack.enter_context(bench.raw()).recv(4) == b"SSH-"
        assert stack.enter_context(bench.raw()).recv(100).startswith(b"Service not available")
        assert stack.enter_context(bench.raw("127.0.0.5")).recv(4) == b"SSH-"


@pytest.mark.parametrize("bench", [{"limits": {"sessions": 8}}], indirect=True)
def test_a_router_finds_a_place_when_strangers_have_them_all(bench: "Bench") -> None:
    """That of the address with the most silent ones; and all are given back."""
    ticket = bench.ticket(source_addresses=("127.0.0.1",))
    before = bench.descriptors()
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(bench.raw("127.0.0.6")) for _ in range(8)]
        for stranger in strangers:
            assert stranger.recv(4) == b"SSH-"
        run = bench.openssh(("scp", "-O"), ticket)
        assert run.returncode == 0, run.stderr
    assert bench.settles(lambda: bench.descriptors() == before)
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            assert stack.enter_context(bench.raw("127.0.0.6")).recv(4) == b"SSH-"


def test_no_secret_is_in_sight(bench: "Bench") -> None:
    """Neither user nor password of a ticket, nor a host key, in anything that is told."""
    ticket = bench.ticket()
    events: list[object] = []
    bench.server.events(events.append)
    assert bench.openssh(("scp", "-O"), ticket).returncode == 0
    bench.delivered(ticket)
    told = repr(events) + repr(bench.server.progress(ticket.ticket_id)) + repr(bench.server.notices)
    assert ticket.username not in told
    assert ticket.password not in told
    assert "PRIVATE KEY" not in told
