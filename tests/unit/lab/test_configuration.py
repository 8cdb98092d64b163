"""A configuration is state: what is set and taken out again leaves it as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.lab.standin.config_rules import GLOBAL, Place, apply, tree_of
from flashferry.lab.standin.configuration import Configuration, decode7, encode7, hash9, matches9, parse_configuration
from flashferry.lab.standin.grammar import Matched, match
from flashferry.lab.standin.platform import load_platform


def _fresh() -> Configuration:
    return load_platform("csr1000v-16.11").configuration(serial="9ABC", address="198.18.1.11")


def _type(configuration: Configuration, *lines: str, section: str = "", mode: str = "config") -> None:
    for line in lines:
        found = match(tree_of(mode), line)
        assert isinstance(found, Matched), (line, found)
        apply(configuration, found, Place(mode=mode, lines=(section,)) if section else GLOBAL)


def test_the_stock_configuration_reads_like_one() -> None:
    """It begins with the version, ends with end, has no marks, and fits about a hundred lines."""
    text = _fresh().render()
    assert text.startswith("version 16.11\nservice timestamps")
    assert text.endswith("\n!\nend\n")
    assert "!@" not in text
    assert "\n\n" not in text
    assert 80 < text.count("\n") < 140


def test_tcp_lines_stand_behind_forward_protocol() -> None:
    """Their place and order do not depend on the order in which they are typed (16.x configurations)."""
    configuration = _fresh()
    _type(configuration, "ip tcp window-size 2500000", "ip tcp selective-ack", "ip tcp synwait-time 10")
    block = (
        "\nip forward-protocol nd\nip tcp selective-ack\nip tcp synwait-time 10\nip tcp window-size 2500000\nno ip http"
    )
    assert block in configuration.render()


TCP_LINES = (
    "ip tcp window-size 65535", "ip tcp window-size 2500000", "ip tcp selective-ack", "ip tcp timestamp",
    "ip tcp path-mtu-discovery", "ip tcp path-mtu-discovery age-timer 20", "ip tcp synwait-time 5",
    "ip tcp queuemax 50", "ip tcp mss 1400", "ip ftp passive", "no ip ftp passive", "file prompt quiet",
    "file prompt noisy", "file prompt alert", "ip ftp source-interface GigabitEthernet1",
    "ip http client source-interface GigabitEthernet1", "ip http client connection timeout 60",
    "ip http client connection timeout 10", "ip http client connection forceclose", "ip http client username bob",
    "ip http client password 7 0508571C22431F5B4A",
)  # fmt: skip


@given(st.lists(st.sampled_from(TCP_LINES)), st.lists(st.sampled_from(TCP_LINES)))
def test_restore_is_exact_from_any_start(before: list[str], tuned: list[str]) -> None:
    """Whatever lines there were, taking out what was set and typing the old lines gives the very same text."""
    configuration = _fresh()
    _type(configuration, *before)
    start = configuration.render()
    kinds = ("ip tcp", "no ip ftp", "ip ftp", "ip http client", "file prompt")
    old = [line for line in start.splitlines() if line.startswith(kinds)]
    _type(configuration, *tuned)
    for line in tuned:
        _type(configuration, "default " + line.removeprefix("no "))
    _type(configuration, *old)
    assert configuration.render() == start


@pytest.mark.parametrize(
    ("typed", "undone"),
    [
        ("ip tcp window-size 65536", "no ip tcp window-size"),
        ("ip tcp window-size 65536", "no ip tcp window-size 131072"),
        ("ip tcp window-size 65536", "default ip tcp window-size"),
        ("ip tcp path-mtu-discovery age-timer infinite", "no ip tcp path-mtu-discovery"),
        ("file prompt quiet", "no file prompt quiet"),
        ("file prompt quiet", "file prompt alert"),
        ("no ip ftp passive", "ip ftp passive"),
        ("no ip ftp passive", "default ip ftp passive"),
        ("ip http server", "no ip http server"),
        ("ip http client source-interface GigabitEthernet1", "no ip http client source-interface"),
        ("ip http client connection idle timeout 20", "no ip http client connection idle timeout"),
        ("ip http client password letters9", "no ip http client password"),
        ("ip host depot 198.18.0.1", "no ip host depot 198.18.0.1"),
        ("ip host depot 198.18.0.1", "no ip host depot"),
        ("ip http server", "default ip http server"),
        ("no ip domain lookup", "no ip domain lookup"),
        ("username bob privilege 1 secret x", "no username bob"),
        ("ip route 10.0.0.0 255.0.0.0 Null0", "no ip route 10.0.0.0 255.0.0.0 Null0"),
        ("interface Loopback0", "no interface Loopback0"),
        ("vrf definition Mgmt", "no vrf definition Mgmt"),
    ],
)
def test_each_form_undoes_its_line(typed: str, undone: str) -> None:
    """`no`, `no` with another value, and `default` bring the stock text back."""
    configuration = _fresh()
    _type(configuration, typed, undone)
    assert configuration.render() == _fresh().render()


def test_a_value_replaces_the_one_before() -> None:
    """There is one line per key, and users are told apart by their name."""
    configuration = _fresh()
    _type(configuration, "ip tcp window-size 65535", "ip tcp window-size 65536")
    assert configuration.value("ip tcp window-size") == "65536"
    assert configuration.render().count("ip tcp window-size") == 1
    _type(configuration, "username a privilege 1 secret x", "username b secret y", "username a secret z")
    assert [line.text.split()[1] for line in configuration.lines() if line.text.startswith("username")] == ["a", "b"]


def test_lines_of_an_interface_keep_their_order() -> None:
    """Description stands before the address, however they are typed; `no ip address` is a line."""
    configuration = _fresh()
    section = {"section": "interface GigabitEthernet2", "mode": "config-if"}
    _type(configuration, "ip address 192.0.2.1 255.255.255.0", "no shutdown", "description to nowhere", **section)
    lines = ["description to nowhere", "ip address 192.0.2.1 255.255.255.0", "negotiation auto"]
    assert [child.text for child in configuration.find("interface GigabitEthernet2").children] == lines
    _type(configuration, "no ip address", "shutdown", "no description", **section)
    assert configuration.render() == _fresh().render()


def test_lines_without_a_place_go_where_the_star_is() -> None:
    """An unforeseen kind of line is kept, and can be taken out."""
    configuration = _fresh()
    _type(configuration, "alias exec x show version")
    assert "\nalias exec x show version\n" in configuration.render()
    _type(configuration, "no alias exec x show version")
    assert configuration.render() == _fresh().render()


def test_secrets_are_shown_hashed() -> None:
    """The plain secret is in no line; type 7 can be read back, type 9 only compared."""
    configuration = _fresh()
    _type(
        configuration,
        "enable secret opensesame",
        "username bob privilege 15 secret 0 opensesame",
        "ip ftp password opensesame",
    )
    assert "opensesame" not in configuration.render()
    assert decode7(configuration.value("ip ftp password").split()[1]) == "opensesame"
    assert matches9("opensesame", configuration.value("enable secret").split()[1])
    assert not matches9("opensesamE", configuration.value("enable secret").split()[1])
    before = configuration.render()
    _type(configuration, *(line for line in before.splitlines() if line.startswith(("enable", "ip ftp"))))
    assert configuration.render() == before


def test_known_password_forms() -> None:
    """The published examples of type 7 come out, and odd forms are refused."""
    assert encode7("cisco", start=2) == "02050D480809"
    assert decode7("02050D480809") == "cisco"
    with pytest.raises(ValueError, match="hex"):
        decode7("02XX")
    assert not matches9("x", "$5$abc")
    assert hash9("x", "0123456789abcd") == hash9("x", "0123456789abcd")


def test_a_bad_configuration_file_is_refused() -> None:
    """A section line without a section, or no place for the rest, is an error."""
    with pytest.raises(ValueError, match="no section above"):
        parse_configuration(" shutdown\n!@ *\n")
    with pytest.raises(ValueError, match=r"!@ \*"):
        parse_configuration("hostname x\n")
