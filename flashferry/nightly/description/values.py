"""The description of a night, `nightly.yaml`, as values: controller, topology, reach, what is done, limits.

It holds no passwords: it says where they come from. `flashferry.nightly.description.reading` reads it; docs/nightly.md
has all keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from urllib.parse import urlsplit

from flashferry.model.file_keys import Form
from flashferry.nightly.backend import LinkCondition
from flashferry.nightly.settings import NightLimits, NightSettings, NightWork, NodeLogin
from flashferry.reports.thresholds import Threshold
from inventory.yaml_file import line_of

FORM = Form(
    manual="docs/nightly.md",
    line_of=line_of,
    list_hint="Begin each entry on a line of its own with '- '",
    mapping_hint="Write its keys below it, one a line and further to the right",
)
"""How the file of a night's description is written."""

MOST_BANDWIDTH_KBPS = 10_000_000
"""Of a link condition, in kbit/s, by Cisco's description of the API of 2.9; 0 there means no limit."""
MOST_LATENCY_MS = 10_000
"""Of latency and jitter, in whole milliseconds."""
MOST_TITLE = 64
"""Characters of a lab's title."""

SCHEMAS = ("0.2.1", "0.2.2", "0.3.0")
"""Topology schemas that are written; up to 0.2.1 a node's configuration is one text, behind it a list of files."""


class LoginFrom(StrEnum):
    """Where a login comes from."""

    ENVIRONMENT = "environment"
    KEYRING = "keyring"
    COMMAND = "command"
    GENERATED = "generated"


class ReachBy(StrEnum):
    """How the lab's routers are reached."""

    BRIDGE = "bridge"
    PATTY = "patty"
    STATIC = "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSource:
    """Where a login comes from; never the login itself.

    Attributes:
        source: The kind of source.
        username: The user, where the description says it.
        command: The program that prints it as JSON, for `LoginFrom.COMMAND`.
    """

    source: LoginFrom
    username: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """The controller of the labs.

    Attributes:
        url: `https://HOST[:PORT]`, without a path.
        ca_file: The certificate authority that its certificate is checked by; None: those of the system.
        is_verified: Whether its certificate is proven at all.
        is_proxy_used: Whether the environment's proxy variables count for it.
        login: Where its login comes from.
    """

    url: str
    ca_file: Path | None = None
    is_verified: bool = True
    is_proxy_used: bool = False
    login: LoginSource

    @property
    def host(self) -> str:
        """Its name or address."""
        return urlsplit(self.url).hostname or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Routers of a kind at a site.

    Attributes:
        node_definition: One of `flashferry.nightly.definitions.ROUTERS`.
        image_definition: What they boot; None: the node definition's own.
        count: How many, from 1.
    """

    node_definition: str
    image_definition: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Routers behind links of one condition.

    Attributes:
        name: Its name, which is the condition's in reports and series.
        condition: What each router's own link does to packets.
        nodes: The routers.
    """

    name: str
    condition: LinkCondition
    nodes: tuple[NodeGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyPlan:
    """The lab: sites to make it of, or a file of the user's own.

    Attributes:
        sites: The sites; none where there is a file.
        schema: The topology schema to write, one of `SCHEMAS`.
        file: The user's own topology.
        routers: Labels of those of its nodes that the night is about; none: all whose kind is known.
        conditions: Conditions by the label of a link of that file; they go before what the file says.
    """

    sites: tuple[Site, ...] = ()
    schema: str = SCHEMAS[-1]
    file: Path | None = None
    routers: tuple[str, ...] = ()
    conditions: Mapping[str, LinkCondition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How routers are reached.

    Attributes:
        by: The way.
        connector: Label of the external connector in a topology that is made.
        pool: Addresses that routers get in their order, with `ReachBy.BRIDGE`; none: by DHCP.
        addresses: Addresses by router, with `ReachBy.STATIC`.
        gateway: Their way out, where their addresses are not from DHCP.
        first_port: The first port of the controller, with `ReachBy.PATTY`; each further router has the next.
    """

    by: ReachBy = ReachBy.BRIDGE
    connector: str = "System Bridge"
    pool: tuple[IPv4Interface, ...] = ()
    addresses: Mapping[str, IPv4Interface] = field(default_factory=dict)
    gateway: IPv4Address | None = None
    first_port: int = 2001


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtefactRules:
    """What is kept of nights.

    Attributes:
        folder: Each night has a folder below it.
        keep_nights: Nights whose folders are kept, from 1; older ones are removed.
    """

    folder: Path
    keep_nights: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class NightDescription:
    """A whole description, every key of it checked.

    Attributes:
        file: The file that it was read from.
        controller: The controller.
        devices: Where the routers' login comes from.
        topology: The lab.
        reach: How its routers are reached.
        work: What the night does.
        thresholds: What its reports are held against.
        limits: How long all may take.
        artefacts: What is kept of it.
        inventory_data: Data of all routers in the night's inventory: `vrf`, `server_address`, ...
    """

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
        """Return what the flow of a night goes by.

        Args:
            login: The routers' login, see `flashferry.nightly.description.logins`.
        """
        work = {one.name: getattr(self.work, one.name) for one in fields(NightWork)}
        return NightSettings(**work, login=login, inventory_data=self.inventory_data, limits=self.limits)


def node_count(sites: tuple[Site, ...]) -> int:
    """Return how many routers some sites have."""
    return sum(group.count for site in sites for group in site.nodes)
