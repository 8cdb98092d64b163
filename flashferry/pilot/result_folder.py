"""Folder with the results of a pilot: Markdown page, transcripts and captures, anonymised."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flashferry.api.fleet_options import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import sanitize, sanitize_lines
from flashferry.core.units import counted
from flashferry.devices.connection import ENABLE_SECRET
from flashferry.pilot.anonymise import Anonymiser
from flashferry.pilot.exchanges import Entry, Exchange, Session, read_session
from flashferry.pilot.facts import Evidence, Finding, Verdict, judge
from templates.version import parse_version

if TYPE_CHECKING:
    from nornir.core.inventory import Host

    from flashferry.pilot.step_results import PilotOptions, StepResult

_HEADS = {
    Verdict.REFUTED: "Refuted: what this router does otherwise",
    Verdict.CONFIRMED: "Confirmed",
    Verdict.NOT_SEEN: "Not seen: still assumed",
}


def page(
    device: str, steps: Sequence[StepResult], findings: Sequence[Finding], anonymised: Callable[[str], str]
) -> str:
    """Return the page.

    Args:
        device: Model and release as in the names of captures.
        steps: Result of each step.
        findings: Result of each fact.
        anonymised: Anonymises a text.
    """

    def ours(text: str) -> str:
        return text.replace("|", "\\|")

    def cell(text: str) -> str:
        return ours(sanitize_lines(anonymised(text))).replace("\n", "<br>")

    def quoted(text: str) -> str:
        lines = (cell(line).replace("`", "'").strip(" ") for line in text.split("\n"))
        return "<br>".join(f"`{line}`" for line in lines if line)

    parts = [
        f"# Pilot: {sanitize(device)}",
        "",
        _summary(findings),
        "",
        "| step | outcome | |",
        "|---|---|---|",
    ]
    parts += [f"| {one.step} | {one.status} | {cell(one.sentence)} |" for one in steps]
    for verdict, head in _HEADS.items():
        if not (rows := [one for one in findings if one.verdict is verdict]):
            continue
        parts += ["", f"## {head}", ""]
        if verdict is Verdict.NOT_SEEN:
            parts += ["| fact | statement | source | how it is judged |", "|---|---|---|---|"]
            parts += [
                f"| {one.fact.id} | {ours(one.fact.statement)} | {one.fact.source} | {one.fact.judged} |"
                for one in rows
            ]
            continue
        parts += ["| fact | statement | seen | how often | source | how it is judged |", "|---|---|---|---|---|---|"]
        parts += [
            f"| {one.fact.id} | {ours(one.fact.statement)} | {quoted(one.text)} | {one.times} | {one.fact.source} | "
            f"{one.fact.judged} |"
            for one in rows
        ]
    parts += [
        "",
        "A confirmed fact holds for this router and release, no other. Sources: R device text in a public capture, D",
        "Cisco's documentation, T reported by others, C calculated from captures, U unconfirmed.",
        "",
        "This page, `transcript/` and `captures/` are anonymised by rules. Read them before you hand them on.",
    ]
    return "\n".join(parts) + "\n"


def _summary(findings: Iterable[Finding]) -> str:
    found = tuple(findings)
    counts = {verdict: sum(one.verdict is verdict for one in found) for verdict in Verdict}
    return (
        f"Of {counted(len(found), 'fact')}, {counts[Verdict.CONFIRMED]} confirmed, {counts[Verdict.REFUTED]} refuted, "
        f"{counts[Verdict.NOT_SEEN]} not seen."
    )


_STAMPS = re.compile(
    r"^(?:! (?:Last configuration change|NVRAM config last updated)|Current configuration ?:|Using \d+).*\n",
    re.MULTILINE,
)

_PIPE = re.compile(r"\s*\|\s*")

NOTICE = """\
Device output in this folder, and where it comes from
=====================================================

Every file is what one router printed to 'flashferry pilot', without echo and prompt; sessions/ has both. Secrets are
masked; addresses, names of hosts, users and files, serial numbers, certificates and the words of its owner are
replaced, the same by the same everywhere. The rest is as the device sent it.

"""


def captures(sessions: Iterable[Session], anonymiser: Anonymiser) -> dict[str, str]:
    """Return captures by path, such as `dir/csr1000v-16.11.1a.txt`.

    Of answers that differ only in a configuration's timestamps, one is kept.
    """
    sessions = tuple(sessions)
    device = device_name(sessions)
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    for folder, suffix, text in _texts(sessions, anonymiser):
        if not text.strip() or (key := (folder, _STAMPS.sub("", text))) in seen:
            continue
        seen.add(key)
        end = "session" if folder == "sessions" else "txt"
        names = (f"{folder}/{device}{suffix}{'' if number == 1 else f'-{number}'}.{end}" for number in range(1, 10_000))
        found[next(name for name in names if name not in found)] = text
    notice = NOTICE + "".join(f"{path}\n" for path in sorted(found))
    return {"NOTICE": notice, **found}


def transcript(session: Session, anonymiser: Anonymiser) -> str:
    """Return a session's transcript in the form of `--transcript`, anonymised."""
    lines: list[str] = []
    came: list[Entry] = []
    for entry in session.entries:
        if entry.mark == "<" and (not came or came[0].exchange == entry.exchange):
            came.append(entry)
            continue
        lines += _came(came, session, anonymiser)
        came = [entry] if entry.mark == "<" else []
        if entry.mark != "<":
            is_line = entry.mark == ">" and session.exchanges[entry.exchange].is_configuring
            text = anonymiser.text(entry.text, is_configuration=is_line)
            lines.append(f"{entry.stamp} {entry.mark} {text}{entry.end}")
    lines += _came(came, session, anonymiser)
    return "".join(f"{line}\n" for line in lines)


def _came(entries: list[Entry], session: Session, anonymiser: Anonymiser) -> Iterator[str]:
    """Yield consecutive received lines; echo and prompt are no part of an answer."""
    if not entries:
        return
    one = session.exchanges[entries[0].exchange]
    head = entries[:1] if one.echo and entries[0].text == one.echo else []
    tail = entries[-1:] if one.prompt and entries[-1].text == one.prompt else []
    body = entries[len(head) : len(entries) - len(tail)]
    answer = "\n".join(entry.text for entry in body)
    made = anonymiser.answer(answer, one).split("\n") if body else []
    texts = [
        *(anonymiser.exchange(one).echo for _ in head),
        *made,
        *(anonymiser.exchange(one).prompt for _ in tail),
    ]
    for entry, text in zip(entries, texts, strict=True):
        yield f"{entry.stamp} < {text}{entry.end}"


def device_name(sessions: tuple[Session, ...]) -> str:
    """Return model and release as used in the names of captures; `router` if unknown."""
    for session in sessions:
        for one in session.exchanges:
            if one.command == "show version" and (version := parse_version(one.answer)).release:
                model = version.hardware[0] if version.hardware else "router"
                return re.sub(r"[^a-z0-9.]+", "-", f"{model}-{version.release}".lower()).strip("-")
    return "router"


def _texts(sessions: tuple[Session, ...], anonymiser: Anonymiser) -> Iterator[tuple[str, str, str]]:
    """Yield folder, name suffix and text of each capture."""
    for session in sessions:
        dialogue: list[Exchange] = []
        for one in session.exchanges:
            if "(config" in one.prompt or "(config" in one.before:
                dialogue.append(anonymiser.exchange(one))
                if "(config" not in one.prompt:
                    yield "sessions", "", _dialogue(dialogue)
                    dialogue = []
            elif one.command and one.prompt and (kind := _kind(one.command)) is not None:
                yield *kind, anonymiser.answer(one.answer, one)


def _kind(command: str) -> tuple[str, str] | None:
    """Return folder and name suffix for a command's answers; None if they are not captured."""
    words, *filters = _PIPE.split(command)
    suffix = "".join(f"-{re.sub(r'[^a-z0-9]+', '-', one.lower()).strip('-')}" for one in filters)
    first = words.split()[0]
    if words in ("show running-config", "show startup-config"):
        return "config", f"-startup{suffix}" if "startup" in words else suffix
    if (found := re.match(r"copy (\w+)://", words)) is not None:
        return f"copy_{found[1]}", "-null" if words.endswith("null:") else "-flash"
    if first in ("dir", "verify"):
        return first, suffix
    return (re.sub(r"\W+", "_", words.lower()), suffix) if first == "show" else None


def _dialogue(exchanges: Iterable[Exchange]) -> str:
    found = tuple(exchanges)
    whole = "".join(f"{one.before}{one.command}\n{one.answer}" for one in found)
    return f"{whole}{found[-1].prompt}\n"


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
