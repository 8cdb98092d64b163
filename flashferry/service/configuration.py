"""Reader of `service.toml`: its keys with their defaults, all checked before the service starts. No key is a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import write_new
from flashferry.model.file_keys import (
    Key,
    Place,
    choice,
    defaults,
    file_path,
    flag,
    number,
    present_file,
    read_section,
    section,
    text,
    toml_form,
    toml_of,
    whole,
    word,
    words,
)
from flashferry.service.people.provisioning import grant_of
from flashferry.service.settings import (
    HookSettings,
    ImageSettings,
    LogSettings,
    MailSettings,
    MetricsSettings,
    OidcSettings,
    PeopleSettings,
    ProxySettings,
    RunSettings,
    SecretFrom,
    ServiceSettings,
)

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Hosts that need no TLS."""
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_TEMPLATE = re.compile(r"[A-Za-z0-9:_.\\-]+@\.service")
"""A systemd template without an instance: systemd.unit(5)."""


def address(place: Place) -> str:
    """Return an IPv4 or IPv6 address."""
    found = text(place)
    try:
        return str(ip_address(found))
    except ValueError:
        raise place.wrong("an address such as 127.0.0.1 or ::", "Give an address, no name") from None


def url(place: Place) -> str:
    """Return an HTTP or HTTPS URL without a slash at its end."""
    given = text(place)
    try:
        found = urlsplit(given)
        is_address = found.scheme in {"http", "https"} and bool(found.hostname) and found.port != 0
    except ValueError:  # a port above 65535, or an invalid IPv6 address
        is_address = False
    if not is_address or found.query or found.username:
        raise place.wrong(
            "an address such as https://staging.example", "Begin it with https://, without a user or a question mark"
        )
    return given.rstrip("/")


def public_url(place: Place) -> str:
    """Return a public URL: HTTPS, or HTTP on loopback."""
    found = url(place)
    if urlsplit(found).scheme != "https" and urlsplit(found).hostname not in LOOPBACK:
        raise place.wrong(
            "an address that begins with https://",
            "Begin it with https://; by http:// passwords could be read on the way, so it is for loopback alone",
        )
    return found


def template_unit(place: Place) -> str:
    """Return the name of a systemd template, `NAME@.service`."""
    found = text(place)
    if _TEMPLATE.fullmatch(found) is None:
        raise place.wrong(
            "the name of a template, NAME@.service",
            "Install the template of docs/service.md and name it, such as flashferry-run@.service",
        )
    return found


def networks(place: Place) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return a list of networks."""
    return tuple(_network(one) for one in place.entries())


def _network(place: Place) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text(place))
    except ValueError:
        raise place.wrong("a network such as 192.0.2.0/24, or an address", "Leave no bits after the mask") from None


def header(place: Place) -> str:
    """Return the name of a header."""
    found = text(place)
    if _HEADER.fullmatch(found) is None:
        raise place.wrong("the name of a header, such as X-Remote-User", "Write letters, digits and '-' only")
    return found


def command(place: Place) -> tuple[str, ...]:
    """Return a program and its arguments."""
    found = words(place)
    if not found or not found[0]:
        raise place.wrong("a program and its arguments", place.form.list_hint + ", one for each word")
    return found


def roles(place: Place) -> dict[str, tuple[str, ...]]:
    """Return roles by group; each is written `role` or `role@SITE`."""
    return {group: tuple(_role(one) for one in below.entries()) for group, below in place.named()}


def _role(place: Place) -> str:
    found = text(place)
    try:
        grant_of(found)
    except ConfigInvalid as error:
        raise place.problem(error.message, error.hint or "") from None
    return found


_SECRET = (
    Key(
        "secret_command", command, "a list of words", "program that prints the secret; run without a shell", default=()
    ),
    Key(
        "secret_credential",
        word,
        "a name",
        "the credential of systemd's (`LoadCredential=NAME:...`) that holds it",
        default="",
    ),
)

HOOK = (
    *_SECRET,
    Key(
        "ca",
        present_file,
        "a file",
        "certificates, PEM, one of which must have issued that of a receiver of syslog by TLS",
        shown_default="those that the system trusts",
    ),
)

MAIL = (
    Key("host", text, "a name or address", "the server that takes our mail", is_required=True),
    Key("port", whole(1, 65535), "1 to 65535", "its port", default=25),
    Key(
        "security",
        choice(("starttls", "tls", "none")),
        "starttls, tls, none",
        "security of the connection; `tls` from the first byte on",
        default="starttls",
    ),
    Key("sender", text, "an address", "sender address", is_required=True),
    Key("user", text, "a name", "name for signing in there", default="", shown_default="no sign-in"),
    *_SECRET,
)

METRICS = (
    Key(
        "networks",
        networks,
        "a list of networks",
        "from there `/metrics` is answered without a token",
        default=(),
        shown_default="none: a token is needed",
    ),
    Key(
        "backups",
        file_path,
        "a folder",
        "the folder of `flashferry state backup`, for the time of the newest one",
        shown_default="not reported",
    ),
)

LOG = (
    Key("file", file_path, "a file", "where the log goes; rotated without a signal", shown_default="standard error"),
    Key(
        "format", choice(("text", "json")), "text, json", "lines for people, or an object of JSON each", default="text"
    ),
    Key(
        "access",
        flag,
        "true, false",
        "whether each request is logged: method, path, status, duration, user, address",
        default=False,
        shown_default="`false`",
    ),
)


def hooks(place: Place) -> dict[str, HookSettings]:
    """Return secrets and certificates of hooks, by section name."""
    return {name: _hook(below) for name, below in place.named()}


def _hook(place: Place) -> HookSettings:
    values = read_section(place, HOOK)
    return HookSettings(secret=_secret(values, place), ca=values["ca"])


def _secret(values: Mapping[str, Any], place: Place) -> SecretFrom:
    command, credential = values["secret_command"], values["secret_credential"]
    if command and credential:
        raise place.problem(
            "expected secret_command or secret_credential, found both", "Keep the one that has the secret"
        )
    return SecretFrom(command=command, credential=credential)


def mail(place: Place) -> MailSettings:
    """Return the mail server."""
    values = read_section(place, MAIL)
    secret = _secret(values, place)
    if bool(values["user"]) != (secret != SecretFrom()):
        raise place.problem(
            "expected user together with secret_command or secret_credential, found one without the other",
            "Give both where the server wants a sign-in, or neither",
        )
    own = {name: value for name, value in values.items() if not name.startswith("secret_")}
    return MailSettings(**own, secret=secret)


def metrics(place: Place) -> MetricsSettings:
    """Return the settings of `/metrics`."""
    return MetricsSettings(**read_section(place, METRICS))


def log(place: Place) -> LogSettings:
    """Return the log settings."""
    values = read_section(place, LOG)
    return LogSettings(file=values["file"], is_json=values["format"] == "json", has_access=values["access"])


_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86400.0


def _site_names(place: Place) -> dict[str, str]:
    return {name: text(below) for name, below in place.named()}


def _listen(place: Place) -> dict[str, Any]:
    values = read_section(place, LISTEN)
    if (values["certificate"] is None) != (values["key"] is None):
        raise place.problem("expected certificate and key together, found one of them", "Give both files, or neither")
    return values


def _people(place: Place) -> PeopleSettings:
    values = read_section(place, PEOPLE)
    same = ("least_password", "most_failures", "most_tries", "argon2_rounds", "argon2_lanes")
    return PeopleSettings(
        **{name: values[name] for name in same},
        lock_s=values["lock_minutes"] * _MINUTE_S,
        tries_s=values["tries_minutes"] * _MINUTE_S,
        token_s=values["token_days"] * _DAY_S,
        argon2_memory_kib=values["argon2_memory_mib"] * 1024,
    )


def _proxy(place: Place) -> ProxySettings:
    values = read_section(place, PROXY)
    if values["user_header"] and not values["networks"]:
        raise place.problem(
            "expected networks beside user_header, found none: any client could claim to be any user",
            'Name the proxy\'s address: networks = ["127.0.0.1/32"]',
        )
    return ProxySettings(**values)


def _oidc(place: Place) -> OidcSettings:
    values = read_section(place, OIDC)
    issuer = urlsplit(values["issuer"])
    if issuer.scheme != "https" and issuer.hostname not in LOOPBACK:
        raise place.problem(
            "expected an issuer by https, found one without: the sign-in could be forged on the way",
            "Begin 'issuer' with https://",
        )
    if "openid" not in values["scopes"]:
        raise place.problem(
            "expected the scope openid among scopes, found none: without it there is no ID token", "Add openid"
        )
    return OidcSettings(**values)


def _runs(place: Place) -> RunSettings:
    values = read_section(place, RUNS)
    return RunSettings(keep_jobs_s=values.pop("keep_jobs_days") * _DAY_S, **values)


# Key tables

LISTEN = (
    Key(
        "address",
        address,
        "an address",
        "where to listen; without a certificate loopback, or behind `[proxy] networks`",
        default="127.0.0.1",
    ),
    Key("port", whole(0, 65535), "0 to 65535", "the port; 0 takes any", default=8020),
    Key(
        "url",
        public_url,
        "https://HOST",
        "how people reach it, for links in notices and for OIDC",
        default="",
        shown_default="made of address and port",
    ),
    Key("certificate", present_file, "a file", "its certificate, PEM", shown_default="no TLS"),
    Key("key", present_file, "a file", "the certificate's private key, PEM"),
)

SESSIONS = (
    Key("hours", number(0.1, 72, "hours"), "0.1 to 72", "how long a sign-in lasts", default=8.0),
    Key(
        "idle_minutes",
        number(1, 1440, "minutes"),
        "1 to 1440",
        "after so long without a request a session only reads",
        default=30.0,
    ),
)

PEOPLE = (
    Key(
        "least_password",
        whole(8, 128, "characters"),
        "8 to 128",
        "least characters of a password of a local account",
        default=12,
    ),
    Key("most_failures", whole(1, 100), "1 to 100", "wrong passwords in a row before an account is locked", default=5),
    Key("lock_minutes", number(0.1, 1440, "minutes"), "0.1 to 1440", "duration of a lock", default=15.0),
    Key("most_tries", whole(1, 10_000), "1 to 10000", "sign-ins from one address within `tries_minutes`", default=20),
    Key("tries_minutes", number(0.1, 1440, "minutes"), "0.1 to 1440", "see `most_tries`", default=5.0),
    Key("token_days", number(0.01, 3660, "days"), "0.01 to 3660", "how long an API token lasts at most", default=366.0),
    Key("argon2_rounds", whole(1, 100), "1 to 100", "how often Argon2id goes over its memory", default=3),
    Key(
        "argon2_memory_mib",
        whole(8, 4096, "MiB"),
        "8 to 4096",
        "memory that hashing one password takes, MiB",
        default=64,
    ),
    Key("argon2_lanes", whole(1, 64), "1 to 64", "threads that hash one password", default=4),
)

PROXY = (
    Key(
        "networks",
        networks,
        "a list of networks",
        "addresses of a trusted proxy; its headers from others are ignored",
        default=(),
    ),
    Key(
        "user_header",
        header,
        "a header",
        "names the user signed in at the proxy; empty: it signs in no one",
        default="",
    ),
    Key("groups_header", header, "a header", "the user's groups, comma-separated", default=""),
    Key("roles", roles, 'GROUP = ["role@SITE", ...]', "the roles that a group gives", default={}, shown_default="none"),
)

OIDC = (
    Key("issuer", url, "https://HOST/...", "the provider's issuer", is_required=True),
    Key("client_id", text, "a text", "what we are called there", is_required=True),
    Key(
        "secret_command",
        command,
        "a list of words",
        "program that prints our secret there; without one we are a public client",
        default=(),
    ),
    Key(
        "scopes",
        words,
        "a list of words",
        "what the provider is asked for; some, such as dex, give groups only for the scope `groups`",
        default=("openid", "profile", "email"),
        shown_default='`["openid", "profile", "email"]`',
    ),
    Key("groups_claim", word, "a word", "the claim that names groups", default="groups"),
    Key("roles", roles, 'GROUP = ["role@SITE", ...]', "the roles that a group gives", default={}, shown_default="none"),
)

RUNS = (
    Key(
        "inventory",
        text,
        "a folder or file",
        "the inventory, as `--inventory` takes it",
        shown_default="none: jobs on devices are refused",
    ),
    Key(
        "images",
        file_path,
        "a folder",
        "where images are kept and uploaded to",
        shown_default="`images` in the state folder",
    ),
    Key(
        "nights",
        file_path,
        "a folder",
        "where descriptions of nights in a lab are, which schedules name",
        shown_default="none: no night is scheduled",
    ),
    Key(
        "options",
        words,
        "a list of words",
        "options of each verb that contacts devices, such as the source of credentials",
        default=(),
    ),
    Key("recover_options", words, "a list of words", "options of `recover` instead", shown_default="`options`"),
    Key(
        "unit",
        template_unit,
        "flashferry-run@.service",
        "the systemd template that runs a job",
        default="",
        shown_default="child processes",
    ),
    Key("resumes", whole(0, 2), "0 to 2", "how often a dead run is resumed, after it was recovered", default=2),
    Key(
        "keep_jobs_days",
        number(1, 3660, "days"),
        "1 to 3660",
        "how long a job's folder and output are kept after its end",
        default=30.0,
    ),
)

IMAGES = (
    Key(
        "keep_hidden_days", number(0, 365, "days"), "0 to 365", "how long a removed image can be restored", default=7.0
    ),
    Key("most_gigabytes", number(0.001, 100, "GB"), "0.001 to 100", "how large an image may be", default=8.0),
    Key(
        "reserve_gigabytes",
        number(0, 1000, "GB"),
        "0 to 1000",
        "space that stays free on the disk of the image folder",
        default=1.0,
    ),
    Key(
        "vendor_certificates",
        present_file,
        "a file",
        "the vendor's certificates, PEM, for checking a file of published hashes",
        shown_default="no such file is imported",
    ),
)

TOP = (
    Key("listen", _listen, "a table", "where it listens", default=defaults(LISTEN)),
    Key("sessions", section(SESSIONS), "a table", "sessions", default=defaults(SESSIONS)),
    Key("people", _people, "a table", "local accounts and tokens", default=PeopleSettings()),
    Key("sites", _site_names, 'NAME = "words"', "display names of sites", default={}),
    Key("proxy", _proxy, "a table", "the proxy in front", default=ProxySettings()),
    Key("oidc", _oidc, "a table", "OpenID Connect"),
    Key("runs", _runs, "a table", "how runs are started", default=RunSettings()),
    Key("images", section(IMAGES), "a table", "how images are kept", default=defaults(IMAGES)),
    Key("hooks", hooks, "a table for each secret", "where hooks' secrets are", default={}),
    Key("mail", mail, "a table", "the server that takes our mail"),
    Key("metrics", metrics, "a table", "figures for Prometheus", default=MetricsSettings()),
    Key("log", log, "a table", "where the log goes", default=LogSettings()),
)

SECTIONS: Mapping[str, Sequence[Key]] = {
    "listen": LISTEN,
    "sessions": SESSIONS,
    "people": PEOPLE,
    "proxy": PROXY,
    "oidc": OIDC,
    "runs": RUNS,
    "images": IMAGES,
    "hooks.NAME": HOOK,
    "mail": MAIL,
    "metrics": METRICS,
    "log": LOG,
}
"""All keys by section, for the documentation; `[sites]` maps a name to a text each."""

USUAL_NAME = "service.toml"
"""File name in the state folder."""
TEMPLATE = "template.toml"

_GB = 10**9


def load_settings(path: Path) -> ServiceSettings:
    """Read the settings in a file; relative paths are relative to its folder.

    Raises:
        ConfigInvalid: The file cannot be read, is not TOML, or a key is unknown, missing or not valid.
    """
    top = read_section(Place(file=path, value=_content(path), form=FORM), TOP)
    listen, sessions, images = top["listen"], top["sessions"], top["images"]
    return ServiceSettings(
        **listen,
        session_s=sessions["hours"] * _HOUR_S,
        idle_s=sessions["idle_minutes"] * _MINUTE_S,
        people=top["people"],
        site_names=top["sites"],
        proxy=top["proxy"],
        oidc=top["oidc"],
        runs=top["runs"],
        images=ImageSettings(
            most_bytes=round(images["most_gigabytes"] * _GB),
            reserve_bytes=round(images["reserve_gigabytes"] * _GB),
            vendor_certificates=images["vendor_certificates"],
        ),
        keep_hidden_images_s=images["keep_hidden_days"] * _DAY_S,
        hooks=top["hooks"],
        mail=top["mail"],
        metrics=top["metrics"],
        log=top["log"],
    )


def _content(path: Path) -> dict[str, Any]:
    return toml_of(
        path,
        called="the service's configuration",
        hint="'flashferry service init' writes a first one; without --config the defaults hold",
    )


def write_template(path: Path) -> bool:
    """Write a commented configuration; return False if the file exists. Raises `ConfigInvalid` on failure."""
    return write_new(path, files(__package__ or "").joinpath(TEMPLATE).read_text(encoding="utf-8"))


def parsed_listen(given: str) -> tuple[str, int]:
    """Parse `[ADDRESS:]PORT`, IPv6 in brackets; the address is empty if not given. Raises `ConfigInvalid`."""
    address, _, port = given.rpartition(":")
    address = address.removeprefix("[").removesuffix("]")
    try:
        if address:
            ip_address(address)
        number_ = int(port) if port.isascii() and port.isdecimal() else -1
    except ValueError:
        number_ = -1
    if not 0 <= number_ <= 65_535:
        raise ConfigInvalid(
            f"--listen {given!r}: expected [ADDRESS:]PORT with a port from 0 to 65535, or fd:N",
            hint="For example --listen 8020, or --listen 192.0.2.1:8443 to be reached from other hosts",
        )
    return address, number_


FORM = toml_form("docs/service.md")
