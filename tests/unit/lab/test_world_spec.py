"""World files: what they say becomes a world, and what is wrong is named by file, key and what is allowed."""

from pathlib import Path

import pytest

from flashferry.core.values import replace
from flashferry.lab.authority import Authority
from flashferry.lab.errors import LabError, data_names
from flashferry.lab.link import load_profile
from flashferry.lab.world_spec import (
    Addressing,
    DepotPlace,
    DepotSpec,
    DeviceSpec,
    SiteSpec,
    WorldSpec,
    load_world,
    settle,
)
from tests.some import some

GOOD = """
description = "for a test"
seed = 7

[[sites]]
name = "north"
link = "lan"

[[sites.devices]]
name = "n1"
platform = "csr1000v-16.11"
address = "198.18.1.40"
privilege = 1
config = ["ip tcp window-size 65535"]
refused_commands = ["reload"]
extended_passive = true
receiver = "published"

[[sites.devices]]
name = "n-spare"
count = 2

[[sites]]
name = "south"

[sites.link]
profile = "published"
delay_ms = 10

[sites.link.to_core]
rate_kbit_s = 1000

[[sites.devices]]
name = "s1"
"""


def _load(tmp_path: Path, text: str, **more: int) -> WorldSpec:
    path = tmp_path / "w.toml"
    path.write_text(text)
    return load_world(str(path), **more)


def test_a_world_file_becomes_a_world(tmp_path: Path) -> None:
    """Sites, links with what differs from their profile, devices one by one or by count."""
    spec = _load(tmp_path, GOOD)
    assert spec.seed == 7
    north, south = spec.sites
    assert [device.name for device in north.devices] == ["n1", "n-spare1", "n-spare2"]
    assert north.devices[0] == DeviceSpec(
        name="n1", address="198.18.1.40", privilege=1, config_lines=("ip tcp window-size 65535",),
        refused_commands=("reload",), extended_passive=True, receiver="published",
    )  # fmt: skip
    assert (north.devices[1].refused_commands, north.devices[1].extended_passive) == ((), None)
    assert north.devices[1].receiver == "optimistic"
    assert north.profile == load_profile("lan")
    assert south.profile.rtt_s == pytest.approx(0.02)
    assert (south.profile.to_site.rate_bps, south.profile.to_core.rate_bps) == (50e6, 1e6)
    assert _load(tmp_path, GOOD, seed=9).seed == 9


def test_a_link_may_be_a_file_beside_the_world(tmp_path: Path) -> None:
    """A relative path starts at the world file's folder."""
    (tmp_path / "mine.toml").write_text('source = "a test"\ndelay_ms = 3\nrate_kbit_s = 9000\n')
    spec = _load(tmp_path, GOOD.replace('link = "lan"', 'link = "mine.toml"'))
    assert spec.sites[0].profile.rtt_s == pytest.approx(0.006)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'link = "lan"',
            'link = "moon"',
            r"sites\[0\]: link: expected one of .*published.*, or the path of a \.toml file; found 'moon'",
        ),
        ('"csr1000v-16.11"', '"c64"', r"w\.toml: sites\[0\]: devices\[0\]: platform: expected one of .*; found 'c64'"),
        ('link = "lan"', "", r"w\.toml: sites\[0\]: the key 'link' is missing"),
        (
            'link = "lan"',
            'lnik = "lan"',
            r"w\.toml: sites\[0\]: unknown key 'lnik'; allowed are count, depot, devices, lan, link",
        ),
        ("delay_ms = 10", "delay_ms = -1", r"w\.toml: sites\[1\]: link: delay_ms: expected a number from 0 to 10000"),
        ("delay_ms = 10", "dealy_ms = 1", r"w\.toml: sites\[1\]: link: unknown key 'dealy_ms'; allowed are .*delay_ms"),
        ('profile = "published"', "", r"sites\[1\]: link: the key 'profile' is missing"),
        ("rate_kbit_s = 1000", "rate_kbit_s = 'x'", r"sites\[1\]: link: to_core: rate_kbit_s: expected a number"),
        ("count = 2", "count = 0", r"w\.toml: sites\[0\]: devices\[1\]: count: expected a whole number from 1 to 4000"),
        ("count = 2", 'count = 2\naddress = "198.18.1.50"', r"devices\[1\]: address: expected none beside count"),
        ('"n1"', '"1n"', r"devices\[0\]: name: expected letters, digits and hyphens behind a letter, found '1n'"),
        ("privilege = 1", "privilege = 16", "privilege: expected a whole number from 0 to 15, found 16"),
        ("seed = 7", "seed = 'x'", r"w\.toml: seed: expected a whole number"),
        ("seed = 7", "sede = 7", r"w\.toml: unknown key 'sede'; allowed are description, seed, sites"),
        ("[[sites]]", "[[sites", r"w\.toml: not valid TOML: .*line"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    """File, place, key, what is allowed and what was found."""
    assert old in GOOD
    with pytest.raises(LabError, match=message):
        _load(tmp_path, GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = 1", r"sites: expected at least one table \[\[sites\]\]"),
        ('[[sites]]\nname = "a"\nlink = "lan"', r"sites\[0\]: devices: expected at least one table"),
        ("sites = 3", "sites: expected an array of tables, found 3"),
    ],
)
def test_an_empty_world_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """A world needs a site, a site needs a device."""
    with pytest.raises(LabError, match=message):
        _load(tmp_path, text)


def test_names_of_worlds_are_listed() -> None:
    """A world that is not there is answered with those that are; a file that is not there by its path."""
    with pytest.raises(LabError, match=r"'moon'; there are .*published, .*two-sites"):
        load_world("moon")
    with pytest.raises(LabError, match=r"/nowhere/w\.toml: No such file"):
        load_world("/nowhere/w.toml")


def test_the_worlds_of_the_lab_can_be_settled() -> None:
    """Every sample has addresses and links without a clash; the default one is the published path with one router."""
    for name in some(data_names("flashferry.lab.worlds")):
        assert settle(load_world(name))
    (site,) = settle(load_world("published"))
    assert site.profile == load_profile("published")
    assert [(device.name, device.address) for device in site.devices] == [("xe1", "198.18.1.11")]


def test_sites_can_be_made_by_count(tmp_path: Path) -> None:
    """Sites alike have a number each, and their devices the site's name in front, for names are unique in a world."""
    text = '[[sites]]\nname = "s"\ncount = 2\nlink = "lan"\n[[sites.devices]]\nname = "r"\ncount = 2\n'
    sites = _load(tmp_path, text).all_sites
    assert [(site.name, [one.name for one in site.devices]) for site in sites] == [
        ("s1", ["s1-r1", "s1-r2"]),
        ("s2", ["s2-r1", "s2-r2"]),
    ]
    with pytest.raises(LabError, match=r"sites\[0\]: count: expected no address"):
        _load(tmp_path, text.replace('"r"\ncount = 2', '"r"\naddress = "198.18.1.20"'))


DEPOTS = """
[[sites]]
name = "a"
link = "lan"
depot = true

[[sites]]
name = "b"
link = "published"

[sites.depot]
name = "store"
address = "198.18.2.5"

[sites.lan]
profile = "lan"
rate_kbit_s = 100000

[[sites.devices]]
name = "b1"

[[sites]]
name = "c"
link = "lan"
depot = false

[[sites.devices]]
name = "c1"
"""
DEPOTS = DEPOTS.replace("depot = true\n", "depot = true\n[[sites.devices]]\nname = 'a1'\n")


def test_a_site_may_have_a_depot(tmp_path: Path) -> None:
    """By a word or with what is its own; its line into the LAN is a link like the others, and needs a depot."""
    spec = _load(tmp_path, DEPOTS)
    assert [site.depot for site in spec.sites] == [DepotSpec(), DepotSpec(name="store", address="198.18.2.5"), None]
    a, b, c = settle(spec)
    assert (a.depot, a.lan) == (DepotPlace(name="a-depot", address="198.18.1.10"), None)
    assert b.depot == DepotPlace(name="store", address="198.18.2.5")
    assert b.lan is not None
    assert b.lan.rate_bps == 100e6
    assert (c.depot, c.lan) == (None, None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("depot = true", "depot = 1", r"w\.toml: sites\[0\]: depot: expected true or false, found 1"),
        ('name = "store"', 'nmae = "store"', r"sites\[1\]: depot: unknown key 'nmae'; allowed are address, name"),
        ('"store"', '"the store"', r"sites\[1\]: depot: name: expected letters, digits and hyphens"),
        ("depot = false", 'depot = false\nlan = "lan"', r"sites\[2\]: lan: expected none without a depot"),
        ("depot = true", 'depot = true\nlan = "moon"', r"sites\[0\]: lan: expected one of .*; found 'moon'"),
        ("rate_kbit_s = 100000", "rate = 1", r"sites\[1\]: lan: unknown key 'rate'; allowed are .*rate_kbit_s"),
        ("198.18.2.5", "198.18.1.5", r"store: address: expected one in its site's 198\.18\.2\.0/24, found"),
        ("'a1'", "'a1'\naddress = '198.18.1.10'", "a device and the depot have the address '198.18.1.10'"),
        ('"store"', '"c1"', "Two hosts have the name 'c1'"),
        ("depot = true", "count = 2\ndepot = {address = '198.18.1.5'}", r"count: expected no address in its devices"),
    ],
)
def test_a_depot_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    """By file, site and key, with what is allowed; or by the host, where its address or name will not do."""
    assert old in DEPOTS
    with pytest.raises(LabError, match=message):
        settle(_load(tmp_path, DEPOTS.replace(old, new, 1)))


def test_sites_by_count_have_a_depot_each(tmp_path: Path) -> None:
    """Each under its site's name, at its own network's tenth address."""
    text = '[[sites]]\nname = "s"\ncount = 2\nlink = "lan"\ndepot = {DEPOT}\n[[sites.devices]]\nname = "r"\n'
    for depot, names in (("true", ["s1-depot", "s2-depot"]), ('{name = "box"}', ["s1-box", "s2-box"])):
        sites = settle(_load(tmp_path, text.replace("{DEPOT}", depot)))
        assert [site.depot.name for site in sites if site.depot] == names
        assert [site.depot.address for site in sites if site.depot] == ["198.18.1.10", "198.18.2.10"]


def test_a_device_takes_no_depots_address() -> None:
    """Free addresses are given out around it, and a specification of the program's own is held to the same rules."""
    devices = (DeviceSpec(name="r1"), DeviceSpec(name="r2"))
    site = SiteSpec(name="s", profile="lan", devices=devices, depot=DepotSpec(address="198.18.1.11"))
    (settled,) = settle(WorldSpec(sites=(site,)))
    assert [device.address for device in settled.devices] == ["198.18.1.12", "198.18.1.13"]
    with pytest.raises(LabError, match="Site s: lan: expected none without a depot"):
        settle(WorldSpec(sites=(replace(site, depot=None, lan="lan"),)))


def test_the_fleets_of_the_lab_are_as_large_as_their_names_say() -> None:
    """Forty routers of several models at four sites, and two hundred at ten."""
    forty, two_hundred = load_world("fleet-40").all_sites, load_world("sites-200").all_sites
    assert (len(forty), sum(len(site.devices) for site in forty)) == (4, 40)
    assert len({device.platform for site in forty for device in site.devices}) >= 5
    names = {device.name for site in forty for device in site.devices}
    assert {"hq-csr1", "south-old-1"} <= names, "a count reads badly behind a model's own figures"
    assert (len(two_hundred), {len(site.devices) for site in two_hundred}) == (10, {20})


def test_every_site_has_a_network_of_its_own_with_room() -> None:
    """A large site gets a larger network, aligned; the next one lies behind it."""
    sizes = {"small": 5, "large": 1000, "last": 1}
    spec = WorldSpec(
        sites=tuple(
            SiteSpec(
                name=name, profile="lan", devices=tuple(DeviceSpec(name=f"{name}{i}") for i in range(count))
            )
            for name, count in sizes.items()
        )
    )  # fmt: skip
    sites = settle(spec)
    assert [site.network for site in sites] == ["198.18.1.0/24", "198.18.4.0/22", "198.18.8.0/24"]
    assert sites[1].devices[-1].address == "198.18.7.242"
    assert len({device.address for site in sites for device in site.devices}) == 1006
    moved = settle(spec, Addressing(prefix="127.30", server_address="127.0.0.1", port=2222))
    assert (moved[1].network, moved[1].devices[0].address) == ("127.30.4.0/22", "127.30.4.11")
    assert moved[0].devices[0].port == 2222


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        ((("a", "r1"), ("a", "r2")), "Two sites have the name 'a'"),
        ((("a", "r1"), ("b", "r1")), "Two devices have the name 'r1'"),
    ],
)
def test_sites_and_devices_are_told_apart_by_name(sites: tuple[tuple[str, str], ...], message: str) -> None:
    """Names are unique in a world, not only in a site."""
    spec = WorldSpec(
        sites=tuple(SiteSpec(name=a, profile="lan", devices=(DeviceSpec(name=b),)) for a, b in sites)
    )  # fmt: skip
    with pytest.raises(LabError, match=message):
        settle(spec)


def test_more_devices_than_addresses_are_refused() -> None:
    """The range for benchmarks is finite; the sentence says so before anything starts."""
    many = tuple(DeviceSpec(name=f"r{i}") for i in range(40_000))
    spec = WorldSpec(sites=tuple(SiteSpec(name=n, profile="lan", devices=many) for n in "ab"))
    with pytest.raises(LabError, match=r"no room is left in 198\.18\.0\.0/16"):
        settle(spec)


LIMITED = """
[[sites]]
name = "s"
link = "lan"

[[sites.devices]]
name = "r"
transports = ["http", "scp"]
clear_text = false
blocked_transports = ["ftp"]
control_plane_packets_per_s = 1000

[sites.devices.trustpoints]
LAB-CA = "ca.pem"
"""


def test_a_device_says_how_it_may_be_reached(tmp_path: Path) -> None:
    """What its inventory states, what is blocked, what its control plane lets in, and whom it trusts."""
    pem = Authority().pem
    (tmp_path / "ca.pem").write_text(pem)
    (device,) = _load(tmp_path, LIMITED).all_sites[0].devices
    assert (device.transports, device.clear_text) == (("http", "scp"), False)
    assert (device.blocked_transports, device.control_plane_packets_per_s) == (("ftp",), 1000)
    assert device.trustpoints == (("LAB-CA", pem),)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('["ftp"]', '["telnet"]', r"blocked_transports: expected some of ftp, http, .*; found 'telnet'"),
        ('"http", "scp"', '"htpp"', "transports: expected some of .*; found 'htpp'"),
        ("= 1000", "= 0", "control_plane_packets_per_s: expected a whole number from 1"),
        ("ca.pem", "gone.pem", "trustpoints: LAB-CA: expected a certificate in PEM, found .*gone.pem"),
        ("ca.pem", "w.toml", "trustpoint LAB-CA: expected one certificate in PEM"),
    ],
)
def test_a_limit_that_is_none_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    """By file, device and key, with what is allowed."""
    (tmp_path / "ca.pem").write_text(Authority().pem)
    (tmp_path / "w.toml").write_text("no certificate")
    with pytest.raises(LabError, match=complaint):
        _load(tmp_path, LIMITED.replace(old, new))
