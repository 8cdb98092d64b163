"""The emulated links and the stand-ins over FTP, HTTP, HTTPS and TFTP, against what their models say."""

from __future__ import annotations

import logging
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.held.figure import figure
from flashferry.lab.authority import Authority
from flashferry.lab.cml.routers.host_process import started_controller
from flashferry.lab.cml.routers.node import LatencyCounts
from flashferry.lab.experiment.cell import Cell, LinkSetting, Measured, Receiver, Sender
from flashferry.lab.experiment.pool import play_all
from flashferry.lab.link import load_profile
from flashferry.lab.web import running_web
from flashferry.lab.world import DepotSpec, DeviceSpec, SiteSpec, World, WorldSpec, in_core, in_depot, start_world
from tests.component.lab.cml.process_client import LATENCY_MS, QUICK, STATIC, Client, topology
from tests.component.lab.conftest import copy, plain_ftp, session
from tests.component.lab.transfers import at_site, fetch
from tests.patience import PATIENCE_S, until

PUBLISHED_UNTUNED_BYTES_PER_S = 151_542
LINE_BYTES_PER_S = 50e6 / 8
RTT_S = 0.1
SEGMENT_BYTES = 1460
POLICED_PACKETS_PER_S = 1000
SSH_PORT = 22
_FTP_LINES = ("ip tcp timestamp",)
_HTTP_LINES = ("ip tcp selective-ack",)
_HANDSHAKES = 9


@figure("ratio")
def wan_round_trip_of_model() -> float:
    """Measure the least of nine TCP handshakes over the published WAN, against the profile's round trip."""
    with start_world(WorldSpec()) as world:
        return _least_handshake_s(world) / world.profile.rtt_s


@figure("ratio")
def wan_changed_delay_of_model() -> float:
    """Measure the least of nine TCP handshakes after the delay one way went from 50 to 100 ms, against 150 ms."""
    with start_world(WorldSpec()) as world:
        world.set_link(to_core={"delay_s": 0.1})
        return _least_handshake_s(world) / 0.15


@figure("ratio")
def untuned_ftp_of_published() -> float:
    """Measure an FTP copy to flash by an untuned router over the published WAN, against the published rate."""
    return _ftp_bytes_per_s((), 1_000_000, "flash:") / PUBLISHED_UNTUNED_BYTES_PER_S


@figure("ratio")
def tuned_ftp_of_line() -> float:
    """Measure an FTP copy with the published settings over the published WAN, against the line's rate."""
    return _ftp_bytes_per_s(("ip tcp window-size 2500000", "ip tcp selective-ack"), 20_000_000) / LINE_BYTES_PER_S


@figure("ratio")
def ftp_unscaled_window_of_model() -> float:
    """Measure an FTP copy with a window of 65,535 bytes, against the window over the round trip."""
    return _ftp_bytes_per_s(("ip tcp window-size 65535", *_FTP_LINES), 2_000_000) / (65535 / RTT_S)


@figure("ratio")
def ftp_scaled_window_of_model() -> float:
    """Measure an FTP copy with a window of 131,072 bytes, against the window over the round trip."""
    return _ftp_bytes_per_s(("ip tcp window-size 131072", *_FTP_LINES), 2_000_000) / (131072 / RTT_S)


@figure("ratio")
def http_small_window_of_model() -> float:
    """Measure an HTTP copy with a window of 4128 bytes, against its whole segments over the round trip."""
    expected = 4128 // SEGMENT_BYTES * SEGMENT_BYTES / RTT_S
    return _http_bytes_per_s(4128, int(10 * expected)) / expected


@figure("ratio")
def http_scaled_window_of_model() -> float:
    """Measure an HTTP copy with a window of 262,144 bytes, against the window over the round trip."""
    expected = 262_144 / RTT_S
    return _http_bytes_per_s(262_144, int(10 * expected)) / expected


@figure("ratio")
def http_large_window_of_line() -> float:
    """Measure an HTTP copy with a window of 2.5 MB over the published WAN without loss, against the line's rate."""
    return _http_bytes_per_s(2_500_000, 20_000_000) / LINE_BYTES_PER_S


@figure("ratio")
def https_crypto_of_model() -> float:
    """Measure an HTTPS copy by a router that decrypts 300 kB/s, against that."""
    authority = Authority()
    device = DeviceSpec(name="r1", trustpoints=(("LAB-CA", authority.pem),))
    with _lan(device) as world, tempfile.TemporaryDirectory() as folder, in_core(world):
        tls = authority.issue(Path(folder), (world.server_address,)).context()
        with running_web(world.server_address, {"f": bytes(1_500_000)}, tls=tls) as web:
            world.fault("r1", https_bytes_per_s=300_000)
            return _copied_bytes_per_s(world, (), f"https://u1:pw9@{web.address}:{web.port}/f") / 300_000


@figure("ratio")
def policed_switch_of_model() -> float:
    """Measure an HTTP copy by a switch that lets in 1000 packets a second, against so many segments."""
    spec = DeviceSpec(name="sw", platform="c9300-17.6", control_plane_packets_per_s=POLICED_PACKETS_PER_S)
    with _lan(spec) as world:
        rate = _web_bytes_per_s(world, ("ip tcp window-size 131072", *_HTTP_LINES), 8_000_000)
    return rate / (POLICED_PACKETS_PER_S * SEGMENT_BYTES)


@figure("ratio")
def synwait_of_setting() -> float:
    """Measure how long a copy to a blocked port lasts with `ip tcp synwait-time 5`, against that."""
    spec = DeviceSpec(name="r1", blocked_transports=("ftp",), config_lines=("ip tcp synwait-time 5",))
    with _lan(spec) as world:
        return _failed_copy_s(world, f"copy ftp://u:p@{world.server_address}/k.bin null:") / 5


@figure("ratio")
def tftp_patience_of_platform() -> float:
    """Measure how long a TFTP copy from a silent address lasts, against the platform's 30 s."""
    with _lan(DeviceSpec(name="r1")) as world:
        return _failed_copy_s(world, "copy tftp://198.18.0.77/z.bin null:") / 30


@figure("ratio")
def shaped_lan_of_profile() -> float:
    """Measure a transfer from a depot over a LAN of 20 Mbit/s, against that rate."""
    lan, rate_bps, size_bytes = load_profile("lan").with_changes({"rate_bps": 20e6}), 20e6, 2_000_000
    site = SiteSpec(name="s", profile="lan", devices=(DeviceSpec(name="s1"),), depot=DepotSpec(), lan=lan)
    with start_world(WorldSpec(sites=(site,))) as world:
        depot = (lambda: in_depot(world, "s"), world.depots["s"].address)
        began_s = time.monotonic()
        got, _ = fetch(depot, (at_site(world, "s"), world.devices[0].address), size_bytes)
        spent_s = time.monotonic() - began_s
    assert got == size_bytes
    return size_bytes * 8 / spent_s / rate_bps


@figure("ratio")
def experiment_cell_of_link() -> float:
    """Measure the copy of a cell of an experiment by a tuned receiver on 20 Mbit/s, against the link's payload rate."""
    link = LinkSetting(rate_bps=20e6, rtt_s=0.02, loss_ratio=0.0)
    receiver, sender = Receiver(kind="xe", window_bytes=200_000, sack=True), Sender(program="ours", control="cubic")
    cell = Cell(study="held", arm="xe", receiver=receiver, sender=sender, size_bytes=5_000_000, seed=1, link=link)
    runs: list[Measured] = []
    play_all([cell], links=1, on_run=runs.append)
    (run,) = runs
    assert not run.error, run.error
    return run.rate_bytes_per_s / link.payload_bytes_per_s


@figure("ratio")
def cml_latency_of_model() -> float:
    """Measure the round trip to a router of a lab controller, against the latency in its imported topology."""
    with _booted_lab() as (client, _):
        return client.rtt_s(STATIC) * 1e3 / LATENCY_MS


@figure("ratio")
def cml_changed_latency_of_model() -> float:
    """Measure the round trip to that router after its link's latency was set to 80 ms, against that."""
    with _booted_lab() as (client, lab):
        client.ask("PATCH", _condition(client, lab), {"bandwidth": 20000, "latency": 80})
        return client.rtt_s(STATIC) / 0.08


@figure("s")
def cml_round_trip_without_latency() -> float:
    """Measure the round trip to that router after its link's condition was deleted."""
    with _booted_lab() as (client, lab):
        client.ask("DELETE", _condition(client, lab))
        return client.rtt_s(STATIC)


@figure("ratio")
def cml_latency_each_way_of_model() -> float:
    """Measure the round trip where latency counts in each direction, against twice the latency."""
    with _booted_lab(LatencyCounts.EACH_DIRECTION) as (client, _):
        return client.rtt_s(STATIC) * 1e3 / (2 * LATENCY_MS)


def rate_of(shown: str) -> int:
    """Return the rate in a copy's result line, in bytes per second."""
    found = re.search(r"\((\d+) bytes/sec\)", shown)
    assert found is not None, shown
    return int(found[1])


@contextmanager
def _lan(device: DeviceSpec) -> Iterator[World]:
    with start_world(WorldSpec(profile="lan", devices=(device,))) as world:
        yield world


def _copied_bytes_per_s(world: World, lines: tuple[str, ...], url: str, target: str = "null:") -> int:
    """Configure the first device, copy, and return the rate that it shows."""
    answers = () if target == "null:" else ((r"\]\? ", "\n"),)
    with session(world, world.devices[0]) as opened:
        if lines:
            opened.send_config_set(list(lines))
        return rate_of(copy(opened, f"copy {url} {target}", *answers, timeout_s=PATIENCE_S))


def _failed_copy_s(world: World, command: str) -> float:
    """Return how long a copy takes to be given up for silence."""
    with session(world, world.devices[0]) as opened:
        began_s = time.monotonic()
        shown = copy(opened, command, timeout_s=PATIENCE_S)
        spent_s = time.monotonic() - began_s
    assert "(Timed out)" in shown, shown
    return spent_s


def _ftp_bytes_per_s(lines: tuple[str, ...], size_bytes: int, target: str = "null:") -> int:
    """Return the rate of an FTP copy over the published WAN, from a server that sends by BBR."""
    logging.getLogger("pyftpdlib").addHandler(logging.NullHandler())  # else it sets up its own, which prints
    with (
        start_world(WorldSpec(devices=(DeviceSpec(name="r1"),))) as world,
        tempfile.TemporaryDirectory() as folder,
        plain_ftp(world, Path(folder), b"bbr") as ftp,
    ):
        ftp.add("image.bin", size_bytes)
        return _copied_bytes_per_s(world, lines, ftp.url("image.bin"), target)


def _http_bytes_per_s(window_bytes: int, size_bytes: int) -> int:
    """Return the rate of an HTTP copy over the published WAN without its losses, from a server that sends by CUBIC."""
    with start_world(WorldSpec(devices=(DeviceSpec(name="r1"),))) as world:
        world.set_link(loss_ratio=0.0)
        return _web_bytes_per_s(world, (f"ip tcp window-size {window_bytes}", *_HTTP_LINES), size_bytes)


def _web_bytes_per_s(world: World, lines: tuple[str, ...], size_bytes: int) -> int:
    with in_core(world), running_web(world.server_address, {"f": bytes(size_bytes)}, congestion="cubic") as web:
        return _copied_bytes_per_s(world, lines, f"http://{web.address}:{web.port}/f")


def _least_handshake_s(world: World) -> float:
    def once_s() -> float:
        began_s = time.monotonic()
        with socket.create_connection((world.devices[0].address, SSH_PORT), timeout=PATIENCE_S):
            return time.monotonic() - began_s

    with in_core(world):
        return min(once_s() for _ in range(_HANDSHAKES))


@contextmanager
def _booted_lab(counts: LatencyCounts | None = None) -> Iterator[tuple[Client, str]]:
    """Start a controller's lab of two routers; yield a client and the lab's id once the first has booted."""
    more: dict[str, Any] = {} if counts is None else {"counts": counts}
    with started_controller(boot=QUICK, **more) as process:
        client = Client(process)
        lab = client.ask("POST", "import", topology())["id"]
        client.ask("PUT", f"labs/{lab}/start")
        until(lambda: client.states(lab)[0] == "BOOTED", "a router booted")
        yield client, lab


def _condition(client: Client, lab: str) -> str:
    return f"labs/{lab}/links/{client.links(lab)[1]}/condition"
