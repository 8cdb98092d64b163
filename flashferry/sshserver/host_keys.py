"""The SSH server's host keys: generated once, stored, and readable by their owner only.

Facts
-----

- A device that has accepted a server's key may refuse another one (`ip ssh stricthostkeycheck`), so keys are generated
  once, in the state folder.
- As a client old IOS supports only RSA, newer releases ECDSA too; other clients prefer Ed25519. Recent releases refuse
  RSA keys below 2048 bits.
- Fingerprints are given as OpenSSH prints them (`SHA256:` and base64, or MD5 in pairs) and as IOS stores them with
  `ip ssh pubkey-chain`: 32 hexadecimal digits of MD5 without colons.
"""

import base64
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from flashferry.core.files import sync_folder
from flashferry.fileserver import SettingsInvalid

_Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_LEAST_RSA_BITS = 2048
_MOST_BYTES = 64 * 1024
_MADE: "dict[str, Callable[[], _Private]]" = {
    "ssh_host_rsa_key": lambda: rsa.generate_private_key(public_exponent=65537, key_size=3072),
    "ssh_host_ecdsa_key": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ssh_host_ed25519_key": ed25519.Ed25519PrivateKey.generate,
}
_KINDS: dict[str, type[_Private]] = {
    "ssh_host_rsa_key": rsa.RSAPrivateKey,
    "ssh_host_ecdsa_key": ec.EllipticCurvePrivateKey,
    "ssh_host_ed25519_key": ed25519.Ed25519PrivateKey,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKey:
    """One host key of the server.

    Attributes:
        algorithm: Its SSH name, such as `ssh-rsa`.
        path: Its file.
        sha256: SHA-256 fingerprint as OpenSSH prints it.
        md5: MD5 fingerprint, in pairs with colons.
        private: Content of the file; a secret.
    """

    algorithm: str
    path: Path
    sha256: str
    md5: str
    private: bytes = field(repr=False)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """All forms in which devices and clients show its fingerprint."""
        plain = self.md5.removeprefix("MD5:")
        return self.sha256, plain, plain.replace(":", "").upper()

    @property
    def described(self) -> str:
        """Its algorithm and labelled fingerprints: `ssh-rsa: SHA256:..., MD5 ..., MD5 as IOS stores it ...`."""
        sha256, md5, stored = self.fingerprints
        return f"{self.algorithm}: {sha256}, MD5 {md5}, MD5 as IOS stores it {stored}"


def found_host_keys(folder: Path) -> tuple[HostKey, ...]:
    """Return the existing keys of a folder; none is generated.

    Raises:
        SettingsInvalid: Other users can read the folder or a key, or a key cannot be read or used.
    """
    try:
        _require_private(folder, folder.lstat(), "700")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise _unusable(folder, error) from None
    found = []
    for name in _MADE:
        try:
            found.append(_read(folder / name))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _unusable(folder, error) from None
    return tuple(found)


def load_host_keys(folder: Path) -> tuple[HostKey, ...]:
    """Return the keys of a folder; missing keys, and a missing folder, are created.

    Raises:
        SettingsInvalid: Other users can read the folder or a key, or a key cannot be read, generated or used.
    """
    try:
        _require_own_folder(folder)
        return tuple(_key_at(folder / name) for name in _MADE)
    except OSError as error:
        raise _unusable(folder, error) from None


def _unusable(folder: Path, error: OSError) -> SettingsInvalid:
    where = error.filename if isinstance(error.filename, str) else folder
    return SettingsInvalid(
        f"SSH host keys: cannot use {where}: {error.strerror}",
        hint="Give a state folder that this user may write to",
    )


def _require_own_folder(folder: Path) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    _require_private(folder, folder.lstat(), "700")


def _require_private(path: Path, status: os.stat_result, mode_text: str) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        raise SettingsInvalid(
            f"SSH host keys: expected {path} to be this user's, found user {status.st_uid}",
            hint="Run as its owner, or give another state folder",
        )
    if mode & 0o077:
        raise SettingsInvalid(
            f"SSH host keys: expected {path} to be readable by its owner alone, found mode {mode:o}",
            hint=f"If no other user has read it: chmod {mode_text} {path}. Else remove it; a new key is made, and "
            "devices that keep the old one must forget it",
        )


def _key_at(path: Path) -> HostKey:
    with suppress(FileNotFoundError):
        return _read(path)
    _make(path)
    return _read(path)


def _read(path: Path) -> HostKey:
    # Links are not followed: one could lead to a file that other users can read.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        _require_private(path, os.fstat(file.fileno()), "600")
        private = file.read(_MOST_BYTES)
    try:
        key = load_ssh_private_key(private, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    kind = _KINDS[path.name]
    if not isinstance(key, kind) or (isinstance(key, rsa.RSAPrivateKey) and key.key_size < _LEAST_RSA_BITS):
        raise SettingsInvalid(
            f"SSH host keys: expected {path} to hold a private key of its kind without a passphrase, found none",
            hint="Put it back from a copy. Or remove it: a new one is made, and devices that keep the old one must "
            "forget it",
        )
    return _host_key(path, private, key)


def _host_key(path: Path, private: bytes, key: _Private) -> HostKey:
    algorithm, encoded = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[:2]
    blob = base64.b64decode(encoded)
    md5 = hashlib.md5(blob, usedforsecurity=False).hexdigest()
    return HostKey(
        algorithm=algorithm.decode("ascii"),
        path=path,
        sha256="SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii").rstrip("="),
        md5="MD5:" + ":".join(md5[at : at + 2] for at in range(0, len(md5), 2)),
        private=private,
    )


def _make(path: Path) -> None:
    """Generate a key and write it atomically; if another process was faster, its key is kept."""
    private = _MADE[path.name]().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(private)
            out.flush()
            os.fsync(out.fileno())
        with suppress(FileExistsError):
            os.link(name, path)
        sync_folder(path.parent)
    finally:
        Path(name).unlink()
