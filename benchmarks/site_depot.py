"""A site of 20 routers behind the published WAN: what crosses its line, and when it is done; needs root and TUN.

    python -m benchmarks.site_depot                               # 20 routers, 50 MB, about ten minutes
    python -m benchmarks.site_depot --devices 5 --size-mb 10      # a smaller one
    python -m benchmarks.site_depot --update-docs                 # and puts the table into docs/benchmarks.md

Each arm has a world of its own, the same but for its inventory. *today*: every router pulls from the centre over the
WAN. *depot*: `flashferry depot sync` fetches the image to the site's depot over the WAN, then `flashferry stage` runs
there, and every router pulls over the LAN. *neighbours*: the centre stages, and devices serve each other. Two arms
go before: *one*, a single router that pulls over the WAN, and *lan*, the site staged at a depot which has the image
already. The bound for the time is one copy at the line's cap, by bytes alone, and what *lan* took; for *neighbours*
what *one* took, from its first command to its end, and what *lan* took.

Bytes are those that were put on the line towards the site, by the link's counters: headers, SSH, and what TCP sent
again included. Payload is that of TCP without SSH, seen where it leaves the centre, again with what was sent twice: a
multiple of the image that says nothing of headers, which are 2.7 % of a full packet's payload, or 3.6 % with
timestamps, as Linux has them and IOS has not. The targets are held against payload; the bytes stand beside it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.fleet_ground import Controller, configurations
from benchmarks.fleet_tap import WireTap
from benchmarks.lab_driver import conditions, head, row
from benchmarks.summary import Target
from flashferry.lab.experiment.harness import missed_targets
from flashferry.lab.link import load_profile
from flashferry.lab.world import DepotSpec, DeviceSpec, SiteSpec, World, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory
from flashferry.model.link_rates import payload_cap_bytes_per_s

SITE, IMAGE = "branch", "isr4300-universalk9.16.09.04.SPA.bin"
PLATFORM = "isr4321-16.6"
"""A branch router whose flash takes 2.5 MB/s: what the LAN's copies wait for is the routers, not this machine."""
CAP_SHARE = 0.98
ARMS = ("one", "lan", "today", "depot", "neighbours")
LONGEST_S = 900.0
MOST_WITH_DEPOT, MOST_WITH_NEIGHBOURS, MOST_TIME = 1.03, 1.1, 1.25
DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
_READY_S = 60.0
_LOGIN, _PORT = "branch", 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is staged.

    Attributes:
        devices: How many routers the site has.
        size_bytes: Of the image.
        platform: The stand-in of all of them.
        lan: Profile of the depot's line into the LAN; None for as fast as the machine.
    """

    devices: int
    size_bytes: int
    platform: str
    lan: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What an arm took.

    Attributes:
        name: Of the arm.
        seconds: From its first command to the end of its last: the site is done.
        copy_s: Of one device, what of that its copy took, from the command to its prompt; 0 of several.
        sync_s: What of that the depot's sync took.
        line_bytes: What was put on the line towards the site.
        payload_bytes: What of that was TCP's payload, without SSH.
        staged: How many devices hold the image.
        as_before: Whether every configuration is what it was.
    """

    name: str
    seconds: float
    copy_s: float
    sync_s: float
    line_bytes: int
    payload_bytes: int
    staged: int
    as_before: bool


def measure(name: str, case: Case) -> Arm:
    """Run one arm in a world of its own."""
    with tempfile.TemporaryDirectory(prefix="flashferry-") as folder, start_world(_spec(name, case)) as world:
        ground = Ground(world=world, folder=Path(folder), case=case)
        before = configurations(world)
        with WireTap(world) as tap, ground.source() if name == "depot" else nullcontext():
            began_s = time.monotonic()
            copy_s, sync_s = ground.play(name)
            seconds = time.monotonic() - began_s
            time.sleep(1)
        return Arm(
            name=name,
            seconds=seconds,
            copy_s=copy_s,
            sync_s=sync_s,
            line_bytes=world.link_counters(SITE)["to_site"]["offered_bytes"],
            payload_bytes=tap.payload_bytes(SITE),
            staged=sum(ground.is_staged(device.name) for device in world.devices),
            as_before=configurations(world) == before,
        )


def _spec(name: str, case: Case) -> WorldSpec:
    count = 1 if name == "one" else case.devices
    devices = tuple(DeviceSpec(name=f"r{number}", platform=case.platform) for number in range(1, count + 1))
    has_depot = name in ("lan", "depot")
    depot, lan = (DepotSpec(), case.lan) if has_depot else (None, None)
    return WorldSpec(sites=(SiteSpec(name=SITE, profile="published", devices=devices, depot=depot, lan=lan),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A world with an image at the centre, and what is done in it."""

    world: World
    folder: Path
    case: Case

    @property
    def image(self) -> Path:
        """The image at the centre; made at first sight."""
        path = self.folder / "centre" / IMAGE
        if not path.exists():
            path.parent.mkdir()
            path.write_bytes(os.urandom(self.case.size_bytes))
        return path

    def is_staged(self, device: str) -> bool:
        """Tell whether a device holds the image, byte for byte."""
        file = next((each for each in self.world.files(device) if each.name == IMAGE), None)
        return file is not None and file.path.read_bytes() == self.image.read_bytes()

    def play(self, name: str) -> tuple[float, float]:
        """Do what an arm does; return the seconds that the copy of a single device took, and those of a sync."""
        if name == "depot":
            synced, sync_s = self.sync()
            self.stage(synced, at_depot=True)
            return 0.0, sync_s
        devices = self.stage(self.image, at_depot=name == "lan", neighbours=name == "neighbours")
        return (devices[0]["seconds_by_step"]["pull"] if name == "one" else 0.0), 0.0

    def stage(self, image: Path, *, at_depot: bool = False, neighbours: bool = False) -> list[dict[str, Any]]:
        """Stage an image on all devices, from the centre or from the depot; return what its report says of them."""
        inventory = self._inventory(at_depot=at_depot, neighbours=neighbours)
        what = ("--image", str(image), "--any-image", "--no-canary", "--wave-by", "all")
        pid = self.world.depots[SITE].pid if at_depot else None
        place = self.folder / ("depot" if at_depot else "controller")
        place.mkdir(exist_ok=True)
        report = _ended(Controller(self.world, place, "stage", *what, "--inventory", str(inventory), inside_pid=pid))
        devices: list[dict[str, Any]] = report["run"]["devices"]
        return devices

    def _inventory(self, *, at_depot: bool, neighbours: bool) -> Path:
        folder = write_inventory(self.world, self.folder / "inventory", cap_share=CAP_SHARE)
        path = folder / "groups.yaml"
        groups = path.read_text()
        if at_depot:
            # The line that copies share is the LAN's there.
            groups = groups.replace("link_rate_bps: 50000000", "link_rate_bps: 1000000000", 1)
        if neighbours:
            groups += "    neighbours: true\n"
        path.write_text(groups)
        return folder

    def sync(self) -> tuple[Path, float]:
        """Have the depot fetch the image from the centre; return where it is, and how long that took."""
        world, place = self.world, self.folder / "depot"
        place.mkdir(exist_ok=True)
        began_s = time.monotonic()
        url = f"http://{world.server_address}:{_PORT}/"
        what = ("sync", IMAGE, "--from", url, "--user", _LOGIN, "--catalogue", str(place / "images"))
        word = {"FLASHFERRY_DEPOT_PASSWORD": (self.folder / "password").read_text()}
        _ended(Controller(world, place, "depot", *what, inside_pid=world.depots[SITE].pid, environment=word))
        return place / "images" / IMAGE, time.monotonic() - began_s

    @contextmanager
    def source(self) -> Iterator[None]:
        """Run the centre's depot, which offers what is in its catalogue to the depots of sites."""
        place, word, mirrors = self.folder / "source", self.folder / "password", self.folder / "mirrors.toml"
        place.mkdir()
        word.write_text(secrets.token_urlsafe(18))
        mirrors.write_text(
            f'[sites.{SITE}]\nuser = "{_LOGIN}"\npassword_file = "{word}"\nlink_mbps = 50\ncap_share = {CAP_SHARE}\n'
        )
        for secret in (word, mirrors):
            secret.chmod(0o600)
        what = ("--catalogue", str(self.image.parent), "--mirrors", str(mirrors))
        daemon = Controller(self.world, place, "depot", "--transports", "http", "--http-port", str(_PORT), *what)
        try:
            _until_offered(daemon)
            yield
        finally:
            daemon.kill(controller=True, server=True)


def _ended(command: Controller) -> dict[str, Any]:
    """Wait for a command's end and return its document."""
    if not command.ended_within(LONGEST_S):
        command.kill(controller=True, server=True)
        sys.exit(f"not done within {LONGEST_S:.0f} s: {command.said()}")
    if command.process.returncode != 0:
        sys.exit(f"exit code {command.process.returncode}: {command.said()}")
    return command.document() or {}


def _until_offered(daemon: Controller) -> None:
    deadline_s = time.monotonic() + _READY_S
    while "offers 1 image " not in daemon.said(5000):
        if daemon.ended_within(0.1) or time.monotonic() > deadline_s:
            sys.exit(f"the centre's depot offers no image: {daemon.said()}")


def bound_s(lan: Arm, case: Case) -> float:
    """Return the time of one copy at the line's cap, by bytes alone, and that of the site over the LAN as measured."""
    cap = payload_cap_bytes_per_s(load_profile("published").rate_bps * CAP_SHARE)
    assert cap is not None
    return case.size_bytes / cap + lan.seconds


def targets(arms: dict[str, Arm], case: Case) -> list[Target]:
    """Return what has to hold, for the arms that were run."""
    found = []
    for name, most in (("depot", MOST_WITH_DEPOT), ("neighbours", MOST_WITH_NEIGHBOURS)):
        if name not in arms:
            found.append(Target(text=f"{name}: payload at most {most:g} of the image", found="not measured", met=None))
            continue
        ratio = arms[name].payload_bytes / case.size_bytes
        text = f"{name}: payload on the line at most {most:g} of the image"
        found.append(Target(text=text, found=f"{ratio:.4f}", met=ratio <= most))
    if {"lan", "depot"} <= arms.keys():
        ratio = arms["depot"].seconds / bound_s(arms["lan"], case)
        text = f"depot: done within {MOST_TIME:g} of one copy over the WAN and the LAN's copies"
        found.append(Target(text=text, found=f"{ratio:.2f}", met=ratio <= MOST_TIME))
    if {"one", "lan", "neighbours"} <= arms.keys():
        ratio = arms["neighbours"].seconds / (arms["one"].seconds + arms["lan"].seconds)
        text = f"neighbours: done within {MOST_TIME:g} of one router over the WAN and all over the LAN"
        found.append(Target(text=text, found=f"{ratio:.2f}", met=ratio <= MOST_TIME))
    for arm in arms.values():
        count = 1 if arm.name == "one" else case.devices
        text = f"{arm.name}: every device holds the image and is as it was"
        found.append(
            Target(text=text, found=f"{arm.staged} of {count}", met=arm.staged == count and arm.as_before)
        )  # fmt: skip
    return found


COLUMNS = (
    "arm", "site done, s", "of that the one copy or the sync, s", "bytes on the line, of the image",
    "payload on the line, of the image", "routers with the image",
)  # fmt: skip


def cells(arm: Arm, case: Case) -> tuple[str, ...]:
    """Return an arm as a row."""
    return (
        arm.name,
        f"{arm.seconds:.1f}",
        f"{arm.copy_s or arm.sync_s:.1f}" if arm.copy_s or arm.sync_s else "-",
        f"{arm.line_bytes / case.size_bytes:.3f}",
        f"{arm.payload_bytes / case.size_bytes:.4f}",
        f"{arm.staged}{'' if arm.as_before else ', changed'}",
    )


def page(arms: dict[str, Arm], case: Case, where: str) -> str:
    """Return all of it as Markdown; ``where`` says what it was measured on."""
    lines = [
        (
            f"`python -m benchmarks.site_depot`, {datetime.now(UTC).date().isoformat()}: {case.devices} routers "
            f"({case.platform}) behind the published WAN (50 Mbit/s, 100 ms, 0.01 % loss), {case.size_bytes:,} bytes "
            f"to each; LAN {case.lan or 'as fast as the machine'}. {where}."
        ),
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
        *(f"| {' | '.join(cells(arm, case))} |" for arm in arms.values()),
        "",
        missed_targets((one.text, one.found, one.met) for one in targets(arms, case)),
    ]
    return "\n".join(lines) + "\n"


def can(name: str) -> bool:
    """Tell whether this flashferry has what an arm needs."""
    needed = {"depot": "flashferry.depot.sync", "neighbours": "flashferry.run.neighbours"}
    return name not in needed or importlib.util.find_spec(needed[name]) is not None


def main() -> None:
    """Measure, print, and put it where it is asked to; the exit code is 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=20)
    parser.add_argument("--size-mb", type=int, default=50)
    parser.add_argument("--platform", default=PLATFORM)
    parser.add_argument("--lan", default=None, help="profile of the depot's line into the LAN (default: no limit)")
    parser.add_argument("--arms", default=",".join(ARMS), help="which of them, with commas")
    parser.add_argument("--update-docs", action="store_true", help="put the table into docs/benchmarks.md")
    given = parser.parse_args()
    case = Case(
        devices=given.devices, size_bytes=given.size_mb * 1_000_000, platform=given.platform, lan=given.lan
    )  # fmt: skip
    where = conditions()
    head(where, *COLUMNS)
    arms: dict[str, Arm] = {}
    for name in given.arms.split(","):
        if can(name):
            arms[name] = measure(name, case)
            row(*cells(arms[name], case))
    found = page(arms, case, where)
    print(f"\n{found}")
    if given.update_docs:
        begin, end = "<!-- site_depot: begin -->\n", "<!-- site_depot: end -->"
        text = DOCUMENT.read_text(encoding="utf-8")
        before, after = text[: text.index(begin) + len(begin)], text[text.index(end) :]
        DOCUMENT.write_text(before + found + after, encoding="utf-8")
    sys.exit(int(any(one.met is False for one in targets(arms, case))))


if __name__ == "__main__":
    main()
