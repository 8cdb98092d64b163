"""Questions to the operator at the terminal: logins, approval of waves, and the answers of `init`.

Without a terminal nothing is asked: a device without a login is reported as such, and waves are approved by
`flashferry run approve`.
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
from flashferry.core.units import counted
from flashferry.devices.credentials import Credentials

if TYPE_CHECKING:
    from flashferry.model.waves import Wave


T = TypeVar("T")


class WaveApproval:
    """Asks for approval once per wave, and polls for the answer without blocking."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._asked: int | None = None

    def __call__(self, wave: Wave) -> bool | None:
        """Return the answer, or None if there is none yet."""
        if self._asked != wave.number:
            self._asked = wave.number
            self._say(
                f"begin wave {wave.number} ({wave.name}, {counted(len(wave.hosts), 'device')})? Type y or n, then Enter"
            )
        if not select.select([sys.stdin], [], [], 0)[0]:
            return None
        answer = sys.stdin.readline()
        if answer == "":
            # The terminal is closed, so there is no answer.
            return False
        if (word := answer.strip().lower()) in {"y", "yes"}:
            return True
        if word in {"n", "no"}:
            return False
        self._asked = None
        return None


def wave_approval(say: Callable[[str], None]) -> WaveApproval | None:
    """Return a WaveApproval, or None without a terminal; then only `flashferry run approve` approves."""
    return WaveApproval(say) if sys.stdin is not None and sys.stdin.isatty() else None


def answered(question: str, read: Callable[[str], T]) -> T:
    """Ask a question until the answer is valid, and return the parsed answer.

    Args:
        question: Prompt text, ending with a space.
        read: Parses the typed line; raises ConfigInvalid if it is not valid.

    Raises:
        ConfigInvalid: The input ended.
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
    """Return the password of `--user`, from the environment or typed.

    Args:
        user: The user.
        variable: Environment variable that may hold it; removed, so that child processes do not inherit it.
        prompt: Prompt text.

    Raises:
        ConfigInvalid: There is no password, and no terminal to ask at.
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
    """Source of credentials that asks the operator once for all devices; provides nothing without a terminal."""

    workers = 1

    def __init__(self) -> None:
        self._asked: dict[str | None, Credentials] = {}

    def lookup(self, name: str, known: Credentials) -> Credentials:
        """Return what the operator typed; a device with a complete login is not asked for."""
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
