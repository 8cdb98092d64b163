"""Whether an answer of the CLI is a refusal, and which of several lines it is about. Pure."""

from __future__ import annotations

import re

from flashferry.devices.prompts import is_syslog
from templates.rows import Refusal, first

_TOLD = re.compile(r"%%|%\s?Error", re.IGNORECASE)
"""`%Error opening flash:/x (No such file or directory)` is an answer about a file, `%% Warning:` an advice."""


def refusal_in(answer: str) -> str | None:
    """Return the device's words where a short answer is a refusal, else None.

    An answer of which every line begins with `%` is one as well, in whatever words: read as output, it would say that
    there is none of what was asked for, such as no `ip tcp` line.
    """
    if (refusal := first(Refusal, answer)) is not None:
        return refusal.text
    lines = [line.strip() for line in answer.splitlines() if line.strip(" ^\t") and not is_syslog(line)]
    if lines and all(line.startswith("%") and not _TOLD.match(line) for line in lines):
        return lines[0][:200]
    return None


def refusals(transcript: str, lines: tuple[str, ...]) -> dict[str, str]:
    """Return which lines were refused, with the device's words: what stands between a line's echo and the next one's.

    A refusal that stands before any echo is put down to the first line: something was refused, and that is told.
    """
    found: dict[str, str] = {}
    places = [transcript.find(line) for line in lines]
    for index, line in enumerate(lines):
        begin = 0 if index == 0 else places[index]
        if begin < 0:
            continue
        following = [place for place in places[index + 1 :] if place > begin]
        if (refusal := first(Refusal, transcript[begin : min(following, default=len(transcript))])) is not None:
            found[line] = refusal.text
    return found
