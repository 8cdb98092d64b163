"""The demo's lines: commands, what a run reports while it runs, and tables."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from flashferry.cli.view.layout import BAD, GOOD, show
from flashferry.core import units
from flashferry.core.units import counted
from flashferry.lab.demo.harness import Followed, print_checks, print_line, step
from flashferry.lab.world import World

_OURS = "flashferry: "
_PLAN = "flashferry: plan "
"""Its digest was printed when it was made."""

_NOTE = "note: "
_SUFFIX = ".SPA.bin"
_CLOCK_S = 0.5
"""Clocks that are no further apart are right."""


def print_command(words: Sequence[str]) -> None:
    """Print a command as it is run, its paths by their names."""
    values = [Path(word).name if word.startswith("/") else word for word in words]
    print_line(f"$ flashferry {' '.join(values)}", style="dim")


class Relay:
    """Prints the run's events briefly; devices that do the same at once share a line."""

    def __init__(self, followed: Followed, events: Path, source: str) -> None:
        self._followed, self._events, self._source = followed, events, source
        self._read = 0
        self._began_s = time.monotonic()

    def show(self) -> None:
        """Print what is new."""
        for line in self._followed.new_lines():
            # What it prints of events we have from their file.
            if line.startswith(_OURS) and not line.startswith(_PLAN):
                self.say(line.removeprefix(_OURS))
        lines: dict[tuple[str, str], list[str]] = {}
        for event in self._new_events():
            if (text := event_text(event, self._source)) is not None:
                lines.setdefault((str(event["site"]), text), []).append(event["host"] or "")
        for (site, text), hosts in lines.items():
            self.say(f"{site:<4} {text}" if hosts == [""] else f"{site:<4} {', '.join(hosts)}: {text}")

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print_line(f"{time.monotonic() - self._began_s:5.0f} s  {text}")

    def _new_events(self) -> Iterable[dict[str, Any]]:
        try:
            with self._events.open("rb") as file:
                file.seek(self._read)
                text = file.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            with suppress(ValueError):
                yield json.loads(line)


def event_text(event: Mapping[str, Any], source: str) -> str | None:
    """Return the line of an event; None where it has none."""
    kind, text = (event["step"], event["status"]), str(event["text"])
    if event["host"] is None:
        is_of_site = event["site"] is not None and kind[1] in {"note", "failed"}
        return text if is_of_site else None
    if kind == ("pull", "started"):
        return f"copy started{source}"
    if kind[0] in {"transport", "serve"} and kind[1] == "note":
        return text.removeprefix(_NOTE)
    if kind[0] == "device":
        return f"{event['outcome'] or text}, configuration {event['restored'] or 'restored'}"
    return None


def print_agents(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what `flashferry sites list` says."""
    show(
        {
            "site": str(one["site"]),
            "agent": str(one["agent"] or "-"),
            "version": str(one["release"] or "-"),
            "clock": _clock(one["clock_ahead_s"], one["clock_within_s"] or 0.0),
            "last message": str(one["heard"]),
            "works on": "a part" if one["runs"] else "-",
            "depot has": ", ".join(name.removesuffix(_SUFFIX) for name in one["images"]) or "nothing yet",
        }
        for one in rows
    )
    for one in rows:
        if one["trouble"]:
            print_line(f"site {one['site']}: {one['trouble']}")


def print_plan(plan: Mapping[str, Any]) -> None:
    """Print what a plan says of bytes, and what depots or neighbours save."""
    devices, waves = counted(len(plan["devices"]), "router"), counted(len(plan["waves"]), "wave")
    print_line(f"plan sha256:{plan['digest'][:16]}...: {devices}, {waves}")
    show(
        {
            "site": str(one["site"]),
            "routers": str(one["devices"]),
            "images from": "its depot" if one["depot"] else "neighbours" if one["neighbours"] else "the centre",
            "over the link": units.size(one["bytes"]),
            "over the LAN": units.size(one["lan_bytes"]),
            "saves": units.size(one["saved_bytes"]),
        }
        for one in plan["sites"]
    )
    if plan["savings"]:
        print_line(f"expected: {plan['savings']['sentence']}")


def _clock(ahead_s: float | None, within_s: float) -> str:
    if ahead_s is None:
        return "-"
    if abs(ahead_s) <= within_s and within_s >= _CLOCK_S:
        return f"within {abs(ahead_s) + within_s:.1f} s"
    return "right" if abs(ahead_s) < _CLOCK_S else f"{ahead_s:+.1f} s"


CUT_S = 20.0
"""So long the line is cut: the centre takes a site for silent after ten seconds here."""

_ASK_AFTER_S = 14.0
AskAgents = Callable[[], Sequence[Mapping[str, Any]]]
"""Returns what the centre says of its sites, as `flashferry sites list --no-ask --json` has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSeen:
    """What was seen during a cut: its seconds, bytes on the line, and growth of the files on the site's flash.

    `silent_s` is for how long the centre had no word of the site when it was asked.
    """

    site: str
    seconds: float
    carried_bytes: int
    grown_bytes: int
    silent_s: float


class Cut:
    """Cuts a site's line once its routers copy side by side, and mends it some time later."""

    def __init__(self, world: World, site: str, image: str, ask: AskAgents, number: int) -> None:
        self._world, self._site, self._image, self._ask, self._number = world, site, image, ask, number
        self._names = [one.name for one in world.devices if one.site == site]
        self._cut_at_s: float | None = None
        self._carried_bytes = self._held_bytes = 0
        self._silent_s: float | None = None
        self.seen: CutSeen | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the line is cut now."""
        return self._cut_at_s is not None and self.seen is None

    def check(self) -> None:
        """Do what is due."""
        if self.seen is not None:
            return
        if self._cut_at_s is None:
            if self._is_time():
                self._cut()
            return
        passed_s = time.monotonic() - self._cut_at_s
        if self._silent_s is None and passed_s >= _ASK_AFTER_S:
            self._silent_s = self._shown()
        elif passed_s >= CUT_S:
            self._mend(passed_s)

    def end(self) -> None:
        """Mend the line if it is still cut."""
        if self.is_cut:
            self._world.mend(self._site)

    def _is_time(self) -> bool:
        """Return whether all routers that are to copy beside each other have started, the first being done already."""
        sizes = [self._held_of(name) for name in self._names]
        return all(sizes) and max(sizes) > min(sizes)

    def _cut(self) -> None:
        step(self._number, f"During the run the link of {self._site} is cut for {CUT_S:.0f} s")
        self._world.cut(self._site)
        self._cut_at_s = time.monotonic()
        self._carried_bytes, self._held_bytes = self._line_bytes(), self._flash_bytes()

    def _shown(self) -> float:
        """Print what the centre says of its sites; return for how long this one is silent."""
        rows = self._ask()
        print_agents(rows)
        last_at = next((one["heard_at"] for one in rows if one["site"] == self._site), None)
        return (datetime.now(UTC) - datetime.fromisoformat(last_at)).total_seconds() if last_at else float("nan")

    def _mend(self, passed_s: float) -> None:
        carried_bytes = self._line_bytes() - self._carried_bytes
        grown_bytes = self._flash_bytes() - self._held_bytes
        self._world.mend(self._site)
        assert self._silent_s is not None
        self.seen = CutSeen(
            site=self._site,
            seconds=passed_s,
            carried_bytes=carried_bytes,
            grown_bytes=grown_bytes,
            silent_s=self._silent_s,
        )
        carried, written = counted(carried_bytes, "byte"), units.size(grown_bytes)
        print_line(
            f"mended after {passed_s:.0f} s, in which the link carried {carried}; flash received {written} all the same"
        )

    def _line_bytes(self) -> int:
        counters = self._world.link_counters(self._site)
        return sum(int(counters[direction]["delivered_bytes"]) for direction in ("to_site", "to_core"))

    def _flash_bytes(self) -> int:
        return sum(self._held_of(name) for name in self._names)

    def _held_of(self, name: str) -> int:
        return sum(file.size_bytes for file in self._world.files(name) if file.name == self._image)


MOST_RATIO = 1.12
"""So many times the image a link may carry at most: the heads of packets are 3 %, the rest what agents and centre say
to each other, which counts for more the smaller the image is."""

LEAST_SILENT_S = 10.0
"""So long a site must have been shown as silent while its line was cut."""

_WELL = frozenset({"done", "already there"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSeen:
    """A router at the end.

    Attributes:
        held: SHA-512 of the image on its flash, read without SSH; empty where it is not there.
        had: Whether the file was there at the start.
        usual: Its source where its record names none.
        changed: Configuration lines that differ from the start.
        record: Its run's record, or None.
    """

    name: str
    site: str
    image: str
    held: str
    had: bool
    usual: str
    changed: str
    record: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSeen:
    """Counters of a site's line during staging.

    `carried_bytes` towards the site include headers and retransmits; `by` says who brought the image.
    """

    site: str
    routers: int
    by: str
    image_bytes: int
    carried_bytes: int
    lan_bytes: int

    @property
    def ratio(self) -> float:
        """What the line carried, as a multiple of the image."""
        return self.carried_bytes / self.image_bytes

    @property
    def alone_bytes(self) -> int:
        """What it would carry of images if each router fetched its own."""
        return self.routers * self.image_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that is judged; `digests` and `depots` are SHA-512 of images by name and of the sites' catalogues."""

    routers: Sequence[RouterSeen]
    links: Sequence[LinkSeen]
    digests: Mapping[str, str]
    parts: Sequence[Mapping[str, Any]]
    cut: CutSeen | None
    depots: Mapping[str, tuple[str, str]]


def judged(seen: Seen) -> tuple[str, ...]:
    """Print what came of it; return what is not as it should be, in sentences."""
    show(_router_row(one, seen.digests) for one in seen.routers)
    print_line()
    show(_link_row(one) for one in seen.links)
    carried, alone = sum(one.carried_bytes for one in seen.links), sum(one.alone_bytes for one in seen.links)
    print_line(f"over all lines: {units.size(carried)}; each router for itself: {units.size(alone)} of images alone")
    print_line()
    return print_checks(
        (
            ("all routers are done, and each has its record here", _unwell(seen.routers)),
            (
                "inspected without SSH, all configurations are what they were",
                (
                    f"{one.name}: its configuration is not what it was: {one.changed}"
                    for one in seen.routers
                    if one.changed
                ),
            ),
            ("the images on their flash are right, byte for byte", _unlike(seen)),
            (f"each line carried its image once: at most {MOST_RATIO:.2f} of its size", _over(seen.links)),
            ("the records of all parts are complete", _unfinished(seen.parts)),
            (
                "the site whose link was cut kept running, and the centre showed since when it was silent",
                _uncut(seen.cut),
            ),
        )
    )


def _router_row(one: RouterSeen, digests: Mapping[str, str]) -> dict[str, str | Text]:
    is_right = one.held == digests.get(one.image)
    record = one.record or {}
    source = record.get("source") or f"{one.usual}, {record.get('transport') or 'by nothing'}"
    copy = (record.get("pull") or {}).get("device") or {}
    return {
        "router": one.name,
        "site": one.site,
        "image before": "there" if one.had else "-",
        "after": Text("proven", style=GOOD) if is_right else Text("wrong" if one.held else "none", style=BAD),
        "from": "-" if one.record is None else str(source),
        "copy took": units.duration(copy["duration_s"]) if copy.get("duration_s") else "-",
        "router says": units.rate(copy["size_bytes"] / copy["duration_s"]) if copy.get("duration_s") else "-",
        "configuration": Text("changed", style=BAD) if one.changed else Text("as it was", style=GOOD),
    }


def _link_row(one: LinkSeen) -> dict[str, str | Text]:
    return {
        "line": one.site,
        "brought by": one.by,
        "image": units.size(one.image_bytes),
        "line carried": units.size(one.carried_bytes),
        "of the image": Text(f"{one.ratio:.2f}", style=BAD if one.ratio > MOST_RATIO else GOOD),
        "each for itself": f"{one.routers}.00 and more",
        "LAN carried": units.size(one.lan_bytes),
    }


def _unwell(routers: Sequence[RouterSeen]) -> Iterator[str]:
    for one in routers:
        if one.record is None:
            yield f"{one.name}: it has no record"
        elif one.record["outcome"] not in _WELL:
            failure = one.record.get("failure") or {}
            yield f"{one.name}: {one.record['outcome']}: {failure.get('reason', 'no reason is values')}"
        elif one.record["restored"] != "restored":
            yield f"{one.name}: its record says of its configuration: {one.record['restored']}"
        elif one.had:
            yield f"{one.name}: the image was there before anything was staged"


def _unlike(seen: Seen) -> Iterator[str]:
    for one in seen.routers:
        if not one.held or one.held != seen.digests.get(one.image):
            yield f"{one.name}: {one.image} on its flash is {'not the image' if one.held else 'missing'}"
    for site, (image, held) in seen.depots.items():
        if not held or held != seen.digests.get(image):
            yield f"{site}: {image} at its depot is {'not the image' if held else 'missing'}"


def _over(links: Sequence[LinkSeen]) -> Iterator[str]:
    for one in links:
        if not 1.0 <= one.ratio <= MOST_RATIO:
            yield (
                f"{one.site}: expected its line to carry 1 to {MOST_RATIO:.2f} of the image, it carried {one.ratio:.2f}"
            )
        elif one.lan_bytes < (one.routers - 1) * one.image_bytes:
            yield f"{one.site}: expected the copies on its LAN, which carried {units.size(one.lan_bytes)}"


def _unfinished(parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not parts:
        yield "no site was given a part"
    for one in parts:
        if one["state"] != "ended" or not one["is_whole"]:
            whole = "all messages have arrived" if one["is_whole"] else "messages are missing"
            yield f"site {one['site']}: its part is {one['state']}, {whole}"


def _uncut(cut: CutSeen | None) -> Iterator[str]:
    if cut is None:
        yield "no link was cut during the run"
        return
    if cut.carried_bytes:
        yield f"{cut.site}: its line was cut, and carried {counted(cut.carried_bytes, 'byte')}"
    if cut.grown_bytes <= 0:
        yield f"{cut.site}: nothing was copied there while its line was cut"
    if not cut.silent_s >= LEAST_SILENT_S:
        yield f"{cut.site}: expected the centre to call it silent, its last word came {cut.silent_s:.0f} s before"
