"""Ends its own process by SIGKILL at a kill point: nothing of it runs on, no `finally`, no flush, no goodbye."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from netmiko import BaseConnection

from flashferry.monitor.events import Event
from flashferry.store.journal import Journal
from tests.e2e.matrix.points import AtEvent, AtFlash, AtJournal, AtWrite, Trigger
from tests.patience import until

_LOOK_EVERY_S = 0.01


def die() -> NoReturn:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives SIGKILL")


def when_on_flash(file: Path, wanted_bytes: float, act: Callable[[], object]) -> None:
    """Do something as soon as a file has so many bytes."""

    def look() -> None:
        until(lambda: file.exists() and file.stat().st_size >= wanted_bytes, "bytes on flash", poll_s=_LOOK_EVERY_S)
        act()

    threading.Thread(target=look, daemon=True).start()


class Tripwire:
    """Watches for a trigger; one device only."""

    def __init__(self, trigger: Trigger | None) -> None:
        self._trigger = trigger
        self._step = ""
        self._seen = 0
        self._told = 0

    def event(self, event: Event) -> None:
        """Note an event of the run."""
        if event.status == "started":
            self._step, self._seen = event.step, 0
        trigger = self._trigger
        if isinstance(trigger, AtEvent) and (trigger.step, trigger.status) == (event.step, event.status):
            self._told += 1
            if self._told == trigger.nth:
                die()

    def watch_writes(self) -> None:
        """See all that goes to the device, where netmiko sends it."""
        if not isinstance(self._trigger, AtWrite):
            return
        trigger, send = self._trigger, BaseConnection.write_channel

        def write_channel(connection: BaseConnection, out_data: str) -> None:
            hit = self._step == trigger.step and re.search(trigger.pattern, out_data) is not None
            self._seen += hit
            is_it = hit and self._seen == trigger.nth
            if is_it and not trigger.after:
                die()
            send(connection, out_data)
            if is_it:
                die()

        patch.object(BaseConnection, "write_channel", write_channel).start()

    def watch_flash(self, file: Path, member_files: tuple[Path, ...], image_bytes: int) -> None:
        """See how much of the image is on the device, or on its first other member."""
        if isinstance(self._trigger, AtFlash):
            watched = member_files[0] if self._trigger.on_member else file
            when_on_flash(watched, self._trigger.share * image_bytes, die)

    def journal(self, directory: Path) -> Journal:
        """Return a journal of this state directory, with the wire in it."""
        trigger = self._trigger
        journal = Journal(directory)
        if not isinstance(trigger, AtJournal):
            return journal
        call: Callable[..., Any] = getattr(journal, trigger.call)

        def wired(*arguments: Any, **named: Any) -> None:
            if trigger.before_commit:
                # SQLite tells each statement when it begins: the row is written, and not yet committed.
                journal._db.set_trace_callback(lambda statement: die() if statement == "COMMIT" else None)
            call(*arguments, **named)
            die()

        setattr(journal, trigger.call, wired)
        return journal
