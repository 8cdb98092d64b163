"""NAPALM's IOS driver on a netmiko connection that judges host keys and sleeps until text comes.

netmiko, paramiko and NAPALM take half a second to import, so only `tasks.login` imports this module, and late.
"""

from __future__ import annotations

import base64
import re
import select
import time
from typing import Any

import paramiko
from napalm.ios.ios import IOSDriver
from netmiko.cisco.cisco_ios import CiscoIosSSH
from netmiko.exceptions import ReadTimeout

from tasks.host_keys import HostKeys
from tasks.known_hosts import HostKey, line_for, name_of
from tasks.prompts import Answer, AnswerReader, any_prompt, first_prompt

SETTLED_S = 1.0
"""How long nothing may come behind a prompt that syslog lines follow, until it counts as the answer's end."""

LOGIN_LIMIT_S = 20.0
"""netmiko's own limit for each of the first commands."""


class _Judge(paramiko.MissingHostKeyPolicy):
    """Asks our known hosts about each key that paramiko was told nothing of."""

    def __init__(self, keys: HostKeys) -> None:
        self._keys = keys

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        """Return where the key may be trusted, else raise HostKeyRefused; paramiko's hook."""
        self._keys.judge(hostname, _plain(key))


class _Client(paramiko.SSHClient):
    """An SSH client that knows which key to expect, asks the device for one of that type, and judges it."""

    def __init__(self, keys: HostKeys) -> None:
        super().__init__()
        self._keys = keys
        self.set_missing_host_key_policy(_Judge(keys))

    def connect(self, hostname: str, port: int = paramiko.config.SSH_PORT, **options: Any) -> None:  # type: ignore[override] # paramiko's two dozen options, passed on
        """Connect as paramiko does.

        A device may gain a key of another type with an upgrade. paramiko asks for the type that it was told of, which
        spares us a changed key that is none; where it was told of several, it would compare with the first only.
        """
        name = name_of(hostname, port)
        known = [one.key for one in self._keys.known(name) if not one.is_revoked]
        if len(known) == 1:
            entry = paramiko.hostkeys.HostKeyEntry.from_line(line_for(name, known[0]))
            if entry is not None and entry.key is not None:
                self.get_host_keys().add(name, known[0].kind, entry.key)
        try:
            super().connect(hostname, port, **options)
        except paramiko.BadHostKeyException as error:
            self.close()
            self._keys.judge(name, _plain(error.key))
            raise
        except BaseException:
            self.close()
            raise


def _plain(key: paramiko.PKey) -> HostKey:
    return HostKey(kind=key.get_name(), base64=base64.b64encode(key.asbytes()).decode())


class Connection(CiscoIosSSH):
    """A netmiko connection to IOS whose waiting costs no processor time, and whose login costs few round trips."""

    def __init__(self, *, host_keys: HostKeys, **options: Any) -> None:
        self._host_keys = host_keys
        self.last_prompt = ""
        super().__init__(**options)  # opens the session

    def _build_ssh_client(self) -> paramiko.SSHClient:
        return _Client(self._host_keys)

    def _try_session_preparation(self, force_data: bool = True) -> None:  # noqa: ARG002 -- netmiko's signature
        # netmiko types Enter first, in case nothing comes by itself, and sleeps; our first command does that as well.
        super()._try_session_preparation(force_data=False)

    def session_preparation(self) -> None:
        """Set the terminal and learn the prompt.

        The first command's echo is behind any banner, so what follows it is the answer and the prompt; the second
        one's answer must end with the same prompt, or it was none.
        """
        self.write_channel("terminal width 511\n")
        self.read_until_pattern(re.escape("terminal width 511"), read_timeout=LOGIN_LIMIT_S)
        deadline, seen, prompt = time.monotonic() + LOGIN_LIMIT_S, "", None
        while prompt is None:
            received = self.read_channel()
            seen += received
            if (prompt := first_prompt(seen)) is None:
                self._wait_until(deadline)
        self.base_prompt = prompt[:-1][:16]
        self.exchange("terminal length 0", limit_s=LOGIN_LIMIT_S)

    def exchange(self, command: str, *, limit_s: float) -> Answer:
        """Send a command that asks nothing and return its answer.

        Args:
            command: The command.
            limit_s: Longest silence until the prompt, in seconds.

        Raises:
            ReadTimeout: No echo or no prompt came.
        """
        reader = AnswerReader(command, any_prompt(self.base_prompt))
        self.read_channel()  # what is left of earlier talk, such as a syslog line
        self.write_channel(command + "\n")
        heard_at, answer = time.monotonic(), None
        while answer is None or not answer.is_whole:
            if received := self.read_channel():
                heard_at, answer = time.monotonic(), reader.take(received)
                continue
            enough_s = SETTLED_S if answer is not None and answer.only_syslog_follows else limit_s
            if answer is not None and time.monotonic() - heard_at > enough_s:
                break
            self._wait_until(heard_at + limit_s + SETTLED_S)
        self.last_prompt = answer.prompt
        return answer

    def read_until_pattern(
        self, pattern: str = "", read_timeout: float = 10.0, re_flags: int = 0, max_loops: int | None = None
    ) -> str:
        """Return what comes up to and including a pattern; what lies behind it is kept for the next reader.

        As netmiko's own, which looks a hundred times a second; this one sleeps until there is something to see.

        Raises:
            ReadTimeout: It did not come in time.
        """
        if max_loops is not None:
            raise ValueError("max_loops: netmiko has deprecated it; give read_timeout")
        deadline, seen = time.monotonic() + read_timeout, ""
        wanted = re.compile(pattern, re_flags)
        while True:
            seen += self.read_channel()
            if (found := wanted.search(seen)) is not None:
                self._read_buffer += seen[found.end() :]
                return seen[: found.end()]
            self._wait_until(deadline)

    @property
    def _open_channel(self) -> paramiko.Channel | None:
        # netmiko's attribute may be a telnet connection as well; ours never is.
        return self.remote_conn if isinstance(self.remote_conn, paramiko.Channel) else None

    def wait_for_text(self, limit_s: float) -> None:
        """Sleep until the channel has something to read or has ended, or the limit is over."""
        channel = self._open_channel
        if channel is None or channel.recv_ready():
            return
        poller = select.poll()
        # paramiko backs this descriptor with a pipe that is readable while data waits, and once the channel ended.
        poller.register(channel.fileno(), select.POLLIN)
        poller.poll(max(limit_s, 0.0) * 1000)

    def _wait_until(self, deadline: float) -> None:
        """Sleep for at most a second.

        Raises:
            ReadTimeout: The deadline has passed.
            EOFError: The device has hung up.
        """
        channel = self._open_channel
        if channel is None or (channel.closed and not channel.recv_ready()):
            raise EOFError
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise ReadTimeout("no text in time")
        self.wait_for_text(min(left_s, SETTLED_S))

    def cleanup(self, command: str = "exit") -> None:
        """Log out; only called at a prompt that was seen, so nothing is asked first."""
        self.write_channel(command + self.RETURN)
        # The device hangs up; a second is enough for it even behind a satellite.
        deadline = time.monotonic() + 1.0
        while (channel := self._open_channel) and not channel.closed and time.monotonic() < deadline:
            self.read_channel()
            self.wait_for_text(0.1)


class Driver(IOSDriver):
    """NAPALM's driver on our connection; its getters work as they are."""

    def __init__(self, *, host_keys: HostKeys, **options: Any) -> None:
        self.device: Any
        super().__init__(**options)
        self._host_keys = host_keys
        self.known_answers: dict[str, str] = {}
        """Answers that need not be asked for again, by command."""

    def open(self) -> None:
        """Open the session; whether it is privileged is the caller's to see."""
        self.device = self._netmiko_device = Connection(
            host_keys=self._host_keys,
            device_type="cisco_ios",
            host=self.hostname,
            username=self.username,
            password=self.password,
            timeout=self.timeout,
            **self.netmiko_optional_args,
        )

    def enable(self) -> None:
        """Enter privileged EXEC where the login did not lead there.

        Raises:
            ValueError: The secret was refused or is missing; netmiko's word for it.
        """
        if not self.device.last_prompt.endswith("#"):
            self.device.enable()
            self.device.exchange("terminal length 0", limit_s=LOGIN_LIMIT_S)
        if not self.device.last_prompt.endswith("#"):
            raise ValueError("no privileged prompt")

    def _send_command(self, command: str) -> str:
        """Return a command's output to NAPALM's getters.

        NAPALM waits ten seconds in all, which a large configuration takes; here silence counts.
        """
        text = self.known_answers.get(command)
        if text is None:
            text = self.device.exchange(command, limit_s=60.0).text
        return str(self._send_command_postprocess(text))
