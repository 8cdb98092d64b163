"""Questions to the operator at the terminal: a login that no other source knows, whether a wave may begin, and others.

Without a terminal nothing is asked: a device without a login is reported as such, and `flashferry run approve` at
another terminal answers for the waves.
"""

from __future__ import annotations

import getpass
import os
import select
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from flashferry.cli.terminal.output import say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import sanitize
from flashferry.core.value_description import counted
from flashferry.devices.credentials import Credentials

if TYPE_CHECKING:
    from flashferry.model.waves import Wave


T = TypeVar("T")


class WaveApproval:
    """Asks once per wave, and looks for the answer without waiting for it.

    Args:
        say: Takes a line for people.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._asked: int | None = None

    def __call__(self, wave: Wave) -> bool | None:
        """Return the answer; None while there is none."""
        if self._asked != wave.number:
            self._asked = wave.number
            self._say(
                f"begin wave {wave.number}, {wave.name}, {counted(len(wave.hosts), 'device')}? Type y or n, then Enter"
            )
        if not select.select([sys.stdin], [], [], 0)[0]:
            return None
        answer = sys.stdin.readline()
        if answer == "":
            # The terminal is gone: no one there says yes.
            return False
        if (word := answer.strip().lower()) in {"y", "yes"}:
            return True
        if word in {"n", "no"}:
            return False
        self._asked = None
        return None


def wave_approval(say: Callable[[str], None]) -> WaveApproval | None:
    """Return what asks, or None without a terminal: then `flashferry run approve` is waited for."""
    return WaveApproval(say) if sys.stdin is not None and sys.stdin.isatty() else None


def answered(question: str, read: Callable[[str], T]) -> T:
    """Return the answer to a question, which is asked until one will do.

    Args:
        question: The question, with a blank at its end.
        read: Makes of a line what is wanted, or says what is wrong with it by ConfigInvalid.

    Raises:
        ConfigInvalid: The input is at its end.
    """
    while True:
        sys.stderr.write(question)
        sys.stderr.flush()
        if (line := sys.stdin.readline()) == "":
            raise ConfigInvalid("expected an answer, found the end of the input", hint="Nothing was written")
        try:
            return read(line.strip())
        except ConfigInvalid as error:
            say(str(error))


def password_of(user: str, variable: str, prompt: str) -> str:
    """Return the password of `--user`, from the environment or typed in.

    Args:
        user: The user.
        variable: The variable that may hold it. It is taken out, so that no process started from here inherits it.
        prompt: What is asked.

    Raises:
        ConfigInvalid: There is none, and no terminal to ask at.
    """
    password = os.environ.pop(variable, None)
    if password is not None:
        return password
    if not sys.stdin.isatty():
        raise ConfigInvalid(
            f"--user {user}: expected its password in {variable}, found nothing",
            hint=f"Set {variable}, or start it on a terminal, where the password is asked for",
        )
    return getpass.getpass(prompt)


class PromptSource:
    """Asks the operator for user name and password, once for all devices; says nothing where there is no terminal."""

    workers = 1

    def __init__(self) -> None:
        self._asked: dict[str | None, Credentials] = {}

    def look_up(self, name: str, known: Credentials) -> Credentials:
        """Return what the operator typed; a device whose login is complete is not asked for."""
        if known.is_login or not sys.stdin.isatty():
            return Credentials()
        if known.username not in self._asked:
            self._asked[known.username] = self._ask(name, known.username)
        return self._asked[known.username]

    @staticmethod
    def _ask(name: str, username: str | None) -> Credentials:
        try:
            if not username:
                sys.stderr.write(f"flashferry: no credentials for {sanitize(name)} and perhaps others; user name: ")
                sys.stderr.flush()
                username = sys.stdin.readline().strip()
            password = getpass.getpass(f"Password of {sanitize(username)}: ", stream=sys.stderr)
            enable = getpass.getpass("Enable secret (Enter if none): ", stream=sys.stderr)
        except EOFError:
            return Credentials()
        return Credentials(username=username, password=password, enable_secret=enable or None)
