"""What came of the demo, by the lab's own eyes, and what is not as it should be. Pure but for what it prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from flashferry.cli.view.layout import BAD, GOOD, show
from flashferry.core import units
from flashferry.core.safe_quote import counted
from flashferry.lab.demo.harness import print_checks, print_line

if TYPE_CHECKING:
    from flashferry.lab.demo.sites.cutting import CutSeen

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
        image: What it was to get.
        held: SHA-512 of the file of that name on its flash, read behind its back; empty: there is none.
        had: Whether the file was there at the start.
        usual: From where it has its image where its record names no source.
        changed: What of its configuration is not what it was; empty: nothing.
        record: What its run's record says; None: there is none.
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
    """A site's line while the site was staged, by the link's own counters.

    Attributes:
        routers: How many it has.
        by: Who brought the image there, in words.
        image_bytes: The size of the image.
        carried_bytes: What came over the line towards the site, heads and retransmits and all else included.
        lan_bytes: What the LAN carried meanwhile.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that is judged.

    Attributes:
        links: The lines.
        digests: SHA-512 of the images, by name.
        parts: Where the run stands at each site, as `flashferry sites show` has it.
        cut: What was seen while a line was cut; None: it never was.
        depots: By site with a depot, SHA-512 of the image in its catalogue; empty: there is none.
    """

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
    carried, alone = (sum(find) for find in zip(*((one.carried_bytes, _alone(one)) for one in seen.links), strict=True))
    print_line(f"over all lines: {units.size(carried)}; each router for itself: {units.size(alone)} of images alone")
    print_line()
    return print_checks(
        (
            ("all routers are done, and each has its record here", _unwell(seen.routers)),
            ("seen from behind their backs, all configurations are what they were", _changed(seen.routers)),
            ("what lies on their flash are the images, byte for byte", _unlike(seen)),
            (f"each line carried its image once: at most {MOST_RATIO:.2f} of its size", _over(seen.links)),
            ("the records of all parts are complete", _unfinished(seen.parts)),
            ("the site whose line was cut went on, and the centre said since when it was silent", _uncut(seen.cut)),
        )
    )


def _from(one: RouterSeen) -> str:
    """Return from where a router has its image, and by what, in words."""
    if one.record is None:
        return "-"
    return str(one.record.get("source") or f"{one.usual}, {one.record.get('transport') or 'by nothing'}")


def _router_row(one: RouterSeen, digests: Mapping[str, str]) -> dict[str, str | Text]:
    is_right = one.held == digests.get(one.image)
    record = one.record or {}
    copy = (record.get("pull") or {}).get("device") or {}
    return {
        "router": one.name,
        "site": one.site,
        "image before": "there" if one.had else "-",
        "after": Text("proven", style=GOOD) if is_right else Text("wrong" if one.held else "none", style=BAD),
        "from": _from(one),
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


def _alone(one: LinkSeen) -> int:
    return one.routers * one.image_bytes


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


def _changed(routers: Sequence[RouterSeen]) -> Iterator[str]:
    yield from (f"{one.name}: its configuration is not what it was: {one.changed}" for one in routers if one.changed)


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
        yield "no site was given anything"
    for one in parts:
        if one["state"] != "ended" or not one["is_whole"]:
            whole = "all words are here" if one["is_whole"] else "words are missing"
            yield f"site {one['site']}: its part is {one['state']}, {whole}"


def _uncut(cut: CutSeen | None) -> Iterator[str]:
    if cut is None:
        yield "no line was cut in mid-run"
        return
    if cut.carried_bytes:
        yield f"{cut.site}: its line was cut, and carried {counted(cut.carried_bytes, 'byte')}"
    if cut.grown_bytes <= 0:
        yield f"{cut.site}: nothing was copied there while its line was cut"
    if not cut.silent_s >= LEAST_SILENT_S:
        yield f"{cut.site}: expected the centre to call it silent, its last word came {cut.silent_s:.0f} s before"
