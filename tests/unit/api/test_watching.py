"""Who watches a run besides people."""

from __future__ import annotations

import json
from pathlib import Path

from flashferry.api.watching import roster_of, watchers
from flashferry.monitor.events import Event
from flashferry.monitor.progress import Roster
from inventory.nornir_loader import open_inventory


def event(text: str) -> Event:
    return Event(host="r1", step="check", status="done", text=text, at_s=1.0)


def test_a_roster_has_sites_sizes_and_caps(tmp_path: Path) -> None:
    """What is known beforehand; a size that nobody knows is none."""
    link = "link_rate_bps: 8000000, cap_share: 0.5"
    (tmp_path / "hosts.yaml").write_text(
        f"r1: {{hostname: 192.0.2.1, platform: ios, data: {{site: a, {link}}}}}\n"
        "r2: {hostname: 192.0.2.2, platform: ios}\n"
    )
    nornir = open_inventory(tmp_path)
    roster = roster_of(nornir, {"r1": 25})
    assert [(one.host, one.site, one.size_bytes) for one in roster.devices] == [("r1", "a", 25), ("r2", "", None)]
    assert set(roster.caps_bytes_per_s) == {"a"}
    assert 480_000 < roster.caps_bytes_per_s["a"] < 500_000
    assert [one.size_bytes for one in roster_of(nornir, 7).devices] == [7, 7]


class Seen:
    """A view that keeps what it is shown, and fails at one event."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.said: list[str] = []

    def __call__(self, event: Event) -> None:
        if event.text == "bad":
            raise OSError("the terminal is gone")
        self.events.append(event.text)

    def say(self, text: str) -> None:
        self.said.append(text)


def test_a_file_of_events_and_a_view_are_told_alike(tmp_path: Path) -> None:
    """One that fails keeps nothing from the others; what is said to people goes to the view where there is one."""
    path, said, view = tmp_path / "events.jsonl", [], Seen()
    with watchers(Roster(), said.append, events=path) as told:
        told.say("to nobody's view")
        shown = told.over(view)
        for text in ("one", "bad", "two"):
            shown(event(text))
        shown.say("to people")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["text"] for line in lines if line["step"] == "check"] == ["one", "bad", "two"]
    assert (view.events, view.said) == (["one", "two"], ["to people"])


def test_without_a_file_people_are_told_by_whoever_asked() -> None:
    """Nothing is written anywhere."""
    said: list[str] = []
    with watchers(Roster(), said.append) as told:
        told(event("one"))
        told.say("a word")
    assert said == ["a word"]
