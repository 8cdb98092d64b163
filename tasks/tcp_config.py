"""Plan the changes to a device's TCP configuration, and how to undo each exactly. Pure: lines in, lines out.

Facts
-----

* Settings are global lines, one per keyword, spelled as the platform does. An absent line means its default; `show
  running-config all` does not help (what it prints at default differs by release), so absence itself is the state.
* If a release has a setting on by default, switching it off shows as `no ip tcp KEYWORD`: a line of its own.
* `no ip tcp window-size` and `no ip tcp window-size 65536` are both accepted (two C8000v going to 17.12.04a).
* A value above 65535 makes the device offer window scaling, which the server must offer too (TCP Window Scaling feature
  guide, 12.2(8)T; RFC 7323 2.2).
* Scaling and SACK are options of the SYN: only connections opened after the change have them.
* Above some size a platform may refuse a window, or fail with it: a 2960X had I/O errors at 1073741823 (austind/iosfw
  issue 2). Cisco states no limit below the command's own.
* The source address of a copy is a configuration line of the transport, set and undone like the others. The device
  prints the interface's whole name, whatever was sent.
* A device may show a line in other words than it was sent: a value rounded or clamped, one more word, a space within an
  interface's name. How ours is shown is read when it is set (`tasks.restore_plan`), and stored with it.
* The window of an SSH channel is inside TCP's and smaller by default; a transport with one has lines that widen it, of
  which a release knows one, both or none: if one is refused, the next is tried, at last none. If such a line is part of
  the default configuration, undoing restores that line, and a `no` that was there is restored as that `no`.
* `alias exec NAME TEXT` changes nothing but the meaning of that word at the prompt; we leave one as a mark
  (`tasks.run_marker`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from flashferry.devices.platforms import PLATFORMS
from flashferry.devices.platforms.platform import ChannelWindow, NamedLine, Platform, Setting, TcpSettings, ValueKind
from flashferry.tcp.receive_window import LARGEST_UNSCALED_BYTES
from flashferry.transports import ALL_WAYS
from flashferry.transports.transport import Transport
from tasks.applet import APPLET, APPLET_COMMAND, is_applet
from tasks.run_marker import MARK, MARK_COMMAND, is_mark, is_shown_of, mark_of
from templates.config_sections import global_lines

WINDOW_SIZE = "window-size"

EXTRAS = {name: one.keyword for platform in PLATFORMS for name, one in platform.tcp.extras.items()}
"""Optional settings: the name that the operator gives, and the keyword."""

_SERVING = tuple(dict.fromkeys(platform.serving for platform in PLATFORMS if platform.serving is not None))
_OF_TRANSPORTS = tuple(dict.fromkeys(one for transport in ALL_WAYS for one in transport.settings))
_BLOCKS = tuple(dict.fromkeys(one for serving in _SERVING for one in serving.blocks))
_CHANNELS = (*dict.fromkeys(one for platform in PLATFORMS for one in platform.ssh.windows), *_BLOCKS)
_BESIDE_TCP = (*_OF_TRANSPORTS, *(one.setting for one in _CHANNELS))
_SETTINGS = (*(one for platform in PLATFORMS for one in platform.tcp.all), *_BESIDE_TCP)
"""All that we ever set or undo, apart from our mark. Anything else in a journal was not written by us."""

_WHOLE_FAMILIES = tuple(f"{platform.tcp.family} " for platform in PLATFORMS)
_COMMANDS = (*(f"{one.command} " for one in _SETTINGS), *_WHOLE_FAMILIES)
_NEIGHBOURS = (
    "ip ssh authentication-retries ",
    "ip ssh client ",
    "ip ssh dscp ",
    "ip ssh logging ",
    "ip ssh maxstartups ",
    "ip ssh port ",
    "ip ssh server ",
    "ip ssh time-out ",
    "ip ssh version ",
)
"""Lines that a device may change along with ours; none of these holds a secret."""


def _beginnings(commands: Iterable[str]) -> Iterator[str]:
    """Return the possible starts of a line that sets one of these; a device may print several spaces between words."""
    for words in {tuple(command.split()[:2]) for command in (*commands, MARK_COMMAND, APPLET_COMMAND)}:
        begin = " ".join(words)
        yield from (begin, f"no {begin}", f"{words[0]}  ", "no  ")


_BEGINNINGS = tuple(_beginnings(_COMMANDS))
_INTERFACE = re.compile(r"([A-Za-z-]+) ?(\d\S*)")


class TcpLines(Struct, frozen=True, kw_only=True):
    """The global lines of one configuration that staging may change, as printed, in order.

    Attributes:
        lines: Whole lines, for example `ip tcp window-size 65535` or `no ip tcp timestamp`: all `ip tcp` lines, then
            those that a transport may set, then marks of runs.
    """

    lines: tuple[str, ...]

    def of(self, keyword: str) -> str | None:
        """Return the line that sets a keyword, or None if the default is in force."""
        return next((line for line in self.lines if _is_about(line, keyword)), None)

    @property
    def window_bytes(self) -> int | None:
        """Return the configured window size, or None if the default is in force."""
        return window_of(self.of(WINDOW_SIZE)) or None


def tcp_lines(configuration: str, platform: Platform) -> TcpLines:
    """Return the lines of a running or startup configuration that staging may change.

    Raises:
        ConfigNotUnderstood: A text in the configuration does not end.
    """
    return tcp_lines_of(global_lines(configuration), platform)


def tcp_lines_of(lines: Iterable[str], platform: Platform) -> TcpLines:
    """Return those of a configuration's global lines that staging may change."""
    known = tuple(" ".join(line.split()) for line in lines if line.startswith(_BEGINNINGS))
    others = tuple(line for line in known if any(one.is_set_by(line) for one in _BESIDE_TCP))
    of_runs = (line for line in known if _own(line) is not None)
    return TcpLines(lines=(*platform.tcp_lines(known), *others, *of_runs))


def may_be_shown(line: str) -> bool:
    """Return whether a global line is of a kind that holds no secret: staging may set it, or changes it along."""
    return f"{line} ".removeprefix("no ").startswith((*_COMMANDS, *_NEIGHBOURS)) or _own(line) is not None


_SERVED = tuple(kind for serving in _SERVING for kind in serving.lines)


@lru_cache(maxsize=4096)
def _own(line: str) -> NamedLine | None:
    """Return the kind of a line with a name of its own: a mark, an applet, or one that serves a neighbour."""
    return next((kind for kind in (MARK, APPLET, *_SERVED) if kind.is_one(line)), None)


def _settings(keyword: str) -> tuple[Setting, ...]:
    return tuple(one for one in _SETTINGS if one.keyword == keyword)


def _is_about(line: str, keyword: str) -> bool:
    if (own := _own(line)) is not None:
        return own.name_of(line) == keyword
    return any(one.is_set_by(line) for one in _settings(keyword))


def is_ours_to_type(change: Change) -> bool:
    """Return whether a change sends only lines of the families that we set."""
    if (own := _own(change.ours)) is not None:
        is_shown_so = own is not MARK or not change.shown or is_shown_of(change.shown, change.ours)
        return change.before is None and change.keyword == own.name_of(change.ours) and is_shown_so
    lines = [line for line in (change.before, change.ours) if line is not None]
    return any(all(map(one.may_be_typed, lines)) for one in _settings(change.keyword))


class Change(Struct, frozen=True, kw_only=True):
    """One setting that we change.

    Attributes:
        keyword: The setting.
        before: The line before, or None if there was none.
        ours: The line that we set.
        shown: How the device shows ours; empty if it shows none, since ours is the default; None if not seen yet.
        is_hidden: Whether the device accepted it and never showed it: its absence cannot be proven.
    """

    keyword: str
    before: str | None
    ours: str
    shown: str | None = None
    is_hidden: bool = False

    @property
    def is_tuning(self) -> bool:
        """Return whether it changes the speed: a source interface, a mark and an applet do not."""
        return _own(self.ours) is None and all(one.is_tuning for one in _settings(self.keyword))

    @property
    def is_mark(self) -> bool:
        """Return whether it is the mark of a run (`tasks.run_marker`)."""
        return is_mark(self.ours)

    @property
    def is_applet(self) -> bool:
        """Return whether it is the applet that undoes the others (`tasks.applet`)."""
        return is_applet(self.ours)

    @property
    def serves(self) -> NamedLine | None:
        """Return the kind of line by which the device serves others of its site; None for any other line."""
        return next((kind for kind in _SERVED if kind.is_one(self.ours)), None)

    @property
    def is_list(self) -> bool:
        """Return whether it is an access list to which another line of ours refers.

        Without the list that line would permit every address.
        """
        return any(serving.access_list is self.serves for serving in _SERVING)

    @property
    def is_entry(self) -> bool:
        """Return whether it is an entry of such a list: it is removed with the list, never by itself."""
        return self.serves is not None and self.serves.is_entry(self.ours)

    def line_in(self, present: TcpLines, others: Iterable[str], beside: Iterable[Change] = ()) -> str | None:
        """Return the line that is in place of ours, or None.

        A line that serves others is searched among all global lines (`others`); a list is ours if its only entries are
        those of the changes `beside`.
        """
        if self.is_mark:
            return next((line for line in present.lines if is_shown_of(line, self.ours)), None)
        if self.serves is None:
            return present.of(self.keyword)
        return self.serves.line_in(self.ours, others, [one.ours for one in beside])

    @property
    def kind(self) -> ValueKind:
        """Return the kind of its value."""
        return next((one.kind for one in _settings(self.keyword)), ValueKind.SWITCH)

    @property
    def is_channel(self) -> bool:
        """Return whether it is the window of an SSH channel."""
        return any(one.setting.keyword == self.keyword for one in _CHANNELS)

    @property
    def off(self) -> str:
        """Return the line that switches ours off."""
        if (own := _own(self.ours)) is not None:
            return own.without(self.shown if self.is_mark and self.shown else self.ours)
        return next((one.off(self.ours) for one in _settings(self.keyword)), f"no {self.ours}")

    @property
    def by_default(self) -> str:
        """Return the line that restores a default that our undoing switched off."""
        setting = next((one for one in _settings(self.keyword) if one.usual is not None), None)
        return self.ours if setting is None else setting.line(setting.usual)

    def undo(self, *, is_default: bool) -> str:
        """Return the line that undoes ours: the old line, or `no` of ours if there was none.

        If ours is the default, `no` of ours would switch it off.
        """
        if self.before is not None:
            return self.before
        return self.by_default if is_default else self.off

    @property
    def may_be_hidden(self) -> bool:
        """Return whether ours may be accepted and not shown, since it is the default and was switched off."""
        return self.is_off(self.before) and self.ours == self.by_default

    def is_off(self, line: str | None) -> bool:
        """Return whether a line switches off what is on by default."""
        return line is not None and line in {f"no {self.ours}", self.off}


class TunePlan(Struct, frozen=True, kw_only=True):
    """The changes that a device needs; none if it is good enough as it is.

    Attributes:
        changes: The changes, in this order.
        may_back_off: Whether a smaller window may be set if the device refuses ours.
        channel: Replacements for the channel's window if the device refuses it, in order; after the last one it is left
            unchanged.
    """

    changes: tuple[Change, ...]
    may_back_off: bool = False
    channel: tuple[Change, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the configuration lines to send."""
        return tuple(change.ours for change in self.changes)

    def backed_off(self) -> TunePlan | None:
        """Return the plan with half the window, at last the largest without scaling; None if there is none left.

        If the window before is at least as large, it stays, and the plan has no window.
        """
        window = next((change for change in self.changes if change.keyword == WINDOW_SIZE), None)
        if window is None or not self.may_back_off:
            return None
        present = int(window.ours.split()[-1])
        if present <= LARGEST_UNSCALED_BYTES:
            return None
        smaller = max(LARGEST_UNSCALED_BYTES, present // 2)
        others = tuple(change for change in self.changes if change is not window)
        if window_of(window.before) >= smaller:
            return replace(self, changes=others)
        made = replace(window, ours=f"{window.ours.rpartition(' ')[0]} {smaller}", shown=None)
        return replace(self, changes=tuple(made if change is window else change for change in self.changes))

    def unscaled(self) -> TunePlan | None:
        """Return the plan with the largest window without scaling and the channel's unchanged, or None."""
        if not self.may_back_off:
            return None
        kept = tuple(change for change in self.changes if not change.is_channel)
        plan = replace(self, changes=kept, channel=())
        found, smaller = None if kept == self.changes else plan, plan.backed_off()
        while smaller is not None:
            found, smaller = smaller, smaller.backed_off()
        return found

    def without(self, refused: Iterable[Change]) -> TunePlan | None:
        """Return the plan to try next if the device refuses some changes; None if there is none."""
        plan: TunePlan | None = self
        for change in refused:
            if plan is None or not (change.is_channel or change.keyword == WINDOW_SIZE):
                return None
            plan = _after_channel(plan, change) if change.is_channel else plan.backed_off()
        return plan


def _after_channel(plan: TunePlan, refused: Change) -> TunePlan:
    """Return a plan with the next replacement for the refused window of the channel."""
    instead = plan.channel[:1]
    kept = (one for change in plan.changes for one in (instead if change is refused else (change,)))
    return replace(plan, changes=tuple(kept), channel=plan.channel[1:])


def plan_tune(
    present: TcpLines,
    *,
    platform: Platform,
    transport: Transport,
    window_bytes: int | None,
    extras: Iterable[str] = (),
    source_interface: str | None = None,
    may_back_off: bool = False,
    mark: str | None = None,
) -> TunePlan:
    """Return the changes that have the device advertise the window and offer SACK.

    A window that is already at least as large is left alone. So is an extra that is on already, in whatever form (`ip
    tcp path-mtu-discovery age-timer 20`).

    Args:
        present: The device's lines as they are.
        platform: Its platform.
        transport: The transport of the copy.
        window_bytes: The window, in the platform's range; None leaves window and SACK unchanged.
        extras: Names of EXTRAS to switch on too.
        source_interface: Source interface of the copy; None leaves the device's own choice.
        may_back_off: Whether a smaller window may be set if the device refuses this one.
        mark: The line that marks the device as a run's while anything is set; None leaves none.

    Raises:
        ValueError: The window is outside what the command accepts, or there is no such extra.
    """
    changes: list[Change] = []
    channel: tuple[Change, ...] = ()
    if window_bytes is not None:
        if transport.is_over_tcp:
            changes += _tuned(present, platform.tcp, window_bytes, extras)
        channel = _channel(present, transport.windows(platform), window_bytes)
        changes += channel[:1]
    needed = transport.needed_settings(source_interface=source_interface)
    changes += [_change(present, setting, value) for setting, value in needed]
    missing = tuple(change for change in changes if not _is_on(change))
    if missing and mark is not None:
        # The mark goes first, so that other runs see it together with our first line.
        missing = (Change(keyword=mark_of(mark), before=None, ours=mark), *missing)
    return TunePlan(changes=missing, may_back_off=may_back_off, channel=channel[1:])


def _tuned(present: TcpLines, tcp: TcpSettings, window_bytes: int, extras: Iterable[str]) -> Iterator[Change]:
    least, most = tcp.smallest_window_bytes, tcp.largest_window_bytes
    if not least <= window_bytes <= most:
        raise ValueError(f"window_bytes: expected {least} to {most}, found {window_bytes}")
    names = tuple(dict.fromkeys(extras))
    if unknown := [name for name in names if name not in tcp.extras]:
        raise ValueError(f"extra: expected {' or '.join(tcp.extras)}, found {unknown[0]!r}")
    if (present.window_bytes or 0) < window_bytes:
        yield _change(present, tcp.window, window_bytes)
    yield from (_change(present, one) for one in (tcp.selective_ack, *(tcp.extras[name] for name in names)))


def _channel(present: TcpLines, windows: tuple[ChannelWindow, ...], target_bytes: int) -> tuple[Change, ...]:
    """Return the lines to try so that an SSH channel has as large a window as TCP, the best first.

    If the best line is in the configuration already, set or switched off, the release knows it: smaller values of it
    are tried if one is refused, and no other line. Otherwise one try shows whether it does.
    """
    lines = [present.of(one.setting.keyword) for one in windows]
    if any(one.window_of(line) >= target_bytes for one, line in zip(windows, lines, strict=True)):
        return ()
    found: list[Change] = []
    is_known = lines[:1] != [None]
    for one, line in list(zip(windows, lines, strict=True))[: 1 if is_known else None]:
        tries_halves = is_known or one is not windows[0]
        tries = _tries(one, target_bytes, one.least_try_bytes if tries_halves else None)
        found += [_change(present, one.setting, value) for value in tries if value > one.window_of(line)]
    return tuple(found)


def _tries(window: ChannelWindow, target_bytes: int, least_bytes: int | None) -> Iterator[int]:
    """Yield a value, then its halves down to a least one; None: the first value alone."""
    value = min(max(target_bytes, window.smallest_bytes), window.largest_bytes)
    yield value
    while least_bytes is not None and value > least_bytes:
        value = max(value // 2, least_bytes)
        yield value


def _change(present: TcpLines, setting: Setting, value: int | str | None = None) -> Change:
    return Change(keyword=setting.keyword, before=present.of(setting.keyword), ours=setting.line(value))


def _is_on(change: Change) -> bool:
    """Return whether the line before has the same effect already; only a window is compared by its value."""
    if change.before is None or change.before.startswith("no ") or change.kind is ValueKind.BYTES:
        return False
    return change.kind is not ValueKind.INTERFACE or shows(change, change.before)


def window_of(line: str | None) -> int:
    """Return the window in bytes that a line sets; 0 if there is no line, or it sets none."""
    value = (line or "").split()[-1:]
    return int(value[0]) if value and value[0].isdigit() and not str(line).startswith("no ") else 0


def shows(change: Change, line: str | None) -> bool:
    """Return whether a configuration line is ours; an interface is printed whole if it was sent abbreviated."""
    if line is None or line == change.ours or change.kind is not ValueKind.INTERFACE:
        return line == change.ours
    setting = next(one for one in _settings(change.keyword) if one.is_set_by(change.ours))
    typed, printed = (_INTERFACE.fullmatch(setting.value_in(text)) for text in (change.ours, line))
    if typed is None or printed is None:
        return False
    short, long = sorted((typed[1].lower(), printed[1].lower()), key=len)
    return typed[2] == printed[2] and long.startswith(short)


def marks_in(changes: Iterable[Change]) -> tuple[str, ...]:
    """Return the marks among changes, as they were sent and as the device shows them."""
    marks = [change for change in changes if change.is_mark]
    return tuple(dict.fromkeys(line for one in marks for line in (one.ours, one.shown) if line))
