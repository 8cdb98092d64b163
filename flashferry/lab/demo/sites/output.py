"""The demo's lines: commands, what a run reports while it runs, and tables."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.cli.view.layout import show
from flashferry.core import units
from flashferry.core.safe_quote import counted
from flashferry.lab.demo.harness import print_line

if TYPE_CHECKING:
    from flashferry.lab.demo.programs import Followed

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
    """Prints in few lines what a run reports, as it comes: devices that do the same at once share a line.

    Args:
        followed: The command that is under way.
        events: The file of its events.
        source: From where devices copy, such as ` from their depot`; empty where a line of its own says so.
    """

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
        return f"{event['outcome'] or text}, configuration {event['restored'] or 'put back'}"
    return None


def print_agents(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what `flashferry sites list` says."""
    show(
        {
            "site": str(one["site"]),
            "agent": str(one["agent"] or "-"),
            "version": str(one["release"] or "-"),
            "clock": _clock(one["clock_ahead_s"], one["clock_within_s"] or 0.0),
            "last heard": str(one["heard"]),
            "in hand": "a part" if one["runs"] else "-",
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
