"""What the service is told once: where it listens, whose proxy it believes, how runs are begun. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFrom:
    """Where a secret is to be had; the configuration has none in it, nor has the database.

    Attributes:
        command: Program that prints it; run without a shell. Empty: not from one.
        credential: A credential of systemd's, by its name in `LoadCredential=`; empty: none.
    """

    command: tuple[str, ...] = ()
    credential: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """What a hook needs that no table has.

    Attributes:
        secret: Where its secret is to be had.
        ca: Certificates, PEM, one of which must have issued that of the receiver; None: those that the system trusts.
    """

    secret: SecretFrom = field(default_factory=SecretFrom)
    ca: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSettings:
    """The server that takes our mail.

    Attributes:
        host: Its name or address.
        port: Its port.
        security: `starttls`, `tls` from the first byte, or `none`.
        sender: The address that mail is from.
        user: Who we sign in as there; empty: nobody.
        secret: Where that one's password is to be had.
    """

    host: str
    port: int = 25
    security: str = "starttls"
    sender: str = ""
    user: str = ""
    secret: SecretFrom = field(default_factory=SecretFrom)


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """How people sign in with an OpenID Connect provider.

    Attributes:
        issuer: Its issuer URL; `/.well-known/openid-configuration` is read below it.
        client_id: What we are called there.
        secret_command: Program that prints our secret there; run without a shell. Empty: a public client.
        groups_claim: The claim that names a person's groups.
        roles: From a group to the roles that it gives: `role` or `role@site`.
    """

    issuer: str
    client_id: str
    secret_command: tuple[str, ...] = ()
    groups_claim: str = "groups"
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """A proxy in front, and what it is believed.

    Attributes:
        networks: From where it comes; what anybody else says of himself in headers is ignored.
        user_header: Header that names who signed in there; empty: it signs nobody in.
        groups_header: Header with his groups, by commas; empty: roles are given here.
        roles: As for `OidcSettings`.
    """

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    user_header: str = ""
    groups_header: str = ""
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleSettings:
    """How local accounts are kept, and what is made of those who guess.

    Attributes:
        least_password: A password has so many characters, 8 to 128.
        argon2_rounds: How often Argon2id goes over its memory, at least 1.
        argon2_memory_kib: Memory that hashing one password takes, KiB, at least 8 per lane.
        argon2_lanes: Threads that hash one password, at least 1.
        most_failures: After so many wrong passwords in a row an account is locked.
        lock_s: So long it stays locked, seconds.
        most_tries: So many sign-ins are taken from one address within `tries_s`.
        tries_s: See `most_tries`, seconds.
        token_s: How long an API token lasts at most, seconds.
    """

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
    """How the service begins runs: each is a process of its own.

    Attributes:
        inventory: The inventory, as `--inventory` takes it.
        images: Folder where images are kept and uploaded to; None: `images` in the state folder.
        nights: Folder of descriptions of nights, which schedules name; None: no night is scheduled.
        options: Words behind each verb that talks to devices: where credentials come from, say.
        recover_options: Words behind `recover` alone, in place of `options`; None: the same.
        unit: The template of systemd that runs a job, `flashferry-run@.service`; empty: processes of our own.
        resumes: So many times a run that died is gone on with, 0 to 2.
        keep_jobs_s: So long after a job's end its folder is kept, seconds.
    """

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
    """How images are kept.

    Attributes:
        most_bytes: An image has at most so much.
        reserve_bytes: So much stays free on the disk of the folder of images.
        vendor_certificates: The vendor's certificates, PEM, against which that of a file of published hashes is held;
            None: no such file is taken in.
    """

    most_bytes: int = 8 * 10**9
    reserve_bytes: int = 10**9
    vendor_certificates: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Figures for Prometheus.

    Attributes:
        networks: From where they may be fetched without a token.
        backups: The folder of backups of the state, whose newest one's time is told; None: nobody says.
    """

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    backups: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Where the service's log goes.

    Attributes:
        file: The file; None: standard error, which systemd's journal takes.
        is_json: Whether each line is a JSON object.
        has_access: Whether each request is told, too.
    """

    file: Path | None = None
    is_json: bool = False
    has_access: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """What the service is told once.

    Attributes:
        address: Where it listens; loopback unless told otherwise.
        port: 0 to 65535; 0: any.
        url: How people reach it, for links in notices and for OIDC; empty: `http(s)://address:port`.
        certificate: Its certificate, PEM; None: no TLS, which is for loopback or behind a proxy alone.
        key: Its private key, PEM.
        session_s: How long a sign-in lasts, seconds.
        idle_s: After so long without a request a session may look, and no longer change anything.
        people: How local accounts are kept.
        site_names: What sites are called on pages, from their name in the inventory.
        proxy: The proxy in front.
        oidc: OpenID Connect, or None.
        runs: How runs are begun.
        images: How images are kept.
        keep_hidden_images_s: So long an image that was taken away can be brought back, seconds.
        hooks: Hooks' secrets and whom they trust, by the name that a hook knows its own by.
        mail: The server that takes our mail, or None.
        metrics: Figures for Prometheus.
        log: Where the log goes.
    """

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
        """Return how people reach it, without a slash at the end."""
        if self.url:
            return self.url.rstrip("/")
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'https' if self.certificate is not None else 'http'}://{host}:{self.port}"

    @property
    def is_secure(self) -> bool:
        """Return whether browsers reach it by HTTPS, so that its cookies may be kept to that."""
        return self.certificate is not None or self.url.startswith("https://")
