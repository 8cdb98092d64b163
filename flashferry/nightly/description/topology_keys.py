"""Define the keys of a description about its lab: sites, nodes, conditions, and how routers are reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, NetmaskValueError

from flashferry.model.file_keys import (
    Key,
    Place,
    check_distinct,
    choice,
    list_of,
    number,
    present_file,
    read_section,
    text,
    whole,
    word,
)
from flashferry.nightly.backend import LinkCondition
from flashferry.nightly.description.values import (
    MOST_BANDWIDTH_KBPS,
    MOST_LATENCY_MS,
    SCHEMAS,
    NodeGroup,
    Reach,
    ReachBy,
    Site,
    TopologyPlan,
)
from flashferry.nightly.topology.definitions import ROUTERS

__all__ = ["TOPOLOGY_SECTIONS", "reach", "topology"]


_CONDITION: tuple[Key, ...] = (
    Key(
        name="bandwidth_kbps",
        read=whole(0, MOST_BANDWIDTH_KBPS, "kbit/s"),
        default=0,
        values=f"0 to {MOST_BANDWIDTH_KBPS:,}",
        says="its rate in kbit/s; 0 is without limit",
    ),
    Key(
        name="latency_ms",
        read=whole(0, MOST_LATENCY_MS, "ms"),
        default=0,
        values=f"0 to {MOST_LATENCY_MS:,}",
        says="its delay in whole milliseconds",
    ),
    Key(
        name="jitter_ms",
        read=whole(0, MOST_LATENCY_MS, "ms"),
        default=0,
        values=f"0 to {MOST_LATENCY_MS:,}",
        says="how much the delay varies, in whole milliseconds",
    ),
    Key(
        name="loss_percent",
        read=number(0, 100, "percent"),
        default=0.0,
        shown_default="0",
        values="0 to 100",
        says="packets lost, in percent; 0.01 is one of 10,000",
    ),
)


def _condition(place: Place) -> LinkCondition:
    return LinkCondition(**read_section(place, _CONDITION))


def _conditions(place: Place) -> dict[str, LinkCondition]:
    return {name: _condition(one) for name, one in place.named()}


def _node_definition(place: Place) -> str:
    if isinstance(place.value, str) and place.value in ROUTERS:
        return str(place.value)
    raise place.wrong(
        f"one of {', '.join(ROUTERS)}",
        "Of others no configuration that lets SSH in is known: give a topology of your own by topology.file",
        known=tuple(ROUTERS),
    )


def _schema(place: Place) -> str:
    if place.value in SCHEMAS:
        return str(place.value)
    raise place.wrong(f"one of {', '.join(SCHEMAS)}", "Write it in quotes")


_NODES: tuple[Key, ...] = (
    Key(
        name="node_definition",
        read=_node_definition,
        is_required=True,
        values=", ".join(f"`{one}`" for one in ROUTERS),
        says="what they are",
    ),
    Key(
        name="image_definition",
        read=text,
        shown_default="the node definition's own",
        values="a word",
        says="what they boot; the controller must have it",
    ),
    Key(name="count", read=whole(1, 64), default=1, values="1 to 64", says="how many"),
)


def _group(place: Place) -> NodeGroup:
    return NodeGroup(**read_section(place, _NODES))


_SITE: tuple[Key, ...] = (
    Key(name="name", read=word, is_required=True, values="a word", says="the site, and its condition's name"),
    Key(name="condition", read=_condition, is_required=True, values="a mapping", says="of each router's own link"),
    Key(name="nodes", read=list_of(_group), is_required=True, values="a list", says="the routers"),
)


def _site(place: Place) -> Site:
    return Site(**read_section(place, _SITE))


def _sites(place: Place) -> tuple[Site, ...]:
    sites = tuple(_site(one) for one in place.entries())
    check_distinct(place, [site.name for site in sites], "site")
    return sites


_TOPOLOGY: tuple[Key, ...] = (
    Key(name="sites", read=_sites, default=(), shown_default="none", values="a list", says="sites to make a lab of"),
    Key(
        name="schema",
        read=_schema,
        default=SCHEMAS[-1],
        values=", ".join(f"`'{one}'`" for one in SCHEMAS),
        says="the topology schema that is written",
    ),
    Key(name="file", read=present_file, values="a file", says="a topology of your own, in place of `sites`"),
    Key(
        name="routers",
        read=list_of(text),
        default=(),
        shown_default="all whose definition is known",
        values="a list",
        says="labels of those of its nodes that the night is about",
    ),
    Key(
        name="conditions",
        read=_conditions,
        default={},
        shown_default="as the file has them",
        values="by link",
        says="conditions by the label of a link of that file",
    ),
)


def topology(place: Place) -> TopologyPlan:
    """Read the lab: sites, or the user's own file."""
    found = read_section(place, _TOPOLOGY)
    if bool(found["sites"]) == (found["file"] is not None):
        which = "both" if found["sites"] else "neither"
        raise place.problem(
            f"expected either 'sites' or 'file', found {which}",
            "'sites' has a topology made, 'file' takes one of your own",
        )
    if found["sites"] and (other := next((key for key in ("routers", "conditions") if found[key]), None)):
        raise place.below(other).problem(
            "expected none beside 'sites', found some", "It belongs to 'file'; a site has its 'condition' and 'nodes'"
        )
    return TopologyPlan(**found)


def _address(place: Place) -> IPv4Interface:
    given = place.value
    try:
        if isinstance(given, str) and "/" in given:
            return IPv4Interface(given)
    except (AddressValueError, NetmaskValueError, ValueError):
        pass
    raise place.wrong("an IPv4 address with its prefix, such as 192.0.2.51/24", "Write it in quotes")


def _pool(place: Place) -> tuple[IPv4Interface, ...] | dict[str, IPv4Interface]:
    if place.value == "dhcp":
        return ()
    if isinstance(place.value, dict):
        return {name: _address(one) for name, one in place.named()}
    if not isinstance(place.value, list):
        raise place.wrong(
            "'dhcp', a list of addresses, or addresses by router", "All three are shown in docs/nightly.md"
        )
    found = tuple(_address(one) for one in place.entries())
    check_distinct(place, [str(one.ip) for one in found], "address")
    return found


def _gateway(place: Place) -> IPv4Address:
    try:
        return IPv4Address(text(place))
    except AddressValueError:
        raise place.wrong("an IPv4 address without a prefix", "Such as 192.0.2.1") from None


_REACH: tuple[Key, ...] = (
    Key(
        name="by",
        read=choice(tuple(ReachBy)),
        default=ReachBy.BRIDGE,
        values="`bridge`, `patty` or `static`",
        says="how routers are reached; rates count over a bridge only",
    ),
    Key(
        name="connector",
        read=text,
        default="System Bridge",
        values="a label",
        says="the external connector, as the controller has it",
    ),
    Key(
        name="addresses",
        read=_pool,
        default=(),
        shown_default="`dhcp`",
        values="`dhcp`, a list, or by router",
        says="their addresses with prefix: a list is handed out in order, names say each router's (`by: static`)",
    ),
    Key(name="gateway", read=_gateway, values="an address", says="their way out, where it is not from DHCP"),
    Key(
        name="first_port",
        read=whole(1024, 65535),
        default=2001,
        values="1024 to 65535",
        says="the controller's port of the first router, with `by: patty`; each further one has the next",
    ),
)


def reach(place: Place) -> Reach:
    """Read how routers are reached."""
    found = read_section(place, _REACH)
    given, by = found.pop("addresses"), found["by"]
    _check_form(place.below("addresses"), by, given)
    is_static = by is ReachBy.STATIC
    pool: tuple[IPv4Interface, ...] = () if is_static else given
    addresses: dict[str, IPv4Interface] = given if is_static else {}
    _check_gateway(place.below("gateway"), found["gateway"], (*pool, *addresses.values()), pool)
    return Reach(**found, pool=pool, addresses=addresses)


def _check_form(place: Place, by: ReachBy, given: object) -> None:
    """Refuse addresses whose form does not fit `reach.by`."""
    is_static = by is ReachBy.STATIC
    if is_static != isinstance(given, dict):
        what = "addresses by router beside 'by: static'" if is_static else f"no names of routers beside 'by: {by}'"
        raise place.problem(
            f"expected {what}, found {'others' if is_static else 'some'}",
            "'by: static' says where each router is; 'by: bridge' takes 'dhcp' or a list to hand out",
        )
    if by is ReachBy.PATTY and given:
        raise place.problem(
            "expected 'dhcp' beside 'by: patty', found a list",
            "Behind the controller's ports routers get theirs from it",
        )


def _check_gateway(
    place: Place, gateway: IPv4Address | None, given: Sequence[IPv4Interface], pool: Sequence[IPv4Interface]
) -> None:
    """Refuse a gateway that is not used, or is outside the routers' network."""
    if gateway is None:
        return
    if not given:
        raise place.problem(
            "expected none where routers have theirs by DHCP, found one", "Leave it out, or give addresses"
        )
    if outside := next((one for one in pool if gateway not in one.network), None):
        raise place.problem(
            f"expected an address of {outside.network}, found {gateway}", "It must be on the routers' own network"
        )


TOPOLOGY_SECTIONS: Mapping[str, tuple[Key, ...]] = {
    "topology": _TOPOLOGY,
    "topology.sites[]": _SITE,
    "topology.sites[].condition": _CONDITION,
    "topology.sites[].nodes[]": _NODES,
    "reach": _REACH,
}
"""Keys by section; a section's name is its path, with `[]` for lists."""
