"""`nightly.yaml` is read: every key checked, every complaint one sentence with file, key, line, expected and found."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Interface

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.backend import LinkCondition
from flashferry.nightly.description.reading import SECTIONS, load_description
from flashferry.nightly.description.values import LoginFrom, LoginSource, ReachBy
from flashferry.nightly.night import PRODUCT_STEPS, NightLimits, NightSettings, NodeLogin, StepName
from flashferry.nightly.thresholds import judges
from flashferry.reports.thresholds import THRESHOLDS, Threshold
from tests.unit.nightly.describing import ABSENT, described, written

CONDITION = "topology.sites.0.condition"


def test_what_is_left_out_is_as_usual(tmp_path):
    """A controller, sites, an image and a folder are enough."""
    found = described(tmp_path)
    assert found.controller.host == "cml.example.net"
    assert found.devices == LoginSource(source=LoginFrom.GENERATED)
    assert found.topology.sites[0].condition == LinkCondition(bandwidth_kbps=50000, latency_ms=50, loss_percent=0.01)
    assert (found.work.does, found.work.copies, found.limits) == (PRODUCT_STEPS, 5, NightLimits())
    assert (found.artefacts.folder, found.artefacts.keep_nights) == (tmp_path / "nights", 60)
    assert found.reach.by is ReachBy.BRIDGE
    login = NodeLogin(username="u", password="p")
    assert found.settings(login) == NightSettings(image=tmp_path / "image.bin", login=login)


def test_everything_that_is_said_counts(tmp_path):
    """Each key comes to its value, in the units of the code."""
    found = described(
        tmp_path,
        {
            "reach": {"addresses": [f"192.0.2.{n}/24" for n in range(4, 8)], "gateway": "192.0.2.1"},
            "night": {
                "image": "image.bin",
                "does": ["recover", "probe"],
                "copies": 3,
                "probe_seconds": 2.5,
                "transport": "http",
                "options": ["--port", "2121"],
                "needs_kbps": 50000,
            },
            "thresholds": {"min_gain": 2},
            "limits": {"whole_minutes": 10, "start_minutes": 0.5},
            "inventory": {"vrf": "Mgmt-intf", "clear_text": True},
        },
    )
    assert found.reach.pool[0] == IPv4Interface("192.0.2.4/24")
    assert found.reach.gateway == IPv4Address("192.0.2.1")
    assert found.thresholds == (Threshold(name="min_gain", limit=2.0),)
    # What was not said and is longer than the night is as long as the night.
    assert (found.limits.whole_s, found.limits.start_s, found.limits.product_s) == (600, 30, 600)
    made = found.settings(NodeLogin(username="u", password="p"))
    assert made.does == (StepName.PROBE, StepName.RECOVER), "the product's order holds, whatever the list's"
    assert (made.copies, made.probe_seconds, made.transport, made.target_bps) == (3, 2.5, "http", 50_000_000)
    assert made.options == ("--port", "2121")
    assert made.inventory_data == {"vrf": "Mgmt-intf", "clear_text": True}


WRONG = {
    "an unknown key": (
        {f"{CONDITION}.bandwith_kbps": 1},
        r"unknown key 'bandwith_kbps'; did you mean 'bandwidth_kbps'",
    ),
    "an unknown section": ({"topologie": {}}, r"unknown key 'topologie'; did you mean 'topology' \(line \d+\)\?"),
    "a password": ({"controller.password": "hunter22"}, r"key 'controller': unknown key"),
    "no image": ({"night.image": ABSENT}, r"key 'night.image': expected a file, found none"),
    "an image that is not there": ({"night.image": "no.bin"}, r"found none at .*no.bin: No such file"),
    "no lab": ({"topology": ABSENT}, r"key 'topology': expected a mapping, found none"),
    "http": ({"controller.url": "http://cml"}, r"expected the controller's https:// address, found http://"),
    "no address": ({"controller.url": "cml.example.net"}, r"https:// address, found text of 15 characters"),
    "a login in the address": ({"controller.url": "https://ann:hunter22@cml"}, r"found a login in it"),
    "a path in the address": ({"controller.url": "https://cml/api/v0"}, r"without a path, found one after the host"),
    "a port that is none": ({"controller.url": "https://cml:x"}, r"found text|found no URL"),
    "no controller": ({"controller": ABSENT}, r"key 'controller': expected a mapping, found none"),
    "no authority": ({"controller.ca_file": "no.pem"}, r"key 'controller.ca_file': .*found none at .*no.pem"),
    "an authority that is none": (
        {"controller.ca_file": "image.bin"},
        r"certificates of authorities in PEM, found others",
    ),
    "a command without one": (
        {"controller.login": "command"},
        r"expected a command beside 'login: command', found none",
    ),
    "a command nobody asks": ({"devices.login_command": "x"}, r"expected none, found one beside 'login: generated'"),
    "a keyring without a user": ({"controller.login": "keyring"}, r"expected the user beside 'login: keyring'"),
    "an unknown source": ({"controller.login": "vault99x"}, r"environment, keyring or command, found text of 8"),
    "a login like one": ({"controller.login": "keyrings"}, r"environment, keyring or command, found 'keyrings'"),
    "half a millisecond": ({f"{CONDITION}.latency_ms": 0.5}, r"whole number of ms from 0 to 10000, found 0.5"),
    "a rate in words": ({f"{CONDITION}.bandwidth_kbps": "50 M"}, r"kbit/s from 0 to 10000000, found text of 4 charac"),
    "too much loss": ({f"{CONDITION}.loss_percent": 100.5}, r"percent from 0 to 100, found 100.5"),
    "an unknown definition": (
        {"topology.sites.0.nodes.0.node_definition": "cat8000"},
        r"'topology.sites\[0\].nodes\[0\].node_definition': expected one of iosv, .*, found 'cat8000'",
    ),
    "no routers": ({"topology.sites.0.nodes": []}, r"a list with at least one entry, found an empty list"),
    "a count of none": ({"topology.sites.0.nodes.0.count": 0}, r"whole number from 1 to 64, found 0"),
    "a site twice": ({"topology.sites.1.name": "branch"}, r"expected each site once, found 'branch' twice"),
    "a schema of our own": ({"topology.schema": "1.0"}, r"expected one of 0.2.1, 0.2.2, 0.3.0"),
    "sites and a file": ({"topology.file": "image.bin"}, r"either 'sites' or 'file', found both"),
    "neither": ({"topology": {"schema": "0.3.0"}}, r"either 'sites' or 'file', found neither"),
    "routers of no file": ({"topology.routers": ["x"]}, r"expected none beside 'sites', found some"),
    "too few addresses": ({"reach.addresses": ["192.0.2.4/24"]}, r"each of the 4 routers, found 1"),
    "an address twice": ({"reach.addresses": ["192.0.2.4/24"] * 2}, r"found '192.0.2.4' twice"),
    "an address without prefix": ({"reach.addresses": ["192.0.2.4"]}, r"IPv4 address with its prefix"),
    "an address that is none": ({"reach.addresses": ["192.0.2.400/24"]}, r"IPv4 address with its prefix"),
    "a gateway elsewhere": (
        {"reach": {"addresses": [f"192.0.2.{n}/24" for n in range(4, 8)], "gateway": "198.51.100.1"}},
        r"expected an address of 192.0.2.0/24, found 198.51.100.1",
    ),
    "a gateway beside DHCP": ({"reach.gateway": "192.0.2.1"}, r"expected none where routers have theirs by DHCP"),
    "static without addresses": ({"reach.by": "static"}, r"expected addresses by router beside 'by: static'"),
    "ports beyond the last": (
        {"reach": {"by": "patty", "first_port": 65533}},
        r"at most 65532 for 4 routers, found 65533",
    ),
    "a resume of nothing": ({"night.does": ["check", "resume"]}, r"expected kill where resume is"),
    "an unknown step": ({"night.does": ["prob"]}, r"does\[0\]': expected check, probe, .*, found 'prob'"),
    "a step twice": ({"night.does": ["probe", "probe"]}, r"found 'probe' twice"),
    "a digest that is none": ({"night.md5": "12"}, r"MD5 of 32 hexadecimal digits"),
    "a share above 1": ({"thresholds.tuned_share_of_cap": 70}, r"above 0, at most 1, found 70"),
    "no share": ({"thresholds.tuned_share_of_cap": 0}, r"above 0, at most 1, found 0"),
    "a duration, which no copy tells": ({"thresholds.max_minutes": 30}, r"max_minutes': expected one of .*min_gain"),
    "a share sent again": ({"thresholds.max_retransmitted_share": 0.02}, r"found one that no copy of a night measures"),
    "an unknown threshold": ({"thresholds.min_gains": 2}, r"unknown key 'min_gains'; did you mean 'min_gain'"),
    "a step beyond the night": ({"limits": {"whole_minutes": 5, "start_minutes": 6}}, r"at most the 5 min .*, found 6"),
    "no time": ({"limits.whole_minutes": 0}, r"minutes above 0, at most 1440, found 0"),
    "a word for yes": ({"inventory.clear_text": 3}, r"key 'inventory.clear_text': expected true or false, found 3"),
    "what the night decides": ({"inventory.site": "x"}, r"key 'inventory': unknown key"),
    "a list in a mapping's place": ({"night": []}, r"key 'night': expected a mapping, found an empty list"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_a_sentence(tmp_path, case):
    """With the file, the key, what was expected and found, the line, and what to do; and no secret."""
    changes, said = WRONG[case]
    path = written(tmp_path, changes)
    with pytest.raises(ConfigInvalid) as wrong:
        load_description(path)
    told = str(wrong.value)
    assert re.search(said, told), told
    assert told.startswith(f"{path}: ")
    assert wrong.value.hint
    assert "hunter22" not in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({f"{CONDITION}.latency_ms": 0.5}, "latency_ms: 0.5"),
        ({"topology.sites.0.nodes.1.node_definition": "iosvl2"}, "- node_definition: iosvl2"),
        ({"topology.sites.1.nodes.0.counts": 3}, "counts: 3"),
        ({"night.does": ["check", "probes"]}, "- probes"),
        ({"reach.by": "static"}, "reach:"),
    ],
)
def test_the_line_is_that_of_the_key(tmp_path, changes, line):
    """In lists too; of a key that is missing it is that of the mapping that lacks it."""
    path = written(tmp_path, changes)
    with pytest.raises(ConfigInvalid) as wrong:
        load_description(path)
    number = int(re.search(r"\(line (\d+)\)", str(wrong.value))[1])
    assert path.read_text().splitlines()[number - 1].strip() == line


def test_without_a_file_it_says_how_to_begin(tmp_path):
    """A wrong path is no empty description."""
    with pytest.raises(ConfigInvalid, match="found no file") as wrong:
        load_description(tmp_path / "n.yaml")
    assert "flashferry nightly init" in wrong.value.hint


def test_only_iol_routers_take_no_image(tmp_path):
    """A night that stages to routers that boot no image from flash would prove nothing."""
    only = {"topology.sites.0.nodes": [{"node_definition": "iol-xe"}]}
    with pytest.raises(ConfigInvalid, match="neither stage nor kill where all routers are iol-xe"):
        described(tmp_path, only)
    assert described(tmp_path, {**only, "night.does": ["check", "probe"]}).work.does[-1] is StepName.PROBE


def test_a_topology_of_ones_own_needs_its_login(tmp_path):
    """A password that is made for the night is in no configuration of the user's."""
    own = {"topology": {"file": "image.bin"}}
    with pytest.raises(ConfigInvalid, match=r"beside 'topology.file', found generated"):
        described(tmp_path, own)
    assert described(tmp_path, {**own, "devices.login": "environment"}).topology.file == tmp_path / "image.bin"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("conditions")


@settings(max_examples=40, deadline=None)
@given(
    bandwidth=st.integers(-5, 10_000_005),
    latency=st.integers(-5, 10_005),
    jitter=st.integers(-5, 10_005),
    loss=st.floats(-1, 101, allow_nan=False),
)
@example(bandwidth=10_000_000, latency=10_000, jitter=10_000, loss=100.0)
@example(bandwidth=0, latency=0, jitter=0, loss=0.0)
@example(bandwidth=10_000_001, latency=0, jitter=0, loss=0.0)
def test_a_condition_holds_or_is_refused_by_its_bounds(folder, bandwidth, latency, jitter, loss):
    """Within the controller's bounds it is taken as it is; a value outside is named with its bounds."""
    values = {"bandwidth_kbps": bandwidth, "latency_ms": latency, "jitter_ms": jitter, "loss_percent": loss}
    most = {"bandwidth_kbps": 10_000_000, "latency_ms": 10_000, "jitter_ms": 10_000, "loss_percent": 100}
    path = written(folder, {CONDITION: values})
    outside = [name for name, value in values.items() if not 0 <= value <= most[name]]
    if not outside:
        assert load_description(path).topology.sites[0].condition == LinkCondition(**values)
        return
    with pytest.raises(ConfigInvalid, match=rf"condition\.{outside[0]}': expected .* from 0 to {most[outside[0]]}"):
        load_description(path)


@pytest.mark.parametrize("value", [True, None, "5", 1e400, float("nan"), [], {}])
def test_a_bandwidth_is_a_number(tmp_path, value):
    """Neither true nor a text passes for one; what is left empty is the default."""
    path = written(tmp_path, {f"{CONDITION}.bandwidth_kbps": value})
    if value is None:
        assert load_description(path).topology.sites[0].condition.bandwidth_kbps == 0
    else:
        with pytest.raises(ConfigInvalid, match="bandwidth_kbps"):
            load_description(path)


def test_every_key_says_what_it_is_for():
    """The documentation's table is made of it."""
    keys = [key for section in SECTIONS.values() for key in section]
    assert [key.name for key in keys if not key.says or not key.values] == []
    assert {key.name for key in SECTIONS["thresholds"]} == {name for name in THRESHOLDS if judges(name)}
