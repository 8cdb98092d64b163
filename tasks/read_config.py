"""A device's configurations, read whole: text in a banner does not count as a line."""

from __future__ import annotations

from dataclasses import dataclass, field

from flashferry.devices.errors import DeviceRefused, OutputNotUnderstood
from flashferry.devices.session import DeviceSession
from tasks.configuration import holds_syslog
from tasks.tcp_config import TcpLines, tcp_lines_of
from templates.config_sections import ConfigNotUnderstood, Section, lines_of, sections

READINGS = 3
"""So often a configuration is read that a log line fell into."""

ASK_LIMIT_S = 60.0
"""Longest silence of such a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A configuration as it was read; never stored, for it holds secrets.

    Attributes:
        text: All of it.
        sections: The same as IOS reads it.
        lines: Its global lines, with the entries of a standard list, however the list is shown.
        comments: Its comments in the first column, the stamps among them, as one text.
        tcp: The lines that staging may change.
    """

    text: str = field(repr=False)
    sections: tuple[Section, ...] = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)
    comments: str = field(repr=False)
    tcp: TcpLines

    @property
    def commands(self) -> str:
        """Return its global lines as one text."""
        return "\n".join(self.lines)


def read_running(session: DeviceSession, *, without_syslog: bool = False) -> Configured:
    """Return the running configuration as it is now.

    With `without_syslog` it is read again, a few times at most, where a log line was written into it.

    Raises:
        OutputNotUnderstood: It is not whole, or a text in it does not end.
    """
    for _ in range(READINGS - 1 if without_syslog else 0):
        found = _configured(session, session.running_config())
        if not holds_syslog(found.sections):
            return found
    return _configured(session, session.running_config())


def ask_or_empty(session: DeviceSession, command: str) -> str:
    """Return the output of a command, empty where the release lacks it or the user may not give it."""
    try:
        return session.ask(command, limit_s=ASK_LIMIT_S)
    except DeviceRefused:
        return ""


def read_startup(session: DeviceSession) -> Configured:
    """Return the startup configuration as it is now; an empty one where the device has none."""
    return _configured(session, session.startup_config())


def _configured(session: DeviceSession, text: str) -> Configured:
    try:
        found = sections(text)
    except ConfigNotUnderstood as error:
        raise OutputNotUnderstood(
            f"the configuration cannot be read: {error}",
            host=session.name,
            hint="Look at the banners, macros and certificates of the device's configuration",
        ) from None
    doubtful = tcp_lines_of(lines_of(one for one in found if one.is_doubtful), session.platform).lines
    if doubtful:
        raise OutputNotUnderstood(
            f"the configuration cannot be read: '{doubtful[0]}' stands in what may be a text of an unknown kind",
            host=session.name,
            hint="Look at 'show running-config' around that line: it may belong to a script or a message",
        )
    lines = lines_of(found)
    comments = "\n".join(one.line for one in found if one.is_comment)
    return Configured(
        text=text, sections=found, lines=lines, comments=comments, tcp=tcp_lines_of(lines, session.platform)
    )
