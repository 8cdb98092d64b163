"""Sections of the configuration about what leaves the service: hooks, mail, metrics, the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashferry.model.file_keys import (
    Place,
    choice,
    file_path,
    flag,
    present_file,
    read_section,
    text,
    whole,
    word,
)
from flashferry.service.configuration.values import command, make_key, networks
from flashferry.service.settings import HookSettings, LogSettings, MailSettings, MetricsSettings, SecretFrom

_SECRET = (
    make_key(
        "secret_command", command, "a list of words", "program that prints the secret; run without a shell", default=()
    ),
    make_key(
        "secret_credential",
        word,
        "a name",
        "the credential of systemd's (`LoadCredential=NAME:...`) that holds it",
        default="",
    ),
)
HOOK = (
    *_SECRET,
    make_key(
        "ca",
        present_file,
        "a file",
        "certificates, PEM, one of which must have issued that of a receiver of syslog by TLS",
        shown_default="those that the system trusts",
    ),
)
MAIL = (
    make_key("host", text, "a name or address", "the server that takes our mail", is_required=True),
    make_key("port", whole(1, 65535), "1 to 65535", "its port", default=25),
    make_key(
        "security",
        choice(("starttls", "tls", "none")),
        "starttls, tls, none",
        "security of the connection; `tls` from the first byte on",
        default="starttls",
    ),
    make_key("sender", text, "an address", "sender address", is_required=True),
    make_key("user", text, "a name", "name for signing in there", default="", shown_default="no sign-in"),
    *_SECRET,
)
METRICS = (
    make_key(
        "networks",
        networks,
        "a list of networks",
        "from there `/metrics` is answered without a token",
        default=(),
        shown_default="none: a token is needed",
    ),
    make_key(
        "backups",
        file_path,
        "a folder",
        "the folder of `flashferry state backup`, for the time of the newest one",
        shown_default="not reported",
    ),
)
LOG = (
    make_key(
        "file", file_path, "a file", "where the log goes; rotated without a signal", shown_default="standard error"
    ),
    make_key(
        "format", choice(("text", "json")), "text, json", "lines for people, or an object of JSON each", default="text"
    ),
    make_key(
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
    """Return where the log goes."""
    values = read_section(place, LOG)
    return LogSettings(file=values["file"], is_json=values["format"] == "json", has_access=values["access"])
