"""The dialogue after one command: what the device shows, what may be typed into it, when to stop waiting. No I/O.

Facts
-----
* A broadcast (`send *`) and, with `logging synchronous`, any log line make IOS draw its last line again, a question
  too. Each drawing looks like a new question; it is still the one that one answer is for.
* An answer too many falls into the next question. Enter at `Erase flash: before copying? [confirm]` empties the
  flash.
* So an answer is typed only into a question that is the last thing on the screen, once for each, and nothing more
  before the device has moved on. A question that a device really asks twice is reported, never answered twice; nothing
  shown since the answer is no second question.
* Without `logging synchronous` a log line stands after the question, which is not drawn again: then the screen does
  not show what a key would be for.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from flashferry.devices.errors import Interrupted, OutputNotUnderstood, Stopped
from flashferry.devices.prompts import confirmations, is_syslog, last_line

SETTLED_S = 0.25
"""A question must be the last thing shown for so long: what IOS draws again comes in one burst with its cause."""

PROMPT_SETTLED_S = 0.1
"""The same for the prompt after an answer; one that may be drawn in front of the command again needs longer."""

COVERED_S = 3.0
"""The same for a prompt that other text than log lines follows, such as a broadcast."""

STUCK_S = 5.0
"""A question that we do not answer is given up after so long: it might have been drawn again, or passed by."""

_TAIL_CHARS = 8192
"""A question or a prompt stands in so many of the last characters; a copy's marks may be millions."""

_MAY_BE_A_QUESTION = re.compile(
    r"(?:(?:\? ?(?:\[[^\]\n]*\])?|\[(?:confirm|yes/no|y/n(?:/q)?)\]|\]\?):? ?"
    r"|(?i:\b(?:password|passphrase|passcode|username|login)): ?)\Z"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that a dialogue knows.

    Attributes:
        pattern: Finds it; it counts only at the very end of what is shown.
        answer: What is typed, which may be a secret; with a line end where the device waits for one.
    """

    name: str
    pattern: re.Pattern[str]
    answer: str = field(repr=False)


class Dialogue:
    """What a device shows after a command.

    Args:
        prompt_pattern: Regular expression of the privileged prompt, alone on a line.
        questions: What the device may ask, each with its one answer.
        clock: Seconds, never going back; None: the system's.
    """

    def __init__(
        self,
        *,
        prompt_pattern: str,
        questions: Iterable[Question] = (),
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._prompt = re.compile(prompt_pattern)
        self._questions = tuple(questions)
        self._clock = clock or time.monotonic
        self._started_s = self._output_s = self._clock()
        self._text = ""
        self._has_output = False
        self._answered: list[Question] = []
        self._answered_to = 0

    @property
    def text(self) -> str:
        """Return all that was shown."""
        return self._text

    @property
    def has_output(self) -> bool:
        """Return whether anything came."""
        return self._has_output

    @property
    def silent_s(self) -> float:
        """Return the seconds since the last output, or since the start."""
        return self._clock() - self._output_s

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since the start."""
        return self._clock() - self._started_s

    @property
    def answered(self) -> tuple[Question, ...]:
        """Return the questions that were answered, in their order."""
        return tuple(self._answered)

    @property
    def progress(self) -> str:
        """Return how far the command has come, to follow an error; empty where that is not known."""
        return ""

    def take(self, received: str) -> None:
        """Take the next piece of output."""
        if received:
            self._output_s, self._has_output = self._clock(), True
        self._text += self._kept(received).replace("\r\n", "\n").replace("\r", "\n")

    def _kept(self, received: str) -> str:
        """Return what is kept of the next piece of output."""
        return received

    @property
    def due(self) -> str | None:
        """Return what is to be typed into the question that is the last thing shown, or None."""
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
        """Return why a known question that is the last thing shown must not be answered, or None."""
        return None

    @property
    def is_refused_at_once(self) -> bool:
        """Return whether a question with an objection ends the wait at once, and not only after `STUCK_S`."""
        return False

    @property
    def settles_in_s(self) -> float | None:
        """Return how long the last thing shown must stay that until it counts; None while the device is at work."""
        if self.due is not None:
            return SETTLED_S
        after = self._after_prompt()
        if after is None:
            return None
        if after.strip() and not _only_syslog(after):
            return COVERED_S
        return SETTLED_S if self._may_be_redrawn(after) else PROMPT_SETTLED_S

    @property
    def is_over(self) -> bool:
        """Return whether the prompt is back, with nothing after it but log lines."""
        after = self._after_prompt()
        return after is not None and _only_syslog(after)

    @property
    def stuck_at(self) -> str | None:
        """Return what the device seems to wait for and will not get from us; None where it is at work."""
        shown = self.since_answer
        if (asked := self._asked()) is not None:
            question = repr(self._shown(last_line(self._text)))
            if asked in self._answered:
                return f"the device asks {question} again, which was answered already" if self._is_drawn_again else None
            return f"the device asks {question}: {objection}" if (objection := self.objection) else None
        if _MAY_BE_A_QUESTION.search(shown):
            return f"the device asks {self._shown(last_line(shown))!r}, which we have no answer for"
        if (covered := self._covered()) is not None and self._after_prompt() is None:
            return (
                f"the device asked {self._shown(covered)!r} and wrote something else after it: nothing is typed into "
                "what is not the last thing shown"
            )
        return None

    @property
    def passed_over(self) -> str | None:
        """Return a question without an answer that something like a prompt follows, or None.

        The prompt may be other text, and the question still open for whatever is typed next.
        """
        after = self._after_prompt()
        if after is None:
            return None
        shown = self.since_answer.removesuffix(after)
        known = [match[0] for one in self._unanswered for match in one.pattern.finditer(shown)]
        unknown = [text for text in confirmations(shown) if not any(one.pattern.search(text) for one in self._answered)]
        return self._shown(last_line((known + unknown)[-1])) if known or unknown else None

    @property
    def is_disturbed(self) -> bool:
        """Return whether only text after a question that we could answer holds the dialogue up."""
        return self._asked() is None and self._covered() is not None

    @property
    def since_answer(self) -> str:
        """Return what was shown since the last answer, as far as it stands in the end of the text."""
        return self._tail[self._start_of_tail() :]

    @property
    def _tail(self) -> str:
        return self._text[-_TAIL_CHARS:]

    def _start_of_tail(self) -> int:
        """Return where in the tail the output since the last answer starts."""
        return max(self._answered_to - max(len(self._text) - _TAIL_CHARS, 0), 0)

    def _asked(self) -> Question | None:
        """Return the question that is the very last thing shown."""
        tail = self._tail
        return next((one for one in self._questions if _at_end(one.pattern, tail)), None)

    @property
    def _unanswered(self) -> list[Question]:
        return [one for one in self._questions if one not in self._answered]

    @property
    def _is_drawn_again(self) -> bool:
        """Return whether anything came after the last answer.

        The question that was answered is the last thing shown until the device moves on. A busy device, or a busy host
        of ours, takes longer for that than a question may stand: it is at work.
        """
        return bool(self.since_answer.strip(" \b"))

    def _covered(self) -> str | None:
        """Return a question without an answer that other text follows."""
        shown = self.since_answer
        found = [match for one in self._unanswered for match in one.pattern.finditer(shown)]
        if not found:
            return None
        latest = max(found, key=lambda match: match.end())
        after = shown[latest.end() :]
        return last_line(latest[0]) if after.strip() and after.lstrip(" ").startswith("\n") else None

    def _after_prompt(self) -> str | None:
        """Return what follows the last prompt since the last answer; None where there is no prompt."""
        tail = self._tail
        found = list(self._prompt.finditer(tail, self._start_of_tail()))
        return tail[found[-1].end() :] if found else None

    def _may_be_redrawn(self, after: str) -> bool:
        """Return whether only what makes IOS draw a line again stands before the prompt: a log line, a broadcast.

        The command may follow it once more then, and its answer after that.
        """
        shown = self.since_answer.removesuffix(after)
        *above, _ = [line.strip() for line in shown.splitlines() if line.strip()] or [""]
        return not above or is_syslog(above[-1]) or any(line.startswith("***") for line in above)

    def _shown(self, text: str) -> str:
        """Return text as an error may quote it."""
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLimits:
    """How long to wait for the prompt after a command.

    Attributes:
        start_s: Seconds until the first output, the echo's rest included.
        sign: What the device prints while it is at work, for errors.
        end: What ends the wait, for errors.
    """

    start_s: float = float("inf")
    silence_s: float = float("inf")
    total_s: float = float("inf")
    sign: str = "output"
    end: str = "prompt"


class PromptWait:
    """Ends the wait for the prompt after a command where waiting longer makes no sense.

    Args:
        dialogue: What the device shows.
        command: For errors; it must not hold a secret.
        limits: How long to wait.
        host, step, hint: As errors have them.
        interrupted: Returns whether the operator wants to stop.
        stopped: The error that is raised then.
    """

    def __init__(
        self,
        dialogue: Dialogue,
        command: str,
        limits: WaitLimits,
        *,
        host: str,
        step: str,
        hint: str | None = None,
        interrupted: Callable[[], bool] = lambda: False,
        stopped: type[Stopped] = Interrupted,
    ) -> None:
        self._dialogue, self._command, self._limits = dialogue, command, limits
        self._host, self._step, self._hint = host, step, hint
        self._interrupted, self._stopped = interrupted, stopped

    def check(self) -> None:
        """Check clock, dialogue and operator; called about once a second.

        Raises:
            Stopped: The operator wants to stop.
            OutputNotUnderstood: A limit was reached, or the device waits for an answer that it does not get.
        """
        if self._interrupted():
            raise self._stopped(
                f"'{self._command}': stopped by the operator{self._dialogue.progress}",
                host=self._host,
                step=self._step,
                hint=self._hint,
            )
        if (reason := self._reason()) is not None:
            raise OutputNotUnderstood(
                f"'{self._command}': {reason}{self._dialogue.progress}",
                host=self._host,
                step=self._step,
                hint=self._hint,
            )

    def _reason(self) -> str | None:
        limits, dialogue = self._limits, self._dialogue
        silent_s = dialogue.silent_s
        if not dialogue.has_output and silent_s > limits.start_s:
            return f"no sign of life for {limits.start_s:.0f} s"
        may_be_stuck = silent_s > STUCK_S or dialogue.is_refused_at_once
        if may_be_stuck and (stuck_at := dialogue.stuck_at) is not None:
            return stuck_at
        if silent_s > limits.silence_s:
            return f"no {limits.sign} for {limits.silence_s:.0f} s"
        if dialogue.elapsed_s > limits.total_s:
            return dialogue.stuck_at or f"no {limits.end} after {limits.total_s:.0f} s"
        return None


def _only_syslog(text: str) -> bool:
    return all(is_syslog(line) for line in text.splitlines())


def _at_end(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether a text ends with what a pattern finds, blanks and backspaces after it left out."""
    stripped = text.rstrip(" \b")
    return any(match.end() >= len(stripped) for match in pattern.finditer(text))
