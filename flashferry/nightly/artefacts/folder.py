"""Write the folder of a night, complete or not at all.

    ff-nightly-20261122T0100-3f2a/
        report.json, report.html, junit.xml     the night and its history
        events.jsonl                            a line for each step and judgement
        ...                                     output of the lab and the product
    nights.jsonl                                beside the folders: a line for each night

Known secrets are masked in texts, because the lab's output may contain passwords (a topology has the day-0
configuration of its routers). A capture is binary: it stays as it is, readable by its owner only.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import sync_folder, write_whole
from flashferry.core.redaction import masked, redact_json
from flashferry.nightly.artefacts.page import night_html
from flashferry.nightly.artefacts.report import night_junit, night_report, report_json
from flashferry.nightly.night import Night
from flashferry.store.nights import PastSeriesNight

EVENTS, NIGHTS = "events.jsonl", "nights.jsonl"
_OWN = frozenset({"report.json", "report.html", "junit.xml"})


def write_artefacts(
    night: Night, folder: Path, files: Mapping[str, bytes], history: Sequence[PastSeriesNight] = ()
) -> Path:
    """Write the folder of a night, and replace an existing one.

    Args:
        night: The night, with judgements.
        folder: The parent folder; it is made if missing.
        files: Content by file name, which may contain folders: `consoles/xe1.log`.
        history: Results of earlier nights, for the graphs.

    Returns:
        The night's own folder.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    names = {_checked(name): content for name, content in files.items()}
    names.setdefault(EVENTS, "".join(_events(night)).encode())
    report = night_report(night, history, names)
    made = {"report.json": report_json(report), "report.html": night_html(report), "junit.xml": night_junit(report)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        whole = _filled(folder, night.night_id, names, made)
        _remember(folder / NIGHTS, night)
        sync_folder(folder)
    except OSError as error:
        raise _unwritable(folder, error) from None
    return whole


def check_writable(folder: Path) -> None:
    """Check before the night that its folder can be made; makes none.

    Raises:
        ConfigInvalid: Nothing can be written there.
    """
    there = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    try:
        with tempfile.TemporaryDirectory(dir=there, prefix=".flashferry-"):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> ConfigInvalid:
    return ConfigInvalid(
        f"the night's folder in {folder} cannot be written: {error.strerror or error}",
        hint="Check free disk space and the folder's permissions, or give another folder",
    )


def _filled(folder: Path, name: str, files: Mapping[str, bytes], made: Mapping[str, str]) -> Path:
    fresh = Path(tempfile.mkdtemp(dir=folder, prefix=f".{name}."))
    try:
        for path, content in files.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            write_whole(fresh / path, _without_secrets(content), is_private=True)
        for path, text in made.items():
            write_whole(fresh / path, text, is_private=False)
        fresh.chmod(0o755)
        return _put(fresh, folder / name)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _put(fresh: Path, whole: Path) -> Path:
    """Rename a folder, and remove the one that had the name."""
    if whole.exists():
        old = Path(tempfile.mkdtemp(dir=whole.parent, prefix=f".{whole.name}."))
        whole.replace(old)
        fresh.replace(whole)
        shutil.rmtree(old, ignore_errors=True)
    else:
        fresh.replace(whole)
    return whole


def _checked(name: str) -> str:
    """Return a file's name if it stays in the night's folder and is none of ours."""
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name or str(path) in _OWN:
        own = ", ".join(sorted(_OWN))
        raise ConfigInvalid(
            f"files of the night: expected a name below its folder and none of {own}, found {name!r}",
            hint="Report it: a backend of ours gave it",
        )
    return str(path)


def _without_secrets(content: bytes) -> bytes:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content
    return masked(text).encode()


def _events(night: Night) -> Iterator[str]:
    """Yield the steps, then the judgements, as JSON lines."""
    for step in night.steps:
        yield _line({"event": "step", **to_json(step)})
    for judgement in night.judgements:
        yield _line({"event": "judgement", "series": str(judgement.key), **to_json(judgement)})


def _remember(path: Path, night: Night) -> None:
    """Add a night to the list of all, for other tools."""
    known = {
        "night": night.night_id,
        "started_at": night.started_at.isoformat(),
        "ended_at": night.ended_at.isoformat(),
        "exit_code": int(night.exit_code),
        "fault": night.fault.value if night.fault is not None else None,
        "is_comparable": night.is_comparable,
        "series": {str(one.key): one.colour.value for one in night.judgements},
    }
    own = f'{{"night": {json.dumps(night.night_id)}, '
    before = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    others = [line for line in before if not line.startswith(own)]
    write_whole(path, "".join([*others, _line(known)]), is_private=False)


def _line(value: dict[str, object]) -> str:
    return json.dumps(redact_json(value)) + "\n"
