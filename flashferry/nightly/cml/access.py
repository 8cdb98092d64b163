"""Define how a controller is reached, and which versions are supported.

Facts
-----
* Cisco's client 2.10.1 accepts controllers 2.8, 2.9, 2.10 and, with a warning, newer 2.x; it refuses 2.7 and 3.x
  (measured against a stand-in). Versions look like `2.9.1+build.7` or `2.11.0+sso`.
* From 2.10 on `GET authentication` returns the user (before: `authok`), and a packet capture is kept under its link's
  ID (before: under a key that must be requested).
* A controller's certificate is self-signed unless another one was installed.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from functools import total_ordering
from pathlib import Path
from urllib.parse import urlsplit

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret, sanitize

CALL_TIMEOUT_S = 30.0
"""Time limit of a small request, after which it is repeated."""

RETRY_S = 90.0
"""Requests are repeated for this long: a controller's web server restarts within a minute [unknown]."""

NOT_PROVEN = "ITS CERTIFICATE IS NOT PROVEN ('verify: false'): anybody on the way can read its password"
"""The note of a night that accepts any certificate."""

_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:\D.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerAccess:
    """A controller and its login.

    Attributes:
        url: `https://cml.example.net[:PORT]`; `https://` is added to a bare name.
        ca_file: PEM file of trusted certificates; None: those of this host.
        is_verified: Whether the certificate is verified. Without, anybody on the path can read the password.
        is_proxy_used: Whether the environment's proxy variables apply.
        timeout_s: Time limit of one request.
        retry_s: How long a repeatable request is repeated.

    Raises:
        ConfigInvalid: A value is missing or invalid.
    """

    url: str
    username: str
    password: str = field(repr=False)
    ca_file: Path | None = None
    is_verified: bool = True
    is_proxy_used: bool = False
    timeout_s: float = CALL_TIMEOUT_S
    retry_s: float = RETRY_S

    def __post_init__(self) -> None:
        """Check the values, and have the password masked from now on."""
        keep_secret(self.password)
        object.__setattr__(self, "url", _whole_url(self.url))
        for name, value in (("username", self.username), ("password", self.password)):
            if not value:
                raise ConfigInvalid(
                    f"controller: expected a {name}, found none", hint="Give it in nightly.yaml, see 'credentials'"
                )
        if self.timeout_s <= 0 or self.retry_s < 0:
            raise ConfigInvalid(
                f"controller: expected a timeout above 0 s, found {self.timeout_s:g} s and {self.retry_s:g} s",
                hint=f"Leave them out: {CALL_TIMEOUT_S:g} s a call, repeated for {RETRY_S:g} s",
            )

    @property
    def host(self) -> str:
        """The controller's name or address, without port."""
        return urlsplit(self.url).hostname or ""

    def trust(self) -> ssl.SSLContext:
        """Return the context that verifies the certificate; the client's library warns about a file name.

        Raises:
            ConfigInvalid: The file cannot be read, or has no certificate.
        """
        if not self.is_verified:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return context
        try:
            return ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        except ssl.SSLError:
            why = "found no certificate in it"
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
        raise ConfigInvalid(
            f"controller: {self.ca_file}: expected certificates as PEM, {why}",
            hint="Save the controller's certificate there: 'openssl s_client -showcerts -connect HOST:443'",
        )


def _whole_url(given: str) -> str:
    """Return a controller's address as `https://name:port`."""
    hint = "Give it as https://cml.example.net"
    url = given.strip() if "://" in given else f"https://{given.strip()}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigInvalid(f"controller: expected an address, found {sanitize(given)!r}", hint=hint) from None
    if parts.username is not None or parts.password is not None:
        raise ConfigInvalid("controller: expected an address without a login, found one with it", hint=hint)
    if parts.scheme != "https":
        raise ConfigInvalid(f"controller: expected https, found {sanitize(parts.scheme)}", hint=hint)
    if not parts.hostname or re.search(r"[\s\\]", parts.netloc) or parts.query or parts.fragment:
        raise ConfigInvalid(f"controller: expected an address, found {sanitize(given)!r}", hint=hint)
    if parts.path.strip("/") not in {"", "api/v0"}:
        raise ConfigInvalid(f"controller: expected an address without a path, found {sanitize(parts.path)}", hint=hint)
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"https://{name}" + (f":{port}" if port is not None else "")


@total_ordering
@dataclass(frozen=True, slots=True, kw_only=True)
class CmlVersion:
    """A controller's version; `text` is as reported."""

    major: int
    minor: int
    patch: int
    text: str = field(compare=False)

    def __lt__(self, other: CmlVersion) -> bool:
        """Return whether it is older."""
        return (self.major, self.minor, self.patch) < (other.major, other.minor, other.patch)

    @property
    def has_capture_keys(self) -> bool:
        """Whether a packet capture is kept under a key instead of its link's ID."""
        return (self.major, self.minor) < (2, 10)


OLDEST, CLIENTS_OWN, NEWEST_KNOWN = (2, 8), (2, 10), (2, 11)
"""Minor versions: the oldest supported, that of Cisco's client, and the newest of which anything is known."""


def read_version(text: str) -> CmlVersion | None:
    """Parse a version; None if the text is none."""
    found = _VERSION.fullmatch(text)
    return CmlVersion(major=int(found[1]), minor=int(found[2]), patch=int(found[3]), text=text) if found else None


def why_refused(version: CmlVersion) -> str | None:
    """Return why a version is not supported; None if it is."""
    if (version.major, version.minor) < OLDEST:
        return f"expected CML 2.8 or newer, found {version.text}"
    if version.major > OLDEST[0]:
        return f"expected CML 2.x, found {version.text}, of which nothing is known"
    return None


def version_note(version: CmlVersion) -> str | None:
    """Return a remark on a supported version, or None."""
    if (version.major, version.minor) > NEWEST_KNOWN:
        return f"CML {version.text} is newer than all of which anything is known here (2.8 to 2.11)"
    if (version.major, version.minor) > CLIENTS_OWN:
        return f"CML {version.text} is newer than Cisco's client here, which is made for 2.8 to 2.10"
    return None
