"""Figures of the FTP, SSH and HTTP servers: rates under caps, shares of a site's cap, idle processes, ends."""

from __future__ import annotations

import asyncio
import contextlib
import ftplib
import os
import queue
import re
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

import asyncssh

from benchmarks.held.figure import figure
from flashferry.core.values import replace
from flashferry.fileserver import EventKind, FileServer, SenderProfile, ServerEvent, ServerSettings, TicketRequest
from flashferry.lab.namespaces import in_namespace
from flashferry.lab.standin.ssh_client.settings import rate_bytes_per_s
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from flashferry.sshserver import ssh_listener
from ftpserver import ftp_listener
from tests.component.benches import IMAGE, ServerBench, cpu_s
from tests.component.ftpserver.conftest import running as ftp_bench
from tests.component.httpserver.conftest import make_certificate
from tests.component.httpserver.conftest import running as http_bench
from tests.component.lab.conftest import copy, session
from tests.component.sshserver.conftest import Bench as SshBench
from tests.component.sshserver.conftest import running as ssh_bench
from tests.patience import PATIENCE_S, until

_SITE = "branch"
_SITE_CAP = 600_000
_STRETCH_S = 3.0

Moved = list[tuple[float, int]]
"""When bytes moved, in seconds, and how many."""


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="held-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def _ssh(**options: object) -> Iterator[SshBench]:
    with _folder() as folder, ssh_bench(folder, folder / "keys", **options) as bench:
        yield bench


# Caps.


@figure("ratio")
def ftp_rate_of_cap() -> float:
    """Measure the rate of a copy of 300 kB by FTP under a cap of 100 kB/s, over the cap."""
    cap = 100_000
    with _folder() as folder, ftp_bench(folder, profile={"cap_bytes_per_s": cap, "mss_bytes": 1400}) as bench:
        ticket = bench.ticket()
        with bench.login(ticket) as client:
            bench.fetch(client)
        record = bench.final(ticket).record
    assert record is not None
    return record.rate_bytes_per_s / cap


@figure("segments")
def ftp_segments_ahead_of_cap() -> float:
    """Measure how many segments of 1400 bytes a copy by FTP is ahead of a cap of 20 kB/s, at most, in 12 kB."""
    cap, segment = 20_000, 1400
    with (
        _folder() as folder,
        ftp_bench(folder, profile={"cap_bytes_per_s": cap, "mss_bytes": segment}) as bench,
        contextlib.closing(bench.login(bench.ticket())) as client,
        bench.slow_data_connection(client) as data,
    ):
        start_s = time.monotonic()
        client.sendcmd(f"RETR {IMAGE}")
        received, ahead = 0, 0.0
        while received < 12_000:
            received += len(data.recv(65536))
            ahead = max(ahead, received - cap * (time.monotonic() - start_s))
    return ahead / segment


@figure("ratio")
def scp_rate_of_cap() -> float:
    """Measure the rate of a copy by SCP in its first second under a cap of 400 kB/s, over the cap."""
    cap = 400_000

    async def fetch(bench: SshBench) -> float:
        async with await bench.connect(bench.ticket(cap_bytes_per_s=cap)) as connection:
            sink = await bench.sink(connection)
            await sink.header()
            start_s = time.monotonic()
            sink.say()
            arrived = 0
            while (passed_s := time.monotonic() - start_s) < 1:
                arrived += len(await sink.process.stdout.read(65536))
            return arrived / passed_s

    with _ssh(size=1_500_000) as bench:
        return asyncio.run(fetch(bench)) / cap


def _worst_stretch(moved: Moved) -> float:
    """Return the most bytes of any three seconds, over what the site's cap lets through in them."""
    return max(_stretches(moved)) / (_STRETCH_S * _SITE_CAP)


def _stretches(moved: Moved) -> list[int]:
    moved.sort()
    return [sum(size for at_s, size in moved if start_s <= at_s < start_s + _STRETCH_S) for start_s, _ in moved[::5]]


def _together(jobs: Iterable[Callable[[], object]], apart_s: float = 0.0) -> float:
    """Run jobs in threads that start one by one; return how long all of them took."""
    threads = [threading.Thread(target=job) for job in jobs]
    start_s = time.monotonic()
    for thread in threads:
        thread.start()
        time.sleep(apart_s)
    for thread in threads:
        thread.join()
    return time.monotonic() - start_s


def _by_two_processes() -> Moved:
    """Fetch 1 MB four times from a site with a cap, by FTP from two processes in turn, 0.7 s apart."""
    main = ftp_listener(listen_address="127.0.0.1")
    moved: Moved = []
    with _folder() as folder:
        (folder / "a.bin").write_bytes(os.urandom(1_000_000))
        settings = ServerSettings(
            image_paths=(folder / "a.bin",),
            listeners=(main, replace(main, transports=("other",), process="other")),
            sample_interval_s=0.05,
            profile=SenderProfile(mss_bytes=1400),
        )
        with FileServer(settings) as server:
            server.set_site_cap(_SITE, _SITE_CAP)

            def fetch(number: int) -> None:
                ticket = server.issue_ticket(TicketRequest(image_name="a.bin", site=_SITE))
                with contextlib.closing(ftplib.FTP()) as client:
                    client.connect("127.0.0.1", server.ports[number], timeout=PATIENCE_S)
                    client.login(ticket.username, ticket.password)
                    client.retrbinary("RETR a.bin", lambda piece: moved.append((time.monotonic(), len(piece))), 8192)

            _together([lambda number=number: fetch(number) for number in (0, 1, 0, 1)], 0.7)
    assert sum(size for _, size in moved) == 4_000_000
    return moved


@figure("ratio")
def site_cap_worst_3s_of_two_processes() -> float:
    """Measure the most bytes that four copies by FTP from two processes get in any 3 s, over the site's cap."""
    return _worst_stretch(_by_two_processes())


@figure("ratio")
def site_cap_median_3s_of_two_processes() -> float:
    """Measure the median of the bytes that four copies by FTP from two processes get in 3 s, over the site's cap."""
    return median(_stretches(_by_two_processes())) / (_STRETCH_S * _SITE_CAP)


def _acknowledged(protocols: Sequence[str]) -> Moved:
    """Fetch 1 MB by each of some protocols, 0.7 s apart; return what was acknowledged, and when."""
    seen: dict[str, int] = {}
    moved: Moved = []

    def note(event: ServerEvent) -> None:
        if event.progress is not None:
            before = seen.get(event.progress.ticket_id, 0)
            seen[event.progress.ticket_id] = event.progress.bytes_acked
            moved.append((event.at, event.progress.bytes_acked - before))

    with _ssh(size=1_000_000, ftp=True) as bench, contextlib.ExitStack() as stack:
        bench.server.set_site_cap(_SITE, _SITE_CAP)
        bench.server.events(note)
        running = []
        for number, name in enumerate(protocols):
            ticket = bench.ticket(site=_SITE, transports=(name,))
            line = bench.openssh_line(("scp", "-O"), ticket, target=f"got{number}.bin")
            if name == "ftp":
                url = f"ftp://127.0.0.1:{bench.server.port_of('ftp')}/{bench.image_name}"
                line = ["curl", "-s", "--user", f"{ticket.username}:{ticket.password}", url, "-o", "/dev/null"]
            environment = bench.askpass(ticket)
            running.append(stack.enter_context(subprocess.Popen(line, env=environment, stderr=subprocess.DEVNULL)))
            time.sleep(0.7)
        assert [process.wait(PATIENCE_S) for process in running] == [0] * len(running)
        until(lambda: sum(seen.values()) == len(running) * 1_000_000, "the last acknowledgements")
    return moved


@figure("ratio")
def site_cap_worst_3s_of_scp_and_ftp() -> float:
    """Measure the most bytes acknowledged in any 3 s of two copies by SCP and two by FTP, over the site's cap."""
    return _worst_stretch(_acknowledged(("scp", "ftp", "scp", "ftp")))


@figure("ratio")
def site_cap_worst_3s_of_scp() -> float:
    """Measure the most bytes acknowledged in any 3 s of four copies by SCP, over the site's cap."""
    return _worst_stretch(_acknowledged(("scp",) * 4))


@figure("ratio")
def site_cap_of_ftp_http_https() -> float:
    """Measure the rate of three copies of 1.2 MB, by FTP, HTTP and HTTPS together, over the site's cap of 400 kB/s."""
    cap, size = 400_000, 1_200_000
    with _folder() as folder, http_bench(folder, make_certificate(folder), size=size) as bench:
        bench.server.set_site_cap(_SITE, cap)
        tickets = [bench.ticket(site=_SITE) for _ in range(3)]

        def by_ftp() -> None:
            with ftplib.FTP() as client:
                client.connect("127.0.0.1", bench.server.port_of("ftp"), timeout=PATIENCE_S)
                client.login(tickets[0].username, tickets[0].password)
                client.retrbinary(f"RETR {bench.image_name}", len)

        def by_http(number: int, scheme: str) -> None:
            mine = replace(bench, scheme=scheme)
            with mine.connect() as connection:
                connection.sendall(mine.head(tickets[number]))
                mine.answer(connection)

        took_s = _together([by_ftp, lambda: by_http(1, "http"), lambda: by_http(2, "https")])
        for ticket in tickets:
            bench.delivered(ticket)
    return 3 * size / took_s / cap


# Emulated WANs.


def _world_server(world: World, folder: Path, images: Path, *, protocol: str) -> FileServer:
    """Return a running server in a world's core."""
    if protocol == "ftp":
        listener = ftp_listener(listen_address=world.server_address)
    else:
        listener = ssh_listener(host_keys=folder / "keys", listen_address=world.server_address)
    with in_core(world):
        return FileServer(ServerSettings(image_paths=(images,), listeners=(listener,))).__enter__()


def _at_site(world: World, fetch: Callable[[], object]) -> None:
    """Run a client at the first site, and wait for its end."""

    def run() -> None:
        with in_namespace(world.site_pids[0]):
            fetch()

    _together([run])


@figure("ratio")
def ftp_found_link_of_link() -> float:
    """Measure the rate that a copy by FTP without a cap finds for a link of 50 Mbit/s, over that of the link."""
    with _folder() as folder, start_world() as world:
        (folder / "image.bin").write_bytes(bytes(20_000_000))
        with contextlib.closing(_world_server(world, folder, folder / "image.bin", protocol="ftp")) as server:
            ticket = server.issue_ticket(TicketRequest(image_name="image.bin"))

            def fetch() -> None:
                with ftplib.FTP() as client:
                    client.connect(world.server_address, server.port, timeout=PATIENCE_S)
                    client.login(ticket.username, ticket.password)
                    client.retrbinary("RETR image.bin", len)

            _at_site(world, fetch)
            record = server.wait_final(ticket.ticket_id, PATIENCE_S).record
        assert record is not None
        found = record.sender.found_link_bytes_per_s
        assert found is not None, "no link was found"
        return found / (world.profile.rate_bps / 8)


def _under_loss(*command: str) -> float:
    """Return the rate of a copy of 42 MB by OpenSSH, over a cap of 5.75 MB/s; the link loses 0.1 %, 100 ms away."""
    cap = 5_750_000
    with _folder() as folder, start_world() as world:
        (folder / "image.bin").write_bytes(os.urandom(1 << 20) * 40)
        world.set_link(loss_ratio=0.001)
        with contextlib.closing(_world_server(world, folder, folder / "image.bin", protocol="ssh")) as server:
            ticket = server.issue_ticket(TicketRequest(image_name="image.bin", cap_bytes_per_s=cap))
            script = folder / "askpass.sh"
            script.write_text(f"#!/bin/sh\necho {ticket.password}\n")
            script.chmod(0o700)
            ask = {"DISPLAY": "none", "SSH_ASKPASS": str(script), "SSH_ASKPASS_REQUIRE": "force"}
            options = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-P", str(server.port))
            line = [*command, "-q", "-F", "none", *options]
            line += [f"{ticket.username}@{world.server_address}:image.bin", str(folder / "got.bin")]
            _at_site(world, lambda: subprocess.run(line, env=ask | {"PATH": os.environ["PATH"]}, check=False))
            record = server.wait_final(ticket.ticket_id, PATIENCE_S).record
    assert record is not None
    return record.rate_bytes_per_s / cap


@figure("ratio")
def scp_rate_of_cap_under_loss() -> float:
    """Measure the rate of a copy by SCP over a WAN that loses 0.1 %, over the cap, which is 92 % of the link."""
    return _under_loss("scp", "-O")


@figure("ratio")
def sftp_rate_of_cap_under_loss() -> float:
    """Measure the rate of a copy by SFTP over a WAN that loses 0.1 %, over the cap, which is 92 % of the link."""
    return _under_loss("scp")


@figure("ratio")
def scp_rate_of_window_model() -> float:
    """Measure a stand-in's rate by SCP over the model of its channel window: of three, the ratio furthest from 1."""
    cap, link = 5_900_000, 6_030_000
    device = DeviceSpec(
        name="r1", platform="c8000v-17.15", config_lines=("ip tcp window-size 4000000", "ip tcp selective-ack")
    )
    ratios = []
    with _folder() as folder, start_world(WorldSpec(devices=(device,))) as world:
        images = folder / "images"
        images.mkdir()
        for size_bytes in (4, 400_000, 5_000_000, 20_000_000):
            (images / f"{size_bytes}.bin").write_bytes(os.urandom(size_bytes))
        world.set_link(loss_ratio=0.0)
        world.fault("r1", ssh_refill="half")
        with (
            contextlib.closing(_world_server(world, folder, images, protocol="ssh")) as server,
            session(world, world.devices[0]) as connection,
        ):

            def copied_s(size_bytes: int) -> float:
                """Return how long the device states that a copy took."""
                request = TicketRequest(image_name=f"{size_bytes}.bin", cap_bytes_per_s=cap, tries=1)
                ticket = server.issue_ticket(request)
                place = f"{ticket.username}:{ticket.password}@{world.server_address}:{server.port}/{size_bytes}.bin"
                shown = copy(connection, f"copy scp://{place} null:", timeout_s=PATIENCE_S)
                found = re.search(r"copied in ([\d.]+) secs", shown)
                assert found is not None, shown
                return float(found[1])

            for line, window_bytes, size_bytes in (
                ("no ip ssh bulk-mode", 8192, 400_000),
                ("ip ssh bulk-mode 131072", 131_072, 5_000_000),
                ("ip ssh bulk-mode 524288", 524_288, 20_000_000),
            ):
                connection.send_config_set([line])
                login_s = copied_s(4)
                rate = size_bytes / (copied_s(size_bytes) - login_s)
                packet_bytes = min(32768, window_bytes)
                ratios.append(
                    rate
                    / rate_bytes_per_s(
                        "half",
                        window_bytes=window_bytes,
                        packet_bytes=packet_bytes,
                        rtt_s=0.1,
                        link_bytes_per_s=link,
                    )
                )
    return max(ratios, key=lambda ratio: abs(ratio - 1))


# Processes that have nothing to do, and their ends.


def _core_share(pid: int, for_s: float) -> float:
    """Return the share of a core that a process takes from now on."""
    before_s, start_s = cpu_s(pid), time.monotonic()
    time.sleep(for_s)
    return (cpu_s(pid) - before_s) / (time.monotonic() - start_s)


@figure("share of a core")
def ftp_unanswered_call_core_share() -> float:
    """Measure the processor time of an FTP server that calls an active client in vain, over 2 s."""
    with (
        _folder() as folder,
        ftp_bench(folder, limits={"data_connect_s": 5.0}) as bench,
        contextlib.ExitStack() as stack,
    ):
        client = stack.enter_context(contextlib.closing(bench.login(bench.ticket())))
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):  # one more than its backlog holds
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        high, low = divmod(listener.getsockname()[1], 256)
        client.sendcmd(f"PORT 127,0,0,1,{high},{low}")
        client.sendcmd(f"RETR {bench.image_name}")
        return _core_share(bench.pid, 2.0)


@figure("share of a core")
def out_of_descriptors_core_share() -> float:
    """Measure the processor time of a server without a descriptor for a client, over 2 s; FTP or HTTP, the larger."""
    shares = []
    with _folder() as folder, http_bench(folder, make_certificate(folder)) as bench:
        _, hard = resource.prlimit(bench.pid, resource.RLIMIT_NOFILE)
        taken = {int(one.name) for one in Path(f"/proc/{bench.pid}/fd").iterdir()}
        first_free = next(number for number in range(len(taken) + 1) if number not in taken)
        for protocol, request in (("ftp", b""), ("http", b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")):
            resource.prlimit(bench.pid, resource.RLIMIT_NOFILE, (first_free, hard))
            place = ("127.0.0.1", bench.server.port_of(protocol))
            with socket.create_connection(place, timeout=PATIENCE_S) as waiting:
                waiting.sendall(request)
                shares.append(_core_share(bench.pid, 2.0))
                resource.prlimit(bench.pid, resource.RLIMIT_NOFILE, (hard, hard))
                assert waiting.recv(100)
    return max(shares)


@figure("s")
def file_server_death_known_s() -> float:
    """Measure how long after SIGKILL of a server that is sending its events end with `gone`."""
    events: queue.SimpleQueue[ServerEvent] = queue.SimpleQueue()
    with (
        _folder() as folder,
        ftp_bench(folder) as bench,
        contextlib.closing(bench.login(bench.ticket())) as client,
        bench.slow_data_connection(client),
    ):
        client.sendcmd(f"RETR {bench.image_name}")
        bench.server.events(events.put)
        start_s = time.monotonic()
        os.kill(bench.pid, signal.SIGKILL)
        while events.get(timeout=PATIENCE_S).kind is not EventKind.GONE:
            pass
        return time.monotonic() - start_s


@figure("ratio")
def failed_login_delay_of_configured() -> float:
    """Measure how late a wrong password is answered, over the 0.6 s that are configured; SSH or HTTP, the smaller."""
    delay_s = 0.6
    took_s = []

    async def log_in(bench: SshBench) -> None:
        async with await bench.connect(bench.ticket(), password="x", preferred_auth="password"):
            raise AssertionError("a wrong password was taken")

    with _ssh(limits={"failed_login_delay_s": delay_s}) as bench:
        start_s = time.monotonic()
        with contextlib.suppress(asyncssh.Error):
            asyncio.run(log_in(bench))
        took_s.append(time.monotonic() - start_s)
    limits = {"failed_login_delay_s": delay_s}
    with _folder() as folder, http_bench(folder, make_certificate(folder), limits=limits) as other:
        start_s = time.monotonic()
        assert other.ask(None, Authorization=other.basic("nobody", "x" * 16)).status == 401
        took_s.append(time.monotonic() - start_s)
    return min(took_s) / delay_s


# Memory.


def _growth_kib(bench: ServerBench, work: Callable[[], object]) -> float:
    """Return by how much a server's memory has grown after some work, once its connections are closed."""
    before, memory_kib = bench.descriptors(), bench.memory_kib()
    work()
    until(lambda: bench.descriptors() <= before, "the descriptors of before")
    return bench.memory_kib() - memory_kib


@figure("KiB")
def ftp_memory_of_unread_replies_kib() -> float:
    """Measure how much memory an FTP server takes for a client that sends 20,000 commands and reads no reply."""
    with (
        _folder() as folder,
        ftp_bench(folder, limits={"commands_burst": 1_000_000}) as bench,
        socket.socket() as connection,
    ):
        with bench.login(bench.ticket()) as client:
            bench.fetch(client)

        def flood() -> None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
            connection.settimeout(PATIENCE_S)
            connection.connect(("127.0.0.1", bench.server.port))
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                connection.sendall(b"NOOP\r\n" * 20_000)

        return _growth_kib(bench, flood)


@figure("KiB")
def http_memory_of_300_requests_kib() -> float:
    """Measure how much memory an HTTP server has taken after 300 requests that are good, bad or broken off."""
    with _folder() as folder, http_bench(folder, make_certificate(folder)) as bench:
        for _ in range(20):
            bench.ask(None)

        def ask() -> None:
            for number in range(300):
                with contextlib.suppress(OSError), bench.connect() as connection:
                    if number % 3 == 0:
                        connection.sendall(b"GET / HTTP/1.1\r\nHo")
                    else:
                        connection.sendall(bench.head(None if number % 3 == 1 else bench.ticket()))

        return _growth_kib(bench, ask)
