"""HTTP and SCP over the published WAN: `python -m benchmarks.transports_wan [--only ...] [--seeds 5] [--update-docs]`.

Needs root, TUN, nginx and openssh-server. A stand-in copies a file over the lab's link of 50 Mbit/s and 100 ms, under
random loss of 0.01 and of 0.1 %, from our HTTP and SSH servers, and from nginx and sshd with CUBIC and with BBR for the
whole host. Rates are those of the device's own `bytes copied` line, an SSH login included. Untuned SCP copies less, for
its rate is that of its windows; it is held against them, each window over the round trip, with the refill rule.

Seeds are interleaved: each round goes through all cases. Figures are kept in benchmarks/results/transports_wan.json; a
case that is measured again replaces its own runs of the same loss and seed. The exit code is 1 if a target is missed.
"""

import argparse
import asyncio
import contextlib
import json
import random
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import conditions, print_progress
from benchmarks.transports_wan_tables import Part, for_document, missed, to_markdown
from benchmarks.wan_servers import Client, Served, running_nginx, running_ours, running_sshd, version
from flashferry.lab.enter import enter_core
from flashferry.lab.errors import LabError
from flashferry.lab.experiment.cell import LinkSetting
from flashferry.lab.experiment.harness import put
from flashferry.lab.experiment.servers import Session, session, set_host_control
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.standin.ssh_client.settings import rate_bytes_per_s
from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world

RESULTS = Path(__file__).with_name("results") / "transports_wan.json"
DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
LOSS_RATIOS = (0.0001, 0.001)
SIZE_BYTES = 50_000_000
WINDOW_BYTES = 2_500_000
"""Four times the bandwidth-delay product: twice is what a channel needs that is refilled at its half."""
CAP_SHARE = 0.98
_INTERFACE = "wan0"
_QUEUE_PACKETS = 1000
_RTT_S = 0.1
_LONGEST_S = 900.0
_TCP = (f"ip tcp window-size {WINDOW_BYTES}", "ip tcp selective-ack")


@dataclass(frozen=True, slots=True, kw_only=True)
class Puller:
    """A device that copies.

    Attributes:
        device: Its name in the world.
        platform: Its platform.
        lines: What is set for the copy, and taken out behind it.
        size_bytes: What it copies.
    """

    device: str
    platform: str
    lines: tuple[str, ...]
    size_bytes: int = SIZE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A server, the host's congestion control, and a puller.

    Attributes:
        name: By which it is asked for and kept.
        server: ``ours http``, ``ours scp``, ``nginx`` or ``sshd``.
        control: What the host gives to connections that name none; ours names its own.
        puller: Who copies.
        modelled: Its rate is that of its windows, and held against them.
    """

    name: str
    server: str
    control: str
    puller: Puller
    modelled: bool = False


_XE16, _XE17 = "csr1000v-16.11", "c8000v-17.15"
_WEB = Puller(device="xe16", platform=_XE16, lines=_TCP)
_TUNED16 = Puller(device="xe16", platform=_XE16, lines=(*_TCP, f"ip ssh window-size {WINDOW_BYTES}"))
_TUNED17 = Puller(device="xe17", platform=_XE17, lines=(*_TCP, f"ip ssh bulk-mode {WINDOW_BYTES}"))
_UNTUNED16 = Puller(device="xe16", platform=_XE16, lines=(), size_bytes=2_000_000)
_HALF17 = Puller(device="xe17", platform=_XE17, lines=_TCP, size_bytes=40_000_000)

CASES = (
    Case(name="ours http", server="ours http", control="cubic", puller=_WEB),
    Case(name="nginx cubic", server="nginx", control="cubic", puller=_WEB),
    Case(name="nginx bbr", server="nginx", control="bbr", puller=_WEB),
    Case(name="ours scp", server="ours scp", control="cubic", puller=_TUNED16),
    Case(name="ours scp 17", server="ours scp", control="cubic", puller=_TUNED17),
    Case(name="sshd cubic", server="sshd", control="cubic", puller=_TUNED16),
    Case(name="sshd bbr", server="sshd", control="bbr", puller=_TUNED16),
    Case(name="ours scp untuned", server="ours scp", control="cubic", puller=_UNTUNED16, modelled=True),
    Case(name="sshd untuned", server="sshd", control="cubic", puller=_UNTUNED16, modelled=True),
    Case(name="ours scp tcp only", server="ours scp", control="cubic", puller=_HALF17, modelled=True),
)


def model_bytes_per_s(puller: Puller, link: LinkSetting) -> float:
    """Return what the windows of an untuned or half tuned device let through over the link, without its losses."""
    platform = load_platform(puller.platform)
    figures = platform.ssh_client
    own = {line.rsplit(" ", 1)[0]: line.rsplit(" ", 1)[1] for line in puller.lines if line[-1].isdecimal()}
    tcp_window_bytes = int(own.get("ip tcp window-size", platform.tcp.default_window_bytes))
    channel_bytes = figures.bulk_window_bytes if puller.platform == _XE17 else figures.default_window_bytes
    channel = rate_bytes_per_s(
        figures.refill,
        window_bytes=channel_bytes,
        packet_bytes=min(figures.packet_bytes, channel_bytes),
        rtt_s=_RTT_S,
        link_bytes_per_s=link.payload_bytes_per_s,
    )
    return min(channel, tcp_window_bytes / _RTT_S)


class Runner:
    """Plays cases in one world; servers are started when they are first needed and run to the end."""

    def __init__(self, world: World, folder: Path, stack: contextlib.ExitStack) -> None:
        self._world = world
        self._folder = folder
        self._stack = stack
        self._servers: dict[str, Served] = {}

    def play(self, case: Case, loss_ratio: float, seed: int) -> Part:
        """Run one copy; what goes wrong is in the row."""
        link = LinkSetting(loss_ratio=loss_ratio, queue_packets=_QUEUE_PACKETS)
        row: Part = {"case": case.name, "loss_ratio": loss_ratio, "seed": seed, "size_bytes": case.puller.size_bytes}
        row["model_bytes_per_s"] = round(model_bytes_per_s(case.puller, link)) if case.modelled else None
        try:
            row |= self._copied(case, link, seed)
        except (LabError, OSError, ValueError, TimeoutError) as error:
            row["error"] = f"{type(error).__name__}: {error}"[:300]
        return row

    def _copied(self, case: Case, link: LinkSetting, seed: int) -> Part:
        site = self._world.sites[0]
        server = self._server(case.server)
        set_host_control(site.network, _INTERFACE, case.control)
        self._world.renew_link(site.name, f"{seed}", **link.changes())
        device = next(each for each in self._world.devices if each.name == case.puller.device)
        client = Client(
            address=device.address,
            link_bytes_per_s=link.payload_bytes_per_s,
            is_legacy=case.puller.platform == _XE16,
        )
        offer = server.offer(f"random-{case.puller.size_bytes}.bin", client)

        async def copy() -> Part:
            async with session(device) as opened:
                try:
                    await _configure(opened, case.puller.lines)
                    copied = await opened.copy(offer.url, "null:", timeout_s=_LONGEST_S)
                finally:
                    await _configure(opened, tuple(map(undone, case.puller.lines)))
            return {"copied_bytes": copied.size_bytes, "seconds": copied.seconds}

        row = asyncio.run(copy())
        if row["copied_bytes"] != case.puller.size_bytes:
            raise LabError(f"the device got {row['copied_bytes']} bytes of {case.puller.size_bytes}")
        lost = self._world.link_counters(site.name)["to_site"]
        return row | {
            "rate_bytes_per_s": round(row["copied_bytes"] / row["seconds"]),
            "lost_packets": lost["lost_packets"],
            "dropped_packets": lost["dropped_packets"],
        }

    def _server(self, name: str) -> Served:
        if name not in self._servers:
            self._servers[name] = self._stack.enter_context(self._started(name))
        return self._servers[name]

    def _started(self, name: str) -> Any:
        address = self._world.server_address
        if name == "nginx":
            return running_nginx(self._folder, address)
        if name == "sshd":
            return running_sshd(self._folder, address)
        return running_ours(self._folder, address, name.removeprefix("ours "), cap_share=CAP_SHARE)


async def _configure(opened: Session, lines: tuple[str, ...]) -> None:
    """Type configuration lines; a device warns of some, and takes them."""
    for line in ("configure terminal", *lines, "end"):
        shown = await opened.run(line)
        if "% " in shown and "%% Warning" not in shown:
            raise LabError(f"{line}: {shown.strip()}")


def undone(line: str) -> str:
    """Return what takes a line out; bulk mode of 17.x has a line by default, which comes back."""
    if line.startswith("ip ssh bulk-mode"):
        return "ip ssh bulk-mode 131072"
    words = line.rsplit(" ", 1)
    return f"no {words[0] if words[-1].isdecimal() else line}"


@contextlib.contextmanager
def open_runner() -> Iterator[Runner]:
    """Start a world and move this process to its core, for good.

    Raises:
        LabError: It cannot be built here.
    """
    devices = (DeviceSpec(name="xe16", platform=_XE16), DeviceSpec(name="xe17", platform=_XE17))
    with (
        tempfile.TemporaryDirectory(prefix="flashferry-wan-images-") as name,
        start_world(WorldSpec(devices=devices)) as world,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        folder.chmod(0o755)  # sshd's account reads it
        for size_bytes in sorted({case.puller.size_bytes for case in CASES}):
            _write_image(folder / f"random-{size_bytes}.bin", size_bytes)
        enter_core(world.core_pid)
        yield Runner(world, folder, stack)


def _write_image(path: Path, size_bytes: int) -> None:
    """Write what no compression could shorten; the same bytes every time."""
    path.write_bytes(random.Random(size_bytes).randbytes(size_bytes))
    path.chmod(0o644)


def measure(runner: Runner, cases: tuple[Case, ...], losses: tuple[float, ...], seeds: int) -> Iterator[Part]:
    """Play every case under every loss and seed, one after the other."""
    for seed in range(1, seeds + 1):
        for loss in losses:
            for case in cases:
                if case.modelled and loss != min(losses):
                    continue  # what a window bounds so far below the link loses nothing by loss
                row = runner.play(case, loss, seed)
                said = row.get("error") or f"{row['rate_bytes_per_s'] / 1e6:.3f} MB/s"
                print_progress(f"seed {seed}, {loss:.2%}, {case.name}: {said}")
                yield row


def with_session(held: Part, session: Part, new: list[Part]) -> Part:
    """Return the figures with a session's: its rows replace those of the same case, loss and seed.

    A session of which no row is left is forgotten.
    """
    keys = {(row["case"], row["loss_ratio"], row["seed"]) for row in new}
    kept = [row for row in held["rows"] if (row["case"], row["loss_ratio"], row["seed"]) not in keys]
    rows = [*kept, *(row | {"at": session["at"]} for row in new)]
    moments = {row["at"] for row in rows}
    return {"sessions": [each for each in (*held["sessions"], session) if each["at"] in moments], "rows": rows}


def main() -> int:
    """Measure, keep, print; return the exit code."""
    options = _options()
    held: Part = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"sessions": [], "rows": []}
    if not options.redraw:
        cases = tuple(case for case in CASES if not options.only or case.name in options.only)
        start_s = time.monotonic()
        part = conditions(shlex.join(["python", "-m", "benchmarks.transports_wan", *sys.argv[1:]]))
        new: list[Part] = []
        try:
            with open_runner() as runner:
                # One by one: what was measured before an interruption is kept.
                new += measure(runner, cases, tuple(options.loss), options.seeds)
        finally:
            part["took_s"] = round(time.monotonic() - start_s)
            part["versions"] = {"nginx": version("nginx"), "sshd": version("sshd")}
            held = with_session(held, part, new)
            if new and not options.dry:
                RESULTS.write_text(json.dumps(held, indent=1) + "\n")
    markdown = to_markdown(held)
    print(markdown)
    if options.update_docs:
        put(DOCUMENT, "transports_wan", for_document(held))
    for text in missed(held):
        print_progress(f"missed: {text}")
    return 1 if missed(held) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [case.name for case in CASES]
    parser.add_argument("--only", action="append", choices=names, metavar="CASE", help=f"one of {', '.join(names)}")
    parser.add_argument("--loss", type=float, nargs="+", default=list(LOSS_RATIOS), help="shares of packets lost")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each case and loss")
    parser.add_argument("--dry", action="store_true", help="keep no figures")
    parser.add_argument("--redraw", action="store_true", help="measure nothing: only write the tables anew")
    parser.add_argument("--update-docs", action="store_true", help="put the tables into docs/benchmarks.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
