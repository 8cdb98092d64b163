"""The peers: what is left, what the tables say of it, what is played and what is kept."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.errors import LabError
from flashferry.lab.experiment.peers import study
from flashferry.lab.experiment.peers.study import (
    TOOLS,
    Found,
    PeersPlan,
    Tool,
    last_line,
    lines_left,
    play_missing,
    read_found,
    side_by_side,
    versions,
    write_peers,
)
from flashferry.lab.experiment.peers.study import _changed as changed

PLAN = PeersPlan(python=None, size_bytes=3_000_000, ceiling_s=120.0, parallel=2)
PULL, PUSH = Tool(name="t", patience="9 s"), Tool(name="p", needs_scp=True, patience="10 s")


def _found(situation: str, outcome: str, tool: str = "t", **more: Any) -> Found:
    common: dict[str, Any] = {
        "seconds": 1.25,
        "said": "",
        "lines_left": (),
        "link_bytes": 2_000_000,
        "is_there": outcome == "ok",
    }
    return Found(tool=tool, situation=situation, outcome=outcome, **common | more)


def test_lines_left_are_those_that_differ() -> None:
    """The stamp of the last change is no line; what was added or taken away is."""
    before = "! Last configuration change at 1\nhostname xe\nip tcp window-size 9\nend\n"
    after = "! Last configuration change at 2\nhostname xe\nfile prompt quiet\nend\n"
    assert changed(before, after) == ("-ip tcp window-size 9", "+file prompt quiet")
    assert changed(before, before) == ()


def test_the_last_words_are_the_devices() -> None:
    """The device's error is found within an exception's text, its credentials are not; else the last line counts."""
    printed = r"Failure: ('x', 'copy\r\n%Error opening ftp://u:secret@198.18.0.1/f (Timed out)\r\nxe#')" + "\ntail\n"
    assert last_line(printed) == "%Error opening ftp://*:*@198.18.0.1/f (Timed out)"
    assert last_line("a\n b \n\nreport: flashferry report RUN\n") == "b"
    assert last_line("") == ""


def test_a_row_tells_how_each_situation_ended() -> None:
    """A success without the image, a broken file and a server that lives on are told, and what was not played."""
    found = [
        _found("success", "ok", is_there=False),
        _found("already there", "ok"),
        _found("kill -9", "killed", part_bytes=500_000, processes_left=1),
    ]
    pull, push = side_by_side(found, [PULL, PUSH]).splitlines()[-2:]
    assert pull == (
        "| t | ok, 1.2 s; no image | ok, 1.2 s; 2.00 MB sent | "
        "killed, 1.2 s; 0.50 MB of a broken file left; its server process lives on | "
        "not played | not played | not played | 9 s |"
    )
    assert push.split(" | ")[4] == "no server to reach"


def test_lines_left_are_counted_by_how_a_tool_ended() -> None:
    """Of the failures the worst counts, not what the ceiling killed; behind a kill stands what our recovery leaves."""
    found = [
        _found("success", "ok"),
        _found("full flash", "failed"),
        _found("unreachable", "failed", lines_left=("+a",)),
        _found("stall", "still waiting", lines_left=("+a", "+b", "+c")),
        _found("kill -9", "killed", lines_left=("+a", "+b"), recovered_lines=()),
    ]
    assert lines_left(found, [PULL]).splitlines()[-1] == "| t | 0 | 1 | 2 | 0 |"


def test_results_are_read_again_only_for_the_same_settings(tmp_path: Path) -> None:
    """What was written comes back as it was; results of another image or ceiling are refused."""
    found = [_found("kill -9", "killed", lines_left=("+a",), recovered_lines=()), _found("success", "ok")]
    write_peers(found, [PULL], tmp_path, settings=PLAN.settings, heading="h")
    assert read_found(tmp_path / "peers.json", PLAN) == found
    other = PeersPlan(python=None, size_bytes=1, ceiling_s=120.0, parallel=2)
    with pytest.raises(LabError, match="other settings"):
        read_found(tmp_path / "peers.json", other)
    assert read_found(tmp_path / "none.json", PLAN) == []


def test_only_what_is_missing_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second copy plays the first one before it, whose result is there and stays."""
    played: list[tuple[str, tuple[str, ...]]] = []

    def play(tool: Tool, situations: Sequence[str], **_: Any) -> Iterator[Found]:
        played.append((tool.name, tuple(situations)))
        return (_found(each, "ok", tool=tool.name) for each in situations)

    monkeypatch.setattr(study, "play", play)
    kept: list[Found] = []
    expected = [(PULL, "success"), (PULL, "already there"), (PULL, "stall")]
    play_missing(
        expected, PLAN, [_found("success", "ok"), _found("stall", "failed")],
        keep=kept.append, log=lambda _: None, interrupted=lambda: False,
    )  # fmt: skip
    assert played == [("t", ("success", "already there"))]
    assert [each.situation for each in kept] == ["already there"]


def test_a_world_that_breaks_costs_its_own_cells_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reason is told, not kept as a result; the others are played. A fault of ours is raised, not lost."""

    def play(tool: Tool, situations: Sequence[str], **_: Any) -> Iterator[Found]:
        if situations[0] == "stall":
            raise LabError("no room for a link")
        if situations[0] == "kill -9":
            raise ZeroDivisionError
        return (_found(each, "ok", tool=tool.name) for each in situations)

    monkeypatch.setattr(study, "play", play)
    kept: list[Found] = []
    shown: list[str] = []

    def missing(*situations: str) -> None:
        expected = [(PULL, each) for each in situations]
        play_missing(expected, PLAN, [], keep=kept.append, log=shown.append, interrupted=lambda: False)

    missing("stall", "full flash")
    assert [each.situation for each in kept] == ["full flash"]
    assert "t, stall: no room for a link" in shown
    with pytest.raises(ZeroDivisionError):
        missing("kill -9")


def test_a_tool_without_its_environment_is_not_there(tmp_path: Path) -> None:
    """Ours needs none; a peer without a Python of its own counts as absent."""
    assert versions(TOOLS[0], None) == {}
    assert [versions(each, None) for each in TOOLS[1:]] == [None] * 4
    assert versions(TOOLS[1], tmp_path / "python") is None


def test_last_messages_of_failed_runs_stay_in_the_folder(tmp_path: Path) -> None:
    """The page shows outcomes and lines left; what each tool printed last is in peers.md."""
    found = [_found("unreachable", "failed", said="%Error (Timed out)")]
    text = write_peers(found, [PULL], tmp_path, settings=PLAN.settings, heading="h")
    assert "Timed out" not in text
    assert "- t, unreachable: `%Error (Timed out)`" in (tmp_path / "peers.md").read_text()
