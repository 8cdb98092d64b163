"""Read a night's description, `nightly.yaml`, and check every key before a lab is made.

The documentation and the template are compared with the tables of keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, NetmaskValueError
from pathlib import Path
from ssl import PROTOCOL_TLS_CLIENT, SSLContext, SSLError
from typing import Any
from urllib.parse import urlsplit

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import described
from flashferry.model.file_keys import (
    Key,
    Place,
    check_distinct,
    choice,
    choices,
    file_path,
    flag,
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
    FORM,
    MOST_BANDWIDTH_KBPS,
    MOST_LATENCY_MS,
    SCHEMAS,
    ArtefactRules,
    Controller,
    LoginFrom,
    LoginSource,
    NightDescription,
    NodeGroup,
    Reach,
    ReachBy,
    Site,
    TopologyPlan,
    check_together,
)
from flashferry.nightly.night import PRODUCT_STEPS, NightLimits, NightWork
from flashferry.nightly.thresholds import judges
from flashferry.nightly.topology.definitions import ROUTERS
from flashferry.reports.thresholds import THRESHOLDS, Threshold
from inventory.entry_checks import DATA_KEYS
from inventory.keys import READERS
from inventory.transport_policy import AUTO, NAMES
from inventory.yaml_file import read_mapping

_CONDITION: tuple[Key, ...] = (
    Key(
        "bandwidth_kbps",
        whole(0, MOST_BANDWIDTH_KBPS, "kbit/s"),
        f"0 to {MOST_BANDWIDTH_KBPS:,}",
        "its rate in kbit/s; 0 is without limit",
        default=0,
    ),
    Key(
        "latency_ms",
        whole(0, MOST_LATENCY_MS, "ms"),
        f"0 to {MOST_LATENCY_MS:,}",
        "its delay in whole milliseconds",
        default=0,
    ),
    Key(
        "jitter_ms",
        whole(0, MOST_LATENCY_MS, "ms"),
        f"0 to {MOST_LATENCY_MS:,}",
        "how much the delay varies, in whole milliseconds",
        default=0,
    ),
    Key(
        "loss_percent",
        number(0, 100, "percent"),
        "0 to 100",
        "packets lost, in percent; 0.01 is one of 10,000",
        default=0.0,
        shown_default="0",
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
        "node_definition", _node_definition, ", ".join(f"`{one}`" for one in ROUTERS), "what they are", is_required=True
    ),
    Key(
        "image_definition",
        text,
        "a word",
        "what they boot; the controller must have it",
        shown_default="the node definition's own",
    ),
    Key("count", whole(1, 64), "1 to 64", "how many", default=1),
)


_SITE: tuple[Key, ...] = (
    Key("name", word, "a word", "the site, and its condition's name", is_required=True),
    Key("condition", _condition, "a mapping", "of each router's own link", is_required=True),
    Key(
        "nodes",
        list_of(lambda place: NodeGroup(**read_section(place, _NODES))),
        "a list",
        "the routers",
        is_required=True,
    ),
)


def _sites(place: Place) -> tuple[Site, ...]:
    sites = tuple(Site(**read_section(one, _SITE)) for one in place.entries())
    check_distinct(place, [site.name for site in sites], "site")
    return sites


_TOPOLOGY: tuple[Key, ...] = (
    Key("sites", _sites, "a list", "sites to make a lab of", default=(), shown_default="none"),
    Key(
        "schema",
        _schema,
        ", ".join(f"`'{one}'`" for one in SCHEMAS),
        "the topology schema that is written",
        default=SCHEMAS[-1],
    ),
    Key("file", present_file, "a file", "a topology of your own, in place of `sites`"),
    Key(
        "routers",
        list_of(text),
        "a list",
        "labels of those of its nodes that the night is about",
        default=(),
        shown_default="all whose definition is known",
    ),
    Key(
        "conditions",
        _conditions,
        "by link",
        "conditions by the label of a link of that file",
        default={},
        shown_default="as the file has them",
    ),
)


def _topology(place: Place) -> TopologyPlan:
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
        "by",
        choice(tuple(ReachBy)),
        "`bridge`, `patty` or `static`",
        "how routers are reached; rates count over a bridge only",
        default=ReachBy.BRIDGE,
    ),
    Key("connector", text, "a label", "the external connector, as the controller has it", default="System Bridge"),
    Key(
        "addresses",
        _pool,
        "`dhcp`, a list, or by router",
        "their addresses with prefix: a list is handed out in order, names say each router's (`by: static`)",
        default=(),
        shown_default="`dhcp`",
    ),
    Key("gateway", _gateway, "an address", "their way out, where it is not from DHCP"),
    Key(
        "first_port",
        whole(1024, 65535),
        "1024 to 65535",
        "the controller's port of the first router, with `by: patty`; each further one has the next",
        default=2001,
    ),
)


def _reach(place: Place) -> Reach:
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


_MINUTE_S = 60.0
_LONGEST_MINUTES = 24 * 60
_OWN_DATA = ("site", "link_rate_bps", "image", "enable_secret", "known_hosts", "host_keys")
"""Keys that the night sets itself, or that are secret."""


def _md5(place: Place) -> str:
    found = str(place.value).lower()
    if len(found) == 32 and not set(found) - set("0123456789abcdef"):
        return found
    raise place.problem(
        f"expected an MD5 of 32 hexadecimal digits, found {described(place.value)}", "Put it in quotes, as published"
    )


_NIGHTS_OWN = (
    *("--inventory", "--host", "--group", "--filter", "--image", "--image-mb", "--md5", "--plan", "--resume"),
    *("--dry-run", "--reach", "--seconds", "--as-is", "--tuned", "--tune", "--no-tune", "--transport"),
    *("--state-dir", "--events", "--json", "--help"),
)
_NIGHTS_OWN_SHORT = ("-i", "-H", "-g", "-h")
"""Options that the night sets itself, or that change the command: the last of two counts, and a night with another
inventory would tune routers in production.
"""


def _options(place: Place) -> tuple[str, ...]:
    found: tuple[str, ...] = list_of(text)(place)
    for position, one in enumerate(found):
        name = one[:2] if one.startswith(_NIGHTS_OWN_SHORT) else one.partition("=")[0]
        if name in (*_NIGHTS_OWN, *_NIGHTS_OWN_SHORT):
            raise place.below(position).problem(
                f"expected options that the night does not give itself, found {name}",
                "Which routers, which image and where it is written down, the night decides alone",
            )
    return found


_NIGHT: tuple[Key, ...] = (
    Key("image", present_file, "a file", "the image that is staged", is_required=True),
    Key("md5", _md5, "32 digits", "its published MD5"),
    Key(
        "does",
        choices(PRODUCT_STEPS),
        ", ".join(f"`{one}`" for one in PRODUCT_STEPS),
        "which of the product's steps are done, in this order",
        default=PRODUCT_STEPS,
        shown_default="all",
    ),
    Key("copies", whole(1, 100), "1 to 100", "timed copies of a router, each way", default=5),
    Key(
        "probe_seconds",
        number(2, 60, "seconds"),
        "2 to 60",
        "what a timed copy should take; its size follows",
        default=5.0,
        shown_default="5",
    ),
    Key(
        "transport",
        choice((*NAMES, AUTO)),
        ", ".join(f"`{one}`" for one in (*NAMES, AUTO)),
        "by which routers copy",
        shown_default="the product's own choice",
    ),
    Key(
        "options",
        _options,
        "a list",
        "further options for the product's verbs that serve, a word each",
        default=(),
        shown_default="none",
    ),
    Key(
        "needs_kbps",
        whole(1, MOST_BANDWIDTH_KBPS, "kbit/s"),
        "kbit/s",
        "what a router's licence must let through, or its copies are not judged",
        shown_default="what its link carries",
    ),
    Key("capture_node", text, "a router", "whose tuned copy is captured as packets"),
)


def _night(place: Place) -> NightWork:
    """Read what a night does."""
    found = read_section(place, _NIGHT)
    needed_kbps = found.pop("needs_kbps")
    return NightWork(
        **found | {"does": tuple(step for step in PRODUCT_STEPS if step in found["does"])},
        target_bps=None if needed_kbps is None else needed_kbps * 1000,
    )


_EXAMPLES = {"tuned_share_of_link": 0.7, "tuned_share_of_cap": 0.8}
_THRESHOLDS: tuple[Key, ...] = tuple(
    Key(
        name,
        number(0, 1 if kind.is_share else math.inf, is_above=True),
        "above 0, at most 1" if kind.is_share else "above 0",
        f"for example {_EXAMPLES.get(name, 2):g}: {kind.wants(_EXAMPLES.get(name, 2))}",
        shown_default="not held",
    )
    for name, kind in THRESHOLDS.items()
    if judges(name)
)


def _thresholds(place: Place) -> tuple[Threshold, ...]:
    """Read the thresholds of a night."""
    for given in place.mapping():
        if given in THRESHOLDS and not judges(given):
            known = ", ".join(key.name for key in _THRESHOLDS)
            raise place.below(given).problem(
                f"expected one of {known}, found one that no copy of a night measures",
                "Leave it out: a run's own report is held against it; 'limits' end what takes too long",
            )
    found = read_section(place, _THRESHOLDS)
    return tuple(Threshold(name=name, limit=limit) for name, limit in found.items() if limit is not None)


def _minutes(name: str, says: str) -> Key:
    default: float = getattr(NightLimits(), name) / _MINUTE_S
    return Key(
        name.replace("_s", "_minutes"),
        number(0, _LONGEST_MINUTES, "minutes", is_above=True),
        "minutes",
        says,
        default=default,
        shown_default=f"{default:g}",
    )


_LIMITS: tuple[Key, ...] = (
    _minutes("whole_s", "the night without its clean-up"),
    _minutes("import_s", "importing and starting the lab"),
    _minutes("start_s", "until all nodes have booted"),
    _minutes("reach_s", "until SSH answers on all routers"),
    _minutes("condition_s", "setting all links and measuring through them"),
    _minutes("product_s", "each step of the product: one check, one probe, one stage"),
    _minutes("clean_s", "the clean-up, on a clock of its own"),
)


def _limits(place: Place) -> NightLimits:
    """Read the time limits."""
    found = read_section(place, _LIMITS)
    whole_minutes = found["whole_minutes"]
    for name, minutes in found.items():
        if name in {"whole_minutes", "clean_minutes"} or minutes <= whole_minutes:
            continue
        if place.below(name).is_given:
            raise place.below(name).problem(
                f"expected at most the {whole_minutes:g} min of the whole night (whole_minutes), found {minutes:g}",
                "A step cannot take longer than the night",
            )
        found[name] = whole_minutes
    return NightLimits(**{name.replace("_minutes", "_s"): minutes * _MINUTE_S for name, minutes in found.items()})


_ARTEFACTS: tuple[Key, ...] = (
    Key("folder", file_path, "a folder", "each night's folder is below it", is_required=True),
    Key("keep_nights", whole(1, 10_000), "1 to 10000", "folders that are kept", default=60),
)


def _artefacts(place: Place) -> ArtefactRules:
    """Read what is kept of nights."""
    return ArtefactRules(**read_section(place, _ARTEFACTS))


def _inventory_value(place: Place) -> object:
    try:
        READERS[str(place.keys[-1])](place.value)
    except ConfigInvalid as error:
        raise place.problem(error.message, error.hint or "All keys are in docs/inventory.md") from None
    return place.value


_INVENTORY: tuple[Key, ...] = tuple(
    Key(name, _inventory_value, "as there", f"`{name}` of [inventory.md](inventory.md)")
    for name in DATA_KEYS
    if name not in _OWN_DATA
)


def _inventory_data(place: Place) -> dict[str, object]:
    """Read inventory data, checked as in an inventory."""
    found = dict(read_section(place, _INVENTORY))
    return {name: value for name, value in found.items() if value is not None}


def load_description(path: Path) -> NightDescription:
    """Read a description and check every key.

    Args:
        path: The file; relative paths in it start at its folder.

    Raises:
        ConfigInvalid: It is missing, is no YAML, or a key is unknown, missing, invalid, or contradicts another.
    """
    if not path.exists():
        raise ConfigInvalid(
            f"{path}: expected a description of a night, found no file",
            hint=f"'flashferry nightly init {path}' writes a first one",
        )
    top = read_section(Place(file=path, value=read_mapping(path), form=FORM), _TOP)
    description = NightDescription(
        file=path,
        controller=top["controller"],
        devices=top["devices"],
        topology=top["topology"],
        reach=top["reach"],
        work=top["night"],
        thresholds=top["thresholds"],
        limits=top["limits"],
        artefacts=top["artefacts"],
        inventory_data=top["inventory"],
    )
    check_together(description)
    return description


def _ca_file(place: Place) -> Path:
    """Return a PEM file that Python's TLS accepts."""
    path = present_file(place)
    try:
        SSLContext(PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (SSLError, OSError):
        raise place.problem(
            f"expected certificates of authorities in PEM, found others in {path}",
            "PEM begins with -----BEGIN CERTIFICATE-----; the controller's operator has the authority's",
        ) from None
    return path


def _url(place: Place) -> str:
    hint = "Write it as https://cml.example.net, or https://cml.example.net:8443; its login has no place in it"
    given = text(place)
    try:
        parts = urlsplit(given)
        is_good = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise place.problem("expected the controller's https:// address, found no URL", hint) from None
    if parts.username is not None or parts.password is not None:
        raise place.problem("expected the controller's address alone, found a login in it", hint)
    if not is_good or " " in given:
        scheme = f"found {parts.scheme}://" if parts.scheme in {"http", "ssh"} else f"found {described(given)}"
        raise place.problem(f"expected the controller's https:// address, {scheme}", hint)
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise place.problem("expected the controller's address without a path, found one after the host", hint)
    return f"https://{parts.netloc}"


_LOGIN_KEYS = (
    Key("username", word, "a word", "the user, where the source does not name it"),
    Key(
        "login_command",
        text,
        "text",
        "the program of `login: command`; it is given a name and prints JSON with `username` and `password`",
    ),
)


def _login(found: Mapping[str, Any], place: Place) -> LoginSource:
    source, command = found["login"], found["login_command"]
    if (source is LoginFrom.COMMAND) != (command is not None):
        have = "none" if command is None else f"one beside 'login: {source}'"
        want = "a command beside 'login: command'" if command is None else "none"
        raise place.below("login_command").problem(
            f"expected {want}, found {have}", "The command is what 'login: command' asks, and nothing else does"
        )
    if source is LoginFrom.KEYRING and found["username"] is None:
        raise place.below("username").problem(
            "expected the user beside 'login: keyring', found none", "A keyring has a password for a name only"
        )
    return LoginSource(source=source, username=found["username"], command=command)


_CONTROLLER: tuple[Key, ...] = (
    Key("url", _url, "`https://HOST[:PORT]`", "its address", is_required=True),
    Key(
        "ca_file",
        _ca_file,
        "a file",
        "the certificate authority that its certificate is checked by, in PEM",
        shown_default="those of the system",
    ),
    Key(
        "verify",
        flag,
        "`true` or `false`",
        "whether its certificate is proven; without, anybody on the way can read the password",
        default=True,
        shown_default="`true`",
    ),
    Key(
        "proxy",
        flag,
        "`true` or `false`",
        "whether `HTTPS_PROXY` and its like count for it",
        default=False,
        shown_default="`false`",
    ),
    Key(
        "login",
        choice([one for one in LoginFrom if one is not LoginFrom.GENERATED]),
        "`environment`, `keyring` or `command`",
        "where its login comes from",
        default=LoginFrom.ENVIRONMENT,
    ),
    *_LOGIN_KEYS,
)

_DEVICES: tuple[Key, ...] = (
    Key(
        "login",
        choice(tuple(LoginFrom)),
        "`generated`, `environment`, `keyring` or `command`",
        "where the routers' login comes from; `generated` makes a password for each night, in a topology that is made",
        default=LoginFrom.GENERATED,
    ),
    *_LOGIN_KEYS,
)


def _controller(place: Place) -> Controller:
    found = read_section(place, _CONTROLLER)
    return Controller(
        url=found["url"],
        ca_file=found["ca_file"],
        is_verified=found["verify"],
        is_proxy_used=found["proxy"],
        login=_login(found, place),
    )


_TOP: tuple[Key, ...] = (
    Key("controller", _controller, "a mapping", "the controller", is_required=True),
    Key(
        "devices",
        lambda place: _login(read_section(place, _DEVICES), place),
        "a mapping",
        "the routers' login",
        default=LoginSource(source=LoginFrom.GENERATED),
        shown_default="a login made for the night",
    ),
    Key("topology", _topology, "a mapping", "the lab", is_required=True),
    Key(
        "reach",
        _reach,
        "a mapping",
        "how its routers are reached",
        default=Reach(),
        shown_default="System Bridge, DHCP",
    ),
    Key("night", _night, "a mapping", "what the night does", is_required=True),
    Key(
        "thresholds",
        _thresholds,
        "a mapping",
        "what the night's reports are held against, see [report.md](report.md)",
        default=(),
        shown_default="none",
    ),
    Key("limits", _limits, "a mapping", "how long it may take", default=NightLimits(), shown_default="see below"),
    Key("artefacts", _artefacts, "a mapping", "what is kept of it", is_required=True),
    Key(
        "inventory",
        _inventory_data,
        "a mapping",
        "data of all routers in the night's inventory, see [inventory.md](inventory.md)",
        default={},
        shown_default="none",
    ),
)

SECTIONS: Mapping[str, tuple[Key, ...]] = {
    "": _TOP,
    "controller": _CONTROLLER,
    "devices": _DEVICES,
    "topology": _TOPOLOGY,
    "topology.sites[]": _SITE,
    "topology.sites[].condition": _CONDITION,
    "topology.sites[].nodes[]": _NODES,
    "reach": _REACH,
    "night": _NIGHT,
    "thresholds": _THRESHOLDS,
    "limits": _LIMITS,
    "artefacts": _ARTEFACTS,
    "inventory": _INVENTORY,
}
"""Keys by section; a section's name is its path, with `[]` for lists."""
