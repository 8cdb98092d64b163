"""What a first configuration makes of a stand-in router, and what its console says of it."""

from __future__ import annotations

import pytest

from flashferry.lab.cml.routers.node import DHCP, Kind, configuration_lines, first_lines, kind_of, last_lines, read_day0

TEXT = """\
platform console serial
!
hostname branch-1
no ip domain lookup
ip domain name lab
username ferry privilege 15 secret Word1
interface GigabitEthernet1
 ip address 198.18.1.51 255.255.255.0
 no shutdown
line vty 0 4
 login local
 transport input ssh
crypto key generate rsa modulus 2048
end
hostname behind-the-end
"""


def known(node_definition: str) -> Kind:
    kind = kind_of(node_definition)
    assert kind is not None
    return kind


def test_a_whole_configuration():
    """Name, address and login are those of the text; sections are indented; keys are no lines of a configuration."""
    day0 = read_day0(TEXT, known("cat8000v"))
    assert (day0.hostname, day0.addresses, day0.refused, day0.why_no_ssh) == (
        "branch-1",
        {"GigabitEthernet1": "198.18.1.51"},
        (),
        "",
    )
    assert day0.lines[-4:] == (" no shutdown", "line vty 0 4", " login local", " transport input ssh")
    assert "username ferry privilege 15 secret Word1" in day0.lines
    assert day0.unaddressed is None


def test_an_address_by_dhcp_is_written_down_when_it_is_known():
    """The stand-in has no client of DHCP: the lease stands in its configuration."""
    day0 = read_day0(TEXT.replace("198.18.1.51 255.255.255.0", "dhcp"), known("cat8000v"))
    assert day0.addresses == {"GigabitEthernet1": DHCP}
    lines = day0.configuration("GigabitEthernet1", "198.18.1.101")
    assert lines[-2:] == ("interface GigabitEthernet1", " ip address 198.18.1.101 255.255.255.0")


def test_an_address_on_another_interface():
    """The interface that has the world's address in the platform's own configuration gives it up."""
    text = TEXT.replace("interface GigabitEthernet1", "interface GigabitEthernet2")
    day0 = read_day0(text, known("csr1000v"))
    assert day0.unaddressed == "GigabitEthernet1"
    lines = day0.configuration("GigabitEthernet2", "198.18.1.51")
    assert lines[:2] == ("interface GigabitEthernet1", " no ip address")


def test_an_interface_that_is_shut_has_no_address():
    """Nobody is reached by it."""
    assert read_day0(TEXT.replace("no shutdown", "shutdown"), known("cat8000v")).addresses == {}


@pytest.mark.parametrize(
    ("left_out", "reported"),
    [
        ("username ferry privilege 15 secret Word1", "no line 'username'"),
        ("ip domain name lab", "no line 'ip domain name'"),
        (" transport input ssh", ""),
        ("crypto key generate rsa modulus 2048", "no line 'crypto key generate rsa'"),
    ],
)
def test_what_ssh_lacks(left_out, reported):
    """User, domain name and key must be there; all kinds of access are let in unless a line says less."""
    text = TEXT.replace("GigabitEthernet1", "GigabitEthernet0/0").replace(left_out, "")
    assert read_day0(text, known("iosv")).why_no_ssh == reported


def test_telnet_alone_is_no_ssh():
    """`transport input telnet` shuts SSH out, on a router that makes its key itself, too."""
    text = TEXT.replace("transport input ssh", "transport input telnet")
    assert read_day0(text, known("csr1000v")).why_no_ssh == "'transport input' without ssh"


def test_cvac_tells_what_was_refused():
    """Each refused line is told in CVAC's words, and the whole is an error, not done; the rest counts."""
    day0 = read_day0(f"foo bar\n{TEXT}", known("cat8000v"))
    assert day0.refused == ("foo bar",)
    assert day0.hostname == "branch-1"
    assert configuration_lines(day0, known("cat8000v")) == [
        "%CVAC-4-CLI_FAILURE: Configuration command failure: 'foo bar' was rejected",
        "%CVAC-3-CONFIG_ERROR: 1 error(s) while applying configs generated from file bootflash:/iosxe_config.txt",
    ]


def test_a_parser_tells_what_was_refused():
    """IOL reads a startup configuration: the line, and that it is invalid input."""
    text = TEXT.replace("GigabitEthernet1", "Ethernet0/0")
    day0 = read_day0(f"foo bar\n{text}", known("iol-xe"))
    assert configuration_lines(day0, known("iol-xe"))[::2] == ["foo bar", "% Invalid input detected at '^' marker."]


def test_strings_by_which_a_boot_is_seen():
    """A cat8000v offers its dialogue first, then tells that its configuration is applied, and to press RETURN."""
    kind = known("cat8000v")
    day0 = read_day0(TEXT, kind)
    first, last = first_lines("cat8000v", None, kind), [*configuration_lines(day0, kind), *last_lines(day0)]
    assert first[-1].startswith("Would you like to enter the initial configuration dialog?")
    assert last[0].startswith("%CVAC-4-CONFIG_DONE:")
    assert "Press RETURN to get started!" in last


def test_a_release_that_is_not_there_is_told():
    """The console says that another release is played; of the definition's own image it says nothing."""
    kind = known("csr1000v")
    reported = [
        " ".join(first_lines("csr1000v", image, kind)) for image in (None, "csr1000v-161101b", "csr1000v-17-03-08a")
    ]
    assert ["no release" in text for text in reported] == [False, False, True]
