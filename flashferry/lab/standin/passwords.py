"""How IOS shows passwords in a configuration: type 7 (reversible) and type 9 (scrypt).

Type 7 is a published XOR with a fixed key, no protection at all; IOS shows `ip ftp password` with it. Type 9 is
scrypt with N=16384, r=1, p=1 in IOS's own base 64 alphabet.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import secrets

_KEY7 = b"dsfd;kfoA,.iyewrkldJKDHSUBsgvca69834ncxv9873254k;fg87"
_ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_STANDARD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_IOS = str.maketrans(_STANDARD, _ALPHABET)


def encode7(plain: str, start: int = 8) -> str:
    """Return the type 7 form of a password; ``start`` (0-15) is the place in the key."""
    pairs = (byte ^ _KEY7[(start + i) % len(_KEY7)] for i, byte in enumerate(plain.encode("latin-1")))
    return f"{start:02d}" + "".join(f"{value:02X}" for value in pairs)


def decode7(text: str) -> str:
    """Undo `encode7`. Raises ValueError: the text is not in the type 7 form."""
    start, body = int(text[:2]), bytes.fromhex(text[2:])
    return bytes(b ^ _KEY7[(start + i) % len(_KEY7)] for i, b in enumerate(body)).decode("latin-1")


def hash9(plain: str, salt: str | None = None) -> str:
    """Return the type 9 form of a secret."""
    salt = salt or "".join(secrets.choice(_ALPHABET) for _ in range(14))
    digest = hashlib.scrypt(plain.encode(), salt=salt.encode(), n=16384, r=1, p=1, dklen=32)
    return f"$9${salt}${base64.b64encode(digest).decode().rstrip('=').translate(_TO_IOS)}"


@functools.lru_cache(maxsize=64)
def typed9(plain: str) -> str:
    """Return the type 9 form of a secret that is typed.

    The same secret gives the same form within a lab: a thousand devices that share a login would otherwise spend
    half a minute of scrypt before they start.
    """
    return hash9(plain)


def matches9(plain: str, hashed: str) -> bool:
    """Return whether a secret is that of a type 9 form."""
    parts = hashed.split("$")
    return len(parts) == 4 and hmac.compare_digest(hash9(plain, parts[2]), hashed)
