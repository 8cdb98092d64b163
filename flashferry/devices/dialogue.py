"""A dialogue behind one command: what the device shows, what may be typed into it, and when it is over. No I/O.

Facts
-----
* A broadcast (`send *`) and, with `logging synchronous`, any log line make IOS draw again what stands on its last line,
  a question too. Each drawing looks like a new question; it is still the one that one answer is for.
* An answer too many falls into the next question. Enter at `Erase flash: before copying? [confirm]` empties the
  flash.
* So an answer is typed only into a question that is the last thing on the screen, once for each, and nothing more
  before the device has moved on. What a device asks twice for good is told, never answered twice; nothing shown since
  the answer is no second question.
* Without `logging synchronous` a log line stands behind the question, which is not drawn again: then nobody knows by
  the screen what a key would be for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from flashferry.devices.prompts import confirmations, is_syslog, last_line

SETTLED_S = 0.25
"""So long a question must be the last thing shown: what IOS draws again comes in one burst with its cause."""

PROMPT_SETTLED_S = 0.1
"""So long the prompt behind an answer must be it; one that may be drawn in front of the command again, longer."""

COVERED_S = 3.0
"""So long nothing may follow a prompt that other text than log lines stands behind, such as somebody's broadcast."""

STUCK_S = 5.0
"""A question that gets no answer from us is given up after so long: it might have been drawn again, or passed by."""

_TAIL_CHARS = 8192
"""A question or a prompt stands in so many of the last characters; a copy's marks may be millions."""

_LOOKS_LIKE_A_QUESTION = re.compile(
    r"(?:(?:\? ?(?:\[[^\]\n]*\])?|\[(?:confirm|yes/no|y/n(?:/q)?)\]|\]\?):? ?"
    r"|(?i:\b(?:password|passphrase|passcode|username|login)): ?)\Z"
)


class Asked(Protocol):
    """A question that a dialogue knows: what it looks like, and what is typed into it."""

    @property
    def name(self) -> str:
        """Return what it is called, for errors."""
        ...

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return what finds it; it counts only at the very end of what is shown."""
        ...

    @property
    def answer(self) -> str:
        """Return what is typed, a line end included where the device waits for one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its answer, which may be a secret; see `Asked`."""

    name: str
    pattern: re.Pattern[str]
    answer: str = field(repr=False)


class Dialogue:
    """What a device shows behind a command.

    Args:
        prompt_pattern: Regular expression of the privileged prompt, alone on a line.
        questions: What the device may ask, each with its one answer.
    """

    def __init__(self, *, prompt_pattern: str, questions: Iterable[Asked] = ()) -> None:
        self._prompt = re.compile(prompt_pattern)
        self._questions = tuple(questions)
        self._text = ""
        self._answered: list[Asked] = []
        self._answered_to = 0

    @property
    def text(self) -> str:
        """Return all that was shown."""
        return self._text

    @property
    def answered(self) -> tuple[Asked, ...]:
        """Return the questions that were answered, in their order."""
        return tuple(self._answered)

    def take(self, received: str) -> None:
        """Take the next piece of output."""
        self._text += received.replace("\r\n", "\n").replace("\r", "\n")

    @property
    def due(self) -> str | None:
        """Return what is to be typed into the question that is the last thing shown; None where nothing is."""
        asked = self._asked()
        return asked.answer if asked is not None and asked not in self._answered and self.objection is None else None

    def typed(self) -> None:
        """Note that the answer that is due was typed: the same question gets no other."""
        asked = self._asked()
        assert asked is not None
        self._answered.append(asked)
        self._answered_to = len(self._text)

    @property
    def objection(self) -> str | None:
        """Return why the question that is the last thing shown must not be answered although we know it, or None."""
        return None

    @property
    def settles_in_s(self) -> float | None:
        """Return how long the last thing shown must stay that until it counts; None while the device is at work."""
        if self.due is not None:
            return SETTLED_S
        behind = self._behind_prompt()
        if behind is None:
            return None
        if behind.strip() and not self._only_syslog(behind):
            return COVERED_S
        return SETTLED_S if self._may_be_redrawn(behind) else PROMPT_SETTLED_S

    @property
    def is_over(self) -> bool:
        """Return whether the prompt is back, with nothing behind it but log lines."""
        behind = self._behind_prompt()
        return behind is not None and self._only_syslog(behind)

    @property
    def stuck_at(self) -> str | None:
        """Return in words what the device seems to wait for and will not get from us; None where it is at work."""
        shown = self.since_answer
        if (asked := self._asked()) is not None:
            question = repr(self._shown(last_line(self._text)))
            if asked in self._answered:
                return f"the device asks {question} again, which was answered already" if self._is_drawn_again else None
            return f"the device asks {question}: {objection}" if (objection := self.objection) else None
        if _LOOKS_LIKE_A_QUESTION.search(shown):
            return f"the device asks {self._shown(last_line(shown))!r}, which we have no answer for"
        if (covered := self._covered()) is not None and self._behind_prompt() is None:
            return (
                f"the device asked {self._shown(covered)!r} and wrote something else behind it: nothing is typed into "
                "what is not the last thing shown"
            )
        return None

    @property
    def passed_over(self) -> str | None:
        """Return a question that something like a prompt stands behind though nobody answered it, or None.

        The prompt may be somebody's text, and the question still open for whatever is typed next.
        """
        shown = self.since_answer
        behind = self._behind_prompt()
        if behind is None:
            return None
        shown = shown.removesuffix(behind)
        known = [
            match[0] for one in self._questions if one not in self._answered for match in one.pattern.finditer(shown)
        ]
        unknown = [text for text in confirmations(shown) if not any(one.pattern.search(text) for one in self._answered)]
        return self._shown(last_line((known + unknown)[-1])) if known or unknown else None

    @property
    def is_disturbed(self) -> bool:
        """Return whether what keeps the dialogue is only text behind a question that we have the answer for."""
        return self._asked() is None and self._covered() is not None

    @property
    def since_answer(self) -> str:
        """Return what was shown since the last answer, as far as it stands in the end of the text."""
        return self._tail[self._start_of_tail() :]

    @property
    def _tail(self) -> str:
        return self._text[-_TAIL_CHARS:]

    def _start_of_tail(self) -> int:
        """Return where in the tail begins what was shown since the last answer."""
        return max(self._answered_to - max(len(self._text) - _TAIL_CHARS, 0), 0)

    def _asked(self) -> Asked | None:
        """Return the question that is the very last thing shown."""
        tail = self._tail
        return next((one for one in self._questions if _at_end(one.pattern, tail)), None)

    @property
    def _is_drawn_again(self) -> bool:
        """Return whether anything came behind the last answer.

        The question that it was typed into is the last thing shown until the device moves on. A busy one, or one that a
        busy host of ours has not read yet, takes longer for that than a question may stand: it is at work.
        """
        return bool(self.since_answer.strip(" \b"))

    def _covered(self) -> str | None:
        """Return a question without an answer that something else was written behind."""
        shown = self.since_answer
        open_ones = [one for one in self._questions if one not in self._answered]
        found = [match for one in open_ones for match in one.pattern.finditer(shown)]
        if not found:
            return None
        latest = max(found, key=lambda match: match.end())
        behind = shown[latest.end() :]
        return last_line(latest[0]) if behind.strip() and behind.lstrip(" ").startswith("\n") else None

    def _behind_prompt(self) -> str | None:
        """Return what stands behind the last prompt since the last answer; None where there is none."""
        tail, begin = self._tail, self._start_of_tail()
        found = list(self._prompt.finditer(tail, begin))
        return tail[found[-1].end() :] if found else None

    def _may_be_redrawn(self, behind: str) -> bool:
        """Tell whether nothing stands before the prompt but what has a line drawn again: a log line, a broadcast.

        The command may follow it once more then, and its answer behind that.
        """
        shown = self.since_answer.removesuffix(behind)
        *above, _ = [line.strip() for line in shown.splitlines() if line.strip()] or [""]
        return not above or is_syslog(above[-1]) or any(line.startswith("***") for line in above)

    @staticmethod
    def _only_syslog(text: str) -> bool:
        return all(is_syslog(line) for line in text.splitlines())

    def _shown(self, text: str) -> str:
        """Return text as it may be told."""
        return text


def _at_end(pattern: re.Pattern[str], text: str) -> bool:
    """Tell whether a text ends with what a pattern finds, blanks and backspaces behind it left out."""
    stripped = text.rstrip(" \b")
    return any(match.end() >= len(stripped) for match in pattern.finditer(text))
