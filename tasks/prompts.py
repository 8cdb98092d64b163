"""Where an answer of the CLI begins and ends: the echo of the command in front, the prompt behind it. Pure.

Facts
-----
* The prompt is `host#`, `host>` or `host(config)#` with no blank behind it; a command is echoed, then CR LF, then its
  output, then the prompt (captures of scrapli_transfer_utils, netmiko).
* In configuration mode the host name is cut to 20 characters (netmiko, cisco_ios.py), hence `base_prompt[:16]`.
* A syslog line may come behind the prompt, which is not printed again; an answer that is taken by its prompt alone
  is then one command late for ever after (public log of IOL 17.15). So an answer counts only behind its own echo.
* Output may hold a line that looks like the prompt (a banner, somebody's remark); what comes behind it tells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FIRST_PROMPT = re.compile(r"(?:^|\n)[ \t]*([^\s#>]{1,63})([#>])[ \t\r]*$")
_LONGEST_PROMPT = 300
_SYSLOG = re.compile(r"(?:\s*|.*%[A-Z][A-Z0-9_]*-(?:[A-Z0-9_]+-)?[0-7]-[A-Z0-9_]+:.*)$")
"""`*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: ...`, with or without stamp and sequence number; or an empty line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a device answered.

    Attributes:
        text: The output without echo and prompt.
        prompt: The prompt behind it, for example `r1#` or `r1(config)#`.
        behind: What came behind the prompt; where it is not empty, the prompt may be a line that only looks like one.
    """

    text: str
    prompt: str
    behind: str

    @property
    def is_whole(self) -> bool:
        """Return whether nothing follows the prompt."""
        return not self.behind

    @property
    def only_syslog_follows(self) -> bool:
        """Return whether all that follows the prompt are syslog lines: then it was one."""
        return all(_SYSLOG.match(line) for line in self.behind.splitlines())

    @property
    def is_privileged(self) -> bool:
        """Return whether the prompt is that of privileged EXEC or of configuration mode."""
        return self.prompt.endswith("#")

    @property
    def is_configuring(self) -> bool:
        """Return whether the prompt is that of a configuration mode."""
        return "(config" in self.prompt


class AnswerReader:
    """Collects what comes after a command and knows when the answer may be whole."""

    def __init__(self, command: str, prompt: re.Pattern[str]) -> None:
        self._command = command.strip()
        self._prompt = prompt
        self._text = ""
        self._start: int | None = None
        self._found: tuple[int, int] | None = None

    def take(self, received: str) -> Answer | None:
        """Take the next piece; return the answer as it stands once a prompt has been seen."""
        # Only the end can hold a prompt that is new: a configuration of a megabyte is searched once, not per piece.
        searched = max(len(self._text) - _LONGEST_PROMPT, 0)
        self._text += received
        if self._start is None:
            echo = self._text.find(self._command)
            if echo < 0:
                return None
            self._start = searched = echo + len(self._command)
        for match in self._prompt.finditer(self._text, max(searched, self._start)):
            self._found = match.span()
        return self._answer(self._start, *self._found) if self._found else None

    def _answer(self, start: int, prompt: int, end: int) -> Answer:
        body = self._text[start:prompt].replace("\r\n", "\n").removeprefix("\n")
        return Answer(
            text=body.removesuffix("\n"),
            prompt=self._text[prompt:end].strip(),
            behind=self._text[end:].strip(),
        )


def first_prompt(text: str) -> str | None:
    """Return the prompt that a text ends with, whatever the host is called; None where it ends otherwise."""
    found = _FIRST_PROMPT.search(text)
    return found[1] + found[2] if found else None


def any_prompt(base: str) -> re.Pattern[str]:
    """Return what finds a prompt of a host, in every mode, alone on a line.

    Args:
        base: The first characters of the host name, at most 16.
    """
    return re.compile(rf"^{re.escape(base)}[^\s#>]{{0,63}}[#>][ \t\r]*$", re.MULTILINE)
