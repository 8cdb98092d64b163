"""One SSH session with one device: NAPALM's driver, and its netmiko channel for dialogues.

netmiko and NAPALM raise a dozen kinds of errors; here they become ours.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from flashferry.core.errors import FlashferryError
from flashferry.core.safe_quote import counted
from flashferry.devices.dialogue import Dialogue, await_echo, hold
from flashferry.devices.errors import SESSION_LOST, DeviceRefused, DeviceUnreachable, OutputNotUnderstood, QuestionLeft
from flashferry.devices.login import Login, failed, hang_up, lost, open_driver, too_late
from flashferry.devices.platforms import recognize
from flashferry.devices.platforms.platform import Platform
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
from flashferry.tcp.info import parse_tcp_info
from templates.config_sections import missing_of_whole
from templates.version import SoftwareVersion, parse_version

TCP_INFO = 11

"""`TCP_INFO` of linux/tcp.h."""

BREAK = "\x1e"

"""Ctrl-Shift-6, the default escape character of IOS: ends a running copy."""

SHOW_VERSION = "show version"

_NOT_NEEDED = {"show hosts": "", "show ip interface brief": ""}

"""NAPALM also asks for the domain name and all interfaces, which are thousands on some; we show neither."""

_NAPALM_KNOWS_NOT = "Unknown"

"""What NAPALM writes where it found nothing."""

_NO_STARTUP = re.compile(r"not present|no startup|memory is not (?:set up|valid)|invalid or not", re.IGNORECASE)

"""`startup-config is not present`, `%% Non-volatile configuration memory is not present`."""

_MESSAGE_LINES = 10

"""What is printed in place of a configuration that is not there is shorter than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What NAPALM reports of a device; where it has no model, the one that we read, or an empty text."""

    hostname: str
    vendor: str
    model: str
    os_version: str
    serial_number: str


class DeviceSession:
    """An open, privileged session. All its methods raise DeviceUnreachable once the session is lost.

    After any error it is either at a prompt that was seen, or closed: nothing is ever typed into a question that a
    device may still be asking. What `show version` shows is read and parsed once.

    Attributes:
        name: Inventory name of the device.
        recorder: Takes all that is sent and comes.
        lines_sent: How many configuration lines were typed so far, whatever became of them.
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
        """Log out; a session that is lost already is no error."""
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
        """Return whether the SSH connection is still up as far as our side knows."""
        device = self._driver.device
        transport = getattr(getattr(device, "remote_conn", None), "transport", None)
        return bool(transport and transport.is_active() and not device.has_ended)

    @property
    def privileged(self) -> bool:
        """Return whether the last prompt that the device showed was the one that its login ended with."""
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
        """Return the device's words where it did not take `terminal width`, else None: its lines may break at 80."""
        refused: dict[str, str] = self._driver.device.terminal_refusals
        return next((words for command, words in refused.items() if command.startswith("terminal width")), None)

    @property
    def prompt_pattern(self) -> str:
        """Return a regular expression for the privileged prompt, alone on a line."""
        return rf"(?m)^[ \t]*{self._prompt}\s*$"

    @property
    def local_address(self) -> str:
        """Return our own address as the SSH connection shows it."""
        return str(self._socket().getsockname()[0])

    @property
    def peer_address(self) -> str:
        """Return the device's address as the SSH connection shows it."""
        return str(self._socket().getpeername()[0])

    @property
    def rtt_s(self) -> float | None:
        """Return the least round-trip time that the kernel saw on the SSH connection, or None."""
        info = parse_tcp_info(self._socket().getsockopt(socket.IPPROTO_TCP, TCP_INFO, 512))
        least_us = info.min_rtt_us or info.rtt_us
        return least_us / 1e6 if least_us else None

    def open_source(self, prepare: Callable[[socket.socket], None]) -> ScpSource:
        """Open a second connection with the same login, for one file to the device's own SCP server.

        `prepare` sets what its socket starts with, before it connects.

        Raises:
            LoginRefused: The device does not let the user in a second time, or shows another host key than the session.
            DeviceUnreachable: No connection came about, or it goes through a proxy, where the kernel's account of it
                would be of the path to the proxy.
        """
        return open_source(self._driver.device, host=self.name, prepare=prepare)

    def show_version(self) -> str:
        """Return the output of `show version`, which is asked once per session.

        Raises:
            DeviceRefused: The user may not give it, or the device does not run IOS.
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
        """Return the platform that `show version` shows; recognized once per session."""
        return recognize(self.show_version())

    @cached_property
    def version(self) -> SoftwareVersion:
        """Return what `show version` shows; parsed once per session."""
        return parse_version(self.show_version())

    def show_privilege(self) -> str:
        """Return the output of `show privilege`, which the login may have asked for.

        Raises:
            DeviceRefused: The device does not know the command, or the user may not give it.
        """
        command = self.platform.commands.privilege
        known: str | None = self._driver.known_answers.get(command)
        return known if known and refusal_in(known) is None else self.ask(command)

    def facts(self) -> Facts:
        """Return NAPALM's facts, as far as they stand in `show version`; read once per session."""
        return self._facts

    @cached_property
    def _facts(self) -> Facts:
        self.show_version()
        self._driver.known_answers.update(_NOT_NEEDED)
        with self._exchange("facts"):
            found = {name: str(value) for name, value in self._driver.get_facts().items()}
        if found["model"] == _NAPALM_KNOWS_NOT:
            # It looks for the maker's name, which not every box that runs IOS-XE bears.
            found["model"] = next(iter(self.version.hardware), "")
        return Facts(**{name: found[name] for name in Facts.__slots__})

    def running_config(self) -> str:
        """Return the whole running configuration as the device prints it, its stamps included.

        Raises:
            DeviceRefused: The user may not see it.
            OutputNotUnderstood: It is not whole: a part, compared with a part, would prove nothing.
        """
        return self._configuration("show running-config")

    def startup_config(self) -> str:
        """Return the whole startup configuration; empty where the device has none.

        Raises:
            DeviceRefused: The user may not see it.
            OutputNotUnderstood: It is not whole.
        """
        return self._configuration("show startup-config", may_be_absent=True)

    def _configuration(self, command: str, *, may_be_absent: bool = False) -> str:
        text = self.ask(command, limit_s=60).rstrip()
        lines = [line for line in text.splitlines() if line.strip() and not is_syslog(line)]
        missing = missing_of_whole("\n".join(lines))
        if not missing:
            return text
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
        """Return the output of an EXEC command that asks nothing.

        Its answer counts only after the echo of this very command, so that the answer to an earlier one (a syslog line
        after
        the prompt makes a reader return early) is never taken for it.

        Args:
            command: The command; it must not hold a secret.
            limit_s: Longest silence until the prompt, in seconds.

        Raises:
            DeviceRefused: The device does not know the command, or the user may not give it.
            OutputNotUnderstood: No prompt came within the limit.
        """
        with self._exchange(command):
            output = str(self._driver.device.exchange(command, limit_s=limit_s).text)
        # A refusal is all that the device says, so only a short answer can be one.
        if len(output) < SHORT_ANSWER_CHARS and (refusal := refusal_in(output)) is not None:
            raise DeviceRefused(
                f"'{command}': {refusal}",
                host=self.name,
                hint="Give the command by hand as that user: the release may not have it, or the user may not give it",
            )
        return output

    def configure(self, lines: tuple[str, ...], *, unless: Callable[[Callable[[str], str]], bool] | None = None) -> str:
        """Send configuration lines and leave configuration mode again; return the transcript.

        In it each line stands in front of the device's answer to it, so that a refusal belongs to its line. A line that
        leads
        into a sub-mode is followed there, as the CLI does.

        Args:
            lines: What to send.
            unless: Called in configuration mode before the first line, with a function that gives a command there
                (`do show ...`) and returns its output; where it returns true, no line is sent.

        Raises:
            DeviceRefused: The device does not go into configuration mode, or not out of it; no session is left then.
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
                # Also an interrupt: the next command would be taken for a configuration line.
                self.abandon()
                raise
            if answers[-1].is_configuring:
                raise ValueError("still in configuration mode")
        sent = ("configure terminal", *lines, "end")
        return "\n".join(f"{line}\n{one.text}\n{one.prompt}" for line, one in zip(sent, answers, strict=True))

    def converse(self, command: str, dialogue: Dialogue, on_wait: Callable[[], None]) -> None:
        """Send a command and hold the dialogue that follows, waiting for text without polling.

        Only output after the command's own echo counts: a prompt that is drawn again while the command is on its way is
        not its
        end, and whatever were typed next would answer its first question.

        Args:
            command: The command; it may hold a secret, and is never put into an error.
            dialogue: Takes all output after the echo, and knows what is to be typed and when it is over.
            on_wait: Called at least once a second; it may raise to end the wait.

        Raises:
            OutputNotUnderstood: The command was not echoed, or the device writes without end; no session is left then.
        """
        gate = EchoGate(command)
        try:
            self._check_nothing_is_asked()
            self.send(command + "\n")
            await_echo(self, command, gate, on_wait)
            hold(self, gate, dialogue, on_wait)
        except BaseException as error:
            # Whatever it was, also a fault of ours: the device must not go on behind our back, and must not be asked
            # anything while it may be at a question. Without the echo no prompt proves that it is at none.
            if isinstance(error, QuestionLeft) or not self._interrupt(limit_s=10.0 if gate.is_open else 0.0):
                self.abandon()
            raise

    def _check_nothing_is_asked(self) -> None:
        """Check what came since the last answer, such as a log line, before a command is typed.

        Raises:
            OutputNotUnderstood: The device is at a question by now, which the command would answer.
        """
        if (question := open_question(self.received())) is not None:
            raise OutputNotUnderstood(
                f"expected the prompt, the device asks {question!r} by itself; nothing was typed",
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
        """Send text as it is, as an answer in a dialogue."""
        with self._exchange("a dialogue"):
            self._driver.device.write_channel(text)

    def received(self) -> str:
        """Return what has come since; netmiko reads nothing, for ever, from a channel that the device has closed."""
        with self._exchange("a dialogue"):
            text = str(self._driver.device.read_channel())
        if not text and not self.alive:
            raise DeviceUnreachable(
                "the SSH session was lost in the middle of a dialogue", host=self.name, hint=SESSION_LOST
            )
        return text

    def wait_for_text(self, limit_s: float) -> None:
        """Sleep until the channel has something to read; a blocked session costs no processor time."""
        if self.alive:
            self._driver.device.wait_for_text(limit_s)

    def _socket(self) -> socket.socket:
        if not self.alive:
            raise DeviceUnreachable("the SSH session is lost", host=self.name, hint=SESSION_LOST)
        sock: socket.socket = self._driver.device.remote_conn.transport.sock
        return sock

    @contextmanager
    def _exchange(self, what: str) -> Iterator[None]:
        """Turn the libraries' errors into ours; theirs may quote what was sent."""
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
            # netmiko's word, and ours, for a mode that was not left.
            self.abandon()
            raise DeviceRefused(
                f"'{what}': not taken by the device",
                host=self.name,
                hint="Give it by hand and look at what the device says",
            ) from None
        except lost():
            raise DeviceUnreachable(f"'{what}': the SSH session was lost", host=self.name, hint=SESSION_LOST) from None


def _in_a_line(text: str) -> str:
    """Return a device's answer in one line and not too long."""
    return " ".join(text.split())[:200] or "not taken by the device"


_SHARES = re.compile(r"CPU utilization for five seconds: (\d+)%/(\d+)%; one minute: (\d+)%")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """How busy a processor was, in percent of all its time.

    Attributes:
        five_seconds: Over the last five seconds.
    """

    five_seconds: int
    one_minute: int

    def __str__(self) -> str:
        """Return both figures for people."""
        return f"{self.five_seconds} % in five seconds, {self.one_minute} % in a minute"


def cpu_use_in(text: str) -> CpuUse | None:
    """Return the figures of a device's answer, or None where it has none."""
    found = _SHARES.search(text)
    return None if found is None else CpuUse(five_seconds=int(found[1]), one_minute=int(found[3]))


def cpu_use(session: DeviceSession) -> CpuUse | None:
    """Return how busy a device is; None where it does not say."""
    try:
        return cpu_use_in(session.ask(session.platform.commands.cpu))
    except DeviceUnreachable:
        raise
    except FlashferryError:
        return None
