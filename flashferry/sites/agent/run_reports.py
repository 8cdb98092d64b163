"""Follow a run's event file and put its lines into the spool.

The position in the file is stored in the same transaction as the reports, so a killed agent neither loses a line nor
reports it twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from flashferry.core.jobs import JobFolder
from flashferry.core.state_folder import open_private
from flashferry.sites.agent.word_sender import add_word
from flashferry.sites.wire import WordKind
from flashferry.store.sites import spool
from flashferry.store.sites.agents import AgentDatabase

MOST_READ_BYTES = 1 << 20
MOST_BATCH_BYTES = 64_000
"""Size of a report's lines; a line has a few hundred bytes."""


class EventTail:
    """Follow the events of one job.

    Args:
        database: The agent's database.
        state: The state folder.
        order_id: The order of the job.
        run: The centre's name of the part.
        job_id: The job.
        progress_s: Least interval between progress reports of a device, by the times in the lines.
    """

    def __init__(
        self, database: AgentDatabase, state: Path, *, order_id: str, run: str, job_id: str, progress_s: float
    ) -> None:
        self._database, self._path = database, JobFolder.of(state, job_id).events
        self._order_id, self._run, self._job_id = order_id, run, job_id
        self._progress_s = progress_s
        self._logged_at_s: dict[object, float] = {}

    def take(self) -> bool:
        """Put new lines into the spool; return whether there were any."""
        with self._database.reading() as database:
            begins = spool.position_of(database, self._job_id)
        text = self._new_text(begins)
        if not text:
            return False
        with self._database.writing() as database:
            for batch in _batches(self._kept(text)):
                add_word(database, self._run, WordKind.EVENT, {"order": self._order_id, "events": batch})
            spool.set_position(database, self._job_id, begins + len(text))
        return True

    def _new_text(self, begins: int) -> bytes:
        """Return the complete lines from a position on; may be empty."""
        try:
            with open_private(self._path, "rb") as file:
                file.seek(begins)
                text: bytes = file.read(MOST_READ_BYTES)
        except OSError:
            return b""
        return text[: text.rfind(b"\n") + 1]

    def _kept(self, text: bytes) -> Iterator[dict[str, Any]]:
        for line in text.splitlines():
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and not self._is_too_soon(event):
                    yield event

    def _is_too_soon(self, event: dict[str, Any]) -> bool:
        if event.get("status") != "progress":
            return False
        host, at_s = event.get("host"), float(event.get("at_s") or 0.0)
        if at_s - self._logged_at_s.get(host, -self._progress_s) < self._progress_s:
            return True
        self._logged_at_s[host] = at_s
        return False


def _batches(events: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size_bytes = 0
    for event in events:
        length = len(json.dumps(event))
        if batch and size_bytes + length > MOST_BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
        batch.append(event)
        size_bytes += length
    if batch:
        yield batch
