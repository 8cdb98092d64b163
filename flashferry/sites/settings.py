"""Read an agent's configuration, `agent.toml`: every key is checked at the start, and no secret is in it.

The centre's `sites.toml` has the same `[broker]`.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import write_new
from flashferry.depot.sync.source import Source
from flashferry.model.file_keys import (
    Key,
    Place,
    check_distinct,
    file_path,
    flag,
    list_of,
    number,
    present_file,
    read_section,
    text,
    toml_form,
    toml_of,
    whole,
    word,
)
from flashferry.sites.broker_settings import BrokerSettings, check_broker
from flashferry.sites.keys import PublicKey, check_secret_file

FORM = toml_form("docs/sites.md")
USUAL_NAME = "agent.toml"
USUAL_KEY = "agent.key"
TEMPLATE = "agent_template.toml"
_HOUR_S = 3600.0


class SourceSettings(Struct, frozen=True, kw_only=True):
    """Where the agent gets plans and images.

    Attributes:
        url: `https://HOST[:PORT]` of the centre's file server; `http://` on loopback, or if `is_plain_allowed`.
        user: The site's login there; empty: none.
        password_file: File with its password, readable by its owner only; None: no password.
        ca: PEM file of trusted issuers; None: those of the system.
        is_plain_allowed: Whether a remote source can be used without TLS: what is fetched is verified by digest anyway.
    """

    url: str
    user: str = ""
    password_file: Path | None = None
    ca: Path | None = None
    is_plain_allowed: bool = False


class AgentRuns(Struct, frozen=True, kw_only=True):
    """How an agent carries out its orders.

    Attributes:
        inventory: Its own inventory, as for `--inventory`.
        options: More options for each verb that accesses devices, such as the source of credentials.
        recover_options: Options for `recover` instead of `options`; None: the same.
        resumes: How often a run that died is resumed.
        clock_differs_s: How far an order's start may lie in the future; beyond, the clocks differ.
    """

    inventory: str
    options: tuple[str, ...] = ()
    recover_options: tuple[str, ...] | None = None
    resumes: int = 3
    clock_differs_s: float = 60.0


class AgentSettings(Struct, frozen=True, kw_only=True):
    """An agent's settings.

    Attributes:
        state: Its state folder: journal, ledger, spool, jobs.
        key: File of its private key.
        centres: Public keys of the centres whose orders it accepts.
        catalogue: Folder of its depot's proven images.
        source: Where plans and images come from; None: they are put into the catalogue beforehand.
        beat_s: Interval between heartbeats, seconds.
        progress_s: Least interval between progress reports of a device, seconds.
    """

    site: str
    state: Path
    key: Path
    centres: tuple[PublicKey, ...]
    broker: BrokerSettings
    runs: AgentRuns
    catalogue: Path
    source: SourceSettings | None = None
    beat_s: float = 15.0
    progress_s: float = 10.0


def load_agent_settings(path: Path) -> AgentSettings:
    """Read an agent's configuration and check every key.

    Args:
        path: The file; relative paths in it start at its folder.

    Raises:
        ConfigInvalid: It cannot be read, is no TOML, a key is unknown, missing or wrong, or a secret file is readable
            by others.
    """
    hint = "'flashferry sites init' writes one to begin with"
    content = toml_of(path, called="an agent's configuration", hint=hint)
    top = read_section(Place(file=path, value=content, form=FORM), TOP)
    centre, words = top["centre"], top["words"]
    check_secret_file(top["key"], "key")
    return AgentSettings(
        site=top["site"],
        state=top["state"],
        key=top["key"],
        centres=centre["keys"],
        broker=top["broker"],
        runs=top["runs"],
        catalogue=top["depot"]["catalogue"],
        source=top["source"],
        beat_s=words["beat_seconds"],
        progress_s=words["progress_seconds"],
    )


def write_agent_template(path: Path) -> bool:
    """Write a commented configuration; return False if the file exists, which is kept.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    return write_new(path, files("flashferry.sites").joinpath(TEMPLATE).read_text(encoding="utf-8"))


def broker(place: Place) -> BrokerSettings:
    """Read a section `[broker]`.

    Raises:
        ConfigInvalid: It is wrong.
    """
    values = read_section(place, BROKER)
    values["is_plain_allowed"] = values.pop("plain")
    settings = BrokerSettings(**values)
    _checked(place, lambda: check_broker(settings))
    return settings


def public_key(place: Place) -> PublicKey:
    """Read a public key's line."""
    line = text(place)
    key: PublicKey = _checked(place, lambda: PublicKey.of(line))
    return key


def secret_file(place: Place) -> Path:
    """Read the path of a file with a secret, which only its owner can read."""
    path = file_path(place)
    _checked(place, lambda: check_secret_file(path, "file"))
    return path


def words(place: Place) -> tuple[str, ...]:
    """Read a list of arguments, unquoted; it may be empty."""
    if not isinstance(place.value, list) or not all(isinstance(one, str) for one in place.value):
        raise place.wrong("a list of texts", place.form.list_hint + ", one for each word")
    return tuple(place.value)


def _checked(place: Place, check: Any) -> Any:
    """Return what a check returns; its error names the key."""
    try:
        return check()
    except ConfigInvalid as error:
        raise place.problem(error.message, error.hint or "") from None


def _public_keys(place: Place) -> tuple[PublicKey, ...]:
    found: tuple[PublicKey, ...] = list_of(public_key)(place)
    check_distinct(place, [key.key_id for key in found], "key")
    return found


def _centre(place: Place) -> dict[str, Any]:
    return read_section(place, CENTRE)


def _runs(place: Place) -> AgentRuns:
    values = read_section(place, RUNS)
    values["clock_differs_s"] = values.pop("clock_seconds")
    return AgentRuns(**values)


def _inventory(place: Place) -> str:
    """Read an inventory as for `--inventory`; a path starts at the file's folder."""
    return str(file_path(place))


def _depot(place: Place) -> dict[str, Any]:
    return read_section(place, DEPOT)


def _source(place: Place) -> SourceSettings:
    values = read_section(place, SOURCE)
    values["is_plain_allowed"] = values.pop("plain")
    settings = SourceSettings(**values)
    try:
        Source(url=settings.url)
    except ConfigInvalid:
        raise place.below("url").wrong(
            "an address such as https://centre.example:8443", "Give scheme and host, without a user"
        ) from None
    _checked(place.below("ca"), lambda: Source(url=settings.url, ca=settings.ca))
    parts = urlsplit(settings.url)
    is_near = parts.hostname in {"127.0.0.1", "::1", "localhost"}
    if parts.scheme == "http" and not is_near and not settings.is_plain_allowed:
        raise place.below("url").wrong(
            "an address that begins with https://",
            "By http:// the login could be read on the way; 'plain = true' if so be",
        )
    return settings


def _words(place: Place) -> dict[str, Any]:
    return read_section(place, WORDS)


CENTRE = (
    Key(
        name="keys",
        read=_public_keys,
        is_required=True,
        values="a list of public keys, a line each",
        says="centres whose orders are taken",
    ),
)
BROKER = (
    Key(name="url", read=text, is_required=True, values="a URL, rediss:// or amqps://", says="where the broker is"),
    Key(name="user", read=text, default="", values="text", says="who we are there"),
    Key(name="password_file", read=secret_file, values="a file, 0600", says="that one's password"),
    Key(name="ca", read=present_file, values="a file, PEM", says="who must have issued the broker's certificate"),
    Key(name="certificate", read=present_file, values="a file, PEM", says="our certificate there"),
    Key(name="key", read=secret_file, values="a file, PEM, 0600", says="its private key"),
    Key(
        name="plain",
        read=flag,
        default=False,
        values="true or false",
        says="whether a broker elsewhere may be spoken to without TLS",
    ),
)
RUNS = (
    Key(
        name="inventory",
        read=_inventory,
        is_required=True,
        values="a folder, or a Nornir configuration file",
        says="the devices of this site, with the agent's own secrets",
    ),
    Key(
        name="options",
        read=words,
        default=(),
        values="a list of words",
        says="words behind each verb",
        shown_default="none",
    ),
    Key(
        name="recover_options",
        read=words,
        values="a list of words",
        says="words behind 'recover' alone, in place of options",
        shown_default="as options",
    ),
    Key(
        name="resumes", read=whole(0, 20), default=3, values="0 to 20", says="how often a run that died is gone on with"
    ),
    Key(
        name="clock_seconds",
        read=number(1, 3600, "seconds"),
        default=60.0,
        values="1 to 3600",
        says="how far the centre's clock may be ahead of ours",
    ),
)
DEPOT = (Key(name="catalogue", read=file_path, is_required=True, values="a folder", says="the depot's proven images"),)
SOURCE = (
    Key(name="url", read=text, is_required=True, values="https://HOST[:PORT]", says="the centre's file server"),
    Key(name="user", read=text, default="", values="text", says="the site's login there"),
    Key(name="password_file", read=secret_file, values="a file, 0600", says="that one's password"),
    Key(name="ca", read=present_file, values="a file, PEM", says="who must have issued its certificate"),
    Key(name="plain", read=flag, default=False, values="true or false", says="whether it may be spoken to without TLS"),
)
WORDS = (
    Key(
        name="beat_seconds",
        read=number(1, 600, "seconds"),
        default=15.0,
        values="1 to 600",
        says="how often the agent sends a sign of life",
    ),
    Key(
        name="progress_seconds",
        read=number(0, 600, "seconds"),
        default=10.0,
        values="0 to 600",
        says="how often a device's mere progress is reported at most",
    ),
)


def _defaults(keys: tuple[Key, ...]) -> dict[str, Any]:
    return {key.name: key.default for key in keys}


TOP = (
    Key(name="site", read=word, is_required=True, values="one word", says="the site, as the inventory has it"),
    Key(name="state", read=file_path, is_required=True, values="a folder", says="journal, ledger and spool"),
    Key(name="key", read=file_path, is_required=True, values="a file, 0600", says="the agent's private key"),
    Key(name="centre", read=_centre, is_required=True, values="a table", says="whose orders are taken"),
    Key(name="broker", read=broker, is_required=True, values="a table", says="where the broker is"),
    Key(name="runs", read=_runs, is_required=True, values="a table", says="how orders are carried out"),
    Key(name="depot", read=_depot, is_required=True, values="a table", says="where images are kept"),
    Key(name="source", read=_source, values="a table", says="from where plans and images come"),
    Key(name="words", read=_words, default=_defaults(WORDS), values="a table", says="what is sent how often"),
)
