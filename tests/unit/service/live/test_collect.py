"""The events of a run followed while another process writes them, and looks at a state folder."""

from __future__ import annotations

from datetime import UTC, datetime

from flashferry.model.states import Phase
from flashferry.monitor.event_log import event_line
from flashferry.monitor.events import Event, Progress
from flashferry.service.live.collect import Follower

AT = datetime(2026, 11, 22, 2, 14, tzinfo=UTC)


def write(path, *events: Event) -> None:
    with path.open("ab") as file:
        for event in events:
            file.write(event_line(event, run_id="run", at=AT))


def progress(host: str, acked: int, at_s: float) -> Event:
    seen = Progress(acked_bytes=acked, size_bytes=1000, rate_bytes_per_s=50.0)
    return Event(
        host=host, step="pull", status="progress", text="", at_s=at_s, site="AMS", progress=seen, verdict="cap"
    )


def test_devices_are_followed_as_they_move(tmp_path):
    """Each look takes in what was written since."""
    path = tmp_path / "events.jsonl"
    follower = Follower(path, "stage")
    assert dict(follower.read().devices) == {}
    write(
        path, Event(host="r1", step="pull", status="started", text="", at_s=1.0, site="AMS"), progress("r1", 100, 2.0)
    )
    (one,) = follower.read().devices.values()
    assert (one.phase, one.step, one.acked_bytes, one.rate_bytes_per_s, one.verdict) == (
        Phase.IN_PROGRESS, "pull", 100, 50.0, "cap",
    )  # fmt: skip
    write(path, progress("r1", 300, 3.0))
    heard = follower.read()
    assert (heard.devices["r1"].acked_bytes, heard.last_at) == (300, "2026-11-22T02:14:00.000Z")


def test_since_when_a_run_waits_is_heard(tmp_path):
    """And when it goes on."""
    path = tmp_path / "events.jsonl"
    write(path, Event(host=None, step="wave", status="waiting", text="wave 1 waits", at_s=1.0, wave=1))
    follower = Follower(path, "stage")
    assert (follower.read().hold, follower.read().hold_since) == ("waiting", "2026-11-22T02:14:00.000Z")
    write(path, Event(host=None, step="wave", status="started", text="1 of 2", at_s=2.0, wave=1))
    assert follower.read().hold == ""


def test_lines_that_are_none_of_ours_are_passed_over(tmp_path):
    """What stands around them counts."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"{}\nnonsense\n")
    write(path, progress("r1", 100, 2.0))
    assert set(Follower(path, "stage").read().devices) == {"r1"}
