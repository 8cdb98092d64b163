"""Check whether the user may use the commands that a run needs, by commands without effect.

Facts
-----

* Level 15 may use every command unless `aaa authorization commands` has each one decided elsewhere.
* A prompt with `#` is no proof of level 15: `enable 7` shows it too.
* Below level 15 a command must have been lowered: `privilege exec level 7 configure terminal`. One that was not does
  not exist for the parser (`% Invalid input detected`). AAA refuses a complete command: `Command authorization failed.`
* `copy` asks for the target's name with `file prompt noisy` and on old trains: Ctrl-C, never an answer.
* So complete commands are tried that can have no effect, since they name a file that does not exist. `configure
  terminal` has no such form: entering configuration mode changes the stamp of the last change, so with AAA it stays
  unproven.
* `copy PROTOCOL: null:` asks for the server's address: aborted there, it has shown that the command is accepted, and
  nothing was copied.
* In configuration mode too a level below 15 has only what a line gives it: `privilege configure level 7 ip ssh`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

from flashferry.core.errors import FlashferryError
from flashferry.devices.dialogue import Dialogue, PromptWait, WaitLimits
from flashferry.devices.errors import DeviceRefused, OutputNotUnderstood
from flashferry.devices.prompts import open_question, refusal_in
from flashferry.devices.session import BREAK, DeviceSession
from tasks.step import CHECK_WORD
from templates.rows import CommandAuthorization, LoweredCommand, LoweredLine, Privilege, first, rows

FULL_LEVEL = 15
ABSENT_FILE = "flashferry-no-such-file"

CANCEL = "\x03"
"""Ctrl-C: aborts a question without an answer."""

LIMIT_S = 30.0
"""A command about a file that does not exist ends at once, even on old flash."""


class Authorization(Struct, frozen=True, kw_only=True):
    """What the user may do.

    Attributes:
        level: Privilege level, or None if the device does not show it.
        aaa: Scopes of the `aaa authorization` lines that decide about commands.
        refused: Commands that were tried and refused, with the device's words.
        unproven: Commands that could not be tried without an effect.
        protocols_refused: Copy commands, by protocol, that were tried and refused, with the device's words.
        lines_refused: Configuration lines that the level may not set.
    """

    level: int | None
    aaa: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    protocols_refused: tuple[str, ...] = ()
    lines_refused: tuple[str, ...] = ()

    @property
    def refusal(self) -> str | None:
        """Return why the device must not be staged by this user, or None."""
        if not self.refused:
            return None
        level = f"at privilege level {self.level}" if self.level is not None else "as logged in"
        return f"{level} the user may not use {'; '.join(self.refused)}: give the user these commands, or another user"

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes for the operator."""
        notes = []
        if self.unproven:
            why = "AAA decides about each command" if self.aaa else "the device does not show the privilege level"
            names = ", ".join(f"'{name}'" for name in self.unproven)
            notes.append(f"{why}; {names} could not be tried without entering configuration mode")
        if self.protocols_refused:
            notes.append(f"the user may not use {'; '.join(self.protocols_refused)}")
        if self.lines_refused:
            names = ", ".join(f"'{line}'" for line in self.lines_refused)
            notes.append(f"no 'privilege configure' line gives level {self.level} {names}: they may be refused")
        return tuple(notes)


def check_authorization(
    session: DeviceSession,
    running: str,
    file_system: str,
    *,
    protocols: Iterable[str] = (),
    lines: Iterable[str] = (),
) -> Authorization:
    """Check what the user may do; at level 15 without AAA one command is enough.

    `protocols` are those that copies may use, `lines` the configuration lines that a run may set, without values.
    """
    level = _level(session)
    aaa = tuple(dict.fromkeys(row.scope for row in rows(CommandAuthorization, running)))
    if level == FULL_LEVEL and not aaa:
        return Authorization(level=level)
    absent = f"{file_system}{ABSENT_FILE}"
    platform = session.platform
    tried = {
        "copy": platform.copy_command(absent, platform.copying.no_file),
        "verify": platform.digest_command(platform.verifying.algorithms[-1], absent),
    }
    refused = [f"'{name}' ({words})" for name, command in tried.items() if (words := _refused(session, command))]
    nowhere = {f"copy {name}:": platform.copy_command(f"{name}:", platform.copying.no_file) for name in protocols}
    not_by = tuple(f"'{name}' ({words})" for name, it in nowhere.items() if (words := _refused(session, it)))
    if level is None or aaa:
        return Authorization(
            level=level,
            aaa=aaa,
            refused=tuple(refused),
            unproven=(platform.commands.configure,),
            protocols_refused=not_by,
        )
    if not may_configure(level, running, platform.commands.configure):
        refused.append(f"'{platform.commands.configure}' (no 'privilege exec' line gives it to that level)")
    return Authorization(
        level=level,
        refused=tuple(refused),
        protocols_refused=not_by,
        lines_refused=tuple(line for line in lines if not may_set(level, running, line)),
    )


def may_set(level: int, running: str, line: str) -> bool:
    """Return whether a level may set a line, by the `privilege configure` lines of a configuration."""
    return level >= FULL_LEVEL or any(
        row.level <= level and f"{line} ".startswith(f"{row.command} ") for row in rows(LoweredLine, running)
    )


def may_configure(level: int, running: str, command: str) -> bool:
    """Return whether a level may enter configuration mode, by the `privilege exec` lines of a configuration."""
    return level >= FULL_LEVEL or any(
        row.level <= level and f"{command} ".startswith(f"{row.command} ") for row in rows(LoweredCommand, running)
    )


@contextmanager
def naming_level(session: DeviceSession) -> Iterator[None]:
    """Add the privilege level to a refusal if it is below 15, the likely cause."""
    try:
        yield
    except (DeviceRefused, OutputNotUnderstood) as error:
        level = None
        if session.alive:
            with suppress(FlashferryError):
                level = _level(session)
        if level is not None and level < FULL_LEVEL:
            error.message = f"at privilege level {level}: {error.message}"
            error.hint = (
                "Give a user of level 15, or the enable secret (FLASHFERRY_ENABLE_SECRET, the inventory's "
                f"enable_secret); or have 'privilege exec level {level}' lines give that level what staging needs"
            )
        raise


def _level(session: DeviceSession) -> int | None:
    try:
        found = first(Privilege, session.show_privilege())
    except DeviceRefused:
        return None
    return found.level if found else None


def _refused(session: DeviceSession, command: str) -> str | None:
    """Return the device's words if it refuses a command, or None."""
    dialogue = DryCommand(prompt_pattern=session.prompt_pattern)
    hint = "Give the command by hand and see what the device asks"
    wait = PromptWait(dialogue, command, WaitLimits(total_s=LIMIT_S), host=session.name, step=CHECK_WORD, hint=hint)
    session.converse(command, dialogue, wait.check)
    return dialogue.refusal


class DryCommand(Dialogue):
    """A command that is aborted at its first question: a command that asks has been accepted."""

    _is_accepted = False

    @property
    def due(self) -> str | None:
        """Return the keys that abort an open question, or None. No question is answered."""
        return CANCEL + BREAK if open_question(self.text[self._answered_to :]) is not None else None

    def typed(self) -> None:
        """Record that a question was aborted."""
        self._is_accepted = True
        self._answered_to = len(self.text)

    @property
    def refusal(self) -> str | None:
        """Return the device's words if it refused the command, or None."""
        return None if self._is_accepted else refusal_in(self._prompt.sub("", self.text))
