"""Define the routers of Cisco Modeling Labs, their day-0 configuration, and the topology file.

Facts
-----

- Names of day-0 files and interfaces: Cisco's own lab topologies and node definitions (CiscoDevNet/cml-community,
  BSD-3: `ios_config.txt` and `Ethernet0/0` in 42 nodes iol-xe, `ios_config.txt` and `GigabitEthernet0/0` in 33 nodes
  iosv, `iosxe_config.txt` and `GigabitEthernet1` in cat8000v, whose driver is that of csr1000v).
- An IOL router boots no image from flash, so none can be staged for an upgrade. iosv writes its flash at 0.083 MB/s.
- `platform console serial` is in the stock configuration of cat8000v; without it a virtual router's console is VGA,
  which is not read.
- External connectors and unmanaged switches are no routers; a licence does not count connectors in Cisco's free labs,
  for switches this is not confirmed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked
from flashferry.nightly.backend import LinkCondition
from flashferry.nightly.night import NodeLogin

CONNECTOR = "external_connector"
SWITCH = "unmanaged_switch"


class RouterKind(Struct, frozen=True, kw_only=True):
    """What is known of a node definition.

    Attributes:
        platform: In the inventory.
        day0_file: File name of the first configuration.
        interface: The interface by which it is reached.
        can_boot_staged: Whether it boots images from its own flash, so that staging makes sense.
        has_serial_line: Whether its first configuration must select a serial console.
    """

    name: str
    platform: str
    day0_file: str
    interface: str
    can_boot_staged: bool = True
    has_serial_line: bool = False


ROUTERS: Mapping[str, RouterKind] = {
    one.name: one
    for one in (
        RouterKind(name="iosv", platform="cisco_ios", day0_file="ios_config.txt", interface="GigabitEthernet0/0"),
        RouterKind(
            name="iol-xe",
            platform="cisco_iosxe",
            day0_file="ios_config.txt",
            interface="Ethernet0/0",
            can_boot_staged=False,
        ),
        RouterKind(
            name="csr1000v",
            platform="cisco_iosxe",
            day0_file="iosxe_config.txt",
            interface="GigabitEthernet1",
            has_serial_line=True,
        ),
        RouterKind(
            name="cat8000v",
            platform="cisco_iosxe",
            day0_file="iosxe_config.txt",
            interface="GigabitEthernet1",
            has_serial_line=True,
        ),
    )
}
"""The routers by node definition."""

_STEP = 120
_WITH_FILES = ("0.2.2", "0.3.0")
_WITH_SMART = ("0.3.0",)


class WrittenNode(Struct, frozen=True, kw_only=True):
    """A node of a topology file.

    Attributes:
        image: Its image definition; None: the default.
        files: Names and contents of its configuration.
        interfaces: Its ports, from slot 0 on.
        has_loopback: Whether `Loopback0` precedes them.
        column: Position on the canvas; likewise `row`.
    """

    node_id: str
    label: str
    definition: str
    image: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    interfaces: tuple[str, ...]
    has_loopback: bool = False
    tags: tuple[str, ...] = ()
    column: int = 0
    row: int = 0


class WrittenLink(Struct, frozen=True, kw_only=True):
    """A link of a topology file; each end is a node's ID and a slot. `condition` None: the link is not slowed."""

    label: str
    ends: tuple[tuple[str, int], tuple[str, int]]
    condition: LinkCondition | None = None


def topology_text(*, title: str, schema: str, nodes: Sequence[WrittenNode], links: Sequence[WrittenLink]) -> str:
    """Return a topology as YAML.

    Args:
        title: The lab's title.
        schema: `0.2.1`, `0.2.2` or `0.3.0`.
        nodes: The nodes.
        links: The links.
    """
    content: dict[str, Any] = {"lab": {"title": title, "description": "", "notes": "", "version": schema}}
    content["annotations"] = []
    if schema in _WITH_SMART:
        content["smart_annotations"] = []
    content["nodes"] = [_node(node, has_files=schema in _WITH_FILES) for node in nodes]
    shift = {node.node_id: int(node.has_loopback) for node in nodes}
    content["links"] = [_link(number, link, shift) for number, link in enumerate(links)]
    return yaml_text(content)


def yaml_text(content: Mapping[str, object]) -> str:
    """Return a document as YAML in block style, without folded lines."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 4096
    written = io.StringIO()
    yaml.dump(content, written)
    return written.getvalue()


def conditioning(condition: LinkCondition) -> dict[str, object]:
    """Return a condition with the controller's keys."""
    return {
        "bandwidth": condition.bandwidth_kbps,
        "latency": condition.latency_ms,
        "jitter": condition.jitter_ms,
        "loss": condition.loss_percent,
        "enabled": True,
    }


def _node(node: WrittenNode, *, has_files: bool) -> dict[str, object]:
    files = [{"name": name, "content": _text(content)} for name, content in node.files]
    alone = files[0]["content"] if files else LiteralScalarString("")
    return {
        "id": node.node_id,
        "label": node.label,
        "node_definition": node.definition,
        "image_definition": node.image,
        "x": node.column * _STEP * 2,
        "y": node.row * _STEP,
        "tags": list(node.tags),
        "configuration": files if has_files else alone,
        "interfaces": _interfaces(node),
    }


def _interfaces(node: WrittenNode) -> list[dict[str, object]]:
    first: list[dict[str, object]] = []
    if node.has_loopback:
        first.append({"id": "i0", "label": "Loopback0", "type": "loopback"})
    ports = ({"label": label, "slot": slot, "type": "physical"} for slot, label in enumerate(node.interfaces))
    return first + [{"id": f"i{number}", **port} for number, port in enumerate(ports, start=len(first))]


def _link(number: int, link: WrittenLink, shift: Mapping[str, int]) -> dict[str, object]:
    (first, first_slot), (second, second_slot) = link.ends
    return {
        "id": f"l{number}",
        "label": link.label,
        "n1": first,
        "i1": f"i{first_slot + shift[first]}",
        "n2": second,
        "i2": f"i{second_slot + shift[second]}",
        "conditioning": conditioning(link.condition) if link.condition else {},
    }


def _text(content: str) -> str:
    return LiteralScalarString(content) if "\n" in content else content


DOMAIN = "lab"
_HOST_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
_NAMED = re.compile(r"^\s*hostname\s+(\S+)", re.MULTILINE)
_LAST_LINES = ("line vty 0 4", " login local", " transport input ssh", "crypto key generate rsa modulus 2048", "end")
_NO_SECRET_SIGN = re.compile(r"[?\s]")
_SSH_LINE = re.compile(r"^\s*transport input\s.*\b(ssh|all)\b", re.MULTILINE)

_SECRET_LINE = re.compile(
    r"(?P<kept>(?:(?:\b|(?=-))(?:password|secret|community|key-string|ascii"
    r"|-key\s+\d+\s+md5|authentication-key(?!\s+\d+\s+md5)"
    r"|pre-shared-key(?:\s+(?:local|remote))?(?!\s+(?:address|hostname|local|remote)\b)"
    r"|(?:server|isakmp)\s+key)"
    r"|^[ \t]+key|pre-shared-key\s+(?:address|hostname)\s+.*\bkey)\s+(?:[0-9]\s+)?)(?P<secret>[^\s\"']+)",
    re.IGNORECASE | re.MULTILINE,
)
"""Secrets in an IOS configuration."""

_NEEDED = (
    (re.compile(r"^\s*(username|aaa new-model)\b", re.MULTILINE), "line 'username'"),
    (re.compile(r"^\s*line vty\b", re.MULTILINE), "line 'line vty'"),
    (_SSH_LINE, "'transport input ssh' below 'line vty'"),
    (re.compile(r"^\s*ip address (dhcp|\d)", re.MULTILINE), "line 'ip address'"),
)


def day0(
    kind: RouterKind,
    *,
    name: str,
    login: NodeLogin,
    mark: str = "",
    address: IPv4Interface | None = None,
    gateway: IPv4Address | None = None,
) -> str:
    """Return the first configuration of a router.

    Args:
        kind: The kind of router.
        name: Host name: letters, digits and '-', at most 63, a letter first.
        login: Its user, with privilege 15.
        mark: Description of its first interface, which identifies the lab; empty for none.
        address: Address of its first interface; None: DHCP.
        gateway: Default gateway, if the address is given.

    Raises:
        ConfigInvalid: IOS does not accept the name or the login.
    """
    check_words(name, login)
    lines = [
        *(("platform console serial",) if kind.has_serial_line else ()),
        f"hostname {name}",
        "no ip domain lookup",
        f"ip domain name {DOMAIN}",
        f"username {login.username} privilege 15 secret {login.password}",
        *((f"enable secret {login.secret}",) if login.secret else ()),
        "ip ssh version 2",
        f"interface {kind.interface}",
        *((f" description {mark}",) if mark else ()),
        f" ip address {f'{address.ip} {address.netmask}' if address else 'dhcp'}",
        " no shutdown",
        *((f"ip route 0.0.0.0 0.0.0.0 {gateway}",) if address and gateway else ()),
        *_LAST_LINES,
    ]
    return "\n".join(lines)


def check_words(name: str, login: NodeLogin) -> None:
    """Refuse a host name or a login that IOS does not accept.

    Raises:
        ConfigInvalid: It does not.
    """
    if not _HOST_NAME.fullmatch(name):
        raise ConfigInvalid(
            f"router {name}: expected a host name of at most 63 letters, digits and '-', a letter first, found another",
            hint="Give the site another name: a router is named after it",
        )
    if any(_NO_SECRET_SIGN.search(one) for one in (login.username, login.password, login.secret or "")):
        raise ConfigInvalid(
            "devices.login: expected user and password without blanks and question marks, found one",
            hint="IOS takes a blank for the end of it and a question mark for a call for help; choose another",
        )


def without_secrets(text: str) -> str:
    """Mask the secrets in configurations or console output, including the user's own."""
    # Ours first, whole: a line's secret ends at a quote for the other rule, and the rest of it would stay.
    return _SECRET_LINE.sub(r"\g<kept>***", masked(text))


def missing_for_ssh(configuration: str) -> str | None:
    """Return what a configuration lacks for SSH, as far as its lines show; None: nothing."""
    return next((sentence for needed, sentence in _NEEDED if not needed.search(configuration)), None)


def host_name(configuration: str) -> str | None:
    """Return the host name in a configuration; None: not given."""
    found = _NAMED.search(configuration)
    return found[1] if found else None
