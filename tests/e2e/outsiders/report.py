"""What the visitors found, as a table of docs/lab.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.outsiders.everyday import COMMANDS, PLATFORMS

if TYPE_CHECKING:
    from tests.e2e.outsiders.everyday import Everyday
    from tests.e2e.outsiders.visit import Visits

DOCS = Path(__file__).parents[3] / "docs" / "lab.md"
BEGIN, END = "<!-- outsiders: begin -->", "<!-- outsiders: end -->"
CALLS_BEGIN, CALLS_END = "<!-- calls: begin -->", "<!-- calls: end -->"
INSTALLS_BEGIN, INSTALLS_END = "<!-- installs: begin -->", "<!-- installs: end -->"
REFUSED_BY_NTC = {
    "show platform": "routers: the template knows switches only",
    "show redundancy": "without a standby: it does not know the line about a peer that is not there",
    "show boot": "routers: the template knows switches only",
    "show running-config interface {port}": "it does not know the `end` that closes the output",
    "show processes memory sorted": "IOS: it does not know the pool `I/O`",
    "show lldp neighbors": "where LLDP is off: it does not know that sentence",
}
"""Outputs of real devices that ntc-templates refuses too (`tests/unit/lab/standin/test_everyday.py` shows it)."""


def table(visits: Visits) -> str:
    """Return as Markdown who gets in, how much is refused, and the commands that a reader does not read everywhere."""
    packages = ", ".join(f"{name.replace('_', '-')} {version}" for name, version in visits.versions.items())
    inside = [name for name in PLATFORMS if visits.platforms[name]["connected"]]
    answers = [answer for name in PLATFORMS for answer in visits.platforms[name]["commands"].values()]
    refused = sum(bool(answer["refused"]) for answer in answers)
    others = [command for command in COMMANDS if not all(_is_read(visits, command, each) for each in ("genie", "ntc"))]
    lines = [
        f"With {packages}.",
        "",
        (
            f"pyATS connects to {len(inside)} of {len(PLATFORMS)} platforms ({', '.join(inside)}); {refused} of "
            f"{len(answers)} commands are refused. {len(COMMANDS) - len(others)} of {len(COMMANDS)} commands are read "
            "on every platform by each of the two that has a parser. The others:"
        ),
        "",
        *(_row(visits, command) for command in others),
    ]
    return "".join(f"{line}\n" for line in lines)


def _is_read(visits: Visits, command: Everyday, reader: str) -> bool:
    """Return whether a reader reads a command's answer on each platform that it has a parser for."""
    return set(_verdicts(visits, command, reader)) <= {"read", "none"}


def _row(visits: Visits, command: Everyday) -> str:
    cells = [_cell(visits, command, reader) for reader in ("genie", "ntc")]
    if command.text in REFUSED_BY_NTC and any(_is_error(word) for word in _verdicts(visits, command, "ntc")):
        cells[1] += f" ({REFUSED_BY_NTC[command.text]})"
    shown = command.text.replace("{port}", "PORT").replace("{server}", "HOST")
    return f"- `{shown}`: Genie {cells[0]}, ntc-templates {cells[1]}"


def _verdicts(visits: Visits, command: Everyday, reader: str) -> list[str]:
    answers = [visits.platforms[p]["commands"].get(command.on(p, server=visits.server)) for p in command.platforms]
    return [answer[reader] if answer is not None else "not typed" for answer in answers]


def _is_error(verdict: str) -> bool:
    return verdict not in {"read", "none", "nothing", ""}


def _cell(visits: Visits, command: Everyday, reader: str) -> str:
    """Return how many of the platforms that a reader has a parser for it reads."""
    verdicts = [verdict for verdict in _verdicts(visits, command, reader) if verdict != "none"]
    if not verdicts:
        return "no parser"
    empty = verdicts.count("nothing")
    return f"{verdicts.count('read')} of {len(verdicts)}" + (f", {empty} empty" if empty else "")


def complaints(visits: Visits) -> list[str]:
    """Return a sentence for everything that is not as on real devices."""
    found = []
    for platform in PLATFORMS:
        seen = visits.platforms.get(platform, {"connected": True, "commands": {}})
        if not seen["connected"]:
            found.append(f"{platform}: pyATS does not connect: {seen['why']}")
        for text, answer in seen["commands"].items():
            if answer["refused"]:
                found.append(f"{platform}: {text} is refused")
            if _is_error(answer["genie"]):
                found.append(f"{platform}: {text}: Genie: {answer['genie']}")
            if _is_error(answer["ntc"]) and not _is_known(platform, text, visits.server):
                found.append(f"{platform}: {text}: ntc-templates: {answer['ntc']}")
    return found


def _is_known(platform: str, text: str, server: str) -> bool:
    return any(each.text in REFUSED_BY_NTC for each in COMMANDS if each.on(platform, server=server) == text)


def update_docs(visits: Visits) -> None:
    """Put the tables between their marks in docs/lab.md."""
    put_into_docs(table(visits), BEGIN, END)


def put_into_docs(text: str, begin: str, end: str) -> None:
    """Put a text between two marks of docs/lab.md."""
    head, _, rest = DOCS.read_text(encoding="utf-8").partition(begin)
    tail = rest.partition(end)[2]
    DOCS.write_text(f"{head}{begin}\n{text}{end}{tail}", encoding="utf-8")
