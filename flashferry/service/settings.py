"""Settings of the service, as values in seconds and bytes.

Meaning and range of each are those of its key in `flashferry.service.configuration.tables`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFrom:
    """Where a secret is read from; neither configuration nor database holds one.

    Attributes:
        command: Program that prints it, run without a shell; empty: none.
        credential: Name in systemd's `LoadCredential=`; empty: none.
    """

    command: tuple[str, ...] = ()
    credential: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """Secret of a hook, and certificates, PEM, to trust for its receiver; None: the system's."""

    secret: SecretFrom = field(default_factory=SecretFrom)
    ca: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSettings:
    """The mail server."""

    host: str
    port: int = 25
    security: str = "starttls"
    sender: str = ""
    user: str = ""
    secret: SecretFrom = field(default_factory=SecretFrom)


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """OpenID Connect."""

    issuer: str
    client_id: str
    secret_command: tuple[str, ...] = ()
    groups_claim: str = "groups"
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """A proxy in front, and which of its headers are trusted."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    user_header: str = ""
    groups_header: str = ""
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleSettings:
    """Local accounts, tokens, and limits on guessing."""

    least_password: int = 12
    argon2_rounds: int = 3
    argon2_memory_kib: int = 65536
    argon2_lanes: int = 4
    most_failures: int = 5
    lock_s: float = 15 * 60.0
    most_tries: int = 20
    tries_s: float = 5 * 60.0
    token_s: float = 366 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How runs are started."""

    inventory: str | None = None
    images: Path | None = None
    nights: Path | None = None
    options: tuple[str, ...] = ()
    recover_options: tuple[str, ...] | None = None
    unit: str = ""
    resumes: int = 2
    keep_jobs_s: float = 30 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """The image store."""

    most_bytes: int = 8 * 10**9
    reserve_bytes: int = 10**9
    vendor_certificates: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Networks that may scrape without a token, and the folder of backups, or None."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    backups: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Log file (None: standard error), JSON lines, and whether requests are logged."""

    file: Path | None = None
    is_json: bool = False
    has_access: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The settings of the service."""

    address: str = "127.0.0.1"
    port: int = 8020
    url: str = ""
    certificate: Path | None = None
    key: Path | None = None
    session_s: float = 8 * 3600.0
    idle_s: float = 30 * 60.0
    people: PeopleSettings = field(default_factory=PeopleSettings)
    site_names: dict[str, str] = field(default_factory=dict)
    proxy: ProxySettings = field(default_factory=ProxySettings)
    oidc: OidcSettings | None = None
    runs: RunSettings = field(default_factory=RunSettings)
    images: ImageSettings = field(default_factory=ImageSettings)
    keep_hidden_images_s: float = 7 * 86400.0
    hooks: dict[str, HookSettings] = field(default_factory=dict)
    mail: MailSettings | None = None
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    log: LogSettings = field(default_factory=LogSettings)

    @property
    def base_url(self) -> str:
        """Return the public URL, without a slash at its end."""
        if self.url:
            return self.url.rstrip("/")
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'https' if self.certificate is not None else 'http'}://{host}:{self.port}"

    @property
    def is_secure(self) -> bool:
        """Return whether browsers use HTTPS, so that cookies can be limited to it."""
        return self.certificate is not None or self.url.startswith("https://")
