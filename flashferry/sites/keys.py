"""Make, store and use the Ed25519 keys (RFC 8032) by which centre and agents identify each other.

A private key is a file readable by its owner only, and never leaves its host. The public key is one line, `ed25519
KEYID BASE64`, in the other end's settings. The key ID is the start of the SHA-256 of the public key's 32 bytes: a name,
not a proof.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import reading, sync_folder

_ALGORITHM = "ed25519"
_ID_DIGITS = 16
_RAW_BYTES = 32
_MOST_FILE_BYTES = 16384
_OURS = "key"
"""What errors call a key made by 'sites init'."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class PublicKey(Struct, frozen=True, kw_only=True):
    """A key that verifies signatures; `raw` are its 32 bytes."""

    raw: bytes

    @property
    def key_id(self) -> str:
        """Return its ID: 16 hexadecimal digits."""
        return hashlib.sha256(self.raw).hexdigest()[:_ID_DIGITS]

    @property
    def line(self) -> str:
        """Return its line for the other end's settings."""
        return f"{_ALGORITHM} {self.key_id} {base64.b64encode(self.raw).decode()}"

    @classmethod
    def of(cls, line: str) -> PublicKey:
        """Parse a public key's line.

        Raises:
            ConfigInvalid: It is invalid, or its parts do not match: it was mistyped or cut.
        """
        parts = line.split()
        key = cls(raw=_decoded(parts[2])) if len(parts) == len(("algorithm", "id", "key")) else None
        if key is None or parts[0] != _ALGORITHM or len(key.raw) != _RAW_BYTES or parts[1] != key.key_id:
            raise ConfigInvalid(
                "public key: expected a line 'ed25519 KEYID BASE64' whose parts belong together, found another",
                hint="Copy the whole line that 'flashferry sites keys' prints at the other end",
            )
        return key

    def verifies(self, signature: bytes, content: bytes) -> bool:
        """Return whether a signature over some bytes is this key's."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, content)
        except (InvalidSignature, ValueError):
            return False
        return True


class PrivateKey:
    """A key that signs; it is never printed."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(raw=key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    @classmethod
    def make(cls) -> PrivateKey:
        """Return a new key."""
        return cls(Ed25519PrivateKey.generate())

    def sign(self, content: bytes) -> bytes:
        """Return the 64-byte signature over some bytes; callers put a prefix with their purpose before them."""
        return self._key.sign(content)

    def save(self, path: Path) -> None:
        """Write the key into a new file, readable by its owner only, and flush it to disk.

        Raises:
            ConfigInvalid: The file exists, or cannot be written.
        """
        content = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(path.absolute().parent)
        except FileExistsError:
            raise ConfigInvalid(
                f"key {path}: expected a name that is free, found a file",
                hint="It stays as it is: those that know its public key would not know a new one. Name another file",
            ) from None
        except OSError as error:
            raise ConfigInvalid(
                f"key {path}: cannot be written: {error.strerror}", hint="Check the folder and its permissions"
            ) from None

    @classmethod
    def load(cls, path: Path) -> PrivateKey:
        """Read a key's file.

        Raises:
            ConfigInvalid: It cannot be read, is no Ed25519 key, or others can read it.
        """
        check_secret_file(path, _OURS)
        try:
            with reading(path) as file:
                key = load_pem_private_key(file.read(_MOST_FILE_BYTES), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        except OSError as error:
            raise _unreadable(path, _OURS, error) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigInvalid(
                f"key {path}: expected an Ed25519 key in PEM without a password, found something else",
                hint="'flashferry sites init' makes one",
            )
        return cls(key)


def check_secret_file(path: Path, what: str) -> None:
    """Check that a file with a secret exists and only its owner, who is us or root, can read it.

    Raises:
        ConfigInvalid: It is not.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, what, error) from None
    if found.st_uid not in (os.geteuid(), 0) or found.st_mode & _OTHERS:
        mode = f"mode {stat.S_IMODE(found.st_mode):04o} of user {found.st_uid}"
        raise ConfigInvalid(
            f"{what} {path}: expected a file that its owner alone may read, found {mode}",
            hint=f"Run 'chmod 600 {path}'; if others could read it, make a new one",
        )


def _unreadable(path: Path, what: str, error: OSError) -> ConfigInvalid:
    makes = "; 'flashferry sites init' makes one" if what == _OURS else ""
    return ConfigInvalid(f"{what} {path}: cannot be read: {error.strerror}", hint=f"Check path and permissions{makes}")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
