"""A copy by SSH from its request to its end: what is sent, what is told of it, and how it can go wrong."""

import asyncio
import os
import signal
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh
import pytest

from flashferry.fileserver import TicketRequest, TransferState
from tests.patience import PATIENCE_S, killed_at_end

if TYPE_CHECKING:
    from conftest import Bench, Sink

_LOST = (asyncssh.Error, asyncio.IncompleteReadError, ConnectionError)


async def begun(bench: "Bench", connection: asyncssh.SSHClientConnection, size: int) -> "Sink":
    """Return a sink that has so many bytes of the file."""
    sink = await bench.sink(connection)
    await sink.header()
    sink.say()
    await sink.process.stdout.readexactly(size)
    return sink


def test_no_delivery_without_the_sink_s_word(shared: "Bench") -> None:
    """All of it acknowledged is not enough: the last byte of the dialogue is the device's."""
    ticket = shared.ticket()

    async def fetch() -> None:
        async with await shared.connect(ticket) as connection:
            sink = await shared.sink(connection)
            await sink.header()
            assert (await sink.body(len(shared.content)))[:-1] == shared.content
            shared.until(ticket, lambda seen: seen.bytes_acked == len(shared.content))
            assert shared.server.progress(ticket.ticket_id).state is not TransferState.DELIVERED

    asyncio.run(fetch())
    final = shared.final(ticket)
    assert (final.state, final.last_error) == (TransferState.FAILED, "the client closed the SSH connection early")
    assert shared.openssh(("scp", "-O"), ticket).returncode == 0
    shared.delivered(ticket)


def test_the_header_waits_for_nothing_and_the_file_for_two_words(bench: "Bench") -> None:
    """It is there before the sink says that it is ready; that is not taken for its answer to the header."""
    ticket = bench.ticket()

    async def fetch() -> None:
        async with await bench.connect(ticket) as connection:
            process = (await bench.sink(connection)).process
            header = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
            assert header == f"C0644 {len(bench.content)} {bench.image_name}\n".encode()
            process.stdin.write(b"\0")
            first = asyncio.ensure_future(process.stdout.read(1))
            # What the server sent by now is here before its answers to a later connection.
            async with await bench.connect(bench.ticket()) as later:
                await (await bench.sink(later)).header()
            assert not first.done()
            process.stdin.write(b"\0")
            rest = len(bench.content)
            assert await first + await process.stdout.readexactly(rest) == bench.content + b"\0"
            process.stdin.write(b"\0")
            await process.wait_closed()

    asyncio.run(fetch())
    bench.delivered(ticket)


@pytest.mark.parametrize("when", ["at once", "at the header", "at the end"])
def test_what_the_sink_complains_of_is_the_reason(shared: "Bench", when: str) -> None:
    """In its own words, on one line, whether it has no room to begin with or comes to know it later."""
    ticket = shared.ticket()

    async def fetch() -> None:
        async with await shared.connect(ticket) as connection:
            sink = await shared.sink(connection)
            if when == "at once":
                await sink.process.stdout.readline()
            else:
                await sink.header()
            if when == "at the end":
                await sink.body(len(shared.content))
            sink.say(b"\x01No space left\x1b[2J on device\n")
            await sink.process.wait_closed()
            assert sink.process.exit_status == 1

    asyncio.run(fetch())
    final = shared.final(ticket)
    assert final.last_error == "the client could not keep the file: No space left [2J on device"
    assert (final.record is not None) is (when == "at the end")
    if final.record is not None:
        assert final.record.outcome == final.last_error


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"A", "expected an answer of SCP, found byte 0x41"),
        (b"\0", "an answer in the middle of the file"),
        (b"\x01" + b"x" * 5000, "an answer without an end"),
    ],
)
@pytest.mark.parametrize("bench", [{"size": 20_000_000, "profile": {"cap_bytes_per_s": 1_000_000}}], indirect=True)
def test_a_sink_that_breaks_the_protocol_is_cut_off(bench: "Bench", said: bytes, why: str) -> None:
    """With what it did in the record."""
    ticket = bench.ticket()

    async def fetch() -> None:
        async with await bench.connect(ticket) as connection:
            sink = await begun(bench, connection, 100_000)
            sink.say(said)
            await connection.wait_closed()

    asyncio.run(fetch())
    assert bench.final(ticket).last_error == f"the client broke the protocol: {why}"


@pytest.mark.parametrize("how", ["channel", "connection"])
@pytest.mark.parametrize("bench", [{"size": 20_000_000, "profile": {"cap_bytes_per_s": 1_000_000}}], indirect=True)
def test_an_end_in_mid_file_is_a_failure(bench: "Bench", how: str) -> None:
    """Of the channel alone, or of the connection; the ticket has its other tries."""
    ticket = bench.ticket()

    async def fetch() -> None:
        async with await bench.connect(ticket) as connection:
            sink = await begun(bench, connection, 100_000)
            if how == "channel":
                sink.process.close()
                await sink.process.wait_closed()
            else:
                connection.abort()
                await connection.wait_closed()

    asyncio.run(fetch())
    final = bench.final(ticket)
    assert (final.state, final.tries_left) == (TransferState.FAILED, 2)
    assert final.last_error == "the client closed the SSH connection early"
    assert final.record is not None
    assert 0 < final.record.bytes_acked < final.record.size_bytes


def test_only_the_ticket_s_image_is_there(shared: "Bench") -> None:
    """Another one of the server is not, in the same words as one that does not exist; and no try is lost by it."""
    ticket = shared.ticket()
    for command in (("scp", "-O"), ("scp",)):
        heard = set()
        for name in ("other.bin", "nothing.bin"):
            run = shared.openssh(command, ticket, name=name)
            assert (run.returncode != 0, shared.got()) == (True, b"")
            heard.add(run.stderr.replace(name, "NAME").split("\n", 1)[1])
        assert len(heard) == 1, heard
    assert shared.server.progress(ticket.ticket_id).tries_left == 3


@pytest.mark.parametrize("asked", ["shell", "sh -c id", "scp -t x", "subsystem", "pty", "env", "forward", "listen"])
def test_nothing_else_is_served(shared: "Bench", asked: str) -> None:
    """No shell, no program, nothing to be sent to us, no terminal, no environment, no forwarding."""
    ticket = shared.ticket()

    async def ask() -> None:
        async with await shared.connect(ticket) as connection:
            with pytest.raises((asyncssh.Error, asyncssh.ChannelListenError, OSError)):  # noqa: PT012 - one of them is asked
                if asked == "forward":
                    await connection.open_connection("127.0.0.1", shared.port)
                elif asked == "listen":
                    await connection.forward_remote_port("127.0.0.1", 0, "127.0.0.1", 9)
                else:
                    more = {
                        "shell": {},
                        "subsystem": {"subsystem": "netconf"},
                        "pty": {"command": None, "term_type": "vt100"},
                        "env": {"command": "env", "env": {"A": "b"}},
                    }.get(asked, {"command": asked})
                    await connection.create_process(**more)
            # It is still there for what is served.
            sink = await shared.sink(connection)
            assert (await sink.header()).startswith(b"C0644 ")

    asyncio.run(ask())


@pytest.mark.parametrize("flags", [2, 1 | 2, 8 | 2 | 16, 1 | 4])
def test_nothing_can_be_changed_by_sftp(shared: "Bench", flags: int) -> None:
    """Not opened for writing, and no request that would change anything."""
    ticket = shared.ticket()

    async def ask() -> list[int]:
        async with await shared.connect(ticket) as connection:
            process = await connection.create_process(subsystem="sftp", encoding=None)
            name = struct.pack(">I", len(shared.image_name)) + shared.image_name.encode()
            asked = [
                (3, name + struct.pack(">II", flags, 0)),
                *((kind, name + name) for kind in (6, 9, 10, 13, 14, 15)),
            ]
            asked += [(kind, name + name) for kind in (18, 20, 200, 99)]
            process.stdin.write(struct.pack(">IBI", 5, 1, 3))
            for number, (kind, rest) in enumerate(asked):
                process.stdin.write(struct.pack(">IBI", 5 + len(rest), kind, number) + rest)
            found = []
            for _ in range(len(asked) + 1):
                (length,) = struct.unpack(">I", await process.stdout.readexactly(4))
                body = await process.stdout.readexactly(length)
                found.append(struct.unpack(">I", body[5:9])[0] if body[0] == 101 else body[0])
            return found

    assert asyncio.run(ask()) == [2, *[3] * 9, 8, 8]
    assert shared.server.progress(ticket.ticket_id).tries_left == 3


@pytest.mark.parametrize("bench", [{"size": 100_000}], indirect=True)
def test_sftp_in_any_order_counts_each_byte_once(bench: "Bench") -> None:
    """Backwards, overlapping and twice; delivered when all of it went over and the file was closed."""
    ticket = bench.ticket()

    async def fetch() -> None:
        async with (
            await bench.connect(ticket) as connection,
            connection.start_sftp_client() as client,
            client.open(bench.image_name, "rb", block_size=0) as file,
        ):
            for begin in (90_000, 60_000, 30_000, 0, 30_000):
                assert await file.read(35_000, begin) == bench.content[begin : begin + 35_000]
            assert await file.read(10, 100_000) == b""
            seen = bench.until(ticket, lambda seen: seen.bytes_acked > 0)
            assert seen.bytes_acked <= 100_000
            assert not seen.state.is_final

    asyncio.run(fetch())
    record = bench.delivered(ticket).record
    assert record is not None
    assert record.bytes_sent == 100_000


def test_a_file_that_is_closed_early_is_a_failure(bench: "Bench") -> None:
    """With how much of it had gone; the session may open it again while the ticket has tries."""
    ticket = bench.ticket(tries=2)

    async def fetch() -> bytes:
        async with await bench.connect(ticket) as connection, connection.start_sftp_client() as client:
            async with client.open(bench.image_name, "rb") as file:
                await file.read(10_000)
            failed = bench.until(ticket, lambda seen: seen.state.is_final)
            assert failed.last_error.startswith("the client closed the file after ")
            async with client.open(bench.image_name, "rb") as file:
                got = await file.read()
            with pytest.raises(asyncssh.SFTPNoSuchFile):
                await client.open(bench.image_name, "rb")
            return bytes(got)

    assert asyncio.run(fetch()) == bench.content
    bench.delivered(ticket)


@pytest.mark.parametrize("bench", [{"size": 1_500_000}], indirect=True)
def test_a_cap_is_changed_in_mid_flow(bench: "Bench") -> None:
    """What is set holds at once: at the cap of before the copy would outlast every limit."""
    ticket = bench.ticket(cap_bytes_per_s=int(len(bench.content) / (1.25 * PATIENCE_S)))

    async def fetch() -> bytes:
        async with await bench.connect(ticket) as connection:
            sink = await bench.sink(connection)
            await sink.header()
            sink.say()
            got = await sink.process.stdout.read(65536)
            bench.server.set_cap(ticket.ticket_id, 40_000_000)
            rest = len(bench.content) + 1 - len(got)
            got += await asyncio.wait_for(sink.process.stdout.readexactly(rest), PATIENCE_S)
            sink.say()
            await sink.process.wait_closed()
            return got[:-1]

    assert asyncio.run(fetch()) == bench.content
    record = bench.delivered(ticket).record
    assert record is not None
    assert record.sender.cap_bytes_per_s == 40_000_000


def test_progress_is_never_more_than_arrived(bench: "Bench") -> None:
    """What SSH adds is not counted: each reading is at most what the client had taken off its socket by then."""
    ticket = bench.ticket(cap_bytes_per_s=300_000)
    readings: list[int] = []
    bench.server.events(lambda event: readings.append(event.progress.bytes_acked) if event.progress else None)
    assert bench.openssh(("scp", "-O"), ticket).returncode == 0
    record = bench.delivered(ticket).record
    assert record is not None
    assert readings == sorted(readings)
    assert len(set(readings)) > 2
    assert all(sample.bytes_acked >= 0 for sample in record.samples)
    assert max(readings) == record.bytes_sent == len(bench.content)


@pytest.mark.parametrize("bench", [{"size": 3_000_000, "sample_interval_s": 0.05}], indirect=True)
def test_what_waits_for_the_channel_s_window_is_read(bench: "Bench") -> None:
    """A client that opens its window slowly: the readings say that bytes waited for it."""
    ticket = bench.ticket()

    async def fetch() -> None:
        async with await bench.connect(ticket) as connection:
            sink = await bench.sink(connection, window=16384)
            await sink.header()
            sink.say()
            left = len(bench.content) + 1
            while left:
                left -= len(await sink.process.stdout.read(16384))
                await asyncio.sleep(0.002)
            sink.say()
            await sink.process.wait_closed()

    asyncio.run(fetch())
    record = bench.delivered(ticket).record
    assert record is not None
    assert record.channel_window_bytes == 16384
    assert max(sample.channel_waiting_bytes or 0 for sample in record.samples) > 0


@pytest.mark.parametrize("bench", [{"size": 1_000_000, "sample_interval_s": 0.05}], indirect=True)
@pytest.mark.parametrize("transport", ["sftp", "scp"])
def test_what_a_client_asked_for_is_read(bench: "Bench", transport: str) -> None:
    """One that asks for 20 kB at a time never has more on its way, and little of SSH; by SCP nobody asks."""
    ticket = bench.ticket()

    async def fetch() -> None:
        async with (
            await bench.connect(ticket) as connection,
            connection.start_sftp_client() as client,
            client.open(bench.image_name, "rb", block_size=0) as file,
        ):
            while await file.read(20_000):
                await asyncio.sleep(0.02)

    if transport == "sftp":
        asyncio.run(fetch())
    else:
        assert bench.openssh(("scp", "-O"), ticket).returncode == 0
    record = bench.delivered(ticket).record
    assert record is not None
    asked = [sample.asked_bytes for sample in record.samples]
    if transport == "scp":
        assert set(asked) == {None}
    else:
        assert len(asked) > 5
        assert max(size for size in asked if size is not None) <= 21_000


@pytest.mark.parametrize("bench", [{"ftp": True, "size": 1_500_000}], indirect=True)
def test_copies_of_both_protocols_share_a_site_s_cap(bench: "Bench") -> None:
    """FTP in one process and SCP in another: half each, and all of it for the one that is left."""
    bench.server.set_site_cap("branch", 200_000)
    scp, ftp = (bench.ticket(site="branch", transports=(name,)) for name in ("scp", "ftp"))
    port = bench.server.port_of("ftp")
    url = f"ftp://127.0.0.1:{port}/{bench.image_name}"
    curl = ["curl", "-s", "--user", f"{ftp.username}:{ftp.password}", url, "-o", "/dev/null"]
    line = bench.openssh_line(("scp", "-O"), scp)
    with (
        killed_at_end(subprocess.Popen(curl)) as one,
        killed_at_end(subprocess.Popen(line, env=bench.askpass(scp), stderr=subprocess.DEVNULL)) as two,
    ):
        for ticket in (scp, ftp):
            bench.until(ticket, lambda seen: seen.bytes_acked > 50_000)
        bench.server.revoke(ftp.ticket_id)
        one.wait()
        two.wait()
    failed, record = bench.final(ftp).record, bench.delivered(scp).record
    assert failed is not None
    assert record is not None
    assert (failed.sender.cap_bytes_per_s, record.sender.cap_bytes_per_s) == (100_000, 200_000)
    assert record.sender.shared_cap_bytes_per_s == 200_000


@pytest.mark.parametrize("bench", [{"size": 20_000_000}], indirect=True)
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("killed", "the server's process ended: killed by SIGKILL"),
        ("stopped", "the server was stopped"),
        ("revoked", "ticket revoked"),
        ("taken over", "superseded by a new transfer with the same ticket"),
        ("changed", "image changed on disk while it was served"),
    ],
)
def test_an_end_of_ours_is_a_reset(bench: "Bench", how: str, why: str) -> None:
    """Never an end that could pass for the file's; with its reason in the record, or told to all by the parent."""
    ticket = bench.ticket(cap_bytes_per_s=500_000)
    reasons: list[str] = []
    bench.server.events(lambda event: reasons.append(event.text))

    async def fetch() -> BaseException | None:
        connections = [await bench.connect(ticket)]
        try:
            return await ended(connections)
        finally:
            # What aborting leaves to be done is done by the loop: left undone it would be found in a later test.
            for one in connections:
                one.abort()
                await one.wait_closed()

    async def ended(connections: list[asyncssh.SSHClientConnection]) -> BaseException | None:
        (connection,) = connections
        lost: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        connection._owner.connection_lost = lost.set_result
        await begun(bench, connection, 100_000)
        if how == "killed":
            os.kill(bench.pid, signal.SIGKILL)
        elif how == "stopped":
            await asyncio.to_thread(bench.server.close)
        elif how == "revoked":
            bench.server.revoke(ticket.ticket_id)
        elif how == "changed":
            (bench.folder / "images" / bench.image_name).write_bytes(b"another")
        else:
            connections.append(await bench.connect(ticket))
            await (await bench.sink(connections[1])).header()
        return await asyncio.wait_for(lost, PATIENCE_S)

    error = asyncio.run(fetch())
    assert isinstance(error, ConnectionResetError), error
    assert bench.settles(lambda: why in reasons), reasons


@pytest.mark.parametrize("bench", [{"size": 2_000_000, "sample_interval_s": 60}], indirect=True)
@pytest.mark.parametrize("command", [("scp", "-O"), ("scp", "-s")])
def test_a_file_cut_short_is_told_as_changed_whoever_sees_it_first(bench: "Bench", command: tuple[str, ...]) -> None:
    """The watch, or the sending that finds no more bytes: chance decides, and here it can only be the latter."""
    ticket = bench.ticket(cap_bytes_per_s=50_000)
    line = bench.openssh_line(command, ticket)
    with killed_at_end(subprocess.Popen(line, env=bench.askpass(ticket), stderr=subprocess.DEVNULL)) as client:
        bench.until(ticket, lambda seen: seen.state is TransferState.TRANSFERRING)
        os.truncate(bench.folder / "images" / bench.image_name, 1_000)
        assert client.wait(timeout=PATIENCE_S) != 0
    failed = bench.final(ticket)
    assert (failed.state, failed.last_error) == (TransferState.FAILED, "image changed on disk while it was served")


@pytest.mark.parametrize("how", ["drain", "SIGTERM"])
@pytest.mark.parametrize("bench", [{"size": 1_000_000}], indirect=True)
def test_draining_lets_a_copy_finish(bench: "Bench", how: str) -> None:
    """Who has none is sent away, nobody else comes in, and the process ends in order behind the last byte."""
    ticket = bench.ticket(cap_bytes_per_s=400_000)

    async def fetch() -> None:
        # Both are closed whatever happens: what is left open would be found in a later test, and hide what happened.
        async with await bench.connect(ticket) as connection, await bench.connect(bench.ticket()) as idle:
            sink = await begun(bench, connection, 50_000)
            if how == "drain":
                assert bench.server.drain() == 1
            else:
                os.kill(bench.pid, signal.SIGTERM)
            await asyncio.wait_for(idle.wait_closed(), PATIENCE_S)
            with pytest.raises(ConnectionRefusedError):
                bench.raw().close()
            await sink.process.stdout.readexactly(len(bench.content) + 1 - 50_000)
            sink.say()
            await sink.process.wait_closed()

    asyncio.run(fetch())
    bench.delivered(ticket)
    assert bench.settles(lambda: not Path(f"/proc/{bench.pid}").exists())
    assert bench.server.ended_in_order


def test_no_descriptor_and_no_ticket_is_left_behind(bench: "Bench") -> None:
    """Twenty copies later as many are open as before, and nothing is under way."""
    bench.openssh(("scp", "-O"), bench.ticket())
    before = bench.descriptors()
    for number in range(20):
        ticket = bench.server.issue_ticket(TicketRequest(image_name=bench.image_name))
        transport = bench.paramiko(ticket)
        client = transport.open_sftp_client()
        assert client is not None
        client.open(bench.image_name).read(1000 * number)
        transport.close()
    assert bench.settles(lambda: bench.descriptors() <= before)
