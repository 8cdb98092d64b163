"""What a run says when another terminal wants it to stop."""

from __future__ import annotations

from types import SimpleNamespace

from flashferry.planning.device_queue import Hold
from flashferry.run.control import RunControl
from flashferry.store.control import ControlRequest


def test_a_run_says_in_its_own_words_what_it_does_once_it_is_to_stop():
    """An activation restores nothing: it follows what it restarted."""
    told = []
    journal = SimpleNamespace(control=lambda _: ControlRequest(stopping=True))
    for given in ({}, {"stopping": "nothing new begins"}):
        RunControl(
            journal, "run", interrupted=lambda: False, notify=lambda *words: told.append(words[-1]), **given
        ).poll()
    assert told == ["ending what is under way and restoring every device", "nothing new begins"]


def test_nothing_starts_after_a_pause_was_requested():
    """A request of a moment ago holds the next device: the journal is read before each start."""
    asked = ControlRequest()
    control = RunControl(
        SimpleNamespace(control=lambda _: asked),
        "run",
        interrupted=lambda: False,
        notify=lambda *_: None,
        clock=lambda: 0.0,
    )
    assert control.hold() is None
    asked = ControlRequest(paused=True)
    assert control.hold() == Hold(reason="paused", for_good=False)
