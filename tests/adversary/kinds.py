"""The kinds of behaviours, by the point of the trial that they came from; `+` marks cases beyond it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.adversary import draws
from tests.adversary.behaviours import COPIED_JOURNAL, NEEDS_ENABLE, SOURCE_INTERFACE, Behaviour, Kind, made

Draw = Callable[[Random], Behaviour]
_NEWER = ("xe", "stack")


def _kind(point: str, name: str, says: str, draw: Draw, *, weight: int = 2, on: tuple[str, ...] = ()) -> Kind:
    return Kind(name=name, point=point, says=says, draw=draw, weight=weight, platforms=frozenset(on))


def _turned(**knobs: object) -> Draw:
    """Return how a behaviour without particulars is drawn."""
    return lambda _: made(knobs=knobs)


def _one_of(knob: str, *values: object) -> Draw:
    """Return how a knob is turned to one of several values."""

    def draw(dice: Random) -> Behaviour:
        value = dice.choice(values)
        return made(str(value), knobs={knob: value})

    return draw


def _surprise(where: str, place: str, weight: int = 2) -> Kind:
    says = f"an unknown question, {place}"
    return _kind("A1", f"question at {where}", says, draws.surprise(where), weight=weight)


def _never_shown(dice: Random) -> Behaviour:
    line = dice.choice(draws.OUR_LINES)
    return made(line, hidden=(line,))


_QUESTIONS = (
    _kind(
        "A1",
        "question drawn again",
        "a message to all terminals or syslog has a question drawn again, before or after its answer",
        draws.drawn_again,
        weight=6,
    ),
    _kind("A1", "late question", "a question comes seconds after the command", draws.late),
    _kind("A1", "question in pieces", "a question comes letter by letter", draws.in_pieces),
    _kind("A1", "syslog behind a question", "the question is not the last line any more", draws.tailed, weight=3),
    _kind(
        "A1",
        "another name offered",
        "`Destination filename [startup-config]?`, or the name of another's file",
        draws.other_name,
    ),
    _kind(
        "A1",
        "erase question",
        "`Erase flash: before copying?` on a device that is not known for it",
        _turned(erase_asked=True),
        on=_NEWER,
    ),
    _kind("A1", "not executable", "`Abort Copy? [confirm]`", _turned(not_executable=True)),
    _surprise("login", "before the first prompt"),
    _surprise("enable", "between `enable` and the password"),
    _surprise("show", "at a `show` command"),
    _surprise("configure", "at `configure terminal`"),
    _surprise("line", "after a configuration line", weight=2),
    _surprise("end", "at `end`"),
    _surprise("copy", "before the copy", weight=4),
    _surprise("copying", "in mid-copy", weight=2),
    _surprise("verify", "at `verify`"),
    _surprise("delete", "at `delete`"),
    _surprise("exit", "at `exit`"),
)

_COLLEAGUES = (
    _kind(
        "A2",
        "revert timer",
        "a colleague's timer, armed while we are tuned, brings the configuration of then back",
        draws.revert,
        weight=4,
    ),
    _kind("A2", "configuration locked", "a colleague holds the lock, for a while or for good", draws.locked),
    _kind("A2", "archived while tuned", "an archive is taken with our lines in it", draws.archived),
    _kind("A2", "saved while tuned", "a colleague writes our lines to startup", draws.saved),
    _kind("+", "host name changed", "by a colleague, in mid-run", draws.renamed),
    _kind("+", "a colleague changes our lines", "they are the colleague's then, and stay", draws.our_lines, weight=3),
    _kind("+", "a colleague works on", "lines of their own, at any moment", draws.works_on, weight=3),
    _kind("+", "broadcast", "a message that looks like a prompt, a question, an error", draws.broadcast),
)

_OTHERS = (
    _kind(
        "A3",
        "another device answers",
        "from a login on another device is there, with the same host key",
        draws.swapped,
        weight=4,
    ),
    _kind("A3", "pair behind one address", "two devices answer in turns", draws.pair),
    _kind(
        "A10",
        "another member becomes active",
        "another serial, the same members, `flash:` leads elsewhere",
        draws.switched_over,
        weight=6,
        on=("stack",),
    ),
)

_WORDS = (
    _kind("A5", "window in other figures", "rounded up, or clamped", draws.figures, weight=3),
    _kind("A5", "line in other words", "`ip tcp selective-ack enable`", _turned(sack_word="enable")),
    _kind("A5", "lost digit", "a digit is lost on its way", _turned(loses_digit=True)),
    _kind(
        "A5",
        "interface in other words",
        "`GigabitEthernet 0/0/0`",
        lambda _: made(needs=SOURCE_INTERFACE, spaced_interface=True),
        weight=3,
        on=_NEWER,
    ),
    _kind("A5", "configuration lags", "`show running-config` is seconds late", _one_of("lag_s", 0.6, 1.5, 3.0)),
    _kind("A5", "line never shown", "a line is in force and not shown", _never_shown),
    _kind(
        "A5",
        "taken though refused",
        "a line is refused in words, and set",
        _one_of("shown_though_refused", *draws.OUR_LINES),
    ),
    _kind(
        "A5",
        "on by default",
        "SACK is on without a line; `no ip tcp selective-ack` is one",
        _turned(on_by_default=frozenset({"ip tcp selective-ack"})),
    ),
    _kind(
        "A5",
        "bare undo only",
        "`no ip tcp window-size 70000` is refused, `no ip tcp window-size` taken",
        _turned(undo_is_bare=True),
    ),
    _kind("A5", "refused line", "AAA or the parser refuses configuration lines", draws.refused, weight=4),
    _kind("A6", "banner like configuration", "a banner in the first column", draws.banner),
    _kind("A6", "macro like configuration", "a macro in the first column", draws.macro),
    _kind("A6", "certificate like configuration", "a certificate in the first column", draws.certificate),
    _kind(
        "A8",
        "blocks in another order",
        "blocks change places between two `show running-config`",
        _turned(reorders=True),
    ),
    _kind(
        "A8",
        "stamps in other words",
        "the stamps of the configuration",
        _one_of("stamp_words", "Config last touched", "Letzte Aenderung", "Last configuration change"),
    ),
    _kind("A8", "syslog inside the configuration", "a syslog line in mid-output", _turned(syslog_inside=True)),
    _kind("A8", "drifting clock", "`ntp clock-period`", _turned(drifting_clock=True)),
    _kind("+", "unknown command", "the release does not have it", draws.unknown),
)

_FILES = (
    _kind(
        "A7",
        "verify of another file",
        "the right digest of another file, while ours is wrong",
        _turned(flips=True, verify_names="older-image.bin"),
    ),
    _kind("A7", "odd rows of dir", "rows without a date, with odd permissions", draws.odd_rows, weight=3),
    _kind(
        "C9", "listing at 80 columns", "a name on the line after its row; `file prompt quiet`", draws.wrapped, weight=4
    ),
    _kind(
        "C10",
        "delete asks about elsewhere",
        "the question names another file system, and that file would go",
        draws.deletes_elsewhere,
        weight=3,
    ),
    _kind("C16", "restricted view", "a configuration of eleven lines", draws.restricted),
    _kind("A7", "file changes", "it shrinks or changes between copy, verify and the end", draws.changes),
    _kind("+", "image is there already", "or another of its name, or size", draws.there_already, weight=3),
    _kind("+", "part stays", "a broken copy leaves its part on flash", draws.part),
    _kind("+", "copy outlives its session", "the copy goes on alone", draws.outlives),
    _kind("+", "FTP stops", "the client reads no further", _one_of("stops_at", 0.1, 0.5, 0.95)),
    _kind(
        "C11",
        "whole by its own word",
        "copy, `dir` and `verify` agree on an image that was fetched in part, or not at all",
        _one_of("claims_after", 0, 0.1, 0.3),
        weight=4,
    ),
    _kind("+", "flash runs full", "`No space left` in mid-copy", draws.full),
    _kind("+", "wrong byte on flash", "the copy shows no error", _turned(flips=True)),
    _kind("+", "tail lost on flash", "the copy reports all bytes", _one_of("loses_tail", 1, 4096)),
    _kind(
        "+",
        "a colleague's file appears",
        "at the target, after the check, also in other letters",
        draws.colleagues_file,
        weight=3,
    ),
    _kind("+", "result before the data", "`bytes copied` comes first", _turned(early_result=True)),
    _kind("+", "copy fails in the end", "after the last byte", draws.ends_badly),
)

_LINE = (
    _kind("B16", "endless output", "a command's output does not end", draws.endless),
    _kind("B16", "half lines", "output comes in pieces", _turned(half_lines=True)),
    _kind("B16", "output behind the prompt", "text, prompts, questions after it", draws.behind, weight=3),
    _kind("B16", "slow output", "a command's output trickles", draws.slow),
    _kind("B16", "never hangs up", "`exit` is met by silence", _turned(never_hangs_up=True)),
    _kind("+", "pages anyway", "`--More--` in spite of `terminal length 0`", _turned(pages=True)),
    _kind("+", "narrow terminal", "80 columns in spite of `terminal width 511`", _turned(narrow=True)),
    _kind("+", "sessions dropped", "at any byte, by abort, close, or EOF alone", draws.dropped, weight=4),
    _kind("+", "logins refused", "all lines in use, or the AAA server out", draws.shut_out, weight=3),
    _kind("+", "reload", "the tuned lines are gone", draws.reloaded, weight=3),
    _kind("+", "prompt inside output", "a line like the prompt in mid-output", draws.lookalike),
    _kind("+", "load and time in front", "`terminal exec prompt timestamp`", _turned(stamped=True)),
    _kind(
        "+",
        "syslog while typing",
        "syslog breaks into commands that are being typed",
        _one_of("noisy", "synchronous", "bare"),
    ),
)

_SECRETS = (
    _kind("+", "ticket quoted", "in an error, in syslog, in `Accessing`, cut by a line end", draws.quoted, weight=3),
    _kind(
        "+",
        "secret echoed",
        "the enable secret is shown as it is typed",
        lambda _: made(needs=NEEDS_ENABLE, enable_echoes=True),
    ),
    _kind("+", "control characters", "escape sequences in names and errors", draws.dirty, weight=3),
)

FIRST_KINDS: tuple[Kind, ...] = (*_QUESTIONS, *_COLLEAGUES, *_OTHERS, *_WORDS, *_FILES, *_LINE, *_SECRETS)
"""Those that every seed draws from."""

LATER_KINDS: tuple[Kind, ...] = (
    _kind(
        "A5",
        "side line",
        "a line of ours, or its undoing, brings another one",
        _one_of(
            "sides",
            (("ip tcp selective-ack", "ip tcp queuemax 20"),),
            (("ip tcp window-size", "ip tcp chunk-size 8"),),
            (("no ip tcp window-size", "ip tcp window-size 4128"),),
            (("no ip tcp selective-ack", "ip tcp ecn"),),
        ),
        weight=4,
    ),
    _kind("A5", "short alias", "the beginning of an alias's name is kept", _one_of("alias_chars", 20, 24)),
)
"""Those that came later: seeds of before stay the cases that they are (`case.FIRST_LATER_SEED`)."""

STALE_JOURNAL = _kind(
    "A3",
    "stale journal",
    "`recover` from a copied state directory, after or beside the controller that it was copied from",
    lambda _: made(needs=COPIED_JOURNAL),
)
"""Drawn by dice of its own: it brings commands of its own in place of a seed's."""

KINDS = (*FIRST_KINDS, *LATER_KINDS, STALE_JOURNAL)
BY_NAME = {kind.name: kind for kind in KINDS}
