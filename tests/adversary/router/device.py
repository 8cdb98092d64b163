"""One router or stack: what it is, has and was told; everything the judge looks at behind its back.

Beside the configuration in force stands its shadow: what it would be if no controller of ours had ever come. A
colleague's acts, reloads and timers happen to both, lines of ours to the first alone, so that the two are equal exactly
where nothing of ours is left and nothing of anybody else's was lost.
"""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.adversary.router.configuration import Configuration, is_section, key_of
from tests.adversary.router.knobs import CARET, Knobs
from tests.adversary.router.storage import File, FileSight, Flash, Owner, sight_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.adversary.router.platforms import Platform
    from tests.adversary.router.terminal import Asked

_EXEC_WORDS = frozenset(
    {"show", "copy", "verify", "dir", "delete", "terminal", "write", "reload", "enable", "disable", "configure"}
)
_MAX_WINDOW = 1_073_741_823


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """A configuration that went into the archive.

    Attributes:
        name: Its file.
        ours: Lines of ours that are in it and would not be without us.
        text: All that is in it.
    """

    name: str
    ours: tuple[str, ...]
    text: str = ""


@dataclass(slots=True, kw_only=True)
class Revert:
    """An armed `configure terminal revert timer`: when it fires, everything is as it was at arming."""

    user: str
    fires_at_s: float
    armed: datetime
    minutes: int
    running: Configuration
    shadow: Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSight:
    """What the judge sees of a device, behind its back.

    Attributes:
        name: Which one of the case: `A`, or another that answers in its place.
        serials: Its serial numbers; a stack has one per member.
        hostnames: What it has called itself in this case.
        shares_serial: Whether another device of the case has the same serial number.
        running: Lines in force, in order; those that `show` never shows are marked.
        expected: The same, had no controller of ours ever come.
        startup, expected_startup: Of the startup configuration.
        archived_ours: Archived configurations with lines of ours in them.
        files: What is on its file systems, by `flash:name` under the file systems' own names.
        guarded: What must be there: files of the device and of colleagues.
        default_flash: Where `flash:` leads now, without colon.
        asked: Every question that was asked, with what was typed.
        written: What of ours wrote to startup configuration, or reloaded.
        configured: How often a controller has entered configuration mode.
    """

    name: str
    serials: tuple[str, ...]
    hostnames: tuple[str, ...] = ()
    shares_serial: bool = False
    running: tuple[str, ...]
    expected: tuple[str, ...]
    startup: tuple[str, ...]
    expected_startup: tuple[str, ...]
    archived_ours: tuple[Archived, ...] = ()
    files: dict[str, FileSight] = field(default_factory=dict)
    guarded: dict[str, FileSight] = field(default_factory=dict)
    default_flash: str = "bootflash"
    aliases: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()
    written: tuple[str, ...] = ()
    configured: int = 0


class Device:
    """A router.

    Args:
        name: Its name in the case.
        platform: What it is.
        knobs: How it misbehaves.
        serials: One per member.
        stock: Its configuration at the start.
        strike: Told when a behaviour comes into play.
    """

    def __init__(
        self,
        *,
        name: str,
        platform: Platform,
        model: str,
        knobs: Knobs,
        serials: tuple[str, ...],
        stock: Configuration,
        strike: Callable[[str], None],
    ) -> None:
        self.name = name
        self.platform = platform
        self.model = model
        self.knobs = knobs
        self.serials = serials
        self.strike = strike
        self.active = 0
        self.running = stock.copied()
        self.running.on_by_default = knobs.on_by_default
        self.shadow = self.running.copied()
        self.startup = self.running.copied()
        self.shadow_startup = self.running.copied()
        self.flashes = [self._flash(number) for number in range(platform.members)]
        self.guarded: dict[str, FileSight] = {}
        self.archives: list[Archived] = []
        self.revert: Revert | None = None
        self.locked_by = ""
        self.asked: list[Asked] = []
        self.written: list[str] = []
        self.sessions_configured = 0
        self.shown_running = 0
        self.changed = (datetime.now(UTC), "colleague")
        self.saved = self.changed
        self._past: deque[tuple[float, tuple[str, ...]]] = deque([(0.0, self.running.printed())], maxlen=64)
        self._first_hostname = self.hostname
        self._stock_flash()

    # Names.

    @property
    def hostname(self) -> str:
        """Return what it calls itself."""
        entry = self.running.find("hostname")
        return entry.line.split()[-1] if entry else "Router"

    @property
    def serial(self) -> str:
        """Return the serial number that `show version` tells."""
        return self.serials[self.active]

    # Flash.

    def _flash(self, number: int) -> Flash:
        name = self.platform.flash if number == 0 else f"{self.platform.flash}-{number + 1}"
        return Flash(
            name=f"member{number + 1}" if self.platform.members > 1 else name,
            total_bytes=self.platform.flash_bytes,
            free_bytes=self.platform.flash_bytes * 6 // 10,
            ignores_case=self.knobs.ignores_case,
            room_bytes=self.knobs.room_bytes,
        )

    def _stock_flash(self) -> None:
        for flash in self.flashes:
            nominal = 6_120 if self.platform.members > 1 else 40_000_000
            flash.put(File(self.platform.image, Owner.SYSTEM, nominal_bytes=nominal))
            flash.put(File("vlan.dat", Owner.SYSTEM, content=b"vlan" * 154))
            flash.put(File("pcap-of-case-4711.pcap", Owner.COLLEAGUE, content=b"\xd4\xc3\xb2\xa1" * 500))
        for flash in self.flashes:
            for file in flash.files.values():
                self.guarded[f"{flash.name}:{file.name}"] = sight_of(file)

    def flash_of(self, prefix: str) -> Flash | None:
        """Return the file system that a prefix without colon means, or None."""
        if prefix in (self.platform.flash, *self.platform.aliases, ""):
            return self.flashes[self.active]
        found = re.fullmatch(rf"{self.platform.flash}-(\d+)", prefix)
        if found is not None and self.platform.members > 1 and 1 <= int(found[1]) <= len(self.flashes):
            return self.flashes[int(found[1]) - 1]
        return None

    def shown_as(self, flash: Flash) -> str:
        """Return the name of a file system as it is printed: the active member's is that of the platform."""
        number = next(number for number, one in enumerate(self.flashes) if one is flash)
        return self.platform.flash if number == self.active else f"{self.platform.flash}-{number + 1}"

    def put_file(self, name: str, content: bytes) -> None:
        """Take a colleague's file; one that a copy has open is not there for them."""
        flash = self.flashes[self.active]
        present = flash.find(name)
        if present is not None and present.owner is Owner.COPY:
            return
        file = flash.put(File(name, Owner.COLLEAGUE, content=content))
        self.guarded[f"{flash.name}:{file.name}"] = sight_of(file)

    def guard_as_is(self, flash: Flash, file: File) -> None:
        """Take it that a file of others is another one now, by no doing of ours."""
        path = f"{flash.name}:{file.name}"
        if path in self.guarded:
            self.guarded[path] = sight_of(file)

    # Configuration.

    def touch(self, user: str) -> None:
        """Note that configuration mode was left."""
        self.changed = (datetime.now(UTC), user)

    def configure_by_colleague(self, lines: tuple[str, ...]) -> None:
        """Take a colleague's lines; a blank in front means below the line before."""
        for configuration in (self.running, self.shadow):
            head = ""
            for line in lines:
                if line.startswith(" "):
                    configuration.put_below(head, line)
                else:
                    configuration.put(self._as_kept(line))
                    head = line
        self.touch("colleague")
        self._remember()

    def take_line(self, line: str, *, session: int) -> str:
        """Take a line of ours; return what is said to it."""
        line = " ".join(line.split())
        knobs = self.knobs
        if line.split()[0] in _EXEC_WORDS:
            return CARET
        if knobs.loses_digit and (found := re.fullmatch(r"(ip tcp window-size \d+)\d", line)) is not None:
            self.strike("lost digit")
            line = found[1]
        for refuse in knobs.refuse:
            if refuse.meets(line, session):
                self.strike("refused line")
                return refuse.words
        if (said := self._own_mind(line)) is not None:
            return said
        self._take(line)
        if knobs.shown_though_refused and line.startswith(knobs.shown_though_refused):
            self.strike("taken though refused")
            return "% Insufficient resources, the line may not be in force\n% Incomplete command.\n"
        return ""

    def _own_mind(self, line: str) -> str | None:
        if (found := re.fullmatch(r"ip tcp window-size (\d+)", line)) is not None:
            return None if 68 <= int(found[1]) <= _MAX_WINDOW else CARET
        if self.knobs.undo_is_bare and re.fullmatch(r"no ip tcp window-size \d+", line):
            self.strike("bare undo only")
            return CARET
        return None

    def _take(self, line: str) -> None:
        kept = self._as_kept(line)
        hidden = any(kept.startswith(prefix) for prefix in self.knobs.hidden)
        if hidden:
            self.strike("line never shown")
        if key_of(line.removeprefix("no ")) in self.knobs.on_by_default:
            self.strike("on by default")
        self.running.put(kept, is_shown=not hidden)
        for begin, side in self.knobs.sides:
            if line.startswith(begin) and self.running.find(side) is None:
                self.strike("side line")
                self.running.put(side)
        self._remember()

    def _as_kept(self, line: str) -> str:
        """Return a line as the device keeps it: windows rounded, words added."""
        knobs = self.knobs
        if (found := re.fullmatch(r"ip tcp window-size (\d+)", line)) is not None:
            window = wanted = int(found[1])
            if knobs.round_to:
                window = -(-window // knobs.round_to) * knobs.round_to
            if knobs.clamp_to:
                window = min(window, knobs.clamp_to)
            if window != wanted:
                self.strike("window in other figures")
            return f"ip tcp window-size {window}"
        if line == "ip tcp selective-ack" and knobs.sack_word:
            self.strike("line in other words")
            return f"{line} {knobs.sack_word}"
        if knobs.alias_chars and (named := re.fullmatch(r"((?:no )?alias exec )(\S+)(.*)", line)) is not None:
            self.strike("short alias")
            return f"{named[1]}{named[2][: knobs.alias_chars]}{named[3]}"
        if knobs.spaced_interface and (named := re.fullmatch(r"(ip ftp source-interface [A-Za-z-]+)(\d\S*)", line)):
            self.strike("interface in other words")
            return f"{named[1]} {named[2]}"
        return line

    def take_below(self, head: str, line: str) -> str:
        """Take a line of a section of ours."""
        if not is_section(head):
            return CARET
        self.running.put_below(head, line)
        self._remember()
        return ""

    def _remember(self) -> None:
        self._past.append((time.monotonic(), self.running.printed()))

    def printed(self) -> tuple[str, ...]:
        """Return what `show running-config` prints below its head: what is, or what was a while ago."""
        if not self.knobs.lag_s:
            return self.running.printed()
        then = time.monotonic() - self.knobs.lag_s
        found = next((lines for at_s, lines in reversed(self._past) if at_s <= then), self._past[0][1])
        if found != self.running.printed():
            self.strike("configuration lags")
        return found

    def save(self) -> None:
        """Write what runs to startup, as a colleague does."""
        self.startup, self.shadow_startup = self.running.copied(), self.shadow.copied()
        self.saved = (datetime.now(UTC), "colleague")

    def archive(self) -> None:
        """Put what runs into the archive, where there is one."""
        if self.running.find("archive") is None:
            return
        missing = list(self.shadow.in_force())
        ours = tuple(line for line in self.running.in_force() if not _taken(missing, line))
        text = "\n".join(("!", *self.running.printed(), ""))
        self.archives.append(Archived(name=f"{self.platform.flash}:saved-{len(self.archives)}", ours=ours, text=text))

    def reload(self) -> None:
        """Start anew from the startup configuration."""
        self.running, self.shadow = self.startup.copied(), self.shadow_startup.copied()
        self.revert, self.locked_by = None, ""
        self.changed = self.saved
        self._remember()

    def fire_revert(self) -> None:
        """Have an armed timer fire."""
        if self.revert is not None:
            self.running, self.shadow = self.revert.running, self.revert.shadow
            self.revert = None
            self.touch("colleague")
            self._remember()
            self.strike("revert timer")

    # For the judge.

    def sight(self, *, shares_serial: bool = False) -> DeviceSight:
        """Return what the judge sees."""
        files = {f"{flash.name}:{file.name}": sight_of(file) for flash in self.flashes for file in flash.files.values()}
        return DeviceSight(
            name=self.name,
            serials=self.serials,
            hostnames=tuple(dict.fromkeys((self._first_hostname, self.hostname))),
            shares_serial=shares_serial,
            running=self.running.in_force(),
            expected=self.shadow.in_force(),
            startup=self.startup.in_force(),
            expected_startup=self.shadow_startup.in_force(),
            archived_ours=tuple(one for one in self.archives if one.ours),
            files=files,
            guarded=dict(self.guarded),
            default_flash=self.flashes[self.active].name,
            aliases=(self.platform.flash, *self.platform.aliases),
            asked=tuple(self.asked),
            written=tuple(self.written),
            configured=self.sessions_configured,
        )


def _taken(lines: list[str], line: str) -> bool:
    """Take a line out of a list; tell whether it was in it."""
    if line in lines:
        lines.remove(line)
        return True
    return False
