"""Sites: what devices share, and what the inventory says of it, with errors that tell where it stands."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from inventory.host_view import HostView, view
from inventory.nornir_loader import open_inventory
from inventory.sites import rate_missing, sites_of
from inventory.time_window import TimeWindow

GROUPS = """
east:
  platform: ios
  data:
    site: east
    link_rate_bps: 20_000_000
    cap_share: 0.7
    server_address: 192.0.2.100
    max_copies: 4
    windows:
      - {days: [Mon, tue], from: 22:00, until: "5:00", timezone: Europe/Berlin}
      - {days: [sat], from: "18:00", until: "24:00", timezone: Europe/Berlin}
"""
HOSTS = """
r1: {hostname: 192.0.2.1, groups: [east], data: {vrf: Mgmt-intf, image: images/c1.bin}}
r2: {hostname: 192.0.2.2, groups: [east], data: {windows: null}}
"""


@pytest.fixture
def views(tmp_path):
    return seen(tmp_path, HOSTS, GROUPS)


def seen(folder, hosts: str, groups: str) -> dict[str, HostView]:
    (folder / "hosts.yaml").write_text(hosts)
    (folder / "groups.yaml").write_text(groups)
    return {name: view(host) for name, host in open_inventory(folder).inventory.hosts.items()}


def test_a_sites_keys_reach_the_view(views):
    """Windows, copies, image and groups of a host stand in its view, in their types."""
    r1 = views["r1"]
    assert r1.windows == (
        TimeWindow(days=("mon", "tue"), opens="22:00", closes="05:00", timezone="Europe/Berlin"),
        TimeWindow(days=("sat",), opens="18:00", closes="00:00", timezone="Europe/Berlin"),
    )
    assert (r1.max_copies, r1.image, r1.groups) == (4, "images/c1.bin", ("east",))


def test_null_lifts_a_groups_windows(views):
    """A device that may be worked on at any time says so over its group."""
    assert views["r2"].windows == ()


def test_a_site_is_what_its_devices_say(views):
    """What belongs to the link is one; a VRF that only one device needs is not the site's."""
    found = sites_of([views["r1"], replace(views["r1"], name="r3", vrf=None)])
    assert list(found) == ["east"]
    east = found["east"]
    assert (east.link_rate_bps, east.cap_share, east.max_copies, east.cap_bps) == (20e6, 0.7, 4, pytest.approx(14e6))
    assert (east.server_address, east.vrf, east.windows) == ("192.0.2.100", None, views["r1"].windows)


def test_a_device_without_a_site_is_in_none(views):
    """Its link is nobody else's, so there is nothing to share."""
    assert sites_of([replace(views["r1"], site=None)]) == {}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"link_rate_bps": None},
            "r2: data key 'link_rate_bps': expected 20000000 as r1 of the same site 'east' has it, found none",
        ),
        ({"cap_share": 0.8}, "r2: data key 'cap_share': expected 0.7 as r1 .* found 0.8"),
        ({"windows": ()}, "r2: data key 'windows': expected mon tue 22:00-05:00 Europe/Berlin, sat .* found none"),
        ({"depot": "d1"}, "r2: data key 'depot': expected none as r1 of the same site 'east' has it, found d1"),
        ({"neighbours": True}, "r2: data key 'neighbours': expected false as r1 .* found true"),
        ({"lan_rate_bps": 1e8}, "r2: data key 'lan_rate_bps': expected none as r1 .* found 100000000"),
        ({"max_copies": 5}, r"r2: data key 'max_copies': .*found 5\. Give it once, in the site's group"),
    ],
)
def test_devices_of_a_site_that_disagree_are_told(views, change, sentence):
    """Both devices, the site, the key and both values stand in one sentence."""
    r1 = views["r1"]
    with pytest.raises(ConfigInvalid, match=sentence):
        sites_of([r1, replace(r1, name="r2", **change)])


def test_a_site_without_a_rate_is_told():
    """The sentence names site and key, why it is needed, and what to do."""
    told = str(rate_missing("site 'east'", "this host's kernel grants us no BBR", "--uncapped"))
    assert told.startswith(
        "site 'east': data key 'link_rate_bps': expected the rate of the WAN link in bit/s, found none"
    )
    assert "grants us no BBR: copies would have neither a cap nor a pace" in told
    assert told.endswith("--uncapped lets them run all the same")


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ("[]", "expected at least one window, found none \\(line 1\\). Leave the key out"),
        ("5", "expected a list of windows, found 5"),
        ("[night]", "window 1: expected a mapping, found text of 5 characters"),
        ('[{from: "22:00"}]', "window 1: until: expected a time such as '05:00', found none"),
        ('[{from: 1320, until: "05:00"}]', "window 1: from: .*found a number \\(line 1\\). Put it in quotes"),
        ('[{from: "22:00", until: "05:00", day: [mon]}]', "window 1: unknown key 'day'; did you mean 'days'"),
        ('[{from: "22:00", until: "05:00", days: mon}]', "window 1: days: expected a list such as"),
        ('[{from: "22:00", until: "05:00", days: [mo]}]', "window 1: days: .*found 'mo'"),
        ('[{from: "22:00", until: "05:00", days: []}]', "window 1: days: expected at least one"),
        ('[{from: "22:00", until: "05:00", timezone: 1}]', "window 1: timezone: .*found 1"),
        ('[{from: "22:00", until: "05:00", timezone: CEST}]', "window 1: timezone: .*found text of 4 characters"),
        ('[{from: "22:00", until: "05:00"}, {from: "04:00", until: "06:00"}]', ".*which overlap"),
    ],
)
def test_wrong_windows_are_told_with_file_group_and_key(tmp_path, windows, message):
    """The group's name and file stand before the key, for that is where it must be mended."""
    groups = f"east: {{platform: ios, data: {{windows: {windows}}}}}"
    with pytest.raises(ConfigInvalid, match=rf"^east: .*groups\.yaml: data key 'windows': {message}"):
        seen(tmp_path, "r1: {hostname: h, groups: [east]}", groups)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("max_copies", "0", "expected a whole number from 1 to 10000, found 0"),
        ("max_copies", "2.5", "found 2.5"),
        ("max_copies", "true", "found True"),
        ("depot", "5", "expected the depot's host name, or its URL .*found 5"),
        ("depot", "'https://me:word@depot/'", "without a login, found text of 22 characters"),
        ("depot", "'ftp://depot'", "or its URL such as https"),
        ("depot", "'a b'", "expected the depot's host name"),
        ("lan_rate_bps", "10", "expected a number from 1000 to 1e"),
        ("neighbours", "maybe", "expected true or false, found text of 5 characters"),
        ("image", "5", "expected an image's file name .*found 5"),
        ("image", "images/", "found text of 7 characters"),
        ("image", "'a b.bin'", "found text of 7 characters with a blank"),
        ("cap_share", "2", "from 0.01 to 1, found 2"),
    ],
)
def test_a_wrong_value_of_a_group_names_group_and_file(tmp_path, key, value, message):
    """A mistake in groups.yaml is told as one, not as that of each of its hosts."""
    groups = f"east: {{platform: ios, data: {{{key}: {value}}}}}"
    with pytest.raises(ConfigInvalid, match=rf"^east: .*groups\.yaml: data key '{key}': .*{message}"):
        seen(tmp_path, "r1: {hostname: h, groups: [east]}", groups)


def test_a_wrong_default_names_its_file(tmp_path):
    """So is one in defaults.yaml."""
    (tmp_path / "defaults.yaml").write_text("data: {cap_share: 7}")
    with pytest.raises(ConfigInvalid, match=r"^defaults: .*defaults\.yaml: data key 'cap_share'"):
        seen(tmp_path, HOSTS, GROUPS)


@pytest.mark.parametrize(
    ("owner", "words"),
    [("host", ""), ("group", " of group 'east'"), ("defaults", " of the defaults")],
)
def test_a_script_of_ones_own_learns_where_the_value_stood(tmp_path, owner, words):
    """With an inventory that we did not open there is no file to name, but there is a group."""
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    (tmp_path / "groups.yaml").write_text(GROUPS)
    opened = open_inventory(tmp_path).inventory
    host = opened.hosts["r1"]
    {"host": host, "group": opened.groups["east"], "defaults": opened.defaults}[owner].data["source_interface"] = "?"
    with pytest.raises(ConfigInvalid, match=rf"^r1: data key 'source_interface'{words}: expected an interface"):
        view(host)


@pytest.mark.parametrize(
    "depot", ["depot-1.example.net", "192.0.2.9", "https://depot:8443/", "http://[2001:db8::1]:80/images/x"]
)
def test_a_sites_depot_is_a_host_or_a_url(tmp_path, depot):
    """It reaches the site by way of the group, with the LAN's rate; and neighbours are off unless said."""
    groups = f"east: {{platform: ios, data: {{site: east, depot: '{depot}', lan_rate_bps: 1_000_000_000}}}}"
    found = sites_of(seen(tmp_path, "r1: {hostname: h, groups: [east]}", groups).values())["east"]
    assert (found.depot, found.lan_rate_bps, found.neighbours) == (depot, 1e9, False)
