"""The inventory: the sample is whole, and every mistake is told with file, host and key."""

from __future__ import annotations

import pytest
from nornir.core.plugins.connections import ConnectionPluginRegister
from nornir.plugins.inventory import SimpleInventory

from flashferry.core.errors import ConfigInvalid
from flashferry.devices.platforms import NAMES
from inventory.host_view import view
from inventory.image_rules import Traits, load_image_rules
from inventory.nornir_loader import open_inventory
from inventory.selection import Selection, narrowed, sample_directory
from inventory.sites import sites_of
from tests.some import some


def fleet(folder, hosts: str, groups: str | None = None, defaults: str | None = None):
    (folder / "hosts.yaml").write_text(hosts)
    if groups is not None:
        (folder / "groups.yaml").write_text(groups)
    if defaults is not None:
        (folder / "defaults.yaml").write_text(defaults)
    return open_inventory(folder)


def one(folder, hosts: str, groups: str | None = None):
    return view(fleet(folder, hosts, groups).inventory.hosts["r1"])


def test_the_sample_fleet_is_valid():
    """Every device of the sample has a full view."""
    for host in some(open_inventory(sample_directory()).inventory.hosts.values()):
        found = view(host)
        assert found.link_rate_bps
        assert found.cap_bps == pytest.approx(found.link_rate_bps * found.cap_share)


def test_data_of_the_group_reaches_the_host(tmp_path):
    """A site is a group; its link is each member's link, and 0.8 of it may be used unless told otherwise."""
    found = one(
        tmp_path,
        "r1: {hostname: 192.0.2.1, groups: [east]}",
        "east: {platform: ios, data: {site: east, link_rate_bps: 10000000}}",
    )
    assert (found.site, found.link_rate_bps, found.cap_bps, found.port) == ("east", 10e6, 8e6, 22)


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ("r1: {platform: ios}", "r1: no 'hostname'"),
        ("r1: {hostname: 192.0.2.1}", "r1: platform: expected ios .*found none"),
        ("r1: {hostname: 192.0.2.1, platform: junos}", "found 'junos'"),
        ("r1: {hostname: h, platform: ios, data: {link_rate_bps: fast}}", "link_rate_bps.*found text of 4 characters"),
        ("r1: {hostname: h, platform: ios, data: {link_rate_bps: 5}}", "from 1000 to"),
        ("r1: {hostname: h, platform: ios, data: {cap_share: 1.5}}", "cap_share.*from 0.01 to 1"),
        ("r1: {hostname: h, platform: ios, data: {cap_share: true}}", "cap_share.*found True"),
        ("r1: {hostname: h, platform: ios, data: {site: [a]}}", "site.*expected one word"),
        ("r1: {hostname: h, platform: ios, data: {vrf: 'A\\nreload'}}", "vrf.*expected one word"),
        ("r1: {hostname: h, platform: ios, data: {source_interface: 'Gi0 x'}}", "source_interface.*an interface"),
    ],
)
def test_a_wrong_value_is_told_with_host_and_key(tmp_path, hosts, message):
    """What was expected and what was found stand in one sentence."""
    with pytest.raises(ConfigInvalid, match=message):
        one(tmp_path, hosts)


@pytest.mark.parametrize(
    ("hosts", "groups", "message"),
    [
        (
            "r1: {hostname: h, groups: [east]}",
            None,
            r"r1: .*hosts.yaml: key 'groups': group number 1: .*groups.yaml has no group",
        ),
        ("- r1", None, "hosts.yaml: expected a mapping, found a list with 1 entry"),
        ("r1: 5", None, "r1: .*expected a mapping, found 5"),
        ("r1: {hostname: [", None, "hosts.yaml line .*not valid YAML"),
        ("r1: {hostname: h}", "east: 7", "groups.yaml: expected a mapping, found 7"),
        ("r1: {hostname: h, groups: 5}", None, r"r1: .*'groups': expected a list such as \[branch\], found 5"),
        ("r1: {hostname: h, groups: branch}", None, "expected a list"),
        (
            "r1: {hostname: h}",
            "east: {groups: [west]}",
            "east: .*group number 1 is not in .*: expected east, found text of 4 characters",
        ),
        ("r1: {hostname: h, data: [1]}", None, r"r1: .*'data': expected a mapping, found a list with 1 entry"),
        ("r1: {hostname: h, connection_options: x}", None, "connection_options.*expected a mapping"),
        ("r1: {hostname: 5}", None, "r1: .*'hostname': expected text, found int.*quotes"),
        ("r1: {hostnam: h}", None, "unknown key 'hostnam'; did you mean 'hostname'"),
        ("r1: {hostname: h, port: abc}", None, "'port': expected 1 to 65535, found text of 3 characters"),
        ("r1: {hostname: h, data: {link_rate_bp: 5}}", None, "'link_rate_bp'.*did you mean 'link_rate_bps'"),
        ("7: {hostname: h}", None, "expected a name in text, found 7"),
    ],
)
def test_a_broken_file_is_told_by_name(tmp_path, hosts, groups, message):
    """The file, and the line where the parser knows it, are in the error."""
    with pytest.raises(ConfigInvalid, match=message):
        fleet(tmp_path, hosts, groups)


def test_a_missing_folder_names_the_file_expected(tmp_path):
    """The way out is in the sentence."""
    with pytest.raises(ConfigInvalid, match=r"hosts.yaml.*--inventory"):
        open_inventory(tmp_path / "nowhere")


def test_no_log_file_is_left_in_the_current_folder(tmp_path, monkeypatch):
    """Nornir's own logging stays off."""
    monkeypatch.chdir(tmp_path)
    open_inventory(sample_directory())
    assert list(tmp_path.iterdir()) == []


def test_a_secret_of_the_wrong_kind_is_not_shown(tmp_path):
    """A password of digits without quotes is told by its key, never by its value."""
    with pytest.raises(ConfigInvalid, match="'password': expected text, found int") as caught:
        fleet(tmp_path, "r1: {hostname: h, password: 12345678}")
    assert "12345678" not in str(caught.value)


def test_defaults_of_the_wrong_shape_are_told(tmp_path):
    """defaults.yaml is checked like a host."""
    with pytest.raises(ConfigInvalid, match=r"defaults.yaml: key 'data': expected a mapping"):
        fleet(tmp_path, "r1: {hostname: h}", defaults="data: 5")


def test_users_own_data_is_left_alone(tmp_path):
    """Data keys that are not ours belong to the user."""
    fleet(tmp_path, "r1: {hostname: h, platform: ios, data: {rack: 7, role: [edge]}}")


def test_opening_brings_no_connection_of_another_package(tmp_path, monkeypatch):
    """Where Nornir's tasks for netmiko and NAPALM are installed, a verb that logs in nowhere does not load them."""
    monkeypatch.setattr(ConnectionPluginRegister, "auto_register", lambda: pytest.fail("all connections are loaded"))
    open_inventory(sample_directory())


def test_the_sample_fleet_of_several_sites_holds_together():
    """Its sites agree, its image rules are valid, and its lab router stands apart from the site of its group."""
    folder = sample_directory().parent / "sample_fleet"
    found = {name: view(host) for name, host in open_inventory(folder).inventory.hosts.items()}
    sites = sites_of(found.values())
    assert {name: (site.link_rate_bps, site.cap_share, site.max_copies) for name, site in sites.items()} == {
        "oslo": (100e6, 0.7, 8),
        "tromso": (10e6, 0.5, 1),
        "lisbon": (50e6, 0.7, None),
    }
    assert all(site.windows for site in some(sites.values()))
    assert (found["osl-lab1"].site, found["osl-lab1"].windows, found["osl-lab1"].groups[0]) == (None, (), "oslo")
    rules = load_image_rules(folder / "images.yaml", NAMES)
    older = Traits(platform="ios-xe", model="ISR4331/K9", version="16.12.5")
    assert rules.choose(older).image == "isr4300-universalk9.17.09.04a.SPA.bin"


HOSTS = """
r1:
  {hostname: h, port: 2222, username: u, password: p, groups: [east, core], data: {rack: 7},
   connection_options: {netmiko: {port: 22, extras: {conn_timeout: 3}}}}
r2: {}
"""
GROUPS = """
east: {groups: [all], data: {site: east}}
core: {}
all: {platform: ios, connection_options: {napalm: {username: n}}}
"""
DEFAULTS = "{username: d, data: {cap_share: 0.5}, connection_options: {netmiko: {platform: cisco_xe}}}"


def test_what_is_opened_is_what_nornir_would_open(tmp_path):
    """The files are parsed once, by us; the outcome is that of Nornir's own SimpleInventory, inheritance included."""
    ours = fleet(tmp_path, HOSTS, GROUPS, DEFAULTS).inventory
    names = ("hosts.yaml", "groups.yaml", "defaults.yaml")
    theirs = SimpleInventory(*(str(tmp_path / name) for name in names)).load()
    assert ours.dict() == theirs.dict()
    for name, host in some(ours.hosts.items()):
        their = theirs.hosts[name]
        assert [group.name for group in host.extended_groups()] == [one.name for one in their.extended_groups()]
        assert host.extended_data() == their.extended_data()
        for kind in ("netmiko", "napalm", None):
            assert host.get_connection_parameters(kind).dict() == their.get_connection_parameters(kind).dict()


def test_a_wrong_connection_option_is_told_without_its_value(tmp_path):
    """It could be a password."""
    with pytest.raises(
        ConfigInvalid, match="connection_options: netmiko: expected a mapping, found text of 11 characters"
    ) as caught:
        fleet(tmp_path, "r1: {hostname: h, connection_options: {netmiko: hidden-word}}")
    assert "hidden-word" not in str(caught.value)


def test_options_of_a_connection_that_are_text_are_told_without_it(tmp_path):
    """A whole line behind `optional_args:` is a slip, and may hold a secret."""
    with pytest.raises(ConfigInvalid, match="key 'optional_args': expected a mapping, found text of") as caught:
        fleet(tmp_path, "r1: {hostname: h, connection_options: {napalm: {extras: {optional_args: 'secret hidden-w'}}}}")
    assert "hidden-w" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        *("ios", "cisco_ios", "cisco_xe", "cisco_iosxe", "iosxe", "ios-xe", "ios_xe", "IOS-XE", "Cisco IOS-XE"),
        *("cisco_ios_ssh", "cisco_xe_ssh", "cisco.ios.ios"),
    ],
)
def test_a_device_is_an_ios_device_by_whatever_name_a_tool_has_for_it(tmp_path, name):
    """NAPALM, netmiko, scrapli, Genie and Ansible share an inventory; filters find it by both names."""
    opened = fleet(tmp_path, f"r1: {{hostname: 192.0.2.1, platform: '{name}'}}")
    assert view(opened.inventory.hosts["r1"]).platform == "ios"
    for asked in ("ios", name):
        assert list(narrowed(opened, Selection(filters=(f"platform={asked}",))).inventory.hosts) == ["r1"]


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("cisco_nxos", "stages to no others"),
        ("iosxr", "stages to no others"),
        ("cisco_ios_telnet", "by SSH only"),
        ("", "Give it in hosts.yaml"),
    ],
)
def test_another_platform_is_refused_with_a_way_out(tmp_path, name, way_out):
    """One sentence names those that count, what was found, and what to do."""
    opened = fleet(tmp_path, f"r1: {{hostname: 192.0.2.1, platform: '{name}'}}")
    with pytest.raises(ConfigInvalid) as refused:
        view(opened.inventory.hosts["r1"])
    told = str(refused.value)
    assert "r1: platform: expected ios or cisco_ios or cisco_xe or cisco_iosxe or iosxe" in told
    assert f"found {name!r}" in told if name else "found none" in told
    assert way_out in told


def test_a_view_is_made_once_and_anew_when_its_host_changes(tmp_path):
    """A copy asks for it a dozen times; what was changed in between counts, and a filter does not see the kept one."""
    data = "{depot: depot1, lan_rate_bps: 10_000_000}"
    nornir = fleet(tmp_path, f"r1: {{hostname: 192.0.2.1, platform: ios, data: {data}}}")
    host = nornir.inventory.hosts["r1"]
    first = view(host)
    assert view(host) is first
    host.data |= {"depot": None, "link_rate_bps": host.get("lan_rate_bps")}
    assert (view(host).depot, view(host).link_rate_bps) == (None, 10_000_000)
    host.hostname = "192.0.2.9"
    assert view(host).address == "192.0.2.9"
    with pytest.raises(ConfigInvalid, match="no device has 'flashferry_view'"):
        narrowed(nornir, Selection(filters=("flashferry_view=x",)))
