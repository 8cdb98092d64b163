"""Sections of the service's configuration about what leaves it: hooks, mail, figures, the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashferry.model.file_keys import (
    Key,
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
from flashferry.service.configuration.values import command, networks
from flashferry.service.settings import HookSettings, LogSettings, MailSettings, MetricsSettings, SecretFrom

_SECRET = (
    Key(
        name="secret_command",
        read=command,
        default=(),
        values="a list of words",
        says="program that prints the secret; run without a shell",
    ),
    Key(
        name="secret_credential",
        read=word,
        default="",
        values="a name",
        says="the credential of systemd's (`LoadCredential=NAME:...`) that holds it",
    ),
)
HOOK = (
    *_SECRET,
    Key(
        name="ca",
        read=present_file,
        values="a file",
        says="certificates, PEM, one of which must have issued that of a receiver of syslog by TLS",
        shown_default="those that the system trusts",
    ),
)
MAIL = (
    Key(name="host", read=text, is_required=True, values="a name or address", says="the server that takes our mail"),
    Key(name="port", read=whole(1, 65535), default=25, values="1 to 65535", says="its port"),
    Key(
        name="security",
        read=choice(("starttls", "tls", "none")),
        default="starttls",
        values="starttls, tls, none",
        says="how the way there is secured; `tls` from the first byte on",
    ),
    Key(name="sender", read=text, is_required=True, values="an address", says="whom mail is from"),
    Key(name="user", read=text, default="", values="a name", says="who we sign in as there", shown_default="nobody"),
    *_SECRET,
)
METRICS = (
    Key(
        name="networks",
        read=networks,
        default=(),
        values="a list of networks",
        says="from there `/metrics` is answered without a token",
        shown_default="none: a token is needed",
    ),
    Key(
        name="backups",
        read=file_path,
        values="a folder",
        says="the folder of `flashferry state backup`, for the time of the newest one",
        shown_default="not told",
    ),
)
LOG = (
    Key(
        name="file",
        read=file_path,
        values="a file",
        says="where the log goes; rotated without a signal",
        shown_default="standard error",
    ),
    Key(
        name="format",
        read=choice(("text", "json")),
        default="text",
        values="text, json",
        says="lines for people, or an object of JSON each",
    ),
    Key(
        name="access",
        read=flag,
        default=False,
        values="true, false",
        says="whether each request is told: method, path, status, duration, who, from where",
        shown_default="`false`",
    ),
)


def hooks(place: Place) -> dict[str, HookSettings]:
    """Return hooks' secrets and whom they trust, by the name that a hook knows its own by."""
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
    """Return the server that takes our mail."""
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
    """Return how figures are fetched."""
    return MetricsSettings(**read_section(place, METRICS))


def log(place: Place) -> LogSettings:
    """Return where the log goes."""
    values = read_section(place, LOG)
    return LogSettings(file=values["file"], is_json=values["format"] == "json", has_access=values["access"])
