"""Whether the copies of a run are held to anything: a cap where a link's rate is stated, else a pace that they find.

A rate that nobody stated is no reason to refuse. A copy without one finds the pace of its link by itself, all copies of
a site share it, and beside somebody else's flow it goes on as fair as that flow (`flashferry.tcp.pacing`). That takes BBR and a
kernel that paces. Where this host grants neither, a copy would be CUBIC alone: it fills the queue of its link until it
loses, in front of everybody else there. So that is refused, by `plan` and `stage` alike, unless somebody insists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ftpserver import ServerGrants, probe_grants
from inventory.sites import rate_missing
from inventory.view import HostView
from staging.links import LinkRates

INSIST = "--uncapped"
"""The option that lets copies run with neither cap nor pace."""

_SHOWN = 3


def told_pace(
    devices: Iterable[HostView],
    links: LinkRates,
    *,
    uncapped: bool,
    probe: Callable[[], ServerGrants] | None = None,
) -> str:
    """Return what is to be said of links without a cap; empty where every link has one.

    Args:
        devices: The devices that may copy.
        links: What the links carry.
        uncapped: Whether the operator insists.
        probe: Tells what the kernel grants to this process; asked only where a link has no cap.

    Raises:
        ConfigInvalid: A link has no cap, its copies could not find a pace on this host either, and nobody insists.
    """
    everyone = tuple(devices)
    capped = links.learned_site_caps(everyone)
    names = dict.fromkeys(_name(one) for one in everyone if one.link_rate_bps is None and one.site not in capped)
    if not names:
        return ""
    whose = ", ".join([*names][:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    lacking = _lacking((probe or probe_grants)())
    if not lacking:
        return (
            f"no link rate is stated for {whose}: copies find their pace themselves; "
            "'link_rate_bps' in the inventory sets a cap"
        )
    if not uncapped:
        raise rate_missing(whose, lacking, INSIST)
    return f"no link rate is stated for {whose}, and {lacking}: copies have neither a cap nor a pace ({INSIST})"


def _lacking(grants: ServerGrants) -> str:
    """Return why no pace can be found on this host, or nothing where it can."""
    if not grants.paces:
        return "this host's kernel does not pace"
    return "" if grants.grants("bbr") else "this host's kernel grants us no BBR"


def _name(device: HostView) -> str:
    return f"site '{device.site}'" if device.site is not None else f"device {device.name}"
