"""What is shown of lists and maps of the configuration: access lists, class maps, policy maps, route maps, SNMP."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flashferry.lab.standin.configuration import banner_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]

_DEFAULT_ALIASES = "Exec mode aliases:\n" + "".join(
    f"  {name:<22}{text}\n"
    for name, text in (
        ("h", "help"), ("lo", "logout"), ("p", "ping"), ("r", "resume"), ("s", "show"), ("u", "undebug"),
        ("un", "undebug"), ("w", "where"),
    )
)  # fmt: skip


def access_lists(vty: Vty, arguments: Arguments) -> str:
    """`show access-lists [NAME]`: entries numbered by ten, a standard list's with its wildcard in words."""
    lists: dict[str, tuple[bool, list[str]]] = {}
    for line in vty.device.running.lines():
        numbered = re.fullmatch(r"access-list (\d+) (.+)", line.text)
        named = re.fullmatch(r"ip access-list (standard|extended) (\S+)", line.text)
        if numbered:
            is_standard = int(numbered[1]) < 100 or 1300 <= int(numbered[1]) < 2000
            lists.setdefault(numbered[1], (is_standard, []))[1].append(numbered[2])
        elif named:
            lists[named[2]] = (named[1] == "standard", [child.text for child in line.children])
    rows: list[str] = []
    for name, (is_standard, entries) in lists.items():
        if arguments and arguments[0] != name:
            continue
        rows.append(f"{'Standard' if is_standard else 'Extended'} IP access list {name}")
        number = 0
        for entry in entries:
            own = re.match(r"(\d+) (.+)", entry)
            number, text = (int(own[1]), own[2]) if own else (number + 10, entry)
            if not text.startswith("remark"):
                rows.append(f"    {number} {_standard(text) if is_standard else text}")
    return "".join(f"{row}\n" for row in rows)


def _standard(text: str) -> str:
    words = [word for word in text.split() if word != "host"]
    if len(words) > 2 and words[2] != "log":
        words[1:3] = [f"{words[1]},", "wildcard", "bits", words[2]]
    return " ".join(words)


def aliases(_: Vty, __: Arguments) -> str:
    """`show aliases`: the default ones of exec mode."""
    return _DEFAULT_ALIASES


def banner(vty: Vty, _: Arguments) -> str:
    """`show banner motd|login|exec`."""
    text = banner_text(getattr(vty.device.running.find(f"banner {vty.words[2]}"), "text", None))
    return f"{text}\n" if text else ""


def snmp(vty: Vty, _: Arguments) -> str:
    """`show snmp location|contact|community|...`."""
    running = vty.device.running
    if not any(line.text.startswith("snmp-server ") for line in running.lines()):
        return "%SNMP agent not enabled\n"
    value = running.value(f"snmp-server {vty.words[2]}")
    return f"{value}\n" if value else ""


def _sections(vty: Vty, start: str, name: Arguments) -> Iterator[tuple[str, list[str]]]:
    for line in vty.device.running.lines():
        words = line.text.removeprefix(start)
        if line.text.startswith(start) and (not name or name[0] in words.split()):
            yield words, [child.text for child in line.children]


def class_maps(vty: Vty, arguments: Arguments) -> str:
    """`show class-map [NAME]`."""
    rows = [" Class Map match-any class-default (id 0)", "   Match any ", ""]
    for number, (words, lines) in enumerate(_sections(vty, "class-map ", arguments), start=1):
        how, _, name = words.rpartition(" ")
        rows += [f" Class Map {how or 'match-all'} {name} (id {number})"]
        rows += [f"   Match {line.removeprefix('match ')}" for line in lines if line.startswith("match ")] + [""]
    return "".join(f"{row}\n" for row in (rows if not arguments else rows[3:]))


def policy_maps(vty: Vty, arguments: Arguments) -> str:
    """`show policy-map [NAME]`."""
    rows: list[str] = []
    for name, lines in _sections(vty, "policy-map ", arguments):
        rows.append(f"  Policy Map {name}")
        for line in lines:
            is_class = line.startswith("class ")
            rows.append(f"    Class {line.removeprefix('class ')}" if is_class else f"      {line.strip()}")
    return "".join(f"{row}\n" for row in rows)


def route_maps(vty: Vty, arguments: Arguments) -> str:
    """`show route-map [NAME]`."""
    rows: list[str] = []
    for words, lines in _sections(vty, "route-map ", arguments):
        name, action, number = words.split()
        rows.append(f"route-map {name}, {action}, sequence {number}")
        for kind in ("match", "set"):
            own = [line.removeprefix(kind).strip() for line in lines if line.startswith(kind)]
            rows += [f"  {kind.capitalize()} clauses:", *(f"    {each}" for each in own)]
        rows.append("  Policy routing matches: 0 packets, 0 bytes")
    return "".join(f"{row}\n" for row in rows)


def prefix_lists(vty: Vty, arguments: Arguments) -> str:
    """`show ip prefix-list [NAME]`."""
    lists: dict[str, list[str]] = {}
    for words, _ in _sections(vty, "ip prefix-list ", arguments):
        name, _, entry = words.partition(" ")
        if not entry.startswith("description"):
            lists.setdefault(name, []).append(entry)
    rows: list[str] = []
    for name, entries in lists.items():
        rows.append(f"ip prefix-list {name}: {len(entries)} entries")
        rows += [f"   {e if e.startswith('seq') else f'seq {5 * i} {e}'}" for i, e in enumerate(entries, start=1)]
    return "".join(f"{row}\n" for row in rows)


def kron(vty: Vty, _: Arguments) -> str:
    """`show kron schedule`."""
    rows = [f"{words.split()[0]} inactive, will run again" for words, _ in _sections(vty, "kron occurrence ", ())]
    return "".join(f"{row}\n" for row in ("Kron Occurrence Schedule", *rows))
