"""Known-hosts files: parsing, checking a device's key, and adding new keys.

Facts
-----
* A line holds an optional marker, a comma-separated list of patterns, a key type and the key in base64; `#` begins a
  comment (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).
* `*` and `?` are wildcards, `!` before a pattern excludes a name.
* A name at another port than 22 is written `[name]:port`.
* A hashed name is `|1|salt|hash`, both in base64: HMAC-SHA1 of the name with the salt as key.
* `@revoked` marks a key that must never be accepted; `@cert-authority` one that signs others, which Cisco devices do
  not use.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import hmac
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from msgspec import Struct

from flashferry.core.files import reading
from flashferry.core.state_folder import lock
from flashferry.devices.errors import HostKeyRefused
from inventory.host_key_rules import HostKeyPolicy

_SSH_PORT = 22

_LENGTH_BYTES = 4

_REVOKED, _CA = "@revoked", "@cert-authority"


class HostKey(Struct, frozen=True, kw_only=True):
    """A public key: its SSH type, for example `ssh-rsa`, and its encoded bytes in base64."""

    kind: str
    base64: str

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint as OpenSSH and `ssh-keygen -l` print it."""
        digest = hashlib.sha256(base64.b64decode(self.base64)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


class KnownKey(Struct, frozen=True, kw_only=True):
    """A key of a name in a known-hosts file.

    Attributes:
        line: Number of its line, from 1.
        is_revoked: Whether the line forbids the key.
    """

    key: HostKey
    line: int
    is_revoked: bool


def name_of(address: str, port: int) -> str:
    """Return the name of an address and port in a known-hosts file."""
    return address if port == _SSH_PORT else f"[{address}]:{port}"


def damaged_lines(text: str, name: str) -> tuple[int, ...]:
    """Return the numbers of the lines about a name that have no readable key.

    If such a line were ignored, a known device would count as new, and any key would be accepted.
    """
    return tuple(number for number, marker, words in _lines(text, name) if marker != _CA and not _is_key(words[1:3]))


def keys_of(text: str, name: str) -> tuple[KnownKey, ...]:
    """Return the keys of a name in a file's text; unreadable lines are ignored."""
    return tuple(
        KnownKey(key=HostKey(kind=words[1], base64=words[2]), line=number, is_revoked=bool(marker))
        for number, marker, words in _lines(text, name)
        if marker in {"", _REVOKED} and _is_key(words[1:3])
    )


def line_for(name: str, key: HostKey) -> str:
    """Return the known-hosts line of a key."""
    return f"{name} {key.kind} {key.base64}"


def _lines(text: str, name: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield number, marker and words of each line that is about a name."""
    for number, line in _candidates(text, name.lower()):
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if words and not words[0].startswith("#") and _matches(words[0], name):
            yield number, marker, words


def _candidates(text: str, name: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines that may be about a name; without patterns, of those that contain it.

    A file of thousands of devices is read three times for each of them.
    """
    if not text.isascii() or any(char in text for char in "*?|"):
        yield from enumerate(text.splitlines(), 1)
        return
    folded, end = text if name == name.upper() else text.lower(), 0
    while (found := folded.find(name, end)) >= 0:
        start, end = text.rfind("\n", 0, found) + 1, text.find("\n", found)
        end = end if end >= 0 else len(text)
        yield text.count("\n", 0, start) + 1, text[start:end]


def _matches(patterns: str, name: str) -> bool:
    """Return whether a list of patterns matches a name; a negated pattern that matches excludes it."""
    if patterns.startswith("|"):
        return _hash_fits(patterns, name)
    fits = False
    for pattern in patterns.lower().split(","):
        if _wildcards(pattern.removeprefix("!")).fullmatch(name.lower()):
            if pattern.startswith("!"):
                return False
            fits = True
    return fits


@cache
def _wildcards(pattern: str) -> re.Pattern[str]:
    # Not fnmatch: there brackets are a class of characters, here they surround an address.
    return re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern))


def _hash_fits(hashed: str, name: str) -> bool:
    parts = hashed.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return False
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in parts[2:])
    except binascii.Error:
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)


def _is_key(words: list[str]) -> bool:
    """Return whether type and base64 are a key: length-prefixed strings, of which the first is the type (RFC 4253)."""
    if len(words) < 2:
        return False
    try:
        rest = base64.b64decode(words[1], validate=True)
    except binascii.Error:
        return False
    fields = []
    while len(rest) >= _LENGTH_BYTES:
        end = _LENGTH_BYTES + int.from_bytes(rest[:_LENGTH_BYTES], "big")
        if end > len(rest):
            return False
        fields.append(rest[_LENGTH_BYTES:end])
        rest = rest[end:]
    return not rest and len(fields) > 1 and fields[0] == words[0].encode()


STEP = "connect"


class HostKeys(Struct, frozen=True, kw_only=True):
    """The known host keys of a device.

    Attributes:
        path: The known-hosts file; need not exist if new keys are accepted.
        policy: Treatment of an unknown key.
        device: Inventory name, for errors.
    """

    path: Path
    policy: HostKeyPolicy
    device: str

    def known(self, name: str) -> tuple[KnownKey, ...]:
        """Return the keys of a name (`address`, or `[address]:port`) in the file.

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

    def check(self, name: str, seen: HostKey) -> None:
        """Check a device's key; a new key that the policy accepts is added to the file.

        Safe for several threads and processes: the file is locked, read again, and one line is appended in a single
        write, so lines that others write meanwhile, ssh included, are kept.

        Raises:
            HostKeyRefused: The key differs from the known one, is revoked, is unknown under the strict policy, or
                cannot be stored.
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
    """Hold a lock on a separate file, because `ssh-keygen -R` replaces the known-hosts file itself."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("a") as held:
        lock(held, waits=True)
        yield


def _append(path: Path, line: str, *, ends_in_line: bool) -> None:
    """Append a line, after a missing line end if necessary; existing bytes are not changed."""
    data = f"{chr(10) if ends_in_line else ''}{line}\n".encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, "no room for the whole line")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
