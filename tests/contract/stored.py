"""A journal as it was written on a lab: laid out anew, and read by today's code to the last byte."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.contract import product

JOURNAL = Path(__file__).resolve().parent / "journals" / "journal.json"

_NOW_S = datetime(2026, 11, 24, 12, tzinfo=UTC).timestamp()
"""A day after the journal was made."""


def journal() -> Mapping[str, Any]:
    """Return the stored journal."""
    content: Mapping[str, Any] = json.loads(JOURNAL.read_text(encoding="utf-8"))
    return content


def lay_out(state: Path) -> tuple[str, ...]:
    """Make a state folder with the journal in it; return its runs, the oldest first."""
    content = journal()
    state.mkdir(mode=0o700)
    with closing(sqlite3.connect(state / "journal.sqlite3")) as database:
        database.executescript("\n".join(content["sql"]))
        database.execute(f"PRAGMA user_version = {content['schema']}")
        database.commit()
        runs = tuple(run for (run,) in database.execute("SELECT run_id FROM runs ORDER BY started_at"))
    for name, text in content["files"].items():
        path = state / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
    return runs


def readings(folder: Path) -> dict[str, str]:
    """Return what every verb that reads a journal says of it, exactly, to programs and to people."""
    probe, good, bad, dead = lay_out(folder / "state")
    asked: dict[str, tuple[object, ...]] = {
        "status.json": ("status", "--json"),
        "run-list.json": ("run", "list", "--json"),
        "run-show.json": ("run", "show", "latest", "--json"),
        "history.json": ("history", "--json"),
        "history-xe1.json": ("history", "xe1", "--json"),
        # Nobody answers there, and nobody has to: who left it tuned is told first.
        "check-held.json": ("check", "-i", _inventory(folder / "inventory"), "--json"),
        **{f"report-{name}.json": ("report", run, "--json") for name, run in
           {"probe": probe, "good": good, "bad": bad, "dead": dead}.items()},
        "history-xe1.txt": ("history", "xe1"),
        "status.txt": ("status",),
        "run-show.txt": ("run", "show", bad),
        **{f"report-{form}.txt": ("report", good, "--format", form) for form in ("table", "csv", "junit")},
        "report-bad-junit.txt": ("report", bad, "--format", "junit", "--check"),
        "report-html.html": ("report", bad, "--format", "html"),
        **{f"run-{word}.json": ("run", word, dead, "--json") for word in ("pause", "continue", "approve", "stop")},
    }  # fmt: skip
    return {name: _told(folder, done) for name, done in product.run_each(folder, asked, at_s=_NOW_S).items()}


def _inventory(folder: Path) -> Path:
    """Write an inventory of the router that the dead run has in its hands, at an address where nobody listens."""
    folder.mkdir()
    router = {"hostname": "127.0.0.1", "port": 1, "platform": "ios", "username": "u", "password": "p"}
    (folder / "hosts.yaml").write_text(json.dumps({"xe1": router}))
    return folder


def _told(folder: Path, done: product.Done) -> str:
    assert "Traceback" not in done.err, done.err
    text = done.out + (f"\n(standard error)\n{done.err}" if done.err else "") + f"\n(exit code {done.code})\n"
    # How a page looks is no contract; what it says is.
    text = re.sub(r"(?s)<(style|script)>.*?</\1>", r"<\1></\1>", text)
    text = re.sub(r"(?m)^ *\d+\.\d s  ", "TIME  ", text.replace(str(folder), "FOLDER"))
    return re.sub(r"flashferry \d+\.\d+\.\d+\b", "flashferry VERSION", text)
