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
    defaults,
    file_path,
    flag,
    list_of,
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
from flashferry.sites.broker_settings import BrokerSettings, check_broker
from flashferry.sites.keys import PublicKey, check_secret_file

FORM = toml_form("docs/sites.md")
USUAL_NAME = "agent.toml"
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
    hint = "'flashferry sites init' writes a first one"
    content = toml_of(path, called="an agent's configuration", hint=hint)
    top = read_section(Place(file=path, value=content, form=FORM), TOP)
    centre, intervals = top["centre"], top["words"]
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
        beat_s=intervals["beat_seconds"],
        progress_s=intervals["progress_seconds"],
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


def _runs(place: Place) -> AgentRuns:
    values = read_section(place, RUNS)
    values["clock_differs_s"] = values.pop("clock_seconds")
    return AgentRuns(**values)


def _inventory(place: Place) -> str:
    """Read an inventory as for `--inventory`; a path starts at the file's folder."""
    return str(file_path(place))


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


CENTRE = (
    Key("keys", _public_keys, "a list of public keys, a line each", "centres whose orders are taken", is_required=True),
)
BROKER = (
    Key("url", text, "a URL, rediss:// or amqps://", "where the broker is", is_required=True),
    Key("user", text, "text", "who we are there", default=""),
    Key("password_file", secret_file, "a file, 0600", "that one's password"),
    Key("ca", present_file, "a file, PEM", "who must have issued the broker's certificate"),
    Key("certificate", present_file, "a file, PEM", "our certificate there"),
    Key("key", secret_file, "a file, PEM, 0600", "its private key"),
    Key("plain", flag, "true or false", "whether a broker elsewhere may be spoken to without TLS", default=False),
)
RUNS = (
    Key(
        "inventory",
        _inventory,
        "a folder, or a Nornir configuration file",
        "the devices of this site, with the agent's own secrets",
        is_required=True,
    ),
    Key("options", words, "a list of words", "words after each verb", default=(), shown_default="none"),
    Key(
        "recover_options",
        words,
        "a list of words",
        "words after 'recover' alone, in place of options",
        shown_default="as options",
    ),
    Key("resumes", whole(0, 20), "0 to 20", "how often a run that died is gone on with", default=3),
    Key(
        "clock_seconds",
        number(1, 3600, "seconds"),
        "1 to 3600",
        "how far the centre's clock may be ahead of ours",
        default=60.0,
    ),
)
DEPOT = (Key("catalogue", file_path, "a folder", "the depot's proven images", is_required=True),)
SOURCE = (
    Key("url", text, "https://HOST[:PORT]", "the centre's file server", is_required=True),
    Key("user", text, "text", "the site's login there", default=""),
    Key("password_file", secret_file, "a file, 0600", "that one's password"),
    Key("ca", present_file, "a file, PEM", "who must have issued its certificate"),
    Key("plain", flag, "true or false", "whether it may be spoken to without TLS", default=False),
)
WORDS = (
    Key(
        "beat_seconds", number(1, 600, "seconds"), "1 to 600", "how often the agent sends a sign of life", default=15.0
    ),
    Key(
        "progress_seconds",
        number(0, 600, "seconds"),
        "0 to 600",
        "how often a device's mere progress is reported at most",
        default=10.0,
    ),
)


TOP = (
    Key("site", word, "one word", "the site, as the inventory has it", is_required=True),
    Key("state", file_path, "a folder", "journal, ledger and spool", is_required=True),
    Key("key", file_path, "a file, 0600", "the agent's private key", is_required=True),
    Key("centre", section(CENTRE), "a table", "whose orders are taken", is_required=True),
    Key("broker", broker, "a table", "where the broker is", is_required=True),
    Key("runs", _runs, "a table", "how orders are carried out", is_required=True),
    Key("depot", section(DEPOT), "a table", "where images are kept", is_required=True),
    Key("source", _source, "a table", "from where plans and images come"),
    Key("words", section(WORDS), "a table", "what is sent how often", default=defaults(WORDS)),
)
