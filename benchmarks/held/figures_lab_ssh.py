"""The stand-ins over SCP and SFTP on the published WAN without loss, against the model of their windows and crypto."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scp

from benchmarks.held.figure import figure
from flashferry.lab.standin.ssh_client.settings import Refill, rate_bytes_per_s
from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world
from tests.component.lab.conftest import copy, session
from tests.component.lab.plain_ssh import PlainSsh, plain_ssh
from tests.component.lab.pushing import paramiko_session
from tests.patience import PATIENCE_S

LINK_BYTES_PER_S = 6_030_000
"""What 50 Mbit/s of IP packets leave for payload."""
RTT_S = 0.1
PACKET_BYTES = 32768
SCP_PIECE_BYTES = 16384
STOCK_TCP_WINDOW_BYTES = 16384
CRYPTO_BYTES_PER_S = 400_000
_PLATFORM = "c8000v-17.15"


@figure("ratio")
def scp_8k_window_of_model() -> float:
    """Measure an SCP copy without bulk mode, 8 KiB refilled at the half, against the model."""
    return _scp_of_model("no ip ssh bulk-mode", "half", 8192, 400_000)


@figure("ratio")
def scp_128k_window_of_model() -> float:
    """Measure an SCP copy with a channel of 128 KiB refilled at the half, against the model."""
    return _scp_of_model("ip ssh bulk-mode 131072", "half", 131_072, 5_000_000)


@figure("ratio")
def scp_refill_each_packet_of_model() -> float:
    """Measure an SCP copy with a channel of 128 KiB refilled at each packet, against the model."""
    return _scp_of_model("ip ssh bulk-mode 131072", "packet", 131_072, 6_000_000)


@figure("ratio")
def scp_refill_three_packets_of_model() -> float:
    """Measure an SCP copy with a channel of 256 KiB refilled at three packets, against the model."""
    return _scp_of_model("ip ssh bulk-mode 262144", "three packets", 262_144, 10_000_000)


@figure("ratio")
def scp_wide_windows_of_link() -> float:
    """Measure an SCP copy with 2 MiB in the channel and 4 MB of TCP, against the link's payload rate."""
    with _wan() as wan:
        return wan.scp_bytes_per_s("ip ssh bulk-mode 2097152", 20_000_000) / LINK_BYTES_PER_S


@figure("ratio")
def scp_stock_tcp_window_of_model() -> float:
    """Measure an SCP copy with 2 MiB in the channel and TCP's stock 16 KiB, against the latter over the round trip."""
    with _wan("ip ssh bulk-mode 2097152", tcp_window_bytes=None) as wan:
        return wan.scp_bytes_per_s("ip ssh bulk-mode 2097152", 500_000) / (STOCK_TCP_WINDOW_BYTES / RTT_S)


@figure("ratio")
def sftp_one_request_of_model() -> float:
    """Measure an SFTP copy that asks for 32 KiB at a time, against one request per round trip."""
    return _sftp_of_model(1)


@figure("ratio")
def sftp_four_requests_of_model() -> float:
    """Measure an SFTP copy that asks for four times 32 KiB at a time, against four requests per round trip."""
    return _sftp_of_model(4)


@figure("ratio")
def scp_crypto_of_model() -> float:
    """Measure the time of an SCP copy of 1 MB by a router that decrypts 400 kB/s, against 2.5 s."""
    return _crypto_of_model("scp")


@figure("ratio")
def sftp_crypto_of_model() -> float:
    """Measure the time of an SFTP copy of 1 MB by a router that decrypts 400 kB/s, against 2.5 s."""
    return _crypto_of_model("sftp")


@figure("ratio")
def push_8k_window_of_model() -> float:
    """Measure a push by scp.py to a router without bulk mode, against the model."""
    return _push_of_model("no ip ssh bulk-mode", 8192, 400_000)


@figure("ratio")
def push_128k_window_of_model() -> float:
    """Measure a push by scp.py to a router with a channel of 128 KiB, against the model."""
    return _push_of_model("ip ssh bulk-mode 131072", 131_072, 4_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wan:
    """A router on the WAN, a plain SSH server in front of it, and a session with the router."""

    world: World
    server: PlainSsh
    session: Any

    def scp_bytes_per_s(self, line: str, size_bytes: int) -> float:
        """Return the rate of a file by SCP with a line configured."""
        self.session.send_config_set([line])
        return self.bytes_per_s("scp", size_bytes)

    def bytes_per_s(self, scheme: str, size_bytes: int) -> float:
        """Return the rate of a file alone: the login is subtracted."""
        self.server.add("login.bin", 4)
        self.server.add("image.bin", size_bytes)
        return size_bytes / (self.copy_s(scheme, "image.bin") - self.copy_s(scheme, "login.bin"))

    def copy_s(self, scheme: str, name: str) -> float:
        """Return the seconds that the router shows for a copy."""
        shown = copy(self.session, f"copy {self.server.url(name, scheme=scheme)} null:", timeout_s=PATIENCE_S)
        found = re.search(r"copied in ([\d.]+) secs", shown)
        assert found is not None, shown
        return float(found[1])


@contextmanager
def _wan(*lines: str, tcp_window_bytes: int | None = 4_000_000, profile: str = "published") -> Iterator[_Wan]:
    """Start a router on a link without losses: the model knows of none."""
    tcp = () if tcp_window_bytes is None else (f"ip tcp window-size {tcp_window_bytes}",)
    device = DeviceSpec(name="r1", platform=_PLATFORM, config_lines=(*tcp, *lines))
    with (
        start_world(WorldSpec(profile=profile, devices=(device,))) as world,
        tempfile.TemporaryDirectory() as folder,
        plain_ssh(world, Path(folder), encryption_algs=["aes128-ctr"]) as server,
        session(world, world.devices[0]) as opened,
    ):
        world.set_link(loss_ratio=0.0)
        yield _Wan(world=world, server=server, session=opened)


def _scp_of_model(line: str, refill: Refill, window_bytes: int, size_bytes: int) -> float:
    with _wan() as wan:
        wan.world.fault("r1", ssh_refill=refill)
        model = rate_bytes_per_s(
            refill, window_bytes=window_bytes, packet_bytes=min(PACKET_BYTES, window_bytes), rtt_s=RTT_S,
            link_bytes_per_s=LINK_BYTES_PER_S,
        )  # fmt: skip
        return wan.scp_bytes_per_s(line, size_bytes) / model


def _sftp_of_model(requests: int) -> float:
    with _wan("ip ssh bulk-mode 2097152") as wan:
        wan.world.fault("r1", ssh_sftp_requests=requests)
        model = requests * PACKET_BYTES / (RTT_S + PACKET_BYTES / LINK_BYTES_PER_S)
        return wan.bytes_per_s("sftp", 1_500_000 * requests) / model


def _crypto_of_model(scheme: str) -> float:
    size_bytes = 1_000_000
    with _wan(tcp_window_bytes=None, profile="lan") as wan:
        wan.world.fault("r1", ssh_crypto_bytes_per_s=CRYPTO_BYTES_PER_S)
        wan.server.add("image.bin", size_bytes)
        return wan.copy_s(scheme, "image.bin") / (size_bytes / CRYPTO_BYTES_PER_S)


def _push_of_model(line: str, window_bytes: int, size_bytes: int) -> float:
    """Return the rate of a push by scp.py, in pieces of 16 KiB, against the model."""
    lines = ("ip scp server enable", "ip tcp window-size 4000000", line)
    device = DeviceSpec(name="r1", platform=_PLATFORM, config_lines=lines)
    with (
        start_world(WorldSpec(devices=(device,))) as world,
        tempfile.NamedTemporaryFile(suffix=".bin") as image,
    ):
        world.set_link(loss_ratio=0.0)
        image.truncate(size_bytes)
        rate = _pushed_bytes_per_s(world, Path(image.name))
    model = rate_bytes_per_s(
        "half", window_bytes=window_bytes, packet_bytes=min(PACKET_BYTES, window_bytes), rtt_s=RTT_S,
        link_bytes_per_s=LINK_BYTES_PER_S, sent_bytes=SCP_PIECE_BYTES,
    )  # fmt: skip
    return rate / model


def _pushed_bytes_per_s(world: World, image: Path) -> float:
    """Return the rate of a push but for its first quarter."""
    times: list[tuple[float, int]] = []
    with paramiko_session(world, world.devices[0]) as client:
        transport = client.get_transport()
        with scp.SCPClient(transport, progress=lambda _name, _size, sent: times.append((time.monotonic(), sent))) as at:
            at.put(str(image), "bootflash:/rate.bin")
    first_s, first_bytes = times[len(times) // 4]
    last_s, last_bytes = times[-1]
    return (last_bytes - first_bytes) / (last_s - first_s)
