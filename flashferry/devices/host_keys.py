"""Check a device's SSH host key against the known ones: a new one is accepted or not, a changed one never.

The file is an OpenSSH known_hosts file, so `ssh -o UserKnownHostsFile=FILE` and `ssh-keygen -R NAME -f FILE` work on
it. Lines of others stay as they are.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flashferry.core.files import reading
from flashferry.core.state_folder import lock
from flashferry.devices.errors import HostKeyRefused
from flashferry.devices.known_hosts import HostKey, KnownKey, damaged_lines, keys_of, line_for
from inventory.access import HostKeyPolicy

STEP = "connect"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKeys:
    """The known host keys of a device.

    Attributes:
        path: The known_hosts file; need not exist where new keys are accepted.
        policy: What becomes of a device that the file does not know.
        device: Inventory name, for errors.
    """

    path: Path
    policy: HostKeyPolicy
    device: str

    def known(self, name: str) -> tuple[KnownKey, ...]:
        """Return the keys that the file gives for a name (`address`, or `[address]:port`).

        Raises:
            HostKeyRefused: The file, or its line about this name, cannot be read.
        """
        return self._keys(self._text(), name)

    def _keys(self, text: str, name: str) -> tuple[KnownKey, ...]:
        if damaged := damaged_lines(text, name):
            raise self._refused(
                f"known hosts {self.path} line {damaged[0]}: expected a host key of {name}, cannot be read",
                "Mend or remove that line; until then it is not known whether the device answers",
            )
        return keys_of(text, name)

    def judge(self, name: str, seen: HostKey) -> None:
        """Return where the key is the known one, or new and accepted; it is remembered then.

        Safe from several threads and processes at once: the file is locked, read again, and one line is appended in one
        piece: what others write meanwhile, ssh among them, stays.

        Raises:
            HostKeyRefused: The key is another one than known, revoked, unknown under the strict policy, or cannot be
                remembered.
        """
        if self._is_known(self.known(name), name, seen):
            return
        if self.policy is HostKeyPolicy.STRICT:
            raise self._refused(
                f"expected a host key of {name} in {self.path}, found none; the device shows {_shown(seen)}",
                "Compare this fingerprint with the key on the device's console, then log in once with "
                "--host-keys accept-new",
            )
        try:
            with _locked(self.path):
                # Another process may have met the device between our check and our lock.
                text = self._text()
                if not self._is_known(self._keys(text, name), name, seen):
                    _append(self.path, line_for(name, seen), ends_in_line=bool(text) and not text.endswith("\n"))
        except OSError as error:
            raise self._refused(
                f"the new host key of {name} cannot be remembered in {self.path}: {error.strerror}",
                "Give a writable file with --known-hosts",
            ) from None

    def _is_known(self, known: tuple[KnownKey, ...], name: str, seen: HostKey) -> bool:
        if (revoked := next((one for one in known if one.is_revoked and one.key == seen), None)) is not None:
            raise self._refused(
                f"{name} shows the host key {_shown(seen)}, which {self.path} line {revoked.line} revokes",
                "Do not log in there before you know who answers at that address",
            )
        valid = [one for one in known if not one.is_revoked]
        if not valid or any(one.key == seen for one in valid):
            return bool(valid)
        expected = " or ".join(_shown(one.key) for one in valid)
        lines = " and ".join(str(one.line) for one in valid)
        raise self._refused(
            f"the host key of {name} has changed: expected {expected}, seen {_shown(seen)}",
            "Another host may be answering in the device's place, so no password was sent. If the device was replaced "
            f"or its keys were made anew, remove line {lines} of {self.path} (ssh-keygen -R '{name}' -f '{self.path}')",
        )

    def _text(self) -> str:
        try:
            with reading(self.path) as file:
                return file.read().decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise self._refused(
                f"known hosts {self.path}: cannot be read: {error.strerror}", "Give another file with --known-hosts"
            ) from None

    def _refused(self, message: str, hint: str) -> HostKeyRefused:
        return HostKeyRefused(message, host=self.device, step=STEP, hint=hint)


def _shown(key: HostKey) -> str:
    return f"{key.fingerprint} ({key.kind})"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock beside the file, which ssh-keygen -R replaces, and a lock on it with it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("a") as held:
        lock(held, waits=True)
        yield


def _append(path: Path, line: str, *, ends_in_line: bool) -> None:
    """Append a line, after a line end where that is missing; all that is there stays byte for byte."""
    data = f"{chr(10) if ends_in_line else ''}{line}\n".encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, "no room for the whole line")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
