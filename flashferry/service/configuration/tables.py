"""The tables of keys of the service's configuration, and the sections that they make.

docs/service.md and the template are held against them. No key holds a secret: a program or a credential of systemd's is
named that has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from flashferry.model.file_keys import (
    Key,
    Place,
    Reader,
    file_path,
    number,
    present_file,
    read_section,
    text,
    whole,
    word,
)
from flashferry.service.configuration.outgoing import HOOK, LOG, MAIL, METRICS, hooks, log, mail, metrics
from flashferry.service.configuration.values import (
    LOOPBACK,
    address,
    command,
    header,
    networks,
    public_url,
    roles,
    template_unit,
    url,
    words,
)
from flashferry.service.settings import (
    LogSettings,
    MetricsSettings,
    OidcSettings,
    PeopleSettings,
    ProxySettings,
    RunSettings,
)

_MINUTE_S, _DAY_S = 60.0, 86400.0


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
            "expected networks beside user_header, found none: anybody could say who he is",
            'Name the proxy\'s address: networks = ["127.0.0.1/32"]',
        )
    return ProxySettings(**values)


def _oidc(place: Place) -> OidcSettings:
    values = read_section(place, OIDC)
    issuer = urlsplit(values["issuer"])
    if issuer.scheme != "https" and issuer.hostname not in LOOPBACK:
        raise place.problem(
            "expected an issuer by https, found one without: anybody on the way could say who signs in",
            "Begin 'issuer' with https://",
        )
    return OidcSettings(**values)


def _runs(place: Place) -> RunSettings:
    values = read_section(place, RUNS)
    return RunSettings(keep_jobs_s=values.pop("keep_jobs_days") * _DAY_S, **values)


def _section(keys: Sequence[Key]) -> Reader:
    return lambda place: read_section(place, keys)


def _defaults(keys: Sequence[Key]) -> dict[str, Any]:
    return {key.name: key.default for key in keys}


# The tables of keys.

LISTEN = (
    Key(
        name="address",
        read=address,
        default="127.0.0.1",
        values="an address",
        says="where to listen; without a certificate loopback, or behind `[proxy] networks`",
    ),
    Key(name="port", read=whole(0, 65535), default=8020, values="0 to 65535", says="the port; 0 takes any"),
    Key(
        name="url",
        read=public_url,
        default="",
        values="https://HOST",
        says="how people reach it, for links in notices and for OIDC",
        shown_default="made of address and port",
    ),
    Key(name="certificate", read=present_file, values="a file", says="its certificate, PEM", shown_default="no TLS"),
    Key(name="key", read=present_file, values="a file", says="the certificate's private key, PEM"),
)
SESSIONS = (
    Key(name="hours", read=number(0.1, 72, "hours"), default=8.0, values="0.1 to 72", says="how long a sign-in lasts"),
    Key(
        name="idle_minutes",
        read=number(1, 1440, "minutes"),
        default=30.0,
        values="1 to 1440",
        says="after so long without a request a session looks on, and changes nothing any more",
    ),
)
PEOPLE = (
    Key(
        name="least_password",
        read=whole(8, 128, "characters"),
        default=12,
        values="8 to 128",
        says="a password of a local account has so many characters",
    ),
    Key(
        name="most_failures",
        read=whole(1, 100),
        default=5,
        values="1 to 100",
        says="after so many wrong passwords in a row an account is locked",
    ),
    Key(
        name="lock_minutes",
        read=number(0.1, 1440, "minutes"),
        default=15.0,
        values="0.1 to 1440",
        says="so long it stays locked",
    ),
    Key(
        name="most_tries",
        read=whole(1, 10_000),
        default=20,
        values="1 to 10000",
        says="so many sign-ins are taken from one address within `tries_minutes`",
    ),
    Key(
        name="tries_minutes",
        read=number(0.1, 1440, "minutes"),
        default=5.0,
        values="0.1 to 1440",
        says="see `most_tries`",
    ),
    Key(
        name="token_days",
        read=number(0.01, 3660, "days"),
        default=366.0,
        values="0.01 to 3660",
        says="how long an API token lasts at most",
    ),
    Key(
        name="argon2_rounds",
        read=whole(1, 100),
        default=3,
        values="1 to 100",
        says="how often Argon2id goes over its memory",
    ),
    Key(
        name="argon2_memory_mib",
        read=whole(8, 4096, "MiB"),
        default=64,
        values="8 to 4096",
        says="memory that hashing one password takes, MiB",
    ),
    Key(name="argon2_lanes", read=whole(1, 64), default=4, values="1 to 64", says="threads that hash one password"),
)
PROXY = (
    Key(
        name="networks",
        read=networks,
        default=(),
        values="a list of networks",
        says="from where a proxy comes that is believed; what others say in its headers is ignored",
    ),
    Key(
        name="user_header",
        read=header,
        default="",
        values="a header",
        says="names who signed in at the proxy; without it the proxy signs nobody in",
    ),
    Key(name="groups_header", read=header, default="", values="a header", says="his groups, by commas"),
    Key(
        name="roles",
        read=roles,
        default={},
        values='GROUP = ["role@SITE", ...]',
        says="the roles that a group gives",
        shown_default="none",
    ),
)
OIDC = (
    Key(name="issuer", read=url, is_required=True, values="https://HOST/...", says="the provider's issuer"),
    Key(name="client_id", read=text, is_required=True, values="a text", says="what we are called there"),
    Key(
        name="secret_command",
        read=command,
        default=(),
        values="a list of words",
        says="program that prints our secret there; without one we are a public client",
    ),
    Key(name="groups_claim", read=word, default="groups", values="a word", says="the claim that names groups"),
    Key(
        name="roles",
        read=roles,
        default={},
        values='GROUP = ["role@SITE", ...]',
        says="the roles that a group gives",
        shown_default="none",
    ),
)
RUNS = (
    Key(
        name="inventory",
        read=text,
        values="a folder or file",
        says="the inventory, as `--inventory` takes it",
        shown_default="none: jobs on devices are refused",
    ),
    Key(
        name="images",
        read=file_path,
        values="a folder",
        says="where images are kept and uploaded to",
        shown_default="`images` in the state folder",
    ),
    Key(
        name="nights",
        read=file_path,
        values="a folder",
        says="where descriptions of nights in a lab are, which schedules name",
        shown_default="none: no night is scheduled",
    ),
    Key(
        name="options",
        read=words,
        default=(),
        values="a list of words",
        says="stand behind each verb that talks to devices: where credentials come from, say",
    ),
    Key(
        name="recover_options",
        read=words,
        values="a list of words",
        says="stand behind `recover` in their place",
        shown_default="`options`",
    ),
    Key(
        name="unit",
        read=template_unit,
        default="",
        values="flashferry-run@.service",
        says="the template of systemd's that runs a job",
        shown_default="processes of the service's own making",
    ),
    Key(
        name="resumes",
        read=whole(0, 2),
        default=2,
        values="0 to 2",
        says="so often a run that died is gone on with, after it was recovered",
    ),
    Key(
        name="keep_jobs_days",
        read=number(1, 3660, "days"),
        default=30.0,
        values="1 to 3660",
        says="so long after a job's end its folder is kept, and with it what its verb printed",
    ),
)
IMAGES = (
    Key(
        name="keep_hidden_days",
        read=number(0, 365, "days"),
        default=7.0,
        values="0 to 365",
        says="so long an image that was taken away can be brought back",
    ),
    Key(
        name="most_gigabytes",
        read=number(0.001, 100, "GB"),
        default=8.0,
        values="0.001 to 100",
        says="how large an image may be",
    ),
    Key(
        name="reserve_gigabytes",
        read=number(0, 1000, "GB"),
        default=1.0,
        values="0 to 1000",
        says="so much stays free on the disk of the folder of images",
    ),
    Key(
        name="vendor_certificates",
        read=present_file,
        values="a file",
        says="certificates of the vendor's, PEM, against which a file of published hashes is held",
        shown_default="no such file is taken in",
    ),
)

TOP = (
    Key(name="listen", read=_listen, default=_defaults(LISTEN), values="a table", says="where it listens"),
    Key(
        name="sessions",
        read=_section(SESSIONS),
        default=_defaults(SESSIONS),
        values="a table",
        says="how long people stay",
    ),
    Key(name="people", read=_people, default=PeopleSettings(), values="a table", says="local accounts and tokens"),
    Key(name="sites", read=_site_names, default={}, values='NAME = "words"', says="what sites are called on pages"),
    Key(name="proxy", read=_proxy, default=ProxySettings(), values="a table", says="the proxy in front"),
    Key(name="oidc", read=_oidc, values="a table", says="OpenID Connect"),
    Key(name="runs", read=_runs, default=RunSettings(), values="a table", says="how runs are begun"),
    Key(name="images", read=_section(IMAGES), default=_defaults(IMAGES), values="a table", says="how images are kept"),
    Key(name="hooks", read=hooks, default={}, values="a table for each secret", says="where hooks' secrets are"),
    Key(name="mail", read=mail, values="a table", says="the server that takes our mail"),
    Key(name="metrics", read=metrics, default=MetricsSettings(), values="a table", says="figures for Prometheus"),
    Key(name="log", read=log, default=LogSettings(), values="a table", says="where the log goes"),
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
"""All tables of keys by section, for the documentation; `[sites]` is beside them, a name to a text each."""
