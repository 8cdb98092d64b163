"""Settings of the service, in seconds and bytes; secrets are read when needed."""

from __future__ import annotations

import os
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from msgspec import Struct, field

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret
from inventory.selection import SAMPLE


class SecretFrom(Struct, frozen=True, kw_only=True):
    """Source of a secret; configuration and database hold none.

    Attributes:
        command: Program that prints the secret, run without a shell; empty: none.
        credential: Name in systemd's `LoadCredential=`; empty: none.
    """

    command: tuple[str, ...] = ()
    credential: str = ""


class HookSettings(Struct, frozen=True, kw_only=True):
    """Secret of a hook, and certificates (PEM) to trust for its receiver; None: the system's."""

    secret: SecretFrom = field(default_factory=SecretFrom)
    ca: Path | None = None


class MailSettings(Struct, frozen=True, kw_only=True):
    """Mail server."""

    host: str
    port: int = 25
    security: str = "starttls"
    sender: str = ""
    user: str = ""
    secret: SecretFrom = field(default_factory=SecretFrom)


class OidcSettings(Struct, frozen=True, kw_only=True):
    """OpenID Connect provider."""

    issuer: str
    client_id: str
    secret_command: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)


class ProxySettings(Struct, frozen=True, kw_only=True):
    """Reverse proxies, and which of their headers are trusted."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    user_header: str = ""
    groups_header: str = ""
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)


class PeopleSettings(Struct, frozen=True, kw_only=True):
    """Local accounts, tokens, and limits on password guessing."""

    least_password: int = 12
    argon2_rounds: int = 3
    argon2_memory_kib: int = 65536
    argon2_lanes: int = 4
    most_failures: int = 5
    lock_s: float = 15 * 60.0
    most_tries: int = 20
    tries_s: float = 5 * 60.0
    token_s: float = 366 * 86400.0


class RunSettings(Struct, frozen=True, kw_only=True):
    """`[runs]` of `service.toml`.

    Attributes:
        inventory: Folder of the inventory; None: jobs on devices are refused.
        images: Folder of images; None: the one in the state folder.
        nights: Folder of the descriptions that schedules of nights name; None: no night can be scheduled.
        options: Command-line options of every job.
        recover_options: Options of `recover` in their place; None: the same.
        unit: Template unit of systemd that runs jobs; empty: they are child processes.
        resumes: How often a killed run is resumed without being asked.
        keep_jobs_s: How long the folder of an ended job is kept.
    """

    inventory: str | None = None
    images: Path | None = None
    nights: Path | None = None
    options: tuple[str, ...] = ()
    recover_options: tuple[str, ...] | None = None
    unit: str = ""
    resumes: int = 2
    keep_jobs_s: float = 30 * 86400.0

    @property
    def inventory_trouble(self) -> str:
        """Return why jobs on devices would fail: no inventory is configured or present; empty if there is one."""
        if self.inventory is None:
            return "the service has no inventory, so jobs on devices are refused: set inventory under [runs]"
        if self.inventory == SAMPLE or Path(self.inventory).exists():
            return ""
        return f"the inventory {self.inventory} does not exist, so jobs on devices will fail: see [runs]"


class ImageSettings(Struct, frozen=True, kw_only=True):
    """Image store; `vendor_certificates` None: no file of published hashes is accepted."""

    most_bytes: int = 8 * 10**9
    reserve_bytes: int = 10**9
    vendor_certificates: Path | None = None


class MetricsSettings(Struct, frozen=True, kw_only=True):
    """Networks that can scrape without a token, and the folder of backups (None: not watched)."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    backups: Path | None = None


class LogSettings(Struct, frozen=True, kw_only=True):
    """Log file (None: standard error), JSON lines, and whether requests are logged."""

    file: Path | None = None
    is_json: bool = False
    has_access: bool = False


class ServiceSettings(Struct, frozen=True, kw_only=True):
    """All settings of the service; None: no TLS (`certificate`, `key`), no OpenID Connect (`oidc`), no `mail`."""

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
        """Return whether browsers use HTTPS, so that cookies are limited to it."""
        return self.certificate is not None or self.url.startswith("https://")


CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"
"""Where systemd puts the credentials of a unit (systemd.exec(5), CREDENTIALS)."""


def secret_of(source: SecretFrom, named: str) -> str:
    """Return a secret, without its line end. `named` is its section in messages, such as `[hooks.operations]`.

    Raises:
        ConfigInvalid: There is no secret, or it cannot be read.
    """
    found = _from_command(source, named) if source.command else _from_credential(source, named)
    secret = found.decode("utf-8", "replace").strip("\r\n")
    if not secret or not secret.isprintable():
        raise ConfigInvalid(
            f"{named}: expected one line of text for a secret, found {'something else' if secret else 'nothing'}",
            hint="See that its program or credential has the secret and nothing besides",
        )
    keep_secret(secret)
    return secret


def _from_command(source: SecretFrom, named: str) -> bytes:
    # Late: it imports the device login, which would slow the service's start.
    from flashferry.devices.credentials import printed_by

    def wrong(what: str) -> ConfigInvalid:
        return ConfigInvalid(
            f"{named}: secret_command '{source.command[0]}': {what}", hint="Run it by hand as the service's user"
        )

    return printed_by(source.command, wrong=wrong)


def _from_credential(source: SecretFrom, named: str) -> bytes:
    folder = os.environ.get(CREDENTIALS_VARIABLE)
    if not source.credential or folder is None:
        raise ConfigInvalid(
            f"{named}: expected {'credentials of systemd' if source.credential else 'where its secret is'}, found none",
            hint="Name secret_command, or start the service by a unit with LoadCredential=",
        )
    try:
        return (Path(folder) / Path(source.credential).name).read_bytes()
    except OSError as error:
        raise ConfigInvalid(
            f"{named}: secret_credential '{source.credential}': {error.strerror}",
            hint="Give the unit LoadCredential= of that name",
        ) from None
