"""NAPALM's driver and netmiko's connection, extended: recorded, without polling, and with bounded reads.

netmiko takes half a second to import, so this module is imported only when a session is opened.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import Any, cast

import paramiko
from netmiko.channel import SSHChannel
from netmiko.cisco.cisco_ios import CiscoIosSSH
from netmiko.exceptions import ReadTimeout

from flashferry.devices.errors import DeviceRefused, DeviceUnreachable, LoginRefused
from flashferry.devices.host_keys import HostKeys
from flashferry.devices.napalm_ios import ios_driver
from flashferry.devices.platforms.ios import IOS
from flashferry.devices.prompts import (
    SHORT_ANSWER_CHARS,
    Answer,
    AnswerReader,
    EchoGate,
    any_prompt,
    confirmations,
    exec_prompt,
    first_prompt,
    is_config_prompt,
    last_line,
    not_ios,
    open_question,
    other_system,
    other_system_at,
    prompt_line,
    refusal_in,
)
from flashferry.devices.ssh_client import Client, ReceiveBuffer
from flashferry.devices.transcript import Recorder
from templates.rows import Privilege, first

READ_AT_ONCE_BYTES = 256 * 1024
"""Most bytes read at once, so that a device that writes faster than we read cannot keep us in the loop."""

_PAGED = "The device shows its output by pages: let the user give 'terminal length 0', or set 'length 0' on its vty"


class NoPrompt(ReadTimeout):
    """No prompt came in time.

    Attributes:
        question: The question at the end of the output, or None.
        hint: What to do about it, or None.
    """

    def __init__(self, seen: str) -> None:
        super().__init__("no prompt in time")
        self.question = open_question(seen)
        self.hint = _PAGED if "--More--" in (self.question or "") else None


class EndlessAnswer(NoPrompt):
    """The output of a command exceeds `MOST_ANSWER_CHARS`."""

    def __init__(self, most_chars: int) -> None:
        super().__init__("")
        self.hint = f"It wrote more than {most_chars / 1e6:.0f} MB: give the command by hand and look"


class RecordedChannel(SSHChannel):
    """netmiko's channel with bounded reads and a recorder of all input and output.

    netmiko's own session log would contain ticket and enable secret in clear.
    """

    def __init__(self, conn: paramiko.Channel | None, encoding: str, recorder: Recorder) -> None:
        super().__init__(conn=conn, encoding=encoding)
        self._recorder = recorder

    def write_channel(self, out_data: str) -> None:
        """Record a text and send it; a text whose sending failed is in the transcript, too."""
        self._recorder.sent(out_data)
        super().write_channel(out_data)

    def read_channel(self) -> str:
        """Return received text, at most `READ_AT_ONCE_BYTES`."""
        pieces: list[str] = []
        size = 0
        while size < READ_AT_ONCE_BYTES and (piece := self.read_buffer()):
            pieces.append(piece)
            size += len(piece)
        text = "".join(pieces)
        self._recorder.came(text)
        return text


SETTLED_S = 1.0
"""Time without output after which a prompt followed by syslog lines counts as the end of the answer."""

REDRAWN_S = 0.3
"""The same for a prompt right after a syslog line, which may be a redrawn input line: both come in one burst."""

TOTAL_LIMITS = 10
"""Total time limit of an answer, as a multiple of the limit of silence: it ends the wait for endless output."""

LOGIN_LIMIT_S = 20.0
"""Time limit of each of the first commands, as netmiko has it."""

QUIET_S = 0.2
"""Time without output after which the first prompt counts: lines of a banner, received in pieces, may look like one."""

QUESTION_S = 3.0
"""Time after which a line without line end counts as a question, and not as a part of a banner."""

FULL_LEVEL = 15

SHOW_PRIVILEGE = IOS.commands.privilege

TERMINAL = ("terminal width 511", "terminal length 0", "terminal no monitor")
"""Settings for this session only; `no monitor` keeps syslog lines out of the dialogues."""

MOST_ANSWER_CHARS = 16 * 1024 * 1024
"""Longest answer: a configuration of ten thousand interfaces has two megabytes."""

_PASSWORD = re.compile(
    r"(?:\A|\n)(?![^\n]*\b(?:new|old|again|retype|re-?enter|confirm|verify)\b)[^\n]{0,40}password: ?[ \b]*\Z",
    re.IGNORECASE,
)
"""`Password:`, or an AAA server's text instead, but no question for a new or repeated password."""

_LOGIN_TAIL_CHARS = 4000

_LINE_END = re.compile(r"\r{1,3}\n|\n\r|\r")

IOSDriver: Any = ios_driver()


class Connection(CiscoIosSSH):
    """A netmiko connection to IOS that waits without polling, and logs in with few round trips."""

    def __init__(self, *, host_keys: HostKeys, recorder: Recorder, **options: Any) -> None:
        self._host_keys = host_keys
        self._recorder = recorder
        self.prompt = self.last_prompt = ""
        self.terminal_refusals: dict[str, str] = {}
        """Terminal settings that the device refused: its error message by command."""
        super().__init__(**options)  # opens the session

    def _build_ssh_client(self) -> paramiko.SSHClient:
        return Client(self._host_keys)

    def establish_connection(self, *arguments: Any, **options: Any) -> None:
        """Open the connection, on a recorded channel that is read in bounded pieces."""
        super().establish_connection(*arguments, **options)
        channel = self._open_channel
        self.channel = RecordedChannel(channel, self.encoding, self._recorder)
        if channel is not None:
            there = channel.get_transport()
            cipher = getattr(there, "remote_cipher", "")  # paramiko's stubs do not know it
            self._recorder.note(f"session open: {there.remote_version}, {there.host_key_type}, {cipher}")

    def _try_session_preparation(self, force_data: bool = True) -> None:  # noqa: ARG002 -- netmiko's signature
        # netmiko types Enter first, in case nothing comes by itself, and `exit` where anything fails: both would be
        # answers to whatever the device asks.
        try:
            self.session_preparation()
        except BaseException:
            with suppress(EOFError, OSError, paramiko.SSHException):
                self.paramiko_cleanup()
            raise

    def session_preparation(self) -> None:
        """Wait for a prompt, set the terminal, and learn the exact prompt.

        The echo of a command comes after any banner, so its answer ends with the prompt; the prompt is accepted if two
        successive commands end with the same one.
        """
        self._await_first_prompt()
        prompts = [self._prompt_after(command) for command in TERMINAL]
        if prompts[-1] != prompts[-2]:
            raise NoPrompt("")
        if is_config_prompt(prompts[-1]):
            raise LoginRefused(
                f"the prompt '{prompts[-1]}' looks like that of configuration mode",
                host=self._host_keys.device,
                step="connect",
                hint="Take the 'prompt' line out of its configuration ('no prompt'); nothing was changed",
            )
        self._learn(prompts[-1])

    def _learn(self, prompt: str) -> None:
        """Use a prompt as that of EXEC mode from now on; `base_prompt` is netmiko's attribute for it."""
        self.prompt = self.last_prompt = prompt
        self.base_prompt = prompt[:-1]

    def _await_first_prompt(self) -> None:
        """Wait until something like a prompt is shown; nothing is typed before.

        A prompt with spaces, or on one line with a banner, must stay the last output for `QUESTION_S`.

        Raises:
            LoginRefused: The device asks something, such as a new password.
            DeviceRefused: The prompt is one of another system than IOS.
            DeviceUnreachable: Nothing like a prompt came in time.
            EOFError: The device closed the session.
        """
        started = output_at = time.monotonic()
        seen = ""
        while True:
            self.wait_for_text(QUIET_S)
            if received := self.read_channel():
                seen, output_at = (seen + received)[-_LOGIN_TAIL_CHARS:], time.monotonic()
            elif self.has_ended:
                raise EOFError
            elif first_prompt(seen) is not None:
                return
            elif time.monotonic() - output_at > QUESTION_S:
                if (question := open_question(seen)) is not None:
                    raise LoginRefused(
                        f"expected a prompt, found the question {question!r}; nothing was typed",
                        host=self._host_keys.device,
                        step="connect",
                        hint="Log in by hand once: the user's password may have expired, or the line has a menu",
                    )
                if prompt_line(seen) is not None:
                    return
            if time.monotonic() - started > LOGIN_LIMIT_S:
                if (system := other_system(seen) or other_system_at(last_line(seen))) is not None:
                    reason, hint = not_ios(system)
                    raise DeviceRefused(reason, host=self._host_keys.device, step="connect", hint=hint)
                raise DeviceUnreachable(
                    f"expected a prompt, none came within {LOGIN_LIMIT_S:.0f} s; last line seen: {last_line(seen)!r}",
                    host=self._host_keys.device,
                    step="connect",
                    hint="Log in by hand and look at what the device shows: a prompt that ends with neither '#' nor "
                    "'>' comes of a 'prompt' line in its configuration; nothing was typed",
                )

    def _prompt_after(self, command: str) -> str:
        """Send one of the first commands; return the prompt after its answer."""
        self.write_channel(command + "\n")
        gate, deadline, seen = EchoGate(command), time.monotonic() + LOGIN_LIMIT_S, ""
        while not gate.has_echo(received := self.read_channel()):
            seen = (seen + received)[-_LOGIN_TAIL_CHARS:]
            self._wait_until(deadline, seen, least_chars=gate.least_left)
        seen = gate.after
        while (prompt := prompt_line(seen)) is None:
            self._wait_until(deadline, seen)
            seen = (seen + self.read_channel())[-_LOGIN_TAIL_CHARS:]
        self._note_setting(command, seen)
        return prompt

    def set_terminal(self) -> None:
        """Set the terminal again after `enable`: at a lower privilege level `terminal` may not be available.

        Raises:
            NoPrompt: No echo or no prompt came.
        """
        for command in TERMINAL:
            self._note_setting(command, self.exchange(command, limit_s=LOGIN_LIMIT_S).text)

    def _note_setting(self, command: str, answer: str) -> None:
        """Record whether the device accepted a terminal setting, on which the form of its output depends."""
        self.terminal_refusals.pop(command, None)
        if (refusal := refusal_in(answer)) is not None:
            self.terminal_refusals[command] = refusal
            self._recorder.note(f"'{command}' was not taken: {refusal}")

    def enter_enable(self, secret: str) -> None:
        """Enter privileged EXEC mode; the secret, which may be empty, is typed once, when the device asks for it.

        Raises:
            ValueError: A secret is needed but empty, or the device asks again.
            NoPrompt: Neither question nor prompt came.
        """
        self._check_nothing_is_asked()
        self.write_channel("enable\n")
        self.read_until_pattern("enable", read_timeout=LOGIN_LIMIT_S)
        if not self._asks_password():
            return
        if not secret:
            raise ValueError("no enable secret")
        self.write_channel(secret + "\n")
        if self._asks_password():
            raise ValueError("the enable secret was refused")

    def _asks_password(self) -> bool:
        """Wait for a question or a prompt; return whether it is the question for a password."""
        deadline, seen = time.monotonic() + LOGIN_LIMIT_S, ""
        while True:
            if received := self.read_channel():
                seen = (seen + received)[-_LOGIN_TAIL_CHARS:]
            elif _PASSWORD.search(seen):
                return True
            if (prompt := prompt_line(seen)) is not None:
                self._learn(prompt)
                return False
            self._wait_until(deadline, seen, QUIET_S)

    def _check_nothing_is_asked(self) -> None:
        """Check output received since the last answer, such as a log line, before something is typed.

        Raises:
            NoPrompt: The device is at a question, which the next text typed would answer.
        """
        left = self.read_channel()
        if open_question(left) is not None:
            raise NoPrompt(left)

    def exchange(self, command: str, *, limit_s: float, configures: bool = False) -> Answer:
        """Send a command that asks no question, and return its answer.

        `limit_s` is the longest time without output, in seconds; the total limit is `TOTAL_LIMITS` times as long. With
        `configures` the prompt of a configuration mode also ends the answer.

        Raises:
            NoPrompt: No echo or no prompt came.
        """
        reader = AnswerReader(command, any_prompt(self.prompt) if configures else exec_prompt(self.prompt))
        self._check_nothing_is_asked()
        self.write_channel(command + "\n")
        started = output_at = prompt_at = time.monotonic()
        answer, prompt_end = None, None
        while True:
            if received := self.read_channel():
                output_at, answer = time.monotonic(), reader.take(received)
                if reader.size > MOST_ANSWER_CHARS:
                    raise EndlessAnswer(MOST_ANSWER_CHARS)
            if reader.prompt_end != prompt_end:
                prompt_at, prompt_end = output_at, reader.prompt_end
            left_s = output_at + limit_s - time.monotonic()
            if answer is not None:
                since_s = time.monotonic() - prompt_at
                if left_s <= 0 or answer.stands(since_s, redrawn_s=REDRAWN_S, settled_s=SETTLED_S):
                    self._check_nothing_was_asked(answer)
                    self.last_prompt = answer.prompt
                    return answer
                left_s = max(left_s, 0.01)
            deadline = min(time.monotonic() + left_s, started + TOTAL_LIMITS * limit_s)
            self._wait_until(
                deadline, reader.text, REDRAWN_S if answer is not None else SETTLED_S, least_chars=reader.least_left
            )

    @staticmethod
    def _check_nothing_was_asked(answer: Answer) -> None:
        """Check that an answer has no question: the prompt after it may be other text.

        Raises:
            NoPrompt: It has one, and the next text typed might be its answer.
        """
        if len(answer.text) < SHORT_ANSWER_CHARS and (asked := confirmations(answer.text)):
            raise NoPrompt(asked[-1])

    def read_until_pattern(
        self, pattern: str = "", read_timeout: float = 10.0, re_flags: int = 0, max_loops: int | None = None
    ) -> str:
        """Return the output up to and including a match of a pattern; the rest is kept for the next call.

        Replaces netmiko's method, which polls a hundred times a second; this one sleeps until there is output.

        Raises:
            ReadTimeout: It did not come in time.
        """
        if max_loops is not None:
            raise ValueError("max_loops: netmiko has deprecated it; give read_timeout")
        deadline, seen = time.monotonic() + read_timeout, ""
        expression = re.compile(pattern, re_flags)
        while True:
            seen += self.read_channel()
            if (found := expression.search(seen)) is not None:
                self._read_buffer += seen[found.end() :]
                return seen[: found.end()]
            if len(seen) > MOST_ANSWER_CHARS:
                raise EndlessAnswer(MOST_ANSWER_CHARS)
            self._wait_until(deadline, seen)

    @property
    def _open_channel(self) -> paramiko.Channel | None:
        # netmiko's attribute may be a telnet connection as well; ours never is.
        return self.remote_conn if isinstance(self.remote_conn, paramiko.Channel) else None

    @property
    def has_ended(self) -> bool:
        """Return whether no more output can come: the channel is closed, or the device has sent EOF.

        A device may send EOF and never close the channel; its descriptor then stays readable.
        """
        channel = self._open_channel
        return channel is None or channel.closed or bool(channel.eof_received and not channel.recv_ready())

    def read_channel(self) -> str:
        """Return the text that has come; where there is none, without netmiko's lock and its steps."""
        channel = self._open_channel
        if channel is not None and not self._read_buffer and not channel.recv_ready():
            return ""
        return str(super().read_channel())

    def normalize_linefeeds(self, a_string: str) -> str:
        """Turn each line end into LF, as netmiko does in two steps and with an expression compiled for each."""
        return _LINE_END.sub("\n", a_string)

    def wait_for_text(self, limit_s: float, least_chars: int = 1) -> None:
        """Sleep until the channel has so much to read or has ended, or the limit is over."""
        channel = self._open_channel
        if channel is not None:
            cast("ReceiveBuffer", channel.in_buffer).await_bytes(least_chars, limit_s)

    def _wait_until(self, deadline: float, seen: str, at_most_s: float = SETTLED_S, *, least_chars: int = 1) -> None:
        """Sleep for at most `at_most_s`, and not beyond the deadline; wake once `least_chars` more have come.

        Raises:
            NoPrompt: The deadline has passed.
            EOFError: The device has hung up.
        """
        channel = self._open_channel
        if self.has_ended and not (channel is not None and channel.recv_ready()):
            raise EOFError
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise NoPrompt(seen)
        self.wait_for_text(min(left_s, at_most_s), least_chars)

    def cleanup(self, command: str = "exit") -> None:
        """Log out; only called when the device is at a prompt."""
        self.write_channel(command + self.RETURN)
        # The device hangs up; a second is enough for it even behind a satellite.
        deadline = time.monotonic() + 1.0
        while not self.has_ended and time.monotonic() < deadline:
            self.read_channel()
            self.wait_for_text(0.1)


class Driver(IOSDriver):
    """NAPALM's driver on our connection; its getters work as they are."""

    def __init__(self, *, host_keys: HostKeys, recorder: Recorder, **options: Any) -> None:
        self.device: Any
        super().__init__(**options)
        self._host_keys = host_keys
        self._recorder = recorder
        self.known_answers: dict[str, str] = {}
        """Cached answers, by command."""

    def open(self) -> None:
        """Open the session; the caller checks whether it is privileged."""
        self.device = self._netmiko_device = Connection(
            host_keys=self._host_keys,
            recorder=self._recorder,
            device_type="cisco_ios",
            host=self.hostname,
            username=self.username,
            password=self.password,
            timeout=self.timeout,
            **self.netmiko_optional_args,
        )

    def enable(self) -> None:
        """Enter privileged EXEC mode, unless the login led to level 15 already.

        `#` is the prompt of every level from 2 on, and a `prompt` line may use `>` for all of them, so the privilege
        level decides if the device shows it.

        Raises:
            LoginRefused: The secret was accepted but the level did not change.
            ValueError: The secret was refused or is missing.
            NoPrompt: The device asks something else, or there was no output.
        """
        device = self.device
        is_hash_prompt = device.last_prompt.endswith("#")
        if is_hash_prompt and (not device.secret or self._level() in {None, FULL_LEVEL}):
            return
        device.enter_enable(device.secret)
        device.set_terminal()
        if not is_hash_prompt and device.last_prompt.endswith("#"):
            return
        level = self._level()
        if level == FULL_LEVEL:
            return
        if is_hash_prompt:
            raise LoginRefused(
                f"'enable' left the user at privilege level {level}",
                host=self._host_keys.device,
                step="connect",
                hint="Check FLASHFERRY_ENABLE_SECRET or the inventory's enable_secret; without one the user works at "
                "its own level",
            )
        raise ValueError("no privileged prompt")

    def _level(self) -> int | None:
        """Return the privilege level by `show privilege`; None if the device does not show it."""
        text = self.device.exchange(SHOW_PRIVILEGE, limit_s=LOGIN_LIMIT_S).text
        found = first(Privilege, text)
        self.known_answers[SHOW_PRIVILEGE] = text
        return found.level if found is not None else None

    def _send_command(self, command: str) -> str:
        """Return a command's output to NAPALM's getters.

        NAPALM's limit is ten seconds in total, which a large configuration exceeds; here it is a limit of silence.
        """
        text = self.known_answers.get(command)
        if text is None:
            text = self.device.exchange(command, limit_s=60.0).text
        return str(self._send_command_postprocess(text))
