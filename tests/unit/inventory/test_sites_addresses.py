"""One address, one device."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.api.fleet import FleetOptions, open_fleet
from flashferry.core.errors import ConfigInvalid
from inventory.nornir_loader import open_inventory
from inventory.selection import Selection
from inventory.sites import check_addresses

HOST = "  platform: ios\n  username: u\n  password: p\n"


def write(folder: Path, **addresses: str) -> Path:
    """Write an inventory: by name, address and whatever lines follow it."""
    text = "".join(f"{name}:\n  hostname: {address}\n{HOST}" for name, address in addresses.items())
    (folder / "hosts.yaml").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1\n  port: 22"),
        ("r1.example.net", "R1.example.NET."),
        ("'2001:db8::1'", "'2001:0db8:0:0::0001'"),
        ("192.0.2.1\n  port: 2022", "192.0.2.1\n  connection_options: {napalm: {port: 2022}}"),
    ],
)
def test_two_devices_of_one_address_are_refused_with_both_names(tmp_path: Path, one: str, two: str) -> None:
    """However it is written, and wherever the port stands; no device is asked anything."""
    which = FleetOptions(inventory=str(write(tmp_path, r1=one, other="192.0.2.9", twin=two)), state_dir=tmp_path)
    with pytest.raises(ConfigInvalid, match=r"^twin: hostname: .* is the address of r1, too: expected one device"):
        open_fleet(which)


@pytest.mark.parametrize("two", ["192.0.2.2", "192.0.2.1\n  port: 2022"])
def test_another_address_or_port_is_another_device(tmp_path: Path, two: str) -> None:
    """Several devices behind one address translation differ in their ports."""
    check_addresses(open_inventory(write(tmp_path, r1="192.0.2.1", r2=two)).inventory.hosts.values())


def test_only_the_devices_that_are_chosen_are_asked_about(tmp_path: Path) -> None:
    """A slip elsewhere in the inventory does not keep from the others."""
    folder = write(tmp_path, r1="192.0.2.1", twin="192.0.2.1")
    which = FleetOptions(inventory=folder, selection=Selection(hosts=("r1",)), state_dir=tmp_path)
    assert list(open_fleet(which).inventory.hosts) == ["r1"]
