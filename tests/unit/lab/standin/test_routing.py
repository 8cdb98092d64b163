"""Which way a copy leaves, by VRFs, interfaces and `ip ftp source-interface`."""

import pytest

from flashferry.lab.standin.configuration import Configuration, parse_configuration
from flashferry.lab.standin.routing import GLOBAL_TABLE, RoutedPath, path_to

TEXT = """vrf definition Mgmt
!@sections vrf definition 
!@sections interface 
interface GigabitEthernet1
 ip address 192.0.2.1 255.255.255.0
interface GigabitEthernet2
 vrf forwarding Mgmt
 ip address 198.51.100.1 255.255.255.0
interface GigabitEthernet3
 ip address 203.0.113.1 255.255.255.0
 shutdown
interface Loopback0
 ip address 192.0.2.200 255.255.255.255
!@ ip route 
ip route 0.0.0.0 0.0.0.0 192.0.2.254
ip route vrf Mgmt 10.0.0.0 255.0.0.0 198.51.100.254
ip route 203.0.113.0 255.255.255.0 GigabitEthernet3
!@ *
!
end
"""  # noqa: W291 - the marks of a platform's configuration end with a blank


@pytest.fixture
def configuration() -> Configuration:
    return parse_configuration(TEXT)


@pytest.mark.parametrize(
    ("host", "vrf", "interface", "way"),
    [
        ("10.0.0.1", None, None, ("", "192.0.2.1")),
        ("192.0.2.9", None, None, ("", "192.0.2.1")),
        ("server.example", None, None, ("", "192.0.2.1")),
        ("10.0.0.1", None, "Loopback0", ("", "192.0.2.200")),
        ("10.0.0.1", None, "lo0", ("", "192.0.2.200")),
        ("10.0.0.1", None, "GigabitEthernet2", ("Mgmt", "198.51.100.1")),
        ("192.0.2.9", None, "GigabitEthernet2", None),
        ("10.0.0.1", None, "GigabitEthernet3", ("", "192.0.2.1")),
        ("10.0.0.1", None, "GigabitEthernet9", ("", "192.0.2.1")),
        ("10.0.0.1", "Mgmt", None, ("Mgmt", "198.51.100.1")),
        ("10.0.0.1", "Mgmt", "Loopback0", ("Mgmt", "198.51.100.1")),
        ("192.0.2.9", "Mgmt", None, None),
    ],
)
def test_the_way_follows_the_configuration(
    configuration: Configuration, host: str, vrf: str | None, interface: str | None, way: tuple[str, str] | None
) -> None:
    """The command's VRF, else that of the source interface, else the global table; one that is down counts for none."""
    found = path_to(configuration, host, vrf=vrf, source_interface=interface)
    assert found == (None if way is None else RoutedPath(vrf=way[0], source_address=way[1]))


def test_without_a_route_there_is_no_way(configuration: Configuration) -> None:
    """A default route that is taken out leaves the connected networks."""
    configuration.remove("ip route 0.0.0.0")
    assert path_to(configuration, "10.0.0.1") is None
    assert path_to(configuration, "192.0.2.9") == RoutedPath(vrf=GLOBAL_TABLE, source_address="192.0.2.1")


def test_a_mask_with_gaps_is_no_network() -> None:
    """The stand-in takes such a line, and a copy must not break its session by it."""
    configuration = parse_configuration(TEXT.replace("192.0.2.1 255.255.255.0", "192.0.2.1 255.0.255.0"))
    assert path_to(configuration, "10.0.0.1") is None
