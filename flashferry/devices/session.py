"""One SSH session with one device: NAPALM's driver, and its netmiko channel for dialogues.

netmiko and NAPALM raise a dozen types of errors, which are converted to ours here.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.core.errors import FlashferryError
from flashferry.core.units import counted
from flashferry.core.values import field_names
from flashferry.devices.dialogue import Dialogue, await_echo, run_dialogue
from flashferry.devices.errors import SESSION_LOST, DeviceRefused, DeviceUnreachable, OutputNotUnderstood, QuestionLeft
from flashferry.devices.login import Login, failed, hang_up, lost, open_driver, too_late
from flashferry.devices.platforms import recognize
from flashferry.devices.prompts import (
    SHORT_ANSWER_CHARS,
    EchoGate,
    is_syslog,
    not_ios,
    open_question,
    other_system,
    refusal_in,
)
from flashferry.devices.scp_source import ScpSource, open_source
from flashferry.tcp.tcp_info import parse_tcp_info
from templates.config_sections import missing_of_whole
from templates.version import SoftwareVersion, parse_version

if TYPE_CHECKING:
    from flashferry.devices.platforms.platform import Platform

TCP_INFO = 11
"""`TCP_INFO` of linux/tcp.h."""

BREAK = "\x1e"
"""Ctrl-Shift-6, the default escape character of IOS: ends a running copy."""

SHOW_VERSION = "show version"

_NOT_NEEDED = {"show hosts": "", "show ip interface brief": ""}
"""Empty answers for commands that NAPALM sends to get the domain name and all interfaces, which we do not use."""

_NAPALM_KNOWS_NOT = "Unknown"
"""NAPALM's value for a fact that it did not find."""

_NO_STARTUP = re.compile(r"not present|no startup|memory is not (?:set up|valid)|invalid or not", re.IGNORECASE)
"""`startup-config is not present`, `%% Non-volatile configuration memory is not present`."""

_MESSAGE_LINES = 10
"""Most lines of the message that is printed instead of a missing configuration."""


class Facts(Struct, frozen=True, kw_only=True):
    """NAPALM's facts of a device; a model that NAPALM does not find is ours, or empty."""

    hostname: str
    vendor: str
    model: str
    os_version: str
    serial_number: str


class DeviceSession:
    """An open, privileged session. All its methods raise DeviceUnreachable if the session is lost.

    After an error the session is either at a prompt or closed, so no later command is typed into an open question.
    `show version` is sent and parsed once.

    Attributes:
        name: Inventory name of the device.
        recorder: Records all input and output.
        lines_sent: Number of configuration lines typed so far, accepted or not.
    """

    def __init__(self, login: Login) -> None:
        self.name = login.name
        self.recorder = login.recorder
        self.recorder.note(f"{login.name}: logging in to {login.address} port {login.port} as '{login.username}'")
        try:
            self._driver = open_driver(login)
        except BaseException as error:
            self.recorder.note(f"no session: {error if isinstance(error, FlashferryError) else type(error).__name__}")
            self.recorder.close()
            raise
        self._prompt = re.escape(str(self._driver.device.prompt))
        self.lines_sent = 0

    def close(self) -> None:
        """Log out; a lost session is no error."""
        if not self.alive:
            self.abandon()
            return
        try:
            self._driver.close()
        except failed():
            self.abandon()
        else:
            self._ended("logged out")
        finally:
            self._driver.device = None

    def abandon(self) -> None:
        """Hang up at once."""
        device, self._driver.device = self._driver.device, None
        if device is None:
            return
        self._ended("hung up")
        hang_up(device)

    def _ended(self, how: str) -> None:
        self.recorder.note(how)
        self.recorder.close()

    @property
    def alive(self) -> bool:
        """Return whether the SSH connection is still up, as far as known here."""
        device = self._driver.device
        transport = getattr(getattr(device, "remote_conn", None), "transport", None)
        return bool(transport and transport.is_active() and not device.has_ended)

    @property
    def privileged(self) -> bool:
        """Return whether the device's last prompt is the one after login."""
        with self._exchange("check the privilege level"):
            return bool(self._driver.device.last_prompt == self._driver.device.prompt)

    def check_privileged(self, step: str) -> None:
        """Check that the session has the privileged prompt.

        Raises:
            DeviceRefused: It has not.
        """
        if not self.privileged:
            raise DeviceRefused(
                "expected the privileged prompt '#', found '>'",
                host=self.name,
                step=step,
                hint="Give a user with privilege 15 or an enable secret",
            )

    @property
    def width_refusal(self) -> str | None:
        """Return the device's message if it refused `terminal width`, so that lines may wrap at 80; else None."""
        refused: dict[str, str] = self._driver.device.terminal_refusals
        return next((words for command, words in refused.items() if command.startswith("terminal width")), None)

    @property
    def prompt_pattern(self) -> str:
        """Return a regular expression for the privileged prompt, alone on a line."""
        return rf"(?m)^[ \t]*{self._prompt}\s*$"

    @property
    def local_address(self) -> str:
        """Return the local address of the SSH connection."""
        return str(self._socket().getsockname()[0])

    @property
    def peer_address(self) -> str:
        """Return the remote address of the SSH connection."""
        return str(self._socket().getpeername()[0])

    @property
    def rtt_s(self) -> float | None:
        """Return the least round-trip time of the SSH connection by the kernel, or None."""
        info = parse_tcp_info(self._socket().getsockopt(socket.IPPROTO_TCP, TCP_INFO, 512))
        least_us = info.min_rtt_us or info.rtt_us
        return least_us / 1e6 if least_us else None

    def open_source(self, prepare: Callable[[socket.socket], None]) -> ScpSource:
        """Open a second connection with the same login, for one file to the device's own SCP server.

        `prepare` sets options of its socket before it connects.

        Raises:
            LoginRefused: The device refuses a second login, or shows another host key than in the session.
            DeviceUnreachable: No connection could be opened, or it uses a proxy, so that TCP_INFO would describe the
                path to the proxy.
        """
        return open_source(self._driver.device, host=self.name, prepare=prepare)

    def show_version(self) -> str:
        """Return the output of `show version`, which is sent once per session.

        Raises:
            DeviceRefused: The user is not allowed to run it, or the device does not run IOS.
        """
        if SHOW_VERSION not in self._driver.known_answers:
            try:
                printed = self.ask(SHOW_VERSION)
            except DeviceRefused as refused:
                self._check_system(refused.message)
                raise
            self._check_system(printed)
            self._driver.known_answers[SHOW_VERSION] = printed
        return self._driver.known_answers[SHOW_VERSION]

    def _check_system(self, printed: str) -> None:
        if (system := other_system(printed)) is not None:
            reason, hint = not_ios(system)
            raise DeviceRefused(reason, host=self.name, step="connect", hint=hint)

    @cached_property
    def platform(self) -> Platform:
        """Return the platform by `show version`; cached."""
        return recognize(self.show_version())

    @cached_property
    def version(self) -> SoftwareVersion:
        """Return the parsed `show version`; cached."""
        return parse_version(self.show_version())

    def show_privilege(self) -> str:
        """Return the output of `show privilege`, which the login may have requested already.

        Raises:
            DeviceRefused: The device does not know the command, or the user is not allowed to run it.
        """
        command = self.platform.commands.privilege
        known: str | None = self._driver.known_answers.get(command)
        return known if known and refusal_in(known) is None else self.ask(command)

    def facts(self) -> Facts:
        """Return NAPALM's facts, as far as `show version` has them; cached."""
        return self._facts

    @cached_property
    def _facts(self) -> Facts:
        self.show_version()
        self._driver.known_answers.update(_NOT_NEEDED)
        with self._exchange("facts"):
            found = {name: str(value) for name, value in self._driver.get_facts().items()}
        if found["model"] == _NAPALM_KNOWS_NOT:
            # NAPALM searches for the vendor's name, which not all hardware with IOS-XE prints.
            found["model"] = next(iter(self.version.hardware), "")
        return Facts(**{name: found[name] for name in field_names(Facts)})

    def running_config(self) -> str:
        """Return the complete running configuration as the device prints it, with its timestamp comments.

        Raises:
            DeviceRefused: The user is not allowed to see it.
            OutputNotUnderstood: It is incomplete, so a comparison would prove nothing.
        """
        return self._configuration("show running-config")

    def startup_config(self) -> str:
        """Return the complete startup configuration; empty if the device has none.

        Raises:
            DeviceRefused: The user is not allowed to see it.
            OutputNotUnderstood: It is incomplete.
        """
        return self._configuration("show startup-config", may_be_absent=True)

    def _configuration(self, command: str, *, may_be_absent: bool = False) -> str:
        text = self.ask(command, limit_s=60).rstrip()
        # Without a `%` there is no log line in it.
        shown = text if "%" not in text else "\n".join(line for line in text.splitlines() if not is_syslog(line))
        missing = missing_of_whole(shown)
        if not missing:
            return text
        lines = [line for line in shown.splitlines() if line.strip()]
        if may_be_absent and len(lines) < _MESSAGE_LINES and _NO_STARTUP.search(text):
            return ""
        raise OutputNotUnderstood(
            f"'{command}': expected a whole configuration, found {counted(len(lines), 'line')} without "
            f"{' and '.join(repr(word) for word in missing)}",
            host=self.name,
            hint="A part proves nothing. Give the command by hand as that user: a parser view, a privilege level below "
            "15 or an AAA server may show a part only",
        )

    def ask(self, command: str, *, limit_s: float = 30.0) -> str:
        """Return the output of an EXEC command that asks no question.

        Only output after the echo of this command counts, so the answer to an earlier one is never taken for it.

        Args:
            command: The command; it must not contain a secret.
            limit_s: Longest time without output until the prompt, in seconds.

        Raises:
            DeviceRefused: The device does not know the command, or the user is not allowed to run it.
            OutputNotUnderstood: No prompt came within the limit.
        """
        with self._exchange(command):
            output = str(self._driver.device.exchange(command, limit_s=limit_s).text)
        # A refusal is the whole answer, so only a short answer can be one.
        if len(output) < SHORT_ANSWER_CHARS and (refusal := refusal_in(output)) is not None:
            raise DeviceRefused(
                f"'{command}': {refusal}",
                host=self.name,
                hint="Give the command by hand as that user: the release may not have it, or the user may not give it",
            )
        return output

    def configure(self, lines: tuple[str, ...], *, unless: Callable[[Callable[[str], str]], bool] | None = None) -> str:
        """Send configuration lines and leave configuration mode; return the transcript.

        In the transcript each line precedes the device's answer to it, which assigns refusals to lines. A line may
        enter a sub-mode for the lines after it.

        Args:
            lines: Lines to send.
            unless: Called in configuration mode before the first line, with a function that runs a command there (`do
                show ...`) and returns its output; if it returns True, no line is sent.

        Raises:
            DeviceRefused: The device does not enter or leave configuration mode; the session was closed.
        """
        device = self._driver.device
        with self._exchange("configure terminal"):
            answers = [device.exchange("configure terminal", limit_s=30, configures=True)]
            if not answers[0].is_configuring:
                raise DeviceRefused(
                    f"'configure terminal': {_in_a_line(answers[0].text)}",
                    host=self.name,
                    hint="Give it by hand as that user: the configuration may be locked, or the user may not give it",
                )
            try:
                if unless is not None and unless(
                    lambda command: str(device.exchange(command, limit_s=60, configures=True).text)
                ):
                    lines = ()
                for line in lines:
                    self.lines_sent += 1
                    answers.append(device.exchange(line, limit_s=30, configures=True))
                answers.append(device.exchange("end", limit_s=30, configures=True))
            except BaseException:
                # Also after an interrupt: the next command would be executed as a configuration line.
                self.abandon()
                raise
            if answers[-1].is_configuring:
                raise ValueError("still in configuration mode")
        sent = ("configure terminal", *lines, "end")
        return "\n".join(f"{line}\n{one.text}\n{one.prompt}" for line, one in zip(sent, answers, strict=True))

    def converse(self, command: str, dialogue: Dialogue, on_wait: Callable[[], None]) -> None:
        """Send a command and run the dialogue that follows, without polling.

        Only output after the command's echo counts: a prompt redrawn before it is not the end, and the next text typed
        would answer the command's first question.

        Args:
            command: The command; it may contain a secret, and is never quoted in an error.
            dialogue: Gets all output after the echo, and decides what to type and when it is over.
            on_wait: Called at least once a second; may raise to end the wait.

        Raises:
            OutputNotUnderstood: The command was not echoed, or the output has no end; the session was closed.
        """
        gate = EchoGate(command)
        try:
            self._check_nothing_is_asked()
            self.send(command + "\n")
            await_echo(self, command, gate, on_wait)
            run_dialogue(self, gate, dialogue, on_wait)
        except BaseException as error:
            # Whatever it was, also a fault of ours: the device must not go on behind our back, and must not be asked
            # anything while it may be at a question. Without the echo no prompt proves that it is at none.
            if isinstance(error, QuestionLeft) or not self._interrupt(limit_s=10.0 if gate.is_open else 0.0):
                self.abandon()
            raise

    def _check_nothing_is_asked(self) -> None:
        """Check output received since the last answer, such as a log line, before a command is typed.

        Raises:
            OutputNotUnderstood: The device is at a question, which the command would answer.
        """
        if (question := open_question(self.received())) is not None:
            raise OutputNotUnderstood(
                f"expected the prompt, found the question {question!r}, asked by no command of ours; nothing was typed",
                host=self.name,
                hint="Look at the device's console",
            )

    def _interrupt(self, *, limit_s: float = 10.0) -> bool:
        """Send Ctrl-Shift-6 and return whether the prompt came back within the limit."""
        deadline = time.monotonic() + limit_s
        shown = Dialogue(prompt_pattern=self.prompt_pattern)
        try:
            self.send(BREAK)
            while time.monotonic() < deadline:
                self.wait_for_text(1.0)
                shown.take(self.received())
                if shown.is_over:
                    return True
        except DeviceUnreachable:
            return False
        return False

    def send(self, text: str) -> None:
        """Send text unchanged, as an answer in a dialogue."""
        with self._exchange("a dialogue"):
            self._driver.device.write_channel(text)

    def received(self) -> str:
        """Return the output since the last call; raise if the channel is closed, which netmiko does not report."""
        with self._exchange("a dialogue"):
            text = str(self._driver.device.read_channel())
        if not text and not self.alive:
            raise DeviceUnreachable(
                "the SSH session was lost in the middle of a dialogue", host=self.name, hint=SESSION_LOST
            )
        return text

    def wait_for_text(self, limit_s: float, least_chars: int = 1) -> None:
        """Sleep until the channel has so much to read; a blocked session costs no processor time."""
        if self.alive:
            self._driver.device.wait_for_text(limit_s, least_chars)

    def _socket(self) -> socket.socket:
        if not self.alive:
            raise DeviceUnreachable("the SSH session is lost", host=self.name, hint=SESSION_LOST)
        sock: socket.socket = self._driver.device.remote_conn.transport.sock
        return sock

    @contextmanager
    def _exchange(self, what: str) -> Iterator[None]:
        """Convert the libraries' errors, which may quote what was sent, to ours."""
        if self._driver.device is None:
            raise DeviceUnreachable(f"'{what}': the SSH session is closed", host=self.name, hint=SESSION_LOST)
        try:
            yield
        except too_late() as error:
            was_alive, seen, hint = self.alive, getattr(error, "question", None), getattr(error, "hint", None)
            self.abandon()
            if not was_alive:
                raise DeviceUnreachable(
                    f"'{what}': the SSH session was lost", host=self.name, hint=SESSION_LOST
                ) from None
            raise OutputNotUnderstood(
                f"'{what}': expected the prompt, none came in time{f'; the device waits at {seen!r}' if seen else ''}",
                host=self.name,
                hint=hint or "Look at the device's console: it may be at a question, or hang",
            ) from None
        except ValueError:
            # Raised by netmiko and by us if a mode was not left.
            self.abandon()
            raise DeviceRefused(
                f"'{what}': not taken by the device",
                host=self.name,
                hint="Give it by hand and look at what the device says",
            ) from None
        except lost():
            raise DeviceUnreachable(f"'{what}': the SSH session was lost", host=self.name, hint=SESSION_LOST) from None


def _in_a_line(text: str) -> str:
    """Return a device's answer as one line of at most 200 characters."""
    return " ".join(text.split())[:200] or "not taken by the device"


_SHARES = re.compile(r"CPU utilization for five seconds: (\d+)%/(\d+)%; one minute: (\d+)%")


class CpuUse(Struct, frozen=True, kw_only=True):
    """CPU utilization, in percent.

    Attributes:
        five_seconds: Over the last five seconds.
    """

    five_seconds: int
    one_minute: int

    def __str__(self) -> str:
        """Return both values as part of a sentence."""
        return f"{self.five_seconds} % in five seconds, {self.one_minute} % in a minute"


def cpu_use_in(text: str) -> CpuUse | None:
    """Parse the CPU utilization in a device's output; None if there is none."""
    found = _SHARES.search(text)
    return None if found is None else CpuUse(five_seconds=int(found[1]), one_minute=int(found[3]))


def cpu_use(session: DeviceSession) -> CpuUse | None:
    """Return a device's CPU utilization; None if the command fails."""
    try:
        return cpu_use_in(session.ask(session.platform.commands.cpu))
    except DeviceUnreachable:
        raise
    except FlashferryError:
        return None
