"""What others call Cisco IOS and IOS-XE: one inventory serves several tools, and each has a name of its own.

Facts
-----

- NAPALM has `ios` for both (`napalm.readthedocs.io`, supported devices); netmiko `cisco_ios` and `cisco_xe`, and the
  same with `_ssh`, `_telnet` and `_serial` behind them (`netmiko/ssh_dispatcher.py`); scrapli `cisco_iosxe`; Genie and
  pyATS `ios` and `iosxe`; Ansible `cisco.ios.ios`; NetBox and Nautobot whatever was typed there.
- containerlab writes an inventory beside a lab with the kind of a node for its platform, `cisco_c8000v`; `cisco_c8000`,
  `cisco_xrd` and `cisco_n9kv` are no IOS (containerlab.dev, kinds).
- Which of the two a device runs is what its `show version` says: the names decide nothing but that it is one of them.
"""

from __future__ import annotations

import re

from flashferry.core.safe_quote import PLATFORM_WORDS, described

IOS = "ios"
"""NAPALM's name for both Cisco IOS and IOS-XE, and ours."""

NAMES = ("ios", "cisco_ios", "cisco_xe", "cisco_iosxe", "iosxe")
"""The accepted names, as messages list them; blanks, dashes, dots and capitals make no difference."""

_PLAIN = frozenset({"ios", "iosxe", "xe", "iosios"})
_NODE_KINDS = frozenset({"c8000v", "csr1000v", "cat9kv", "iol", "vios", "viosl2"})
_NOT_SSH = ("telnet", "serial")


def platform_of(name: str | None) -> str | None:
    """Return `ios` for any name of Cisco IOS or IOS-XE, None for all else."""
    plain = _plain(name or "").removeprefix("cisco").removesuffix("ssh")
    is_kind = plain in _NODE_KINDS and _plain(name or "").startswith("cisco")
    return IOS if plain in _PLAIN or is_kind else None


def wrong_platform(name: str | None) -> tuple[str, str]:
    """Return what is wrong with a name that is not one of them, and what to do about it."""
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
