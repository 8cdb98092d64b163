"""Read the centre's settings, `sites.toml`: the broker, its own key, and the sites with the keys of their agents.

    [centre]
    key = "centre.key"
    plans_folder = "/srv/images/plans"

    [broker]
    url = "rediss://broker.example:6380/0"
    ca = "ca.pem"
    certificate = "centre.pem"
    key = "centre-tls.key"

    [sites.ams]
    agent_key = "ed25519 0123456789abcdef ..."

Relative paths start at the file's folder. Every key is checked before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from flashferry.core.codec import CodecError, decode_exactly
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import reading
from flashferry.model.file_keys import parsed_toml
from flashferry.sites.broker_settings import BrokerSettings, check_broker
from flashferry.sites.keys import PublicKey
from flashferry.sites.wire import is_word

USUAL_NAME = "sites.toml"
"""Its name in the state folder."""

_MOST_BYTES = 4 << 20
_MOST_DAYS = 3660
_MANUAL = "docs/sites.md has each key"


class SiteSettings(Struct, frozen=True, kw_only=True):
    """A site, and the devices that belong to it.

    Attributes:
        agent_key: The public key of the site's only agent.
        inventory_sites: A device whose `site` in the plan is one of these belongs to it; default: its own name.
        groups: So does a device whose first group is one of these.
        devices: So do these, whatever their site or group.
    """

    name: str
    agent_key: PublicKey
    inventory_sites: frozenset[str]
    groups: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()


class CentreSettings(Struct, frozen=True, kw_only=True):
    """The centre's settings.

    Attributes:
        path: The file, for errors.
        key: The file of its private key.
        plans_folder: The folder that the source offers, from which agents fetch plans.
        silent_after_s: An agent without a word for this time counts as silent.
        answer_s: How long to wait for agents before a run is given to them.
        clock_bound_s: Largest offset of an agent's clock: orders and windows are times.
        keep_days: How long a run's events are kept after its end, 1 to 3660 days; records stay longer.
    """

    path: Path
    key: Path
    plans_folder: Path
    broker: BrokerSettings
    silent_after_s: float = 120.0
    answer_s: float = 20.0
    clock_bound_s: float = 30.0
    keep_days: int = 90
    sites: Mapping[str, SiteSettings] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[PublicKey, ...]:
        """Return the keys of all agents without duplicates: one agent may serve several sites."""
        return tuple({site.agent_key.key_id: site.agent_key for site in self.sites.values()}.values())


class _Centre(Struct, frozen=True, kw_only=True):
    key: str
    plans_folder: str
    silent_after_s: float = 120.0
    answer_s: float = 20.0
    clock_bound_s: float = 30.0
    keep_days: int = 90


class _Broker(Struct, frozen=True, kw_only=True):
    url: str
    user: str = ""
    password_file: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    plain: bool = False


class _Site(Struct, frozen=True, kw_only=True):
    agent_key: str
    inventory_sites: tuple[str, ...] | None = None
    groups: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


class _File(Struct, frozen=True, kw_only=True):
    centre: _Centre
    broker: _Broker
    sites: dict[str, _Site]


def load_centre(path: Path) -> CentreSettings:
    """Read a settings file and check every key.

    Raises:
        ConfigInvalid: It cannot be read, is no TOML, or a key is unknown, missing or wrong.
    """
    written = _decoded(path, _parsed(path))
    base = path.resolve().parent  # of the file itself, for a link to it may be in another folder
    broker = _broker(path, written.broker, base)
    sites = {name: _site(path, name, one) for name, one in written.sites.items()}
    centre = written.centre
    if not sites:
        raise _wrong(path, "sites", "at least one table [sites.NAME]", "none")
    for key in ("silent_after_s", "answer_s", "clock_bound_s"):
        if not 0 < (value := getattr(centre, key)) <= 86_400:
            raise _wrong(path, f"centre.{key}", "seconds above 0 and up to 86400", str(value))
    if not 1 <= centre.keep_days <= _MOST_DAYS:
        raise _wrong(path, "centre.keep_days", f"days from 1 to {_MOST_DAYS}", str(centre.keep_days))
    _check_apart(path, sites)
    return CentreSettings(
        path=path,
        key=base / centre.key,
        plans_folder=base / centre.plans_folder,
        broker=broker,
        silent_after_s=centre.silent_after_s,
        answer_s=centre.answer_s,
        clock_bound_s=centre.clock_bound_s,
        keep_days=centre.keep_days,
        sites=sites,
    )


def limited_to(settings: CentreSettings, names: frozenset[str]) -> CentreSettings:
    """Return the settings with some of the sites only."""
    return replace(settings, sites={name: site for name, site in settings.sites.items() if name in names})


def _parsed(path: Path) -> dict[str, Any]:
    try:
        with reading(path) as file:
            content = file.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: expected the centre's settings of sites, found that it cannot be read: {error.strerror}",
            hint=f"Give the file with --sites; {_MANUAL}",
        ) from None
    return parsed_toml(content, where=str(path))


def _decoded(path: Path, content: dict[str, Any]) -> _File:
    try:
        return decode_exactly(_File, content)
    except CodecError as error:
        raise ConfigInvalid(f"{path}: {error.message}", hint=_MANUAL) from None


def _broker(path: Path, written: _Broker, base: Path) -> BrokerSettings:
    files = {
        name: base / value if (value := getattr(written, name)) else None
        for name in ("password_file", "ca", "certificate", "key")
    }
    broker = BrokerSettings(url=written.url, user=written.user, is_plain_allowed=written.plain, **files)
    try:
        check_broker(broker)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{path}: [broker]: {error.message}", hint=error.hint) from None
    return broker


def _site(path: Path, name: str, written: _Site) -> SiteSettings:
    if not is_word(name):
        raise _wrong(path, f"sites.{name}", "a name of letters, digits, '.', '_' and '-'", repr(name))
    try:
        key = PublicKey.of(written.agent_key)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{path}: sites.{name}.agent_key: {error.message}", hint=error.hint) from None
    inside = written.inventory_sites
    return SiteSettings(
        name=name,
        agent_key=key,
        inventory_sites=frozenset((name,) if inside is None else inside),
        groups=frozenset(written.groups),
        devices=frozenset(written.devices),
    )


def _check_apart(path: Path, sites: Mapping[str, SiteSettings]) -> None:
    """Refuse settings by which a device would belong to two sites."""
    for kind in ("inventory_sites", "groups", "devices"):
        owner: dict[str, str] = {}
        for name, site in sites.items():
            for one in sorted(getattr(site, kind)):
                if (other := owner.setdefault(one, name)) != name:
                    raise _wrong(path, f"sites.{name}.{kind}", f"{one!r} at one site alone", f"it at {other}, too")


def _wrong(path: Path, key: str, expected: str, found: str) -> ConfigInvalid:
    return ConfigInvalid(f"{path}: {key}: expected {expected}, found {found}", hint=_MANUAL)
