"""The dialogue after one command: which questions to answer, when it is over, when to stop waiting."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from flashferry.devices.errors import Interrupted, OutputNotUnderstood, QuestionLeft, Stopped
from flashferry.devices.prompts import EchoGate, confirmations, is_syslog, last_line

SETTLED_S = 0.25
"""Time for which a question must be the last output before it is answered: IOS redraws a line in the same burst."""

PROMPT_SETTLED_S = 0.1
"""The same for the prompt after an answer; a prompt that may be redrawn before the command needs `SETTLED_S`."""

COVERED_S = 3.0
"""The same for a prompt followed by other text than log lines, such as a broadcast message."""

STUCK_S = 5.0
"""Time after which the wait at a question that we do not answer ends; before, it might be redrawn or disappear."""

_TAIL_CHARS = 8192
"""Last characters that are searched for a question or a prompt; a copy may print millions of marks."""

_MAY_BE_A_QUESTION = re.compile(
    r"(?:(?:\? ?(?:\[[^\]\n]*\])?|\[(?:confirm|yes/no|y/n(?:/q)?)\]|\]\?):? ?"
    r"|(?i:\b(?:password|passphrase|passcode|username|login)): ?)\Z"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that a dialogue knows.

    Attributes:
        pattern: Matches it; only a match at the very end of the output counts.
        answer: Text to type, which may be a secret; with a line end if the device expects one.
    """

    name: str
    pattern: re.Pattern[str]
    answer: str = field(repr=False)


class Dialogue:
    """State of a device's output after a command.

    Args:
        prompt_pattern: Regular expression of the privileged prompt, alone on a line.
        questions: Questions that the device may ask, each with one answer.
        clock: Monotonic time in seconds; None takes the system's.
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
        """Return all output so far."""
        return self._text

    @property
    def has_output(self) -> bool:
        """Return whether there was any output."""
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
        """Return the progress of the command as the end of an error message; empty if unknown."""
        return ""

    def take(self, received: str) -> None:
        """Add a piece of output."""
        if received:
            self._output_s, self._has_output = self._clock(), True
        self._text += self._kept(received).replace("\r\n", "\n").replace("\r", "\n")

    def _kept(self, received: str) -> str:
        """Return the part of a piece of output that is stored."""
        return received

    @property
    def due(self) -> str | None:
        """Return the text to type if the output ends with a question that we answer, else None."""
        asked = self._asked()
        return asked.answer if asked is not None and asked not in self._answered and self.objection is None else None

    def typed(self) -> None:
        """Record that the due answer was typed; the same question is not answered again."""
        asked = self._asked()
        assert asked is not None
        self._answered.append(asked)
        self._answered_to = len(self._text)

    @property
    def objection(self) -> str | None:
        """Return why the known question at the end of the output must not be answered, or None."""
        return None

    @property
    def is_refused_at_once(self) -> bool:
        """Return whether a question with an objection ends the wait at once, instead of after `STUCK_S`."""
        return False

    @property
    def settles_in_s(self) -> float | None:
        """Return for how long the output must stay unchanged until its end counts; None while the device works."""
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
        """Return whether the prompt has returned, followed by nothing but log lines."""
        after = self._after_prompt()
        return after is not None and _only_syslog(after)

    @property
    def stuck_at(self) -> str | None:
        """Return in words what the device seems to wait for that we do not type; None while it works."""
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
        """Return an unanswered question that is followed by something like a prompt, or None.

        The prompt may be other text, so the next text typed might answer the question.
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
        """Return whether a question that we could answer is only blocked by other output after it."""
        return self._asked() is None and self._covered() is not None

    @property
    def since_answer(self) -> str:
        """Return the output since the last answer, as far as it is in the last `_TAIL_CHARS` characters."""
        return self._tail[self._start_of_tail() :]

    @property
    def _tail(self) -> str:
        return self._text[-_TAIL_CHARS:]

    def _start_of_tail(self) -> int:
        """Return the index in the tail at which the output since the last answer starts."""
        return max(self._answered_to - max(len(self._text) - _TAIL_CHARS, 0), 0)

    def _asked(self) -> Question | None:
        """Return the question at the very end of the output, or None."""
        tail = self._tail
        return next((one for one in self._questions if _at_end(one.pattern, tail)), None)

    @property
    def _unanswered(self) -> list[Question]:
        return [one for one in self._questions if one not in self._answered]

    @property
    def _is_drawn_again(self) -> bool:
        """Return whether there was output after the last answer.

        Until then the answered question is still the end of the output. A busy device or host may need longer than
        `STUCK_S` to continue, which does not mean that it waits for an answer.
        """
        return bool(self.since_answer.strip(" \b"))

    def _covered(self) -> str | None:
        """Return an unanswered question that is followed by other text, or None."""
        shown = self.since_answer
        found = [match for one in self._unanswered for match in one.pattern.finditer(shown)]
        if not found:
            return None
        latest = max(found, key=lambda match: match.end())
        after = shown[latest.end() :]
        return last_line(latest[0]) if after.strip() and after.lstrip(" ").startswith("\n") else None

    def _after_prompt(self) -> str | None:
        """Return the output after the last prompt, since the last answer; None if there is no prompt."""
        tail = self._tail
        found = list(self._prompt.finditer(tail, self._start_of_tail()))
        return tail[found[-1].end() :] if found else None

    def _may_be_redrawn(self, after: str) -> bool:
        """Return whether the output before the prompt makes IOS redraw the line: a log line or a broadcast message.

        The command and its output may then follow the prompt.
        """
        shown = self.since_answer.removesuffix(after)
        *above, _ = [line.strip() for line in shown.splitlines() if line.strip()] or [""]
        return not above or is_syslog(above[-1]) or any(line.startswith("***") for line in above)

    def _shown(self, text: str) -> str:
        """Return a text in the form in which an error may quote it."""
        return text


class WaitLimits(Struct, frozen=True, kw_only=True):
    """Time limits of the wait for the prompt after a command.

    Attributes:
        start_s: Seconds until the first output, the rest of the echo included.
        silence_s: Longest time without output.
        total_s: Longest time in all.
        sign: Name of the output that a working device prints, for errors.
        end: Name of the output that ends the wait, for errors.
    """

    start_s: float = float("inf")
    silence_s: float = float("inf")
    total_s: float = float("inf")
    sign: str = "output"
    end: str = "prompt"


class PromptWait:
    """Ends the wait for the prompt after a command by time limits, the operator, or an open question.

    Args:
        dialogue: The dialogue.
        command: The command, for errors; it must not contain a secret.
        limits: Time limits.
        host, step, hint: For errors.
        interrupted: Returns whether the operator stops the run.
        stopped: The error that is raised in that case.
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
        """Check time, dialogue and operator; called about once a second.

        Raises:
            Stopped: The operator stops the run.
            OutputNotUnderstood: A limit was exceeded, or the device waits for an answer that we do not give.
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
    """Return whether a text ends with a match of a pattern, apart from spaces and backspaces."""
    stripped = text.rstrip(" \b")
    return any(match.end() >= len(stripped) for match in pattern.finditer(text))


ECHO_LIMIT_S = 30.0
"""Time limit for the echo of a command; a device without an echo hangs, or is at a question that we missed."""

MOST_CHARS_BEFORE_ECHO = 256 * 1024
"""Most output before the echo of a command: a burst of a few thousand log lines may come first."""

STANDS_S = 1.0
"""Time after which a prompt followed only by log lines counts, even if more log lines keep coming."""

MOST_CHARS = 4 * 1024 * 1024
"""Most output of a dialogue; the longest known are half a million dots of a hash."""


class Line(Protocol):
    """Interface of a session for dialogues; all methods raise DeviceUnreachable if the session is lost."""

    name: str

    def send(self, text: str) -> None:
        """Send text unchanged."""

    def received(self) -> str:
        """Return the output received since the last call."""

    def wait_for_text(self, limit_s: float, least_chars: int = 1) -> None:
        """Sleep until there is so much to read or the limit is over."""


def await_echo(line: Line, command: str, gate: EchoGate, on_wait: Callable[[], None]) -> None:
    """Wait for the complete echo of a command; the output after it is kept in the gate.

    Raises:
        OutputNotUnderstood: It did not come within the limit, or there was too much other output.
    """
    deadline = time.monotonic() + ECHO_LIMIT_S
    chars = 0
    while not gate.has_echo(text := line.received()):
        chars += len(text)
        _check_size(line, chars, MOST_CHARS_BEFORE_ECHO)
        if time.monotonic() > deadline:
            raise OutputNotUnderstood(
                f"'{command.partition(' ')[0]}': expected the echo of the command, "
                f"none came within {ECHO_LIMIT_S:.0f} s",
                host=line.name,
                hint="Look at the device's console: it may be at a question, or hang",
            )
        on_wait()
        line.wait_for_text(1.0, gate.least_left)


def run_dialogue(line: Line, gate: EchoGate, dialogue: Dialogue, on_wait: Callable[[], None]) -> None:
    """Answer the device's questions until the dialogue is over.

    A question is answered, and a prompt accepted, only after it was the end of the output for a moment.

    Raises:
        OutputNotUnderstood: The device's output has no end.
        QuestionLeft: A prompt followed a question that was not answered.
    """
    dialogue.take(gate.after)
    chars = len(gate.after)
    stood_since: float | None = None
    while True:
        settles_in_s = dialogue.settles_in_s
        stood_since = (stood_since or time.monotonic()) if settles_in_s is not None else None
        on_wait()
        line.wait_for_text(1.0 if settles_in_s is None else settles_in_s)
        if text := line.received():
            chars += len(text)
            _check_size(line, chars, MOST_CHARS)
            dialogue.take(text)
            if stood_since is not None and _stands(dialogue, stood_since):
                break
            stood_since = stood_since if dialogue.is_over else None
        elif settles_in_s is not None and stood_since is not None and time.monotonic() - stood_since >= settles_in_s:
            if (answer := dialogue.due) is None:
                break
            line.send(answer)
            dialogue.typed()
            stood_since = None
    _check_nothing_is_left(line, dialogue)


def _stands(dialogue: Dialogue, since_s: float) -> bool:
    """Return whether a prompt followed only by log lines has been there for `STANDS_S`."""
    return dialogue.is_over and time.monotonic() - since_s >= STANDS_S


def _check_nothing_is_left(line: Line, dialogue: Dialogue) -> None:
    if (question := dialogue.passed_over) is not None:
        raise QuestionLeft(
            f"the device asked {question!r}, and something like a prompt came without an answer; nothing was typed",
            host=line.name,
            hint="Give the command by hand and look at what the device asks",
        )


def _check_size(line: Line, chars: int, most: int) -> None:
    if chars > most:
        raise OutputNotUnderstood(
            f"expected an end of the device's output, found more than {most / 1e6:.1f} MB of it",
            host=line.name,
            hint="Give the command by hand and look at what the device shows",
        )
