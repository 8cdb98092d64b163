"""netmiko's channel, recorded and read in bounded pieces, and the errors of a prompt that does not come in time.

netmiko takes half a second to import: only `flashferry.devices.driver` imports this module.
"""

from __future__ import annotations

import re
import select
import time
from contextlib import suppress
from typing import Any

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
from flashferry.devices.ssh_client import Client
from flashferry.devices.transcript import Recorder
from templates.rows import Privilege, first

READ_AT_ONCE_BYTES = 256 * 1024

"""Taken from the channel in one go: a device that writes faster than we read must not keep us reading for ever."""

_PAGED = "The device shows its output by pages: let the user give 'terminal length 0', or set 'length 0' on its vty"


class NoPrompt(ReadTimeout):
    """No prompt came in time.

    Attributes:
        question: What the device waits at, as far as that can be seen, or None.
        hint: What to do about it, or None.
    """

    def __init__(self, seen: str) -> None:
        super().__init__("no prompt in time")
        self.question = open_question(seen)
        self.hint = _PAGED if "--More--" in (self.question or "") else None


class EndlessAnswer(NoPrompt):
    """More came than any answer has; what was seen is no question."""

    def __init__(self, most_chars: int) -> None:
        super().__init__("")
        self.hint = f"It wrote more than {most_chars / 1e6:.0f} MB: give the command by hand and look"


class RecordedChannel(SSHChannel):
    """netmiko's channel, which reads a flood in pieces, and has all that passes recorded.

    netmiko's own session log would have the text as it is, ticket and enable secret included.
    """

    def __init__(self, conn: paramiko.Channel | None, encoding: str, recorder: Recorder) -> None:
        super().__init__(conn=conn, encoding=encoding)
        self._recorder = recorder

    def write_channel(self, out_data: str) -> None:
        """Send a text; one that could not be sent stands in the transcript too."""
        self._recorder.sent(out_data)
        super().write_channel(out_data)

    def read_channel(self) -> str:
        """Return what is there, so much at most."""
        pieces: list[str] = []
        size = 0
        while size < READ_AT_ONCE_BYTES and (piece := self.read_buffer()):
            pieces.append(piece)
            size += len(piece)
        text = "".join(pieces)
        self._recorder.came(text)
        return text


SETTLED_S = 1.0

"""How long nothing may come behind a prompt that syslog lines follow, until it counts as the answer's end."""

REDRAWN_S = 0.3

"""A prompt behind a syslog line may be drawn in front of the line that is being typed; both come in one burst."""

TOTAL_LIMITS = 10

"""An answer may take so many times the longest silence, in all; a device that never falls silent is given up."""

LOGIN_LIMIT_S = 20.0

"""netmiko's own limit for each of the first commands."""

QUIET_S = 0.2

"""So long nothing may follow the very first prompt: a banner comes in pieces, and some of its lines look like one."""

QUESTION_S = 3.0

"""A line without an end that stands for so long is a question, not half a banner."""

FULL_LEVEL = 15

SHOW_PRIVILEGE = IOS.commands.privilege

TERMINAL = ("terminal width 511", "terminal length 0", "terminal no monitor")

"""What is set for this session alone; syslog lines that would be written into every dialogue stay away."""

MOST_ANSWER_CHARS = 16 * 1024 * 1024

"""No answer is longer: a configuration of ten thousand interfaces has two megabytes."""

_PASSWORD = re.compile(
    r"(?:\A|\n)(?![^\n]*\b(?:new|old|again|retype|re-?enter|confirm|verify)\b)[^\n]{0,40}password: ?[ \b]*\Z",
    re.IGNORECASE,
)

"""`Password:`, or what an AAA server has instead, but no question for another password."""

_LOGIN_TAIL_CHARS = 4000

IOSDriver: Any = ios_driver()


class Connection(CiscoIosSSH):
    """A netmiko connection to IOS whose waiting costs no processor time, and whose login costs few round trips."""

    def __init__(self, *, host_keys: HostKeys, recorder: Recorder, **options: Any) -> None:
        self._host_keys = host_keys
        self._recorder = recorder
        self.prompt = self.last_prompt = ""
        self.terminal_refusals: dict[str, str] = {}
        """Terminal settings that the device did not take, by the command, with its words."""
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
        """Wait for a prompt, set the terminal and learn the prompt.

        A command's echo comes after any banner, so what follows it is the answer and the prompt; it counts once two
        commands in
        a row end with the same one.
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
        """Take a prompt as that of EXEC mode from here on; `base_prompt` is netmiko's name of it."""
        self.prompt = self.last_prompt = prompt
        self.base_prompt = prompt[:-1]

    def _await_first_prompt(self) -> None:
        """Return once something like a prompt is shown; nothing is typed before.

        One with blanks, or with a banner in front of it on its line, must stand for as long as a question.

        Raises:
            LoginRefused: The device asks something, such as a new password.
            DeviceRefused: What it shows is no prompt of IOS, but of another system.
            DeviceUnreachable: Nothing like a prompt came in time.
            EOFError: The device has hung up.
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
                        f"expected a prompt, the device asks {question!r}; nothing was typed",
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
        """Give one of the first commands; return the prompt after its answer."""
        self.write_channel(command + "\n")
        gate, deadline, seen = EchoGate(command), time.monotonic() + LOGIN_LIMIT_S, ""
        while not gate.has_echo(received := self.read_channel()):
            seen = (seen + received)[-_LOGIN_TAIL_CHARS:]
            self._wait_until(deadline, seen)
        seen = gate.after
        while (prompt := prompt_line(seen)) is None:
            self._wait_until(deadline, seen)
            seen = (seen + self.read_channel())[-_LOGIN_TAIL_CHARS:]
        self._note_setting(command, seen)
        return prompt

    def set_terminal(self) -> None:
        """Set the terminal once more, at a prompt of a higher level: before `enable` a device may know no `terminal`.

        Raises:
            NoPrompt: No echo or no prompt came.
        """
        for command in TERMINAL:
            self._note_setting(command, self.exchange(command, limit_s=LOGIN_LIMIT_S).text)

    def _note_setting(self, command: str, answer: str) -> None:
        """Keep whether the device took a setting: what it prints depends on it."""
        self.terminal_refusals.pop(command, None)
        if (refusal := refusal_in(answer)) is not None:
            self.terminal_refusals[command] = refusal
            self._recorder.note(f"'{command}' was not taken: {refusal}")

    def enter_enable(self, secret: str) -> None:
        """Enter privileged EXEC: the secret (may be empty) is typed once, and only at the question for a password.

        Raises:
            ValueError: There is no secret for it, or the device asks again.
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
        """Return whether the question for a password is the last thing shown, and stays; else it is a prompt."""
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
        """Check what is left of earlier output, such as a log line, before something is typed.

        Raises:
            NoPrompt: The device is at a question, which whatever is typed would answer.
        """
        left = self.read_channel()
        if open_question(left) is not None:
            raise NoPrompt(left)

    def exchange(self, command: str, *, limit_s: float, configures: bool = False) -> Answer:
        """Send a command that asks nothing and return its answer.

        `limit_s` is the longest silence until the prompt, ten times as long in all; with `configures` the prompt of a
        configuration mode ends an answer, too.

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
            self._wait_until(deadline, reader.text, REDRAWN_S if answer is not None else SETTLED_S)

    @staticmethod
    def _check_nothing_was_asked(answer: Answer) -> None:
        """Check that no question stands in an answer: what follows and resembles a prompt may be text.

        Raises:
            NoPrompt: One does, and whatever is typed next might be its answer.
        """
        if len(answer.text) < SHORT_ANSWER_CHARS and (asked := confirmations(answer.text)):
            raise NoPrompt(asked[-1])

    def read_until_pattern(
        self, pattern: str = "", read_timeout: float = 10.0, re_flags: int = 0, max_loops: int | None = None
    ) -> str:
        """Return what comes up to and including a pattern; the rest is kept for the next reader.

        As netmiko's own, which polls a hundred times a second; this one sleeps until there is something to see.

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
        """Return whether nothing more can come: the channel is closed, or the device has sent EOF.

        A device may send EOF and never close the channel; its descriptor is readable for ever then.
        """
        channel = self._open_channel
        return channel is None or channel.closed or bool(channel.eof_received and not channel.recv_ready())

    def wait_for_text(self, limit_s: float) -> None:
        """Sleep until the channel has something to read or has ended, or the limit is over."""
        channel = self._open_channel
        if channel is None or channel.recv_ready():
            return
        poller = select.poll()
        # paramiko backs this descriptor with a pipe that is readable while data waits, and once the channel ended.
        poller.register(channel.fileno(), select.POLLIN)
        poller.poll(max(limit_s, 0.0) * 1000)

    def _wait_until(self, deadline: float, seen: str, at_most_s: float = SETTLED_S) -> None:
        """Sleep for at most `at_most_s`, and not beyond the deadline.

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
        self.wait_for_text(min(left_s, at_most_s))

    def cleanup(self, command: str = "exit") -> None:
        """Log out; only called at a prompt that was seen, so nothing is asked first."""
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
        """Answers that need not be asked for again, by command."""

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
        """Enter privileged EXEC where the login did not lead there, or not to the level of the secret.

        `#` stands for every level from 2 on, and a `prompt` line may have `>` for all of them: the level decides, where
        the
        device shows it.

        Raises:
            LoginRefused: The secret was taken and the level is the same.
            ValueError: The secret was refused or is missing.
            NoPrompt: The device asks something else, or nothing came.
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
        """Return the privilege level that the device shows; None where it shows none."""
        text = self.device.exchange(SHOW_PRIVILEGE, limit_s=LOGIN_LIMIT_S).text
        found = first(Privilege, text)
        self.known_answers[SHOW_PRIVILEGE] = text
        return found.level if found is not None else None

    def _send_command(self, command: str) -> str:
        """Return a command's output to NAPALM's getters.

        NAPALM waits ten seconds in all, which a large configuration takes; here silence counts.
        """
        text = self.known_answers.get(command)
        if text is None:
            text = self.device.exchange(command, limit_s=60.0).text
        return str(self._send_command_postprocess(text))
