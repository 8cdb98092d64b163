"""Names of Cisco IOS and IOS-XE in other tools, for inventories that several tools share.

Facts
-----

- NAPALM has `ios` for both (`napalm.readthedocs.io`, supported devices); netmiko `cisco_ios` and `cisco_xe`, and the
  same with suffixes `_ssh`, `_telnet` and `_serial` (`netmiko/ssh_dispatcher.py`); scrapli `cisco_iosxe`; Genie and
  pyATS `ios` and `iosxe`; Ansible `cisco.ios.ios`; NetBox and Nautobot have what their users typed.
- containerlab writes an inventory for a lab with the node's kind as platform, `cisco_c8000v`; `cisco_c8000`,
  `cisco_xrd` and `cisco_n9kv` are not IOS (containerlab.dev, kinds).
- `show version` decides which of the two a device runs; the name only shows that it is one of them.
"""

from __future__ import annotations

import re

from flashferry.core.value_description import PLATFORM_WORDS, described

IOS = "ios"
"""NAPALM's name, and ours, for both Cisco IOS and IOS-XE."""

NAMES = ("ios", "cisco_ios", "cisco_xe", "cisco_iosxe", "iosxe")
"""Accepted names, as listed in messages; spaces, dashes, dots and case are ignored."""

_PLAIN = frozenset({"ios", "iosxe", "xe", "iosios"})
_NODE_KINDS = frozenset({"c8000v", "csr1000v", "cat9kv", "iol", "vios", "viosl2"})
_NOT_SSH = ("telnet", "serial")


def platform_of(name: str | None) -> str | None:
    """Return `ios` for any name of Cisco IOS or IOS-XE, else None."""
    plain = _plain(name or "").removeprefix("cisco").removesuffix("ssh")
    is_kind = plain in _NODE_KINDS and _plain(name or "").startswith("cisco")
    return IOS if plain in _PLAIN or is_kind else None


def wrong_platform(name: str | None) -> tuple[str, str]:
    """Return error message and hint about a platform name that is not accepted."""
    found = described(name or None, PLATFORM_WORDS)
    what = f"platform: expected {' or '.join(NAMES)} (Cisco IOS and IOS-XE), found {found}"
    plain = _plain(name or "")
    if not plain:
        return what, "Give it in hosts.yaml, in a group or in defaults.yaml"
    if plain.endswith(_NOT_SSH) and platform_of(re.sub("|".join(_NOT_SSH), "", plain)) is not None:
        return what, "flashferry logs in by SSH only: give 'platform: ios' and the port of SSH"
    return what, "flashferry stages to no others: leave the device out by --host, --group or --filter"


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
