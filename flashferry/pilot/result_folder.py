"""Folder with the results of a pilot: page, transcripts and captures, anonymised."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet_options import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import sanitize
from flashferry.core.values import replace
from flashferry.devices.connection import ENABLE_SECRET
from flashferry.pilot.anonymise import Anonymiser
from flashferry.pilot.capture_set import captures, device_name, transcript
from flashferry.pilot.exchanges import Session, read_session
from flashferry.pilot.facts import Evidence, Finding, judge
from flashferry.pilot.page import page

if TYPE_CHECKING:
    from nornir.core.inventory import Host

    from flashferry.pilot.step_results import PilotOptions, StepResult


def make_folder(folder: Path) -> None:
    """Create the folder of the result.

    Raises:
        ConfigInvalid: It is not empty, or cannot be created.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise ConfigInvalid(
            f"--output {folder}: expected a folder to write to: {error.strerror or error}", hint="Name another folder"
        ) from None
    if not is_empty:
        raise ConfigInvalid(
            f"--output {folder}: expected an empty folder, or one that is not there yet; found files in it",
            hint="Name another folder: a pilot overwrites nothing",
        )


def write_results(
    options: PilotOptions,
    host: Host,
    scratch: Path,
    names: Sequence[str],
    results: Sequence[StepResult],
    evidence: Evidence,
) -> tuple[Finding, ...]:
    """Write page, transcript and captures of the steps so far; return the result of each fact.

    Args:
        options: Router and destination.
        host: The router.
        scratch: Folder with the sessions' transcripts, one folder per name.
        names: Names of the recorded blocks, in order.
        results: Results of the steps.
        evidence: What the steps showed, without the sessions.
    """
    sessions = tuple(_sessions(scratch, names))
    if not sessions:
        return ()
    anonymiser = Anonymiser(
        sessions,
        hosts=(options.host, str(host.hostname or ""), socket.gethostname()),
        users=(host.username or "",),
        words=(host.password or "", str(host.get(ENABLE_SECRET) or "")),
    )
    findings = judge(replace(evidence, sessions=sessions))
    files = {f"transcript/{one.name}.txt": transcript(one, anonymiser) for one in sessions}
    files |= {f"captures/{path}": text for path, text in captures(sessions, anonymiser).items()}
    files["pilot.md"] = page(
        device_name(sessions), results, findings, lambda text: anonymiser.text(_without_paths(options, text))
    )
    for path, text in files.items():
        place = options.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8", errors="backslashreplace")
    return tuple(replace(one, text=sanitize(anonymiser.text(one.text))) for one in findings)


def _without_paths(options: PilotOptions, text: str) -> str:
    """Return a sentence without paths of this host, which may contain the operator's names."""
    fleet = options.fleet
    places = {"INVENTORY": fleet.inventory, "STATE": state_folder(fleet.state_dir), "OUTPUT": options.folder}
    for name, place in places.items():
        text = text.replace(str(place), name)
    return text


def _sessions(scratch: Path, names: Sequence[str]) -> Iterator[Session]:
    number = 0
    for name in names:
        folder = scratch / name
        for file in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns) if folder.is_dir() else ():
            number += 1
            text = file.read_text(encoding="utf-8", errors="replace")
            yield read_session(f"{number:02d}-{name}", text.split("\n"))
