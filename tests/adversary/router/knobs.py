"""Everything by which the router can be made to misbehave, as values; neutral unless a behaviour turns it.

A behaviour (tests/adversary/behaviours.py) turns one or several of these, or has acts played at moments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Redraw:
    """A question that is drawn again.

    Attributes:
        kind: Which one.
        how: `broadcast` (a message to all terminals), `synchronous` (syslog, the line drawn again below it), `plain`.
        times: How often.
        after_s: How long after it stood there.
        is_behind_answer: Whether it comes when the answer was read already, as a message that was in the queue.
        text: What the message says.
    """

    kind: str
    how: str
    times: int
    after_s: float
    is_behind_answer: bool
    text: str = "the air condition of rack 7 is serviced tonight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surprise:
    """A question where nobody expects one.

    Attributes:
        where: `login`, `enable`, `configure`, `line`, `end`, `show`, `copy`, `copying`, `verify`, `delete`, `exit`.
        text: What is asked.
        by_key: Whether a single key answers it.
        harm: What any answer but an abort does: `erase`, `save`, `reload`, `nothing`.
        times: How often it is asked in all.
    """

    where: str
    text: str
    by_key: bool
    harm: str
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """Output that trickles."""

    command: str
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Configuration lines that are refused.

    Attributes:
        pattern: Regular expression of the lines.
        words: What is said.
        session: From which configuration session of the device on, 1 for all.
        until: Up to which one.
    """

    pattern: str
    words: str
    session: int = 1
    until: int = 999

    def meets(self, line: str, session: int) -> bool:
        """Tell whether a line is refused in a session."""
        return self.session <= session <= self.until and re.match(self.pattern, line) is not None


AAA = "Command authorization failed.\n"
CARET = "                    ^\n% Invalid input detected at '^' marker.\n"


@dataclass(slots=True, kw_only=True)
class Knobs:
    """How a router misbehaves.

    Attributes:
        dice: Seed of what is random while it runs.
        redraws, late_s, in_pieces, tailed, surprises: Of questions, by kind.
        enable_echoes: The enable secret is shown as it is typed.
        destination_default: What `Destination filename [..]?` offers instead of the name that was asked for.
        erase_asked: `Erase flash: before copying?`, whatever the flash.
        not_executable: `Abort Copy? [confirm]`.
        half_lines, slow: Output in pieces, or trickling.
        endless: A command whose output never ends, or `login`: the banner does not.
        narrow: The terminal has 80 columns, whatever `terminal width` says.
        pages: Output is paged, whatever `terminal length` says.
        behind_prompt: Text that comes behind the prompt of an answered command, with how late; for which command.
        lookalike: A line like a prompt in the middle of a command's output.
        stamped: Every `show` has two lines about load and time in front.
        noisy: How a syslog line breaks into the typing of commands: `synchronous`, `bare`, or empty for not at all.
        never_hangs_up: `exit` is answered by silence.
        round_to: The window is rounded up to a multiple of this; 0: it is not.
        clamp_to: The largest window that is taken; 0: no limit.
        sack_word: A word that is printed behind `ip tcp selective-ack`.
        sides: Beginnings of typed lines, each with a line that comes along with it.
        alias_chars: So many characters of an alias's name are kept; 0: all.
        loses_digit: A digit of a window is lost on its way.
        lag_s: How far `show running-config` is behind.
        hidden: Beginnings of lines that are in force and never shown.
        shown_though_refused: Beginning of a line that is refused in words and set all the same.
        on_by_default: Lines that are in force without being shown.
        refuse: Configuration lines that are refused.
        undo_is_bare: `no ip tcp window-size 70000` is refused, `no ip tcp window-size` is taken.
        spaced_interface: `GigabitEthernet 0/0/0` in place of `GigabitEthernet0/0/0`, in what is printed.
        reorders: From the second `show running-config` on, blocks stand in another order.
        stamp_words: Head lines of a configuration in words of their own.
        syslog_inside: A syslog line stands inside a printed configuration.
        drifting_clock: `ntp clock-period` is another one each time.
        unknown: Commands that the release does not have.
        bare_rows: How rows of `dir` are printed: `no date`, `odd permissions`; empty: as usual.
        wraps: How `dir` breaks the row of a file that is not the device's own: `after` it, the name on the next line;
            `inside` the name, at the 80th column; empty: not at all.
        deletes_elsewhere: `delete` asks about this file system, without colon, and deletes there.
        restricted: Configurations that are shown as a stub of eleven lines: `running`, `startup`.
        ignores_case: The flash does not tell letters apart.
        room_bytes: How much fits until a copy ends for want of room; None: all.
        verify_names: Name of another file that `verify` tells, with what it computed.
        flips: A byte of what is written to flash is wrong.
        loses_tail: So many bytes at the end of the file are lost on flash, though the copy tells them all.
        stops_at: Share of the file at which the FTP client stops reading; 0: it does not.
        claims_after: Share of the file after which the device takes no more, and reports, lists and hashes the whole
            image all the same; None: it is honest, 0: it does not even connect. What is left must exceed its receive
            buffer: bytes that its kernel acknowledged were delivered, whatever becomes of them.
        copy_survives: A copy goes on when its session is lost.
        keeps_part: A file that was copied in part stays.
        early_result: The line `bytes copied` is printed first, the data come later.
        quotes_ticket: Where the ticket is quoted: `accessing`, `error`, `syslog`, `refusal`, or `wrapped`, which is an
            error that a line end cuts.
        fails_with: Words of the error that a copy ends in, after the data.
        flash_bytes_per_s: How fast flash is written.
        dirty: Control characters: in `hostname`, `model`, `errors`, `version`.
    """

    dice: int = 0
    redraws: tuple[Redraw, ...] = ()
    late_s: dict[str, float] = field(default_factory=dict)
    in_pieces: frozenset[str] = frozenset()
    tailed: frozenset[str] = frozenset()
    surprises: tuple[Surprise, ...] = ()
    enable_echoes: bool = False
    destination_default: str = ""
    erase_asked: bool = False
    not_executable: bool = False
    half_lines: bool = False
    slow: tuple[Slow, ...] = ()
    endless: str = ""
    narrow: bool = False
    pages: bool = False
    behind_prompt: tuple[str, str, float] | None = None
    lookalike: str = ""
    stamped: bool = False
    noisy: str = ""
    never_hangs_up: bool = False
    round_to: int = 0
    clamp_to: int = 0
    sack_word: str = ""
    sides: tuple[tuple[str, str], ...] = ()
    alias_chars: int = 0
    loses_digit: bool = False
    lag_s: float = 0.0
    hidden: tuple[str, ...] = ()
    shown_though_refused: str = ""
    on_by_default: frozenset[str] = frozenset()
    refuse: tuple[Refuse, ...] = ()
    undo_is_bare: bool = False
    spaced_interface: bool = False
    reorders: bool = False
    stamp_words: str = ""
    syslog_inside: bool = False
    drifting_clock: bool = False
    unknown: tuple[str, ...] = ()
    bare_rows: str = ""
    wraps: str = ""
    deletes_elsewhere: str = ""
    restricted: frozenset[str] = frozenset()
    ignores_case: bool = False
    room_bytes: int | None = None
    verify_names: str = ""
    flips: bool = False
    loses_tail: int = 0
    claims_after: float | None = None
    stops_at: float = 0.0
    copy_survives: bool = False
    keeps_part: bool = False
    early_result: bool = False
    quotes_ticket: str = ""
    fails_with: str = ""
    flash_bytes_per_s: int = 400_000
    dirty: tuple[str, ...] = ()
