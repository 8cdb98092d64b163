"""Each key of a profile and of a world, once wrong: the sentence names file, key, what is allowed and what was seen."""

import re
from pathlib import Path

import pytest

from flashferry.lab.errors import LabError
from flashferry.lab.link import KEYS, load_profile
from flashferry.lab.world_spec import load_world, settle

PROFILE = 'source = "a test"\nrate_kbit_s = 1000\ndelay_ms = 10\n'
PROFILE_KEYS = {
    "rate_kbit_s": (0.5, "a number from 1 to 1e+08"),
    "delay_ms": (10_001, "a number from 0 to 10000"),
    "jitter_ms": (-1, "a number from 0 to 10000"),
    "loss_percent": (101, "a number from 0 to 100"),
    "burst_enter_percent": (-0.1, "a number from 0 to 100"),
    "burst_leave_percent": (0, "a number from 0.0001 to 100"),
    "burst_loss_percent": (100.5, "a number from 0 to 100"),
    "policer_kbit_s": (0.1, "a number from 1 to 1e+08"),
    "policer_burst_bytes": (1499, "a whole number from 1500 to 1000000000"),
    "queue_packets": (-1, "a whole number from 1 to 1000000"),
    "queue_bytes": (1.5, "a whole number from 1500 to 1000000000"),
}

WORLD = """
[[sites]]
name = "north"
link = "lan"
[[sites.devices]]
name = "n1"
"""


def _write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_the_table_has_every_key() -> None:
    """A new figure of a link gets its row here."""
    assert set(PROFILE_KEYS) == set(KEYS)


def _with(key: str, value: object, *, way: str | None = None) -> str:
    """Return the profile with a figure replaced, for both directions or for one."""
    lines = [line for line in PROFILE.splitlines() if way or not line.startswith(f"{key} ")]
    return "\n".join([*lines, *([f"[{way}]"] if way else []), f"{key} = {value}", ""])


@pytest.mark.parametrize("key", PROFILE_KEYS)
@pytest.mark.parametrize("way", [None, "to_site", "to_core"])
def test_a_figure_out_of_range(tmp_path: Path, key: str, way: str | None) -> None:
    """In a profile, for both directions or one of them."""
    value, allowed = PROFILE_KEYS[key]
    path = _write(tmp_path, "mine.toml", _with(key, value, way=way))
    place = f"{path}: {way}" if way else path
    with pytest.raises(LabError, match=re.escape(f"{place}: {key}: expected {allowed}, found {value}.")):
        load_profile(path)


@pytest.mark.parametrize("key", PROFILE_KEYS)
@pytest.mark.parametrize("value", ['"fast"', "true", "[1]", "nan"])
def test_a_figure_of_the_wrong_kind(tmp_path: Path, key: str, value: str) -> None:
    """Text, true, a list and not-a-number are no figures."""
    path = _write(tmp_path, "mine.toml", _with(key, value))
    with pytest.raises(LabError, match=rf"{re.escape(path)}: {key}: expected a (whole )?number from .*, found "):
        load_profile(path)


@pytest.mark.parametrize("key", PROFILE_KEYS)
def test_a_figure_of_a_worlds_own_link(tmp_path: Path, key: str) -> None:
    """What a world changes of a profile is held to the same bounds, and named by its place in the world."""
    value, allowed = PROFILE_KEYS[key]
    link = f'[sites.link]\nprofile = "lan"\n{key} = {value}\n'
    path = _write(tmp_path, "w.toml", WORLD.replace('link = "lan"\n', "") + link)
    expected = f"{path}: sites[0]: link: {key}: expected {allowed}, found {value}."
    with pytest.raises(LabError, match=re.escape(expected)):
        load_world(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate_kbit_s = 1000\ndelay_ms = 1", "the key 'source' is missing"),
        ('source = "x"\ndelay_ms = 1', "the key 'rate_kbit_s' is missing"),
        ('source = "x"\nrate_kbit_s = 1000', "the key 'delay_ms' is missing"),
        ("source = 7\nrate_kbit_s = 1000\ndelay_ms = 1", "source: expected a string, found 7"),
        (PROFILE + "colour = 1", "unknown key 'colour'; allowed are burst_enter_percent"),
        (PROFILE + "[to_site]\nsource = 1", "to_site: unknown key 'source'; allowed are burst_enter_percent"),
        (PROFILE + "to_core = 3", "to_core: expected a table, found 3"),
    ],
)
def test_a_profile_with_a_wrong_shape(tmp_path: Path, text: str, message: str) -> None:
    """Missing, unknown and misplaced keys are named with the file."""
    path = _write(tmp_path, "mine.toml", text)
    with pytest.raises(LabError, match=re.escape(f"{path}: {message}")):
        load_profile(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "description = 1\n", "description: expected a string, found 1"),
        ("", "seed = -1\n", "seed: expected a whole number from 0 to 9007199254740992, found -1"),
        ('name = "north"\n', "", "sites[0]: the key 'name' is missing"),
        ('name = "north"', "name = 1", "sites[0]: name: expected a string, found 1"),
        ('name = "north"', 'name = "no rth"', "sites[0]: name: expected letters, digits and hyphens"),
        ('link = "lan"', "link = 3", "sites[0]: link: expected a string, found 3"),
        ('link = "lan"', "link = {profile = 3}", "sites[0]: link: profile: expected a string, found 3"),
        ('link = "lan"', 'link = {profile = "moon"}', "sites[0]: link: profile: expected one of dsl, intercontinental"),
        ('link = "lan"', 'link = {profile = "lan", to_site = 1}', "sites[0]: link: to_site: expected a table, found 1"),
        ("[[sites.devices]]", "[sites.devices]", "sites[0]: devices: expected an array of tables"),
        ('name = "n1"', "", "sites[0]: devices[0]: the key 'name' is missing"),
        ('name = "n1"', 'name = ""', "sites[0]: devices[0]: name: expected letters, digits and hyphens"),
    ],
)
def test_a_world_with_a_wrong_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Of the world, of a site, of its link and of the name of a device."""
    path = _write(tmp_path, "w.toml", WORLD.replace(old, new, 1))
    with pytest.raises(LabError, match=re.escape(f"{path}: {message}")):
        load_world(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("count = 4001", "count: expected a whole number from 1 to 4000, found 4001"),
        ("count = true", "count: expected a whole number from 1 to 4000, found True"),
        ("platform = 3", "platform: expected a string, found 3"),
        ("address = 1", "address: expected a string, found 1"),
        ("username = 1", "username: expected a string, found 1"),
        ("password = 1", "password: expected a string, found 1"),
        ("enable_secret = 1", "enable_secret: expected a string, found 1"),
        ("privilege = -1", "privilege: expected a whole number from 0 to 15, found -1"),
        ('config = "ip tcp selective-ack"', "config: expected a list of strings, found 'ip tcp selective-ack'"),
        ("flash_free_bytes = 1e6", "flash_free_bytes: expected a whole number from 0 to"),
        ("colour = 1", "unknown key 'colour'; allowed are address, blocked_transports, clear_text, config"),
    ],
)
def test_a_device_with_a_wrong_key(tmp_path: Path, line: str, message: str) -> None:
    """Each key of a device, with the file and its place."""
    path = _write(tmp_path, "w.toml", f"{WORLD}{line}\n")
    with pytest.raises(LabError, match=re.escape(f"{path}: sites[0]: devices[0]: {message}")):
        load_world(path)


@pytest.mark.parametrize("address", ["198.18.2.11", "somewhere", "198.18.1.999", ""])
def test_an_address_outside_its_site(tmp_path: Path, address: str) -> None:
    """A device's address lies in the network of its site; device, key, network and address are named."""
    spec = load_world(_write(tmp_path, "w.toml", f'{WORLD}address = "{address}"\n'))
    if not address:
        assert settle(spec)[0].devices[0].address == "198.18.1.11"
        return
    expected = f"n1: address: expected one in its site's 198.18.1.0/24, found '{address}'."
    with pytest.raises(LabError, match=re.escape(expected)):
        settle(spec)
