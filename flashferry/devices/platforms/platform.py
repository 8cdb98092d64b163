"""Types that describe a platform: its configuration lines, commands, questions and defaults. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.devices.dialogue import Question
from templates.rows import IpTcp, rows

if TYPE_CHECKING:
    from flashferry.devices.platforms.ios import Serving


class NamedLine(Struct, frozen=True, kw_only=True):
    """A kind of global configuration line with a name, by which it is removed: `alias exec NAME ...`.

    A run's marker and its applet are such lines, and those by which a device serves files to its neighbours.

    Attributes:
        what: The kind in words, for errors.
        shown_as: Matches such a line in every form that devices show, with the groups `name` (or `head`) and `rest`.
        off: Line that removes one, with names of groups in braces.
        keyword: Name of one in journals and reports, likewise.
        entries: Matches the `rest` of further lines of that name that we type, one for each device permitted; None if
            ours is the only line of its name.
    """

    what: str
    shown_as: re.Pattern[str]
    off: str
    keyword: str = "{name}"
    entries: re.Pattern[str] | None = None

    @classmethod
    def of(cls, command: str, name: str, what: str) -> NamedLine:
        """Return the kind of lines of the form `COMMAND NAME ...`; `name` is a regular expression."""
        shown_as = re.compile(rf"{re.escape(command)} (?P<name>{name})(?P<rest> .*|)")
        return cls(what=what, shown_as=shown_as, off=f"no {command} {{name}}")

    def is_one(self, line: str) -> bool:
        """Return whether a line is of this kind."""
        return self.shown_as.fullmatch(line) is not None

    def name_of(self, line: str) -> str:
        """Return the name of a line in journals.

        Raises:
            ValueError: The line is not of this kind.
        """
        return self.keyword.format(**self._parts(line))

    def rest_of(self, line: str) -> str:
        """Return the part of a line after its name; empty if it is not of this kind."""
        return self._parts(line)["rest"] if self.is_one(line) else ""

    def without(self, line: str) -> str:
        """Return the line that removes a line.

        Raises:
            ValueError: The line is not of this kind.
        """
        return self.off.format(**self._parts(line))

    def first(self, lines: Iterable[str]) -> str | None:
        """Return the first line of this kind, or None."""
        return next((line for line in lines if self.is_one(line)), None)

    def stands_for(self, ours: str, shown: str) -> bool:
        """Return whether a line that a device shows is the one we typed: same name and rest."""
        if not self.is_one(ours) or not self.is_one(shown):
            return False
        own, other = self._parts(ours), self._parts(shown)
        return own["name"] == other["name"] and own["rest"] == other["rest"]

    def line_in(self, ours: str, lines: Iterable[str], typed: Iterable[str] = ()) -> str | None:
        """Return the line that has the name of ours, or None.

        Of several, one that is none of the `typed` lines has precedence, because removing ours would remove it, too.
        """
        name = self.name_of(ours)
        same = [line for line in lines if self.is_one(line) and self.name_of(line) == name]
        own = [line for line in same if self.stands_for(ours, line)]
        if self.is_entry(ours):
            return next(iter(own), None)
        entries = [line for line in typed if self.is_entry(line)]
        strange = [line for line in same if line not in own and not self.goes_with(line, entries)]
        found = (*strange, *own, *same) if self.entries is not None else (*own, *same)
        return next(iter(found), None)

    def is_entry(self, line: str) -> bool:
        """Return whether a line has the form of the entries that we type."""
        return self.entries is not None and bool(self.entries.fullmatch(self.rest_of(line)))

    def goes_with(self, line: str, entries: Collection[str]) -> bool:
        """Return whether a line of the same name is one of our entries, or has no content.

        If no entry of ours is known, every line of that form counts as ours.
        """
        if self.entries is None or not self._parts(line)["rest"]:
            return self.entries is not None
        return self.is_entry(line) and (not entries or any(self.stands_for(one, line) for one in entries))

    def _parts(self, line: str) -> dict[str, str]:
        """Return the groups of a line, with the name from `name` or `head`."""
        found = self.shown_as.fullmatch(line)
        if found is None:
            raise ValueError(f"no {self.what}: {line!r}")
        parts = {key: " ".join((one or "").split()) for key, one in found.groupdict().items()}
        parts["rest"] = parts["rest"].replace("permit host ", "permit ")
        return parts | {"name": parts["name"] or parts.get("head", "")}


class ValueKind(Enum):
    """Type of a setting's value, which decides how the line shown is compared with the line typed.

    Attributes:
        SWITCH: No value, or one that does not matter.
        BYTES: A number, which a device may round or clamp.
        INTERFACE: An interface, whose name a device prints in full.
    """

    SWITCH = "switch"
    BYTES = "bytes"
    INTERFACE = "interface"


class Setting(Struct, frozen=True, kw_only=True):
    """A setting that is one global configuration line.

    Attributes:
        keyword: Its name in journals and reports; unique within a platform and its transports.
        command: Its line without the value, for example `ip tcp window-size`.
        tail: Regular expression of the rest of a line that we type or restore.
        is_tuning: Whether it changes the speed.
        usual: Default value of a setting that is removed by `no COMMAND`; None for one that is removed by `no` and the
            whole line.
    """

    keyword: str
    command: str
    tail: str
    kind: ValueKind = ValueKind.SWITCH
    is_tuning: bool = True
    usual: int | None = None

    def line(self, value: int | str | None = None) -> str:
        """Return the line that sets it, with a value if there is one."""
        return self.command if value is None else f"{self.command} {value}"

    def off(self, line: str) -> str:
        """Return the line that removes a line of this setting."""
        return f"no {line}" if self.usual is None else f"no {self.command}"

    def is_set_by(self, line: str) -> bool:
        """Return whether a line sets or removes it, with any value."""
        words = line.removeprefix("no ")
        return words == self.command or words.startswith(f"{self.command} ")

    def value_in(self, line: str) -> str:
        """Return the value in a line that sets it; empty if there is none."""
        return line.removeprefix(self.command).strip() if line.startswith(self.command) else ""

    def may_be_typed(self, line: str) -> bool:
        """Return whether a line has a form that we may type for this setting."""
        words = line.removeprefix("no ")
        return words.startswith(self.command) and re.fullmatch(self.tail, words[len(self.command) :]) is not None


class TcpSettings(Struct, frozen=True, kw_only=True):
    """TCP settings of a platform.

    Attributes:
        family: Start of all lines about TCP, for example `ip tcp`.
        extras: Optional settings by the name that the operator uses; off by default.
    """

    family: str
    window: Setting
    selective_ack: Setting
    extras: Mapping[str, Setting]
    smallest_window_bytes: int
    largest_window_bytes: int

    @property
    def all(self) -> tuple[Setting, ...]:
        """Return every setting that we may change."""
        return (self.window, self.selective_ack, *self.extras.values())


class ChannelWindow(Struct, frozen=True, kw_only=True):
    """A setting that widens the window of SSH channels, which is inside TCP's.

    Attributes:
        least_try_bytes: If the device refuses a value, halves of it are tried down to this one.
        since: First release assumed to support it, for forecasts.
    """

    setting: Setting
    smallest_bytes: int
    largest_bytes: int
    least_try_bytes: int
    since: tuple[int, int]

    def window_of(self, line: str | None) -> int:
        """Return the window in bytes that a line sets; 0 if it sets none, or removes it."""
        if line is None or not line.startswith(self.setting.command):
            return 0
        value = self.setting.value_in(line)
        return int(value) if value.isdigit() else self.setting.usual or 0


class SshSettings(Struct, frozen=True, kw_only=True):
    """SSH settings of a platform.

    Attributes:
        windows: Settings that widen the channel window, the best first; a release refuses those it does not support.
        default_bytes: The window without any of them.
    """

    windows: tuple[ChannelWindow, ...]
    default_bytes: int


class Commands(Struct, frozen=True, kw_only=True):
    """Commands without an argument.

    Attributes:
        addresses: As `interfaces`, but only interfaces with an address.
        archive: Lists the archived configurations.
        unsaved_lines: Shows the lines in which running and startup configuration differ.
        boot: Shows the boot settings; `boot_on_routers` is used if a device does not support it.
        terminal_lines: Lists the terminal lines, and which are in use.
        applets: Lists the event manager's applets.
        install_commit: Makes the activated image permanent.
        reload: Restarts the device after a confirmation.
    """

    configure: str
    privilege: str
    file_systems: str
    interfaces: str
    addresses: str
    archive: str
    unsaved_lines: str
    pending_rollback: str
    configuration_lock: str
    cpu: str
    install_summary: str
    boot: str
    boot_on_routers: str
    stack: str
    redundancy: str
    issu: str
    terminal_lines: str
    applets: str
    routes: str
    install_commit: str
    save: str
    reload: str


class Offered(Enum):
    """Kind of value that a device offers in a question; it is confirmed only if it is ours.

    Attributes:
        TARGET: Name of the file on the device.
        SERVER: Address of the server.
        USER: User name at the server.
        SOURCE: Name of the file on the server.
        HOST_KEY: The server's host key.
    """

    TARGET = "target"
    SERVER = "server"
    USER = "user"
    SOURCE = "source"
    HOST_KEY = "host key"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyQuestion(Question):
    """A question of the copy command, with the answer that destroys nothing.

    Attributes:
        ends_copy: Whether the answer ends the copy.
        offers: Kind of value that the device offers, in the pattern's first group; None: it offers none.
        finds_file: Whether the device asks because the file exists.
        wants_password: Whether it asks for the password at the server; the answer is then the ticket's.
    """

    ends_copy: bool = False
    offers: Offered | None = None
    finds_file: bool = False
    wants_password: bool = False


class CopyGrammar(Struct, frozen=True, kw_only=True):
    """Questions and output of the copy command.

    Attributes:
        questions: Questions that it may ask with every transport.
        overload: Matches the reason of an error by lack of memory, for which a smaller window may help.
        longest_command: Longest command line, in characters.
        no_file: Target that discards all bytes.
    """

    questions: tuple[CopyQuestion, ...]
    overload: re.Pattern[str]
    longest_command: int
    no_file: str


class VerifyGrammar(Struct, frozen=True, kw_only=True):
    """Abilities and output of the verify commands.

    Attributes:
        algorithms: Digests that it may compute, the best first; only the last is available on every release.
        digest_dot_bytes: Bytes per printed dot while a digest is computed.
        signature_dot_bytes: The same while a signature is verified.
    """

    algorithms: tuple[str, ...]
    digest_dot_bytes: int
    signature_dot_bytes: int


class FileSystems(Struct, frozen=True, kw_only=True):
    """Names of file systems, without the colon.

    Attributes:
        network: File systems that are servers.
        not_flash: Others that cannot hold images.
        aliases: Names of the device's own flash: a command with one name may print another.
        member: Matches the flash of another member of a stack, colon included.
    """

    network: frozenset[str]
    not_flash: frozenset[str]
    aliases: frozenset[str]
    member: re.Pattern[str]

    def may_hold_image(self, name: str) -> bool:
        """Return whether a file system can hold images."""
        return name not in self.network and name not in self.not_flash

    def same_file(self, asked: str, answered: str) -> bool:
        """Return whether two paths mean one file: `flash:image.bin` and the device's `bootflash:/image.bin`."""
        (where, name), (there, found) = split_path(asked), split_path(answered)
        return name == found and (where.casefold() == there.casefold() or {where, there} <= self.aliases)


def split_path(path: str) -> tuple[str, str]:
    """Split `bootflash:/image.bin` into file system and name, `bootflash` and `image.bin`; either may be empty."""
    system, _, name = path.rpartition(":")
    return system, name.lstrip("/")


def file_name(path: str) -> str:
    """Return a path without its file system and leading slash."""
    return split_path(path)[1]


class Defaults(Struct, frozen=True, kw_only=True):
    """Values for a device without measurements: worst case for limits, typical for forecasts.

    Attributes:
        window_bytes: Smallest receive window without configuration.
        flash_bytes_per_s: Lowest rate of writing to flash.
        hash_bytes_per_s: Lowest rate of hashing a file.
        typical_window_bytes: Receive window seen without configuration.
        typical_flash_bytes_per_s: Published rate of a copy from flash to flash within the device.
    """

    window_bytes: int
    flash_bytes_per_s: float
    hash_bytes_per_s: float
    typical_window_bytes: int
    typical_hash_bytes_per_s: float
    typical_flash_bytes_per_s: float
    typical_add_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """An operating system with a command line.

    Attributes:
        name: Its name in image rules, plans and journals.
        shown_by: Matches its `show version`.
        deleting: Questions of the delete command; the first group is the file, in the last one its whole path.
        neighbors: Commands that list the neighbours of a protocol, by its name.
        serving: How it serves files to its neighbours; None if it cannot.
    """

    name: str
    shown_by: re.Pattern[str]
    commands: Commands
    tcp: TcpSettings
    ssh: SshSettings
    copying: CopyGrammar
    verifying: VerifyGrammar
    deleting: tuple[Question, ...]
    neighbors: Mapping[str, str]
    file_systems: FileSystems
    defaults: Defaults
    serving: Serving | None

    def is_shown_by(self, version: str) -> bool:
        """Return whether a `show version` is of this platform."""
        return self.shown_by.search(version) is not None

    def tcp_lines(self, lines: Iterable[str]) -> tuple[str, ...]:
        """Return the lines about TCP among a configuration's global lines, with single spaces between words."""
        text = "\n".join(lines)
        found = rows(IpTcp, text) if text else ()
        return tuple(
            " ".join(part for part in (row.negated, self.tcp.family, row.keyword, *row.value.split()) if part)
            for row in found
        )

    def copy_command(self, source: str, target: str, vrf: str | None = None) -> str:
        """Return the command that copies a URL or a file to a target."""
        return f"copy {source} {target}" + (f" vrf {vrf}" if vrf else "")

    def list_command(self, path: str) -> str:
        """Return the command that lists a file or a file system."""
        return f"dir {path}"

    def read_command(self, path: str) -> str:
        """Return the command that prints a text file."""
        return f"more {path}"

    def delete_command(self, path: str) -> str:
        """Return the command that deletes one file and asks first."""
        return f"delete {path}"

    def digest_command(self, algorithm: str, path: str) -> str:
        """Return the command that computes a digest, by one of `verifying.algorithms`."""
        return f"verify /{algorithm} {path}"

    def add_command(self, path: str) -> str:
        """Return the command that unpacks an image in install mode and activates nothing."""
        return f"install add file {path}"

    def activate_command(self, timer_min: int) -> str:
        """Return the command that restarts into the added image without a question.

        Unless it is committed within `timer_min` minutes (30 to 1200), the device boots the old image again.
        """
        return f"install activate auto-abort-timer {timer_min} prompt-level none"

    def signature_command(self, path: str) -> str:
        """Return the command that verifies the vendor's signature inside an image."""
        return f"verify {path}"
