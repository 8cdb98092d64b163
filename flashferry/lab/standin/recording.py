"""Devices played from recordings: pyATS mock files, transcripts of `--transcript`, capture sets of `flashferry pilot`.

A recording answers what it holds, word for word, refusals too. What depends on state that it cannot know (files,
copies, the configuration, installed packages, the session) comes from the stand-in's engine, which starts with the
recorded configuration, `dir` and release. After a restart the recorded answers name the release, image, boot files,
reason and uptime of that moment. All else gets a caret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from flashferry.lab.errors import LabError
from flashferry.lab.standin.configuration import (
    HERE,
    Configuration,
    Line,
    Slot,
    banner_start,
    is_virtual,
    parse_lines,
    whole_banner,
)
from flashferry.lab.standin.flash import FlashFigures, StockFile
from flashferry.lab.standin.install import BUILD, InstallFigures

if TYPE_CHECKING:
    from flashferry.lab.standin.platform import Platform

ENGINE = (
    "archive", "cd", "clear logging", "config-transaction", "configure", "copy", "delete", "dir", "disable", "enable",
    "erase", "exit", "install", "login", "logout", "mkdir", "more", "ping", "pwd", "quit", "reload", "rename", "rmdir",
    "show FS:", "show archive", "show clock", "show configuration", "show event manager policy", "show file systems",
    "show history", "show install", "show logging", "show privilege", "show reload", "show running-config",
    "show startup-config", "show tcp", "show terminal", "show users", "tclsh", "terminal", "traceroute", "verify",
    "write",
)  # fmt: skip
"""First words of the commands that the engine answers: they change or read state."""

_PROMPT = re.compile(r"(?P<name>[^\s#>]{1,120}?)(?P<mode>\([^()\s]+\))?(?P<end>[#>])\s*")
_REFUSED = re.compile(
    r"% ?(Invalid input|Incomplete command|Ambiguous command|Unknown command|Authorization failed)"
    r"|Command authorization failed"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A command as typed, the prompt that it was typed at, and the answer without echo and prompt."""

    prompt: str
    command: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording:
    """What a device answered.

    Attributes:
        answers: Of EXEC commands in lower case, with their filters.
        user_mode: Those of them that user mode answered.
        refused: Answers to refused EXEC commands, in user mode (True) or privileged mode.
        directories: Answers to `dir` of whole file systems.
    """

    answers: dict[str, str]
    user_mode: frozenset[str]
    refused: dict[tuple[bool, str], str]
    refused_lines: dict[str, str]
    hostname: str
    directories: tuple[str, ...]

    def commands(self) -> Iterator[tuple[bool, str, str]]:
        """Yield the commands that the recording answers: whether user mode knows them, the words, the answer."""
        for command, answer in self.answers.items():
            if "|" not in command and not is_engine(command):
                yield command in self.user_mode, command, answer

    def fixed(self, line: str, *, is_user: bool) -> str | None:
        """Return the answer to a line that is played as it stands: a refusal, or one that was recorded filtered."""
        key = _key(line)
        if (refusal := self.refused.get((is_user, key))) is not None:
            return refusal
        bare = key.partition("|")[0].strip()
        return self.answers.get(key) if "|" in key and bare not in self.answers and not is_engine(bare) else None

    def refused_line(self, line: str) -> str | None:
        """Return the answer to a configuration line that was refused; None for another."""
        return self.refused_lines.get(_key(line))


def is_engine(command: str) -> bool:
    """Return whether the engine answers a command, or a specification of one."""
    first, _, rest = command.partition(" ")
    if first == "show" and re.match(r"\S+:", rest):
        return True
    return any(f"{command} ".startswith(f"{each} ") for each in ENGINE)


def load_recording(path: Path) -> Recording:
    """Read a recording: a pyATS mock file (`.yaml`), a transcript (`.txt`), or a folder.

    A folder holds one device's transcripts or capture set, or is what `flashferry pilot` made.
    Raises LabError: it cannot be read, is of several devices, or holds no answer.
    """
    try:
        exchanges = [one for one in _read(path) if one.command]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LabError(f"{path}: expected a recording, found {str(error).splitlines()[0]}.") from error
    recording = _recording(exchanges)
    if not recording.answers:
        raise LabError(
            f"{path}: expected a pyATS mock file, a transcript or a capture set; found no answer of a device in it."
        )
    return recording


def _read(path: Path) -> Iterator[Exchange]:
    if not path.is_dir():
        yield from _mock(path) if path.suffix in {".yaml", ".yml"} else _transcript(path.read_text(encoding="utf-8"))
    elif (path / "captures").is_dir():
        yield from _captures(path / "captures")
        if (path / "transcript").is_dir():
            yield from _read(path / "transcript")
    elif (path / "show_version").is_dir():
        yield from _captures(path)
    else:
        files = sorted(path.glob("*.txt"))
        devices = {found[1] for file in files if (found := re.fullmatch(r"\d{8}T\d{6}Z-(.+)-\d+\.txt", file.name))}
        if len(devices) > 1:
            raise LabError(f"{path}: expected transcripts of one device, found {', '.join(sorted(devices))}.")
        for file in files:
            yield from _transcript(file.read_text(encoding="utf-8"))


def _mock(path: Path) -> Iterator[Exchange]:
    """Read the states of a pyATS mock file that have the prompt of a device; other states are questions."""
    states = yaml.safe_load(path.read_text(encoding="utf-8"))
    for state in states.values() if isinstance(states, dict) else ():
        prompt = str(state.get("prompt", "")).replace("%N", "") if isinstance(state, dict) else ""
        if not re.fullmatch(r"\S*[#>]\s*", prompt):
            continue
        for command, answer in (state.get("commands") or {}).items():
            yield Exchange(prompt=prompt, command=str(command), answer=_mocked(answer, path.parent))


def _mocked(answer: Any, folder: Path) -> str:
    """Return the response of a mock's command; of several the first."""
    found = answer.get("response", "") if isinstance(answer, dict) else answer
    found = str((found[0] if found else "") if isinstance(found, list) else found or "")
    if found.startswith("file|"):
        found = (folder / found.removeprefix("file|")).read_text(encoding="utf-8")
    return found.replace("\r", "")


_ENTRY = re.compile(r"\S+Z ([<>-]) ?(.*)")
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|(.))")


def _transcript(text: str) -> Iterator[Exchange]:
    """Read a transcript; commands that asked a question are left out, for the engine answers those."""
    prompt, sent, came, is_whole = "", "", "", True
    for line in text.split("\n"):
        found = _ENTRY.fullmatch(line)
        if found is None or found[1] == "-":
            continue
        piece = _ESCAPE.sub(_unescaped, found[2])
        if found[1] == "<":
            came += piece
        elif not is_whole:
            sent, is_whole = sent + piece, piece.endswith("\n")
        else:
            last = came.rpartition("\n")[2]
            if _PROMPT.fullmatch(last):
                yield _exchange(prompt, sent, came)
                prompt = last
            else:
                prompt = ""
            sent, came, is_whole = piece, "", piece.endswith("\n")
    yield _exchange(prompt, sent, came)


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else {"r": "", "n": "\n", "t": "\t"}.get(found[2], found[2])


def _exchange(prompt: str, sent: str, came: str) -> Exchange:
    """Return an exchange without echo and next prompt; without a command where it did not go from prompt to prompt."""
    body, _, last = came.rpartition("\n")
    echo, _, answer = f"{body}\n".partition("\n")
    is_whole = prompt and _PROMPT.fullmatch(last) and (sent.strip() == echo.strip() or echo.startswith("$"))
    return Exchange(prompt=prompt, command=sent.strip() if is_whole else "", answer=answer)


def _captures(folder: Path) -> Iterator[Exchange]:
    """Read a capture set: a folder per command, a file per answer, named after the device."""
    names = sorted(file.stem for file in (folder / "show_version").glob("*.txt"))
    if not names or not all(name.startswith(names[0]) for name in names):
        raise LabError(
            f"{folder}: expected captures of one device in show_version, found {', '.join(names) or 'none'}."
        )
    for file in sorted(folder.glob("*/*.*")):
        kind, end = file.parent.name, file.stem.removeprefix(names[0])
        if kind == "sessions":
            yield from _session(file.read_text(encoding="utf-8"))
        elif command := _captured(kind, end if file.stem.startswith(names[0]) else None):
            yield Exchange(prompt="#", command=command, answer=file.read_text(encoding="utf-8"))


def _captured(kind: str, end: str | None) -> str:
    """Return the command of a capture; none for one with a filter (its words are lost) or of another device."""
    if end is None or not re.fullmatch(r"(-startup)?(-\d+)?", end):
        return ""
    if kind == "config":
        return "show startup-config" if "startup" in end else "show running-config"
    return _hyphens(kind.replace("_", " ")) if kind == "dir" or kind.startswith("show_") else ""


@cache
def _known_hyphens() -> tuple[str, ...]:
    files = Path(__file__).parent.glob("*.toml")
    found = {word for file in files for word in re.findall(r"\b[a-z]+(?:-[a-z]+)+\b", file.read_text(encoding="utf-8"))}
    return tuple(sorted(found, key=len, reverse=True))


def _hyphens(command: str) -> str:
    """Return a command in which hyphens became blanks, with those of words that IOS knows."""
    for word in _known_hyphens():
        command = re.sub(rf"\b{word.replace('-', ' ')}\b", word, command)
    return command


def _session(text: str) -> Iterator[Exchange]:
    prompt, command, answer = "", "", ""
    for line in text.splitlines():
        found = re.match(r"(\S{1,120}?(?:\([^()\s]+\))?[#>])(.*)", line)
        if found is None or not (prompt == "" or found[1][:3] == prompt[:3]):
            answer += f"{line}\n"
            continue
        yield Exchange(prompt=prompt, command=command, answer=answer)
        prompt, command, answer = found[1], found[2].strip(), ""


def _key(line: str) -> str:
    return " ".join(line.replace("|", " | ").lower().split())


def _recording(exchanges: Iterable[Exchange]) -> Recording:
    """Sort exchanges; of several answers to a command the first is kept."""
    answers: dict[str, str] = {}
    refused: dict[tuple[bool, str], str] = {}
    lines: dict[str, str] = {}
    names: list[str] = []
    user_mode: set[str] = set()
    directories: list[str] = []
    for one in exchanges:
        found = _PROMPT.fullmatch(one.prompt)
        # Some captures lack the last line end, without which the prompt would stand in the answer.
        answer = f"{one.answer}\n" if one.answer and not one.answer.endswith("\n") else one.answer
        key = _key(one.command)
        is_user = one.prompt.rstrip().endswith(">")
        is_refused = _REFUSED.search(answer) is not None
        if "(" in one.prompt and not key.startswith("do "):
            if is_refused:
                lines.setdefault(key, answer)
            continue
        if found and "(" not in one.prompt:
            names.append(found["name"])
        if is_refused:
            refused.setdefault((is_user, key), answer)
            continue
        if is_user:
            user_mode.add(key)
        if re.match(r"\s*Directory of \S+:/\s", answer):
            directories.append(answer)
        answers.setdefault(key, answer)
    return Recording(
        answers=answers, user_mode=frozenset(user_mode), refused=refused, refused_lines=lines,
        hostname=names[0] if names else "", directories=tuple(directories),
    )  # fmt: skip


_NEAREST = (
    (r"Controller-Managed", "c8000v-sdwan-17.15"),
    (r"^cisco (C9|WS-C|C3850)", "c9300-17.6"),
    (r"^cisco ASR", "asr1006-16.3"),
    (r"^cisco ISR", "isr4321-16.6"),
    (r"^cisco C8", "c8000v-17.15"),
    (r"IOS.XE", "csr1000v-16.11"),
    (r"IOSv", "iosv-15.8"),
    (r"Cisco IOS Software|IOS \(tm\)", "c2811-15.1"),
)


def nearest_platform(recording: Recording, default: str) -> str:
    """Return the platform that plays the rest: by what `show version` says, else the default."""
    text = recording.answers.get("show version", "")
    return next((name for pattern, name in _NEAREST if re.search(pattern, text, re.MULTILINE | re.IGNORECASE)), default)


def recorded_platform(platform: Platform, recording: Recording) -> Platform:
    """Return a platform with the configuration, files and image of a recording; what it lacks is the platform's."""
    found = re.search(r'^System image file is "([^"]+)"', recording.answers.get("show version", ""), re.MULTILINE)
    image = found[1] if found else platform.image
    rows = _file_system_rows(recording.answers.get("show file systems", ""))
    listed = filter(None, (_flash(text, platform.flash) for text in recording.directories))
    flashes: dict[str, FlashFigures] = {}
    for one in listed:
        flashes.setdefault(one.name, _aliased(one, rows))  # of several the first, as of every answer
    own = next((one for one in flashes.values() if image.partition(":")[0] in (one.name, *one.aliases)), None)
    own = own or next(iter(flashes.values()), None)
    return replace(
        platform,
        recording=recording,
        image=image,
        install=_install_figures(recording, image, platform),
        texts={**platform.texts, "version": recording.answers.get("show version", platform.texts["version"])},
        flash=own or platform.flash,
        other_flashes=tuple(one for one in flashes.values() if one is not own) if own else platform.other_flashes,
        file_system_rows=_shown_rows(rows, tuple(flashes), platform) if own else platform.file_system_rows,
        outputs={},
        recorded_configuration=_configuration(recording.answers.get("show running-config", ""), platform),
    )


_ROUTER = InstallFigures(version="", places=("R0",), word="PACKAGE", bytes_per_s=20_000_000, stock="packages")
"""How a router installs whose nearest platform does not: as the C8000V does."""


def _install_figures(recording: Recording, image: str, platform: Platform) -> InstallFigures | None:
    """Return what is installed, of a device that boots packages or knows `show install`; else None.

    The switches of a stack are those whose flash was recorded; the build, where nothing shows it, is an own choice.
    """
    table = recording.answers.get("show install summary", "")
    if not image.endswith("packages.conf") and not table:
        return None
    figures = platform.install or _ROUTER
    found = re.search(r"^IMG +C +([\w.]+)", table, re.MULTILINE)
    shown = re.search(r"Version ([^\s,]+)", recording.answers.get("show version", ""))
    version = found[1] if found else f"{shown[1]}{BUILD}" if shown else figures.version
    release = re.escape(".".join(version.split(".")[:3]))
    listed = "\n".join(recording.directories)
    package = re.search(rf"(\S+-(?:rpbase|mono)\S*)\.{release}\.SPA\.pkg", listed)
    heads = len(set(re.findall(r"Directory of flash-\d+:/", listed)))
    return replace(
        figures,
        version=version,
        places=figures.places[: max(1, heads)] if listed and figures.is_stack else figures.places,
        stock=package[1] if package else figures.stock,
    )


def _shown_rows(rows: list[list[str]], flashes: tuple[str, ...], platform: Platform) -> tuple[str, ...]:
    """Return the rows of `show file systems`, those of recorded file systems by name; else those of the platform."""
    if not rows:
        return (*(f"@{name}" for name in flashes), *(r for r in platform.file_system_rows if not r.startswith("@")))
    named = [next((name for name in names if name in flashes), "") for _, *names in rows]
    return tuple(f"@{name}" if name else row for name, (row, *_) in zip(named, rows, strict=True))


_ROW = re.compile(
    r"\s*\d+\s+(?P<flags>[-drwx]{4})\s+(?P<size>\d+)\s+"
    r"(?P<when>\w{3} +\d+ \d{4} \d\d:\d\d:\d\d(?: [+-]\d\d:\d\d)?)?\s+(?P<name>\S+)?\s*"
)


def _flash(text: str, figures: FlashFigures) -> FlashFigures | None:
    head = re.search(r"Directory of (\S+?):/", text)
    totals = re.search(r"(\d+) bytes total \((\d+) bytes free\)", text)
    if head is None or totals is None:
        return None
    files: list[StockFile] = []
    folders: list[str] = []
    rows = iter(text.splitlines())
    for row in rows:
        if (found := _ROW.fullmatch(row)) is None:
            continue
        name = found["name"] or next(rows, "").strip()
        if found["flags"].startswith("d"):
            folders.append(name)
        else:
            files.append(StockFile(name=name, size_bytes=int(found["size"]), modified=_when(found["when"])))
    size, free = int(totals[1]), int(totals[2])
    block = figures.block_bytes
    used = sum(-(-each.size_bytes // block) * block for each in files)
    name = head[1].lower()
    aliases = tuple(each for each in (figures.name, *figures.aliases, "flash") if each and each != name)
    return replace(
        figures, name=name, aliases=tuple(dict.fromkeys(aliases)), size_bytes=size, files=tuple(files),
        overhead_bytes=max(0, size - free - used), directories=tuple(folders),
    )  # fmt: skip


def _when(text: str | None) -> datetime:
    if not text:
        return datetime(2000, 1, 1, tzinfo=UTC)
    words = text.split()
    zone = words[4] if len(words) > 4 else "+00:00"
    return datetime.strptime(f"{' '.join(words[:4])} {zone}", "%b %d %Y %H:%M:%S %z")


def _file_system_rows(text: str) -> list[list[str]]:
    """Return the names in each row of `show file systems`, the row itself first."""
    rows = re.findall(r"^.*\b(?:rw|ro|wo)\s+\S+:.*$", text, re.MULTILINE)
    return [[row, *(word.rstrip(":") for word in row.split() if word.endswith(":"))] for row in rows]


def _aliased(flash: FlashFigures, rows: list[list[str]]) -> FlashFigures:
    """Return a file system with the aliases that were recorded, where they were."""
    own = next((names for names in rows if flash.name in names), None)
    return flash if own is None else replace(flash, aliases=tuple(name for name in own[1:] if name != flash.name))


_DEFAULT_ROUTE = re.compile(r"ip route (?:vrf (\S+) )?0\.0\.0\.0 0\.0\.0\.0 .*")
_STAMPS = re.compile(r"(!.*|\s*|Building configuration.*|Current configuration.*|Using \d+ .*)")


def _configuration(text: str, platform: Platform) -> Configuration | None:
    """Return a recorded configuration with its lines where they stood; None where none was recorded.

    Further lines stand where the platform prints them. The interface that leads to the world has the world's address,
    and the default route leaves by it.
    """
    rows = _in_world(_rows(text))
    places = platform.configuration(serial="", address="").slots()
    return _placed(rows, [each for each in places if not each.is_of_one_line]) if rows else None


def _rows(text: str) -> list[str]:
    """Return the rows of a configuration from the first line of it to `end`, a banner as one."""
    found: list[str] = []
    rows = iter(text.replace("\r", "").split("\n"))
    for row in rows:
        banner = banner_start(row)
        if banner is not None:
            found.append(whole_banner(banner, rows))
        elif found or not _STAMPS.fullmatch(row):
            # A comment within a section is none of the lines that IOS keeps.
            found += [row.rstrip()] if not row.startswith(" ") or not row.lstrip().startswith("!") else []
        if row == "end":
            return found
    return [*found, "end"] if found else []


def _in_world(rows: list[str]) -> list[str]:
    """Return rows with the world's address on the interface that leads to it, and the default route by that."""
    lines = parse_lines("\n".join(rows))
    out = _towards_world(lines)
    if out is None:
        return rows
    name, table = out.interface, out.vrf
    own = f" ip address {HERE} 255.255.255.0"
    route = f"ip route{f' vrf {table}' if table else ''} 0.0.0.0 0.0.0.0 {name}"
    kept: list[str] = []
    section, has_route = "", False
    for row in rows:
        section = row if row[:1] != " " else section
        default = _DEFAULT_ROUTE.fullmatch(row)
        if section == out.text and re.match(r" (no )?ip address\b", row):
            continue
        if default and (default[1] or "") == table:
            kept += [] if has_route else [route]
            has_route = True
            continue
        if not has_route and re.match(r"(control-plane|line |end$)", row):
            kept.append(route)
            has_route = True
        kept.append(row)
        if row == out.text:
            kept.append(own)
    return kept


def _towards_world(lines: list[Line]) -> Line | None:
    """Return the interface to the world: a client's source interface, else an addressed one that is up, plugs first."""
    interfaces = [line for line in lines if line.text.startswith("interface ")]
    named = [
        line.text.split()[-1] for line in lines if re.match(r"ip (ftp|ssh|http client) source-interface ", line.text)
    ]
    there = {line.text: line for line in interfaces}
    for name in named:
        if (found := there.get(f"interface {name}")) is not None:
            return found
    candidates = [line for line in interfaces if not line.is_shut] or interfaces
    addressed = [line for line in candidates if any(each.text.startswith("ip address ") for each in line.children)]
    return min(addressed or candidates, key=lambda line: is_virtual(line.interface), default=None)


def _placed(rows: list[str], places: list[Slot]) -> Configuration:
    items: list[str | Slot] = []
    used: dict[str, Slot] = {}
    slot: Slot | None = None
    last: Line | None = None
    for at, row in enumerate(rows):
        if row.startswith(" ") and last is not None:
            last.children.append(Line(row[1:]))
            continue
        if row[:1] in {"", "!"} or row == "end":
            if slot is not None and slot.has_sections and last is not None:
                last = None  # the separator that the place prints itself
            else:
                items.append(row)
                slot = last = None
            continue
        place = _place_of(row, places)
        if slot is None or place is None or slot.prefix != place.prefix:
            if place is None or place.prefix in used:
                slot = Slot(prefix=f"{row} ")
            else:
                after = next((each for each in rows[at + 1 :] if not each.startswith(" ")), "")
                slot = Slot(prefix=place.prefix, has_sections=place.has_sections and after.startswith("!"))
                used[place.prefix] = slot
            items.append(slot)
        last = Line(row)
        slot.lines.append(last)
    at = 0
    for place in places:
        if (found := used.get(place.prefix)) is not None:
            at = items.index(found) + 1
            found.is_sorted = place.is_sorted and found.in_order()
        else:
            items.insert(at, Slot(prefix=place.prefix, is_sorted=place.is_sorted, has_sections=place.has_sections))
            at += 1
    return Configuration(items)


def _place_of(row: str, places: list[Slot]) -> Slot | None:
    bare = f"{row.removeprefix('no ')} "
    fitting = [each for each in places if each.prefix != "*" and bare.startswith(each.prefix.removeprefix("no "))]
    return max(fitting, key=lambda each: len(each.prefix), default=None)
