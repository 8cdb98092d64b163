"""Fixed credentials on a real server: every image, any number of times, each transfer with a record."""

import contextlib
import ftplib
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import EventKind, FixedLogin, ServerEvent, TransferState
from flashferry.tcp.verdict import VerdictKind

pytestmark = pytest.mark.soak

if TYPE_CHECKING:
    from conftest import Bench

USER, WORD = "lab", "Bench-2026.word"


@pytest.fixture
def told(bench: "Bench") -> "list[ServerEvent]":
    events: list[ServerEvent] = []
    bench.server.events(events.append)
    return events


def _login(bench: "Bench", source: str = "127.0.0.1", word: str = WORD) -> ftplib.FTP:
    client = bench.connect(source)
    try:
        client.login(USER, word)
    except BaseException:
        client.close()
        raise
    return client


def _ends(bench: "Bench", told: "list[ServerEvent]", wanted: int) -> list[ServerEvent]:
    def ends() -> list[ServerEvent]:
        return [event for event in told if event.kind in (EventKind.DONE, EventKind.FAILED)]

    assert bench.settles(lambda: len(ends()) >= wanted), told
    return ends()


def test_every_image_any_number_of_times(bench: "Bench", told: "list[ServerEvent]") -> None:
    """One session fetches several images, another the same again; each transfer has its own record and verdict."""
    bench.server.admit(FixedLogin(username=USER, password=WORD))
    with _login(bench) as client:
        assert client.size(bench.image_name) == len(bench.content)
        assert bench.fetch(client) == bench.content
        assert bench.fetch(client, f"/{bench.other_name}") == b"not for you"
        assert bench.fetch(client, rest=100_000) == bench.content[100_000:]
    with _login(bench) as client:
        assert bench.fetch(client) == bench.content
    ends = _ends(bench, told, 4)
    records = [event.progress.record for event in ends if event.progress is not None]
    assert [record.image_name for record in records] == [bench.image_name, bench.other_name] + [bench.image_name] * 2
    assert {record.outcome for record in records} == {"delivered"}
    assert {record.verdict.kind for record in records} == {VerdictKind.TOO_SHORT}
    assert len({record.ticket_id for record in records}) == 4
    assert all(bench.server.progress(record.ticket_id).state is TransferState.DELIVERED for record in records)
    assert WORD not in str([event.to_json() for event in told])


def test_nothing_but_images(bench: "Bench") -> None:
    """Paths and names that are no image's are 550, as with a ticket."""
    bench.server.admit(FixedLogin(username=USER, password=WORD))
    with _login(bench) as client:
        for path in ("/etc/passwd", f"../{bench.image_name}", f"./{bench.image_name}", "", ".."):
            with pytest.raises(ftplib.error_perm, match=r"550|501"):
                client.sendcmd(f"SIZE {path}".rstrip())
            with pytest.raises(ftplib.error_perm, match=r"550|501"):
                bench.fetch(client, path)


def test_off_unless_asked_for(bench: "Bench", told: "list[ServerEvent]") -> None:
    """Without `admit` the user is unknown, and the refusal is told with the name masked."""
    with pytest.raises(ftplib.error_perm, match="530 Login incorrect"):
        _login(bench)
    assert bench.settles(lambda: bool(told))
    assert (told[0].kind, told[0].text) == (
        EventKind.LOGIN_FAILED,
        "login refused for 127.0.0.1: unknown user, user l***",
    )


def test_networks_bind_a_fixed_login(bench: "Bench") -> None:
    """From elsewhere the right password is refused, in the words of every refusal."""
    bench.server.admit(FixedLogin(username=USER, password=WORD, source_addresses=("127.0.0.16/28",)))
    with _login(bench, "127.0.0.20") as client:
        assert bench.fetch(client) == bench.content
    with pytest.raises(ftplib.error_perm, match="530 Login incorrect"):
        _login(bench, "127.0.0.99")
    assert bench.settles(lambda: bool(bench.server.unattributed_failures))
    assert bench.server.unattributed_failures[-1].reason == "wrong source address"


def test_guesses_are_banned_where_a_ticket_protects_the_address(bench: "Bench") -> None:
    """A ticket keeps its address from being turned away; guesses at the fixed login are still ended."""
    bench.server.admit(FixedLogin(username=USER, password=WORD))
    ticket = bench.ticket(source_addresses=("127.0.0.66",))
    for _ in range(3):
        with pytest.raises(ftplib.error_perm, match="530"):
            _login(bench, "127.0.0.66", "guess-guess")
    with pytest.raises(ftplib.error_perm, match="530"):
        _login(bench, "127.0.0.66")
    with bench.login(ticket, "127.0.0.66") as client:
        assert bench.fetch(client) == bench.content
    with _login(bench, "127.0.0.67") as client:
        assert bench.fetch(client) == bench.content


def test_a_transfer_that_never_came_about_is_failed(
    bench: "Bench", told: "list[ServerEvent]", closing: contextlib.ExitStack
) -> None:
    """A client that asks and leaves before its data connection leaves a failed ticket, not a waiting one."""
    bench.server.admit(FixedLogin(username=USER, password=WORD))
    client = closing.enter_context(contextlib.closing(_login(bench)))
    client.makepasv()
    client.sendcmd(f"RETR {bench.image_name}")
    client.close()
    (failed,) = _ends(bench, told, 1)
    assert failed.progress is not None
    assert failed.progress.state is TransferState.FAILED
    assert failed.text == "the client left without fetching the image"


def test_an_image_put_in_place_anew_is_served_after_admitting_again(bench: "Bench") -> None:
    """The old state is refused; admitted again, the login fetches the new one."""
    login = FixedLogin(username=USER, password=WORD)
    bench.server.admit(login)
    (bench.directory / bench.image_name).write_bytes(b"a newer release")
    with _login(bench) as client, pytest.raises(ftplib.error_temp, match="451"):
        bench.fetch(client)
    bench.server.admit(login)
    with _login(bench) as client:
        assert bench.fetch(client) == b"a newer release"


@pytest.mark.parametrize("bench", [{"sites_by_network": True}], indirect=True)
def test_a_client_s_network_is_its_site(bench: "Bench", told: "list[ServerEvent]") -> None:
    """Without a site of its own a transfer gets the cap of its client's network, with the source in the record."""
    bench.server.admit(FixedLogin(username=USER, password=WORD))
    bench.server.set_site_cap("127.0.0.0/24", 8_000_000, "80 % of 70 Mbit/s, learned 2 h ago")
    with _login(bench) as client:
        bench.fetch(client)
    with _login(bench, "127.9.9.9") as client:
        bench.fetch(client)
    near, far = (event.progress.record.sender for event in _ends(bench, told, 2))
    assert (near.cap_bytes_per_s, near.cap_source) == (8_000_000, "80 % of 70 Mbit/s, learned 2 h ago")
    assert (far.cap_bytes_per_s, far.cap_source) == (None, "")
