"""What came of the demo: the run's report in few lines, and what is not as it should be."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from flashferry.cli.view.layout import rate, show
from flashferry.core import units
from flashferry.lab.demo.harness import print_checks, print_line
from flashferry.lab.demo.service.environment import SITE_NAMES

if TYPE_CHECKING:
    from rich.text import Text

    from flashferry.lab.world import World

_GOOD = "done"
_RESTORED = "proven equal to the start"


def print_run(report: Mapping[str, Any]) -> None:
    """Print what the run's report says: devices, sites, and how fast tuned copies were."""
    summary = report["summary"]
    took = units.duration(summary["wall_s"]) if summary["wall_s"] is not None else "an unknown time"
    outcomes, proofs = (
        ", ".join(f"{one['devices']} {one['word']}" for one in summary[key]) for key in ("outcomes", "proofs")
    )
    print_line(f"{summary['devices']} routers in {took}: {outcomes}; configurations: {proofs}")
    sent = f"{units.size(summary['acked_bytes'])} sent and acknowledged"
    print_line(f"{summary['hashes_proven']} images proven by their hash; {sent}")
    show(_site_row(site) for site in report["sites"])
    print_line()
    print_line("each tuned copy to flash, beside the others on its line:")
    show(_model_rows(report["devices"]))


def judged(
    world: World,
    report: Mapping[str, Any],
    audit: Mapping[str, Any],
    *,
    changed: Mapping[str, str],
    digests: Mapping[str, str],
) -> tuple[str, ...]:
    """Print what the lab and the audit say; return what is not as it should be, in sentences.

    Args:
        world: The routers, asked behind SSH's back.
        report: The run's report.
        audit: What the look at the audit found.
        changed: By router, what of its configuration is not what it was before the demo; empty texts for nothing.
        digests: SHA-256 of the images, by name.
    """
    print_line()
    return print_checks((
        ("", _unwell(world, report)),
        (
            "seen from behind their backs, all configurations are what they were",
            (f"{host}: {found}" for host, found in changed.items() if found),
        ),
        ("what lies on their flash are the images, byte for byte", _unlike(world, report, digests)),
        (
            f"the audit is whole: {audit['entries']} entries, each holds the one before it",
            (f"audit: {fault}" for fault in audit["faults"]),
        ),
    ))  # fmt: skip


def _unwell(world: World, report: Mapping[str, Any]) -> Iterator[str]:
    found = {one["host"]: one for one in report["devices"]}
    for name in (one.name for one in world.devices):
        device = found.get(name)
        if device is None:
            yield f"{name}: it is not in the run"
        elif device["outcome"] != _GOOD:
            yield f"{name}: {device['outcome']}: {device['reason']}"
        elif device["restore"]["proof"] != _RESTORED:
            yield f"{name}: its configuration is {device['restore']['proof']}"


def _unlike(world: World, report: Mapping[str, Any], digests: Mapping[str, str]) -> Iterator[str]:
    """Yield which routers have another image on flash than they should."""
    for device in report["devices"]:
        paths = [file.path for file in world.files(device["host"]) if file.name == device["image"]]
        held = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
        if held != [digests.get(device["image"])]:
            yield f"{device['host']}: {device['image']} on its flash is not the image"


def _site_row(site: Mapping[str, Any]) -> dict[str, str | Text]:
    share = site["cap_share"]
    return {
        "site": SITE_NAMES.get(site["name"], str(site["name"])),
        "done": f"{site['good']} of {site['devices']}",
        "sent": units.size(site["acked_bytes"]),
        "while copying": rate(site["rate_bytes_per_s"]),
        "cap": rate(site["cap_bytes_per_s"]),
        "of it": f"{share:.0%}" if share is not None else "-",
    }


def _model_rows(devices: list[Mapping[str, Any]]) -> list[dict[str, str | Text]]:
    """Return a row for each model and site: how fast its tuned copies to flash were, beside each other."""
    rates: dict[tuple[str, str], list[float]] = {}
    for one in devices:
        if one["tuned"] is not None and one["tuned"]["to_flash"]:
            rates.setdefault((str(one["site"]), str(one["model"])), []).append(one["tuned"]["bytes_per_s"])
    return [
        {
            "model": model,
            "at": SITE_NAMES.get(site, site),
            "tuned copies": str(len(found)),
            "slowest": rate(min(found)),
            "median": rate(statistics.median(found)),
            "fastest": rate(max(found)),
        }
        for (site, model), found in rates.items()
    ]
