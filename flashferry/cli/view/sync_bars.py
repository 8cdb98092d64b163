"""What a sync shows while it runs: a bar for the image at hand on a terminal, lines for what happens to it anywhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from flashferry import api
from flashferry.cli.terminal.output import say
from flashferry.cli.view.layout import console
from flashferry.core.redaction import sanitize
from flashferry.core.units import coarse_rate, duration, rate, size
from flashferry.core.value_description import counted

if TYPE_CHECKING:
    from flashferry.depot.sync.syncing import Synced

_LINE_EVERY_S = 30.0
"""Where there is no terminal, a line has how far an image is, so often."""


class _Rate(ProgressColumn):
    """How fast bytes come, in the one unit that rates have here."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else coarse_rate(task.speed))


class SyncBars:
    """Takes the progress of a sync, for the time of a block."""

    def __init__(self) -> None:
        self._is_live = console(stderr=True).is_terminal
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            _Rate(),
            TimeRemainingColumn(),
            console=console(stderr=True),
            transient=True,
            disable=not self._is_live,
        )
        self._tasks: dict[tuple[str, api.SyncPhase], TaskID] = {}
        self._printed_s = time.monotonic()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, progress: api.SyncProgress) -> None:
        """Show how far an image is."""
        if progress.text:
            self._say(f"{progress.image}: {progress.text}")
        if progress.phase in {api.SyncPhase.COPY, api.SyncPhase.PROVE}:
            self._show(progress)

    def _show(self, progress: api.SyncProgress) -> None:
        if self._is_live:
            key = progress.image, progress.phase
            if key not in self._tasks:
                for task in self._tasks.values():
                    self._bars.update(task, visible=False)
                words = sanitize(f"{progress.phase.value} {progress.image}")
                self._tasks[key] = self._bars.add_task(words, total=progress.size_bytes, completed=progress.done_bytes)
            self._bars.update(self._tasks[key], completed=progress.done_bytes, visible=True)
        elif time.monotonic() - self._printed_s >= _LINE_EVERY_S:
            self._printed_s = time.monotonic()
            share = progress.done_bytes / max(1, progress.size_bytes)
            self._say(f"{progress.image}: {progress.phase.value}, {share:.0%} of {size(progress.size_bytes)}")

    def _say(self, text: str) -> None:
        if self._is_live:
            self._bars.console.print(Text(sanitize(f"flashferry: {text}")))
        else:
            say(text)


def outcome_line(one: api.SyncedImage) -> str:
    """Return what became of an image in a line."""
    synced = one.synced
    if synced is None and one.is_interrupted:
        # What that means was printed when it came.
        return f"{one.name}: under way: {part_in_words(one.held) if one.held is not None else 'nothing here yet'}"
    if synced is None:
        return f"{one.name}: failed: {one.error}" + (f". {one.hint}" if one.hint else "")
    replaced = _replaced(synced)
    if not synced.came_bytes:
        return f"{one.name}: {size(synced.image.size_bytes)}, proven; it was there{replaced}"
    speed = rate(synced.came_bytes / max(synced.copying_s, 1e-3))
    parts = [f"{size(synced.came_bytes)} came by {synced.by} with {speed}", f"{duration(synced.seconds)} in all"]
    if synced.kept_bytes:
        parts.append(f"{size(synced.kept_bytes)} were there")
    if synced.breaks:
        parts.append(f"{counted(synced.breaks, 'break')} of the line")
    if synced.wrong_chunks:
        parts.append(f"{counted(synced.wrong_chunks, 'wrong chunk')}")
    return f"{one.name}: {size(synced.image.size_bytes)}, proven; {', '.join(parts)}{replaced}"


def part_in_words(one: api.Held) -> str:
    """Return how much of an image under way there is: on the disk, and verified of that."""
    if one.here_bytes <= one.verified_bytes:
        return f"{size(one.verified_bytes)} verified"
    return f"{size(one.here_bytes)} here, of them {size(one.verified_bytes)} verified"


def _replaced(synced: Synced) -> str:
    """Return in a sentence which proven image is gone, where one had the name before."""
    if not synced.replaced_sha512:
        return ""
    before, now = synced.replaced_sha512[:16], synced.image.sha512[:16]
    return f". It took the place of another proven image of that name: SHA-512 {before} before, {now} now"
