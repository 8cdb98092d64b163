"""Define a broker's address, login and TLS settings, and check them without a connection."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret
from flashferry.sites.keys import check_secret_file

_NOT_PROVEN = re.compile(r"certificate verify failed: (.*)")
_ALERT = re.compile(r"SSL: (?:TLSV\d+|SSLV3)_ALERT_(\w+)")
_CUT = "EOF occurred in violation of protocol"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SCHEMES = {"redis": False, "rediss": True, "amqp": False, "amqps": True, "memory": False}
"""Schemes of a broker's URL, and whether they use TLS; `memory://localhost` is for tests."""


class BrokerSettings(Struct, frozen=True, kw_only=True):
    """A broker's address, login and TLS settings.

    Attributes:
        url: `rediss://HOST[:PORT][/DB]` or `amqps://HOST[:PORT][/VHOST]`, without user or password; without TLS only on
            loopback, or if `is_plain_allowed`.
        user: User name; empty: none.
        password_file: File with the password, readable by its owner only; None: the certificate suffices.
        ca: PEM file of trusted issuers; None: those of the system.
        certificate: The client's certificate, PEM; None: none.
        key: Its private key, PEM, readable by its owner only; None: no client certificate.
        is_plain_allowed: Whether a remote broker can be used without TLS: orders are signed anyway, but others on the
            path can read device names and results.
    """

    url: str
    user: str = ""
    password_file: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    is_plain_allowed: bool = False

    @property
    def place(self) -> str:
        """Return host and port."""
        return urlsplit(self.url).netloc

    @property
    def is_tls(self) -> bool:
        """Return whether TLS is used."""
        return _SCHEMES.get(urlsplit(self.url).scheme, False)

    @property
    def is_redis(self) -> bool:
        """Return whether it is Redis or Valkey."""
        return urlsplit(self.url).scheme in {"redis", "rediss"}


def check_broker(settings: BrokerSettings) -> None:
    """Check a broker's settings without a connection.

    Raises:
        ConfigInvalid: The URL is invalid, has a password, or lacks TLS for a remote broker; a file is missing or
            readable by others.
    """
    parts = urlsplit(settings.url)
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.query:
        raise ConfigInvalid(
            "broker: expected a URL such as rediss://broker.example:6380/0, found another",
            hint="Begin it with rediss:// or amqps://; the name of the host follows",
        )
    if parts.username or parts.password:
        raise ConfigInvalid(
            "broker: expected a URL without user and password, found one with them",
            hint="Give 'user' and 'password_file' instead: a settings file is read by more people than a secret is",
        )
    if not settings.is_tls and parts.hostname not in _LOOPBACK and not settings.is_plain_allowed:
        raise ConfigInvalid(
            f"broker: expected TLS (rediss:// or amqps://) to {parts.hostname}, found {parts.scheme}://",
            hint="Without TLS is for loopback, or where 'plain = true' says that the network path is yours alone",
        )
    if (settings.certificate is None) != (settings.key is None):
        raise ConfigInvalid("broker: expected certificate and key together, found one", hint="Give both, or neither")
    for path, what in (
        (settings.key, "key of the broker's client"),
        (settings.password_file, "password of the broker"),
    ):
        if path is not None:
            check_secret_file(path, what)


def url_with_login(settings: BrokerSettings) -> str:
    """Return the URL with login for Celery; its password is masked in all output from now on."""
    password = ""
    if settings.password_file is not None:
        password = settings.password_file.read_text(encoding="utf-8").strip()
        keep_secret(password, quote(password, safe=""))
    if not settings.user and not password:
        return settings.url
    scheme, _, rest = settings.url.partition("://")
    return f"{scheme}://{quote(settings.user, safe='')}:{quote(password, safe='')}@{rest}"


def tls_of(settings: BrokerSettings) -> dict[str, Any] | None:
    """Return the TLS options: the certificate must be trusted and match the name in the URL."""
    if not settings.is_tls:
        return None
    ca = str(settings.ca) if settings.ca is not None else ssl.get_default_verify_paths().cafile
    files = {"certfile": settings.certificate, "keyfile": settings.key}
    given = {name: str(path) for name, path in files.items() if path is not None}
    if not settings.is_redis:
        host = urlsplit(settings.url).hostname
        return {"ca_certs": ca, "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": host} | given
    return {"ssl_ca_certs": ca, "ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True} | {
        f"ssl_{name}": path for name, path in given.items()
    }


def tls_trouble(said: str) -> str:
    """Return a certificate problem in a driver's error text (`broker.in_words`); empty: another problem."""
    if found := _NOT_PROVEN.search(said):
        return f"expected a certificate for its name in the URL, by an issuer that is trusted, found: {found[1]}"
    if found := _ALERT.search(said):
        return f"expected it to take our certificate, found that it refuses: {found[1].replace('_', ' ').lower()}"
    if _CUT in said:
        return (
            "expected it to take our certificate, found that it hung up: it wants another one, or speaks no TLS there"
        )
    return ""
