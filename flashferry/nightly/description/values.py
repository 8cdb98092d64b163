"""Define the values of a night's description, and check keys that contradict each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct, field

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import field_names
from flashferry.model.file_keys import Form
from flashferry.nightly.backend import LinkCondition
from flashferry.nightly.night import NightLimits, NightSettings, NightWork, NodeLogin, StepName
from flashferry.nightly.topology.definitions import ROUTERS
from flashferry.reports.thresholds import Threshold
from inventory.yaml_file import line_of

FORM = Form(
    manual="docs/nightly.md",
    line_of=line_of,
    list_hint="Begin each entry on a line of its own with '- '",
    mapping_hint="Write its keys below it, one per line and indented",
)
"""The form of `nightly.yaml`, for errors."""

MOST_BANDWIDTH_KBPS = 10_000_000
"""Highest rate of a link condition in kbit/s (CML 2.9's API); 0 means unlimited."""

MOST_LATENCY_MS = 10_000
"""Highest latency and jitter, in whole milliseconds."""

MOST_TITLE = 64
"""Characters of a lab's title."""

SCHEMAS = ("0.2.1", "0.2.2", "0.3.0")
"""Supported topology schemas; up to 0.2.1 a node's configuration is one text, later a list of files."""


class LoginFrom(StrEnum):
    """The source of a login."""

    ENVIRONMENT = "environment"
    KEYRING = "keyring"
    COMMAND = "command"
    GENERATED = "generated"


class ReachBy(StrEnum):
    """How the lab's routers are reached."""

    BRIDGE = "bridge"
    PATTY = "patty"
    STATIC = "static"


class LoginSource(Struct, frozen=True, kw_only=True):
    """The source of a login. `command` is the program that prints it as JSON, for `LoginFrom.COMMAND`; else None."""

    source: LoginFrom
    username: str | None = None
    command: str | None = None


class Controller(Struct, frozen=True, kw_only=True):
    """The controller of the labs.

    Attributes:
        url: `https://HOST[:PORT]`, without a path.
        ca_file: PEM file of trusted certificates; None: those of the system.
        is_verified: Whether its certificate is verified.
        is_proxy_used: Whether the environment's proxy variables apply.
    """

    url: str
    ca_file: Path | None = None
    is_verified: bool = True
    is_proxy_used: bool = False
    login: LoginSource

    @property
    def host(self) -> str:
        """The controller's name or address."""
        return urlsplit(self.url).hostname or ""


class NodeGroup(Struct, frozen=True, kw_only=True):
    """Routers of one kind at a site; `image_definition` None: the node definition's default."""

    node_definition: str
    image_definition: str | None = None
    count: int = 1


class Site(Struct, frozen=True, kw_only=True):
    """Routers whose own links all have one condition; its name is the condition's in reports and series."""

    name: str
    condition: LinkCondition
    nodes: tuple[NodeGroup, ...]


class TopologyPlan(Struct, frozen=True, kw_only=True):
    """The lab: sites, or the user's own file.

    Attributes:
        sites: The sites; empty with a file.
        schema: The schema to write, one of `SCHEMAS`.
        routers: Labels of the file's nodes to use; empty: all of known definitions.
        conditions: Conditions by link label of the file; they override the file's.
    """

    sites: tuple[Site, ...] = ()
    schema: str = SCHEMAS[-1]
    file: Path | None = None
    routers: tuple[str, ...] = ()
    conditions: Mapping[str, LinkCondition] = field(default_factory=dict)


class Reach(Struct, frozen=True, kw_only=True):
    """How routers are reached.

    Attributes:
        connector: Label of the external connector in a generated topology.
        pool: Addresses assigned in order, with `ReachBy.BRIDGE`; empty: DHCP.
        addresses: Addresses by router, with `ReachBy.STATIC`.
        gateway: Default gateway, if addresses are not from DHCP; None: no gateway is set.
        first_port: Controller port of the first router, with `ReachBy.PATTY`; the next routers have the next ports.
    """

    by: ReachBy = ReachBy.BRIDGE
    connector: str = "System Bridge"
    pool: tuple[IPv4Interface, ...] = ()
    addresses: Mapping[str, IPv4Interface] = field(default_factory=dict)
    gateway: IPv4Address | None = None
    first_port: int = 2001


class ArtefactRules(Struct, frozen=True, kw_only=True):
    """Where nights' folders are written, and how many are kept."""

    folder: Path
    keep_nights: int = 60


class NightDescription(Struct, frozen=True, kw_only=True):
    """A whole description, every key checked."""

    file: Path
    controller: Controller
    devices: LoginSource
    topology: TopologyPlan
    reach: Reach
    work: NightWork
    thresholds: tuple[Threshold, ...] = ()
    limits: NightLimits = field(default_factory=NightLimits)
    artefacts: ArtefactRules
    inventory_data: Mapping[str, object] = field(default_factory=dict)

    def settings(self, login: NodeLogin) -> NightSettings:
        """Return the settings of a night with the routers' login."""
        work = {name: getattr(self.work, name) for name in field_names(NightWork)}
        return NightSettings(**work, login=login, inventory_data=self.inventory_data, limits=self.limits)


def node_count(sites: tuple[Site, ...]) -> int:
    """Return the number of routers of some sites."""
    return sum(group.count for site in sites for group in site.nodes)


_LAST_PORT = 65535


def check_together(description: NightDescription) -> None:
    """Refuse keys that contradict each other.

    Raises:
        ConfigInvalid: Two do; the message names the file, both keys and the line of one.
    """
    for key, what, hint in _contradictions(description):
        line = line_of(description.file, *key.split("."))
        raise ConfigInvalid(f"{description.file}: key '{key}': {what}{line}", hint=hint)


def _contradictions(description: NightDescription) -> Iterator[tuple[str, str, str]]:
    """Yield a key, what was expected and found, and a hint for each contradiction."""
    has_file, does = description.topology.file is not None, set(description.work.does)
    if has_file and description.devices.source is LoginFrom.GENERATED:
        yield (
            "devices.login",
            "expected environment, keyring or command beside 'topology.file', found generated",
            "Say where the login that your topology's configurations have comes from",
        )
    if StepName.RESUME in does and StepName.KILL not in does:
        yield "night.does", "expected kill where resume is, found it alone", "Nothing else leaves a run to resume"
    kinds = {group.node_definition for site in description.topology.sites for group in site.nodes}
    if kinds and {StepName.STAGE, StepName.KILL} & does and not any(ROUTERS[kind].can_boot_staged for kind in kinds):
        yield (
            "night.does",
            f"expected neither stage nor kill where all routers are {', '.join(sorted(kinds))}, found one",
            "They boot no image from flash: have check and probe done, or add another router",
        )
    reach, count = description.reach, node_count(description.topology.sites)
    if reach.pool and has_file:
        yield (
            "reach.addresses",
            "expected dhcp, or addresses by router with 'by: static', beside 'topology.file', found a list",
            "A list is handed out to routers of a topology that is made",
        )
    if reach.pool and len(reach.pool) < count:
        yield (
            "reach.addresses",
            f"expected an address for each of the {count} routers, found {len(reach.pool)}",
            "Add addresses, or lower a count",
        )
    if reach.by is ReachBy.PATTY and reach.first_port + max(count, 1) - 1 > _LAST_PORT:
        yield (
            "reach.first_port",
            f"expected at most {_LAST_PORT - count + 1} for {count} routers, found {reach.first_port}",
            "Each router has a port of its own, from this one on",
        )
