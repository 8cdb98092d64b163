"""Which devices a command is about."""

from __future__ import annotations

import re

import pytest

from flashferry.core.errors import ConfigInvalid
from inventory.nornir_loader import open_inventory
from inventory.selection import Selection, check_known, narrowed

HOSTS = """
a1: {hostname: 192.0.2.1, groups: [north], data: {rack: 7, roles: [edge, voice], enable_secret: hidden-word}}
a2: {hostname: 192.0.2.2, groups: [north], port: 2222}
b1: {hostname: 192.0.2.3, groups: [south], data: {rack: 7, spare: true}}
"""
GROUPS = """
all: {platform: ios}
north: {groups: [all], data: {site: oslo}}
south: {groups: [all], data: {site: rome}}
"""


@pytest.fixture
def nornir(tmp_path):
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    (tmp_path / "groups.yaml").write_text(GROUPS)
    return open_inventory(tmp_path)


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(), "a1 a2 b1"),
        (Selection(hosts=("a1", "b1")), "a1 b1"),
        (Selection(groups=("north",)), "a1 a2"),
        (Selection(groups=("all",)), "a1 a2 b1"),
        (Selection(groups=("north", "south"), hosts=("a2",)), "a2"),
        (Selection(filters=("site=oslo",)), "a1 a2"),
        (Selection(filters=("site=oslo", "site=rome")), "a1 a2 b1"),
        (Selection(filters=("site=oslo", "rack=7")), "a1"),
        (Selection(filters=("roles=voice",)), "a1"),
        (Selection(filters=("port=2222",)), "a2"),
        (Selection(filters=("spare=true",)), "b1"),
        (Selection(filters=("group=south", "platform=ios")), "b1"),
        (Selection(filters=("group=all",), groups=("south",)), ""),
        (Selection(filters=("name=a1",), hosts=("a1", "a2")), "a1"),
    ],
)
def test_what_fits(nornir, selection, names):
    """Values of one key are alternatives, several keys and options must all fit; nothing at all is an error."""
    if names:
        assert sorted(narrowed(nornir, selection).inventory.hosts) == names.split()
    else:
        with pytest.raises(ConfigInvalid, match="no device fits"):
            narrowed(nornir, selection)


ONE_WORD = "Write the key, '=' and the value as one word; quote it for the shell where it has blanks"
KEYS = "Filter by a key of the inventory, or give the devices that key in their data"


@pytest.mark.parametrize(
    ("selection", "sentence"),
    [
        (
            Selection(hosts=("zz",)),
            "unknown device 'zz': the inventory has a1, a2, b1. Check --host and --inventory",
        ),
        (
            Selection(groups=("west",)),
            "unknown group 'west': the inventory has all, north, south. Check --group and --inventory",
        ),
        (
            Selection(filters=("site",)),
            "--filter 'site': expected key=value, such as site=branch1. " + ONE_WORD,
        ),
        (
            Selection(filters=("siet=oslo",)),
            "--filter: no device has 'siet' (did you mean 'site'?); the inventory has rack, site. " + KEYS,
        ),
        (
            Selection(filters=("site=paris", "rack=7")),
            "--filter site=paris: no device has that site. In the inventory site is oslo or rome",
        ),
        (
            Selection(filters=("site=oslo", "site=roma")),
            "--filter site=roma: no device has that site (did you mean 'rome'?). In the inventory site is oslo or rome",
        ),
        (
            Selection(filters=("site=OSLO",)),
            "--filter site=OSLO: no device has that site (did you mean 'oslo'?). In the inventory site is oslo or rome",
        ),
        (
            Selection(filters=("site=rome", "port=2222")),
            "no device fits --filter site=rome --filter port=2222. In the inventory site is oslo or rome; port is 2222",
        ),
        (
            Selection(hosts=("a1", "b11"), groups=("north",)),
            "unknown device 'b11' (did you mean 'b1'?): the inventory has a1, a2, b1. Check --host and --inventory",
        ),
        (
            Selection(groups=("nort",)),
            (
                "unknown group 'nort' (did you mean 'north'?): the inventory has all, north, south. "
                "Check --group and --inventory"
            ),
        ),
    ],
)
def test_what_is_wrong(nornir, selection, sentence):
    """What is unknown is named with what there is, in one sentence."""
    with pytest.raises(ConfigInvalid) as caught:
        narrowed(nornir, selection)
    if "fits" not in sentence:
        with pytest.raises(ConfigInvalid, match=re.escape(str(caught.value.message))):
            check_known(nornir.inventory, selection)
    keys = "group, hostname, name, platform, port, rack, roles, site, spare"
    assert str(caught.value).replace(keys, "rack, site") == sentence


def test_secrets_are_no_filter(nornir):
    """An enable secret can neither be asked for nor be read from an error."""
    with pytest.raises(ConfigInvalid) as caught:
        narrowed(nornir, Selection(filters=("enable_secret=hidden-word", "rack=8")))
    assert "no device has 'enable_secret'" in str(caught.value)
    with pytest.raises(ConfigInvalid) as caught:
        narrowed(nornir, Selection(filters=("rack=8",)))
    assert "hidden" not in str(caught.value)
