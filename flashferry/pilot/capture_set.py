"""Captures of a pilot in the form of `tests/captures`, and transcripts, both anonymised. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from flashferry.pilot.anonymise import Anonymiser
from flashferry.pilot.exchanges import Entry, Exchange, Session
from templates.version import parse_version

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
