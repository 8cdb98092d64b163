"""The second window on the WAN: an untuned copy runs at its model, a tuned one at the link's rate."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flashferry.lab.standin.ssh_client.window_model import rate_bytes_per_s
from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world
from tests.component.lab.plain_ssh import PlainSsh, plain_ssh

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.clocked]

LINK_BYTES_PER_S = 6_030_000
"""What 50 Mbit/s of IP packets leave for payload."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """The published WAN without its losses: the model knows of none."""
    device = DeviceSpec(name="r1", platform="c8000v-17.15", config_lines=("ip tcp window-size 4000000",))
    with start_world(WorldSpec(devices=(device,))) as started:
        started.set_link(loss_ratio=0.0)
        yield started


@pytest.fixture(scope="module")
def server(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainSsh]:
    with plain_ssh(world, tmp_path_factory.mktemp("ssh"), encryption_algs=["aes128-ctr"]) as started:
        started.add("login.bin", 4)
        yield started


@pytest.fixture
def rate(server: PlainSsh, connection: Any, copy: Callable[..., str]) -> Callable[[int], float]:
    """Return what copies so many bytes and returns the rate of the file alone: the login is subtracted."""

    def seconds(name: str) -> float:
        shown = copy(connection, f"copy {server.url(name)} null:", timeout_s=120)
        return float(re.search(r"copied in ([\d.]+) secs", shown)[1])

    def measure(size_bytes: int) -> float:
        server.add("image.bin", size_bytes)
        return size_bytes / (seconds("image.bin") - seconds("login.bin"))

    return measure


@pytest.mark.parametrize(
    ("line", "refill", "window_bytes", "size_bytes"),
    [
        ("no ip ssh bulk-mode", "half", 8192, 400_000),
        ("ip ssh bulk-mode 131072", "half", 131_072, 5_000_000),
        ("ip ssh bulk-mode 131072", "packet", 131_072, 6_000_000),
        ("ip ssh bulk-mode 262144", "half", 262_144, 8_000_000),
        ("ip ssh bulk-mode 262144", "three packets", 262_144, 10_000_000),
    ],
)
def test_a_copy_runs_at_the_model_of_its_window(
    world: World, connection: Any, rate: Callable[[int], float], line: str, refill: Any, window_bytes: int,
    size_bytes: int,
) -> None:  # fmt: skip
    """Window over round trip less what the refill rule costs; TCP's own window is wide open.

    Never more than 10 % above; a busy machine may take a quarter away, which is less than another rule would.
    """
    connection.send_config_set([line])
    world.fault("r1", ssh_refill=refill)
    model = rate_bytes_per_s(
        refill, window_bytes=window_bytes, packet_bytes=min(32768, window_bytes), rtt_s=0.1,
        link_bytes_per_s=LINK_BYTES_PER_S,
    )  # fmt: skip
    assert 0.75 * model < rate(size_bytes) < 1.1 * model


def test_with_both_windows_wide_the_link_is_the_limit(connection: Any, rate: Callable[[int], float]) -> None:
    """2 MiB in the channel and 4 MB of TCP: two thirds of the link and more, slow start included."""
    connection.send_config_set(["ip ssh bulk-mode 2097152"])
    assert rate(20_000_000) > 4_000_000


def test_one_wide_window_is_not_enough(world: World, connection: Any, rate: Callable[[int], float]) -> None:
    """A channel of 2 MiB behind the stock TCP window of 16 KiB: the smaller of the two counts."""
    connection.send_config_set(["ip ssh bulk-mode 2097152", "no ip tcp window-size"])
    slow = rate(500_000)
    connection.send_config_set(["ip tcp window-size 4000000"])
    assert slow < 1.05 * 16384 / world.profile.rtt_s


@pytest.mark.parametrize("requests", [1, 4])
def test_sftp_runs_at_what_it_asks_for_per_round_trip(
    world: World, server: PlainSsh, connection: Any, copy: Callable[..., str], requests: int
) -> None:
    """Reads under way times 32 KiB over the round trip and the link's time for one, whatever the windows."""
    connection.send_config_set(["ip ssh bulk-mode 2097152"])
    world.fault("r1", ssh_sftp_requests=requests)
    size_bytes = 1_500_000 * requests
    server.add("image.bin", size_bytes)

    def seconds(name: str) -> float:
        shown = copy(connection, f"copy {server.url(name, scheme='sftp')} null:", timeout_s=120)
        return float(re.search(r"copied in ([\d.]+) secs", shown)[1])

    took_s = seconds("image.bin") - seconds("login.bin")
    world.fault("r1", ssh_sftp_requests=None)
    model = requests * 32768 / (world.profile.rtt_s + 32768 / LINK_BYTES_PER_S)
    assert size_bytes / took_s == pytest.approx(model, rel=0.2)
