"""Address of a remote service, its token, and the certificates to trust."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import descriptor_of
from flashferry.core.redaction import keep_secret

_MOST_TOKEN = 4096
_NUMBER = re.compile(r"^\[(?:Errno -?\d+|[A-Z0-9_: ]+)\] (?=.)| \(_ssl\.c:\d+\)$")
_MAKE_ONE = "Make a token on the page of your name at the service, {url}/me"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlace:
    """Address and credentials of a remote service.

    Attributes:
        url: Checked address, without a slash at its end.
        ca: File of certificates to trust, PEM; None: those of this host.
    """

    url: str
    token: str = field(repr=False)
    ca: Path | None = None

    def trust(self) -> ssl.SSLContext:
        """Return the TLS context. Raises `ConfigInvalid` if the certificates cannot be used."""
        if self.ca is None and self.url.startswith("http://"):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # never used over plain HTTP, and cheap to create
        try:
            return ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
        except (OSError, ValueError) as error:
            why = of_no_number(getattr(error, "strerror", None) or str(error))
            raise ConfigInvalid(
                f"--service-ca {self.ca}: expected certificates, PEM: {why}",
                hint="Name the file with the certificate of who signed the service's",
            ) from None


def of_no_number(words: str) -> str:
    """Shorten an OpenSSL or errno message to its words, such as `Connection refused`."""
    return _NUMBER.sub("", words)


def checked_url(text: str) -> str:
    """Check that a token can be sent to an address, and return the address. Raises `ConfigInvalid`."""
    parts, host, port = _parts(text.strip())
    is_plain = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in ("https", "http") or not host or not is_plain or not text.strip().isprintable():
        raise ConfigInvalid(
            "--service: expected https://HOST or https://HOST:PORT, or http://127.0.0.1:PORT for a service on this "
            f"host, found {text!r}",
            hint="Give the address that the service's pages have, without a path, a name or a password",
        )
    _check_is_private(parts.scheme, host)
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}" + (f":{port}" if port is not None else "")


def checked_token(text: str, url: str) -> str:
    """Check a token and return it; logs mask it from now on. Raises `ConfigInvalid`."""
    token = text.strip()
    keep_secret(token, is_random=True)
    if not token or not token.isascii() or not token.isprintable() or " " in token or len(token) > _MOST_TOKEN:
        raise ConfigInvalid(
            "the service's token: expected one word, as ffy_..., found something else",
            hint=_MAKE_ONE.format(url=url),
        )
    return token


def token_in(path: Path, url: str) -> str:
    """Read a token from a file.

    Raises:
        ConfigInvalid: The file cannot be read, other users can read it, or it holds no token.
    """
    try:
        with open(descriptor_of(path), encoding="ascii", errors="replace") as file:  # noqa: PTH123 -- a descriptor
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_MOST_TOKEN + 2)
    except OSError as error:
        raise ConfigInvalid(
            f"--service-token-file {path}: cannot be read: {error.strerror or error}",
            hint=f"Check the path. {_MAKE_ONE.format(url=url)}",
        ) from None
    _check_mode(path, mode)
    return checked_token(text, url)


def _check_mode(path: Path, mode: int) -> None:
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigInvalid(
            f"--service-token-file {path}: expected a file that its owner alone may read, others may",
            hint=f"'chmod 600 {path}', and have the token taken back if others had the time to read it",
        )


def _parts(text: str) -> tuple[SplitResult, str, int | None]:
    """Split an address into its parts, host and port; the host is empty if the address is invalid."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return SplitResult("", "", "", "", ""), "", None
    return parts, parts.hostname or "", port


def _check_is_private(scheme: str, host: str) -> None:
    if scheme == "http" and not _is_loopback(host):
        raise ConfigInvalid(
            f"--service: expected https for {host}, found http: the token could be read on the way",
            hint="Give https://; http is for a service on this very host",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
