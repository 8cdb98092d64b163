"""Write the lab's routers as an inventory for the product: three files for Nornir's SimpleInventory.

Each link with a condition is a site, because devices of a site share its link. Passwords are passed by environment
instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flashferry.nightly.backend import PlannedLink, Topology

_NO_WORD = re.compile(r"[^\w.-]+")


def write_inventory(folder: Path, topology: Topology, addresses: Mapping[str, str], data: Mapping[str, object]) -> Path:
    """Write a lab's inventory into a new folder and return the folder.

    Args:
        folder: The folder, which must not exist.
        topology: The lab.
        addresses: SSH address of each router, by label.
        data: More data for all routers.

    Raises:
        OSError: It cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True)
    sites = {label: site_of(link) for link in topology.links for label in link.nodes}
    hosts: dict[str, Any] = {}
    for node in topology.nodes:
        hosts[node.label] = {"hostname": addresses[node.label], "port": node.ssh_port, "platform": node.platform}
        if node.label in sites:
            hosts[node.label]["groups"] = [sites[node.label]]
    groups = {site_of(link): {"data": _link_data(link)} for link in topology.links}
    _write(folder / "hosts.yaml", hosts)
    _write(folder / "groups.yaml", groups)
    _write(folder / "defaults.yaml", {"data": dict(data)} if data else {})
    return folder


def site_of(link: PlannedLink) -> str:
    """Return the site name of a link."""
    return one_word(link.label) or "link"


def one_word(text: str) -> str:
    """Return a text as one word: '-' replaces what site and group names cannot contain."""
    return _NO_WORD.sub("-", text).strip("-")


def _link_data(link: PlannedLink) -> dict[str, Any]:
    data: dict[str, Any] = {"site": site_of(link), "condition": link.condition_name}
    if link.condition.bandwidth_kbps:
        data["link_rate_bps"] = link.condition.bandwidth_kbps * 1000
    return data


def _write(path: Path, values: Mapping[str, Any]) -> None:
    # JSON is YAML; a key on each line is for people.
    path.write_text("\n".join(("---", *(_lines(values) if values else ("{}",)))) + "\n", encoding="utf-8")


def _lines(values: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    for key, value in values.items():
        head = f"{'  ' * depth}{json.dumps(key)}:"
        if isinstance(value, Mapping) and value:
            yield head
            yield from _lines(value, depth + 1)
        else:
            yield f"{head} {json.dumps(value)}"
