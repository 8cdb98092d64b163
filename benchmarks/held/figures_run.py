"""What the product reaches end to end on the lab: probes, copies under a site's cap, pushes, and times it promises."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.fleet_tap import CopyTap
from benchmarks.held.figure import figure
from flashferry.depot.client import RETURN_S
from flashferry.lab.standin.ssh_client.settings import load_figures
from tests.e2e import test_depot as depot
from tests.e2e import test_depot_wan as depot_wan
from tests.e2e.conftest import DEVICE, Rig, open_rig
from tests.e2e.test_fleet import open_fleet
from tests.e2e.test_push import allow_push
from tests.e2e.test_ssh_sweep import allow_ssh
from tests.patience import until

RTT_S = 0.1
UNTUNED_BYTES_PER_S = 160_000
UNSCALED_WINDOW_BYTES = 65_535
_STRETCH_S = 5
_CBC_KIND = "ios-15-cbc"
_XE17 = "c8000v-17.15"
_SYNC_LOSS = 0.0001


@figure("ratio")
def probe_untuned_of_window() -> float:
    """Measure what a probe finds of an untuned router on the published WAN, against its window over the round trip."""
    found = _probe()
    return float(found["as_is"]["steady_bytes_per_s"]) / UNTUNED_BYTES_PER_S


@figure("ratio")
def probe_gain() -> float:
    """Measure how many times as fast a probe of an untuned router on the published WAN finds it when tuned."""
    return float(_probe()["worth"]["gain"])


@figure("ratio")
def check_round_trip_of_link() -> float:
    """Measure the round trip that `check` finds over the published WAN, against the profile's."""
    with _rig(profile="published") as rig:
        return float(_device(rig.verb("check"))["check"]["rtt_s"]) / RTT_S


@figure("s")
def unreachable_server_named() -> float:
    """Measure when `check --reach` says that no client came, for a server address without a host."""
    with _rig() as rig:
        done = rig.verb("check", "--reach", "--address", "198.18.0.99")
    assert done.code == 3, done.err
    last = [line for line in done.err.splitlines() if "reach" in line][-1]
    return float(last.split()[0])


@figure("ratio")
def tuned_push_of_unscaled_window() -> float:
    """Measure a tuned push over the published WAN, against what a window without scaling carries."""
    with _rig(profile="published", platform=_XE17) as rig:
        allow_push(rig)
        device = _device(rig.verb("stage", "--image", rig.image(20_000_000), "--transport", "push"))
    return float(device["transfer"]["rate_bytes_per_s"]) / (UNSCALED_WINDOW_BYTES / RTT_S)


@figure("ratio")
def sftp_read_ahead_of_cap() -> float:
    """Measure an SFTP copy by a router that has 64 requests on the way over the published WAN, against the cap."""
    with _rig(profile="published", platform=_XE17) as rig:
        rig.world.fault(DEVICE, ssh_sftp_requests=64)
        transfer = _device(rig.verb("stage", "--image", rig.image(12_000_000), "--transport", "sftp"))["transfer"]
    return float(transfer["rate_bytes_per_s"]) / float(transfer["sender"]["cap_bytes_per_s"])


@figure("ratio")
def sweep_least_cipher_of_model() -> float:
    """Measure each CBC cipher of a 2811 by a sweep against its model; return the least ratio."""
    model = load_figures(_CBC_KIND).crypto_bytes_per_s
    return min(rate / model[name] for name, rate in _swept().items())


@figure("ratio")
def sweep_short_key_of_long() -> float:
    """Measure what a sweep of a 2811 finds of aes128-cbc, against aes256-cbc."""
    rates = _swept()
    return rates["aes128-cbc"] / rates["aes256-cbc"]


@figure("ratio")
def two_runs_of_cap() -> float:
    """Measure the most payload that two runs by a depot send to a site in any five seconds, against the site's cap."""
    with _folder() as folder, depot.open_depot_rig(folder) as rig:
        image = rig.image(2 * depot.IMAGE_BYTES)
        with rig.depot(), CopyTap(rig.world) as tap:
            with rig.staging(image, depot.FIRST) as one, rig.staging(image, depot.SECOND) as two:
                done = depot.ended(one), depot.ended(two)
            assert [one.code for one in done] == [0, 0], [one.err for one in done]
        return tap.most_bytes_per_s(depot.SITE, _STRETCH_S) / rig.cap_bytes_per_s


@figure("ratio")
def depot_given_up_of_promise() -> float:
    """Measure how long a run goes on after its depot is killed for good, against the minute that it waits for one."""
    with _folder() as folder, depot.open_depot_rig(folder) as rig:
        image = rig.image(depot.IMAGE_BYTES)
        with rig.depot() as process, rig.staging(image, depot.FIRST, "--remove-partial") as one:
            until(lambda: all(rig.begun(name, image) for name in depot.FIRST), "both copies")
            os.killpg(process.pid, signal.SIGKILL)
            killed_s = time.monotonic()
            process.communicate()
            done = depot.ended(one)
            passed_s = time.monotonic() - killed_s
    assert done.code == 3, done.err
    return passed_s / RETURN_S


@figure("s")
def end_before_the_window_closes() -> float:
    """Measure how long before `--until` a run has ended and restored that it finds copying when the time is short."""
    with _folder() as folder, open_fleet(folder) as fleet:
        fleet.slow(25_000)
        ends = datetime.now(UTC) + timedelta(seconds=120 + 40)
        done = fleet.verb("stage", "--image", fleet.image(3_000_000), "--no-canary", "--until", ends.isoformat())
        left = ends - datetime.now(UTC)
    assert done.code == 6, done.err
    return left.total_seconds()


@figure("ratio")
def depot_probe_http_of_line() -> float:
    """Measure the fastest HTTP copy of a depot's probe over 40 Mbit/s, against the line's rate."""
    ways = [row for group in _depot_probe()["groups"] if group["name"] == "ways" for row in group["rows"]]
    return max(float(row["rate"]["most"]) for row in ways) / (depot_wan.RATE_BPS / 8)


@figure("ratio")
def sync_of_cap() -> float:
    """Measure all that a depot's sync puts on its line with a loss of 0.01 %, against the share it may use."""
    line, copying_s = _synced()
    return float(line["offered_bytes"] * 8 / copying_s / (depot_wan.RATE_BPS * depot_wan.CAP_SHARE))


@figure("share of the image")
def sync_sent_again() -> float:
    """Measure what TCP sends again in that sync, beside what the line lost."""
    line, _ = _synced()
    packet_bytes = 1500
    gone = (line["lost_packets"] + line["dropped_packets"]) * packet_bytes
    once = depot_wan.SIZE * packet_bytes / depot_wan.SEGMENT_BYTES
    return float((line["offered_bytes"] - gone) / once - 1)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="held-") as folder:
        yield Path(folder)


@contextmanager
def _rig(**spec: Any) -> Iterator[Rig]:
    with _folder() as folder, open_rig(folder, **spec) as rig:
        yield rig


def _device(done: Any) -> dict[str, Any]:
    """Return the one device of a document."""
    assert done.code == 0, done.err
    found = done.json
    (device,) = found["run"]["devices"] if "run" in found else found["devices"]
    return dict(device)


def _probe() -> dict[str, Any]:
    with _rig(profile="published") as rig:
        return dict(_device(rig.verb("probe", "--seconds", "4", "--image-mb", "600"))["probe"])


def _swept() -> dict[str, float]:
    """Return the median rate of each cipher that the router has."""
    with _rig(platform="c2811-15.1") as rig:
        allow_ssh(rig)
        device = _device(rig.verb("probe", "--ssh-sweep", "--sweep-copies", "2", "--seconds", "2"))
    return {row["name"]: row["median_bytes_per_s"] for row in device["ssh_sweep"]["ciphers"] if row["copies"]}


def _depot_probe() -> dict[str, Any]:
    with _folder() as folder, depot_wan.open_ground(folder) as ground, ground.source():
        words = ("--from", f"{ground.url}/{depot_wan.NAME}", "--user", depot_wan.SITE, "--method", "http")
        more = ("--size-mb", "1", "--raw-port", str(depot_wan.RAW_PORT), "--folder", str(folder))
        return dict(ground.at_depot("probe", *words, *more)["found"])


def _synced() -> tuple[dict[str, Any], float]:
    """Return the line's counters of one sync, and how long it copied in seconds."""
    with _folder() as folder, depot_wan.open_ground(folder) as ground:
        ground.world.renew_link(depot_wan.SITE, 1, loss_ratio=_SYNC_LOSS, delay_s=0.05)
        words = ("--from", ground.url, "--user", depot_wan.SITE, "--catalogue", str(ground.catalogue))
        with ground.source():
            (image,) = ground.at_depot("sync", depot_wan.NAME, *words)["images"]
        assert image["outcome"] == "proven"
        return dict(ground.world.link_counters(depot_wan.SITE)["to_site"]), float(image["copying_s"])
