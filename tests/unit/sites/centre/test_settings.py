"""The centre's settings: every key is checked, and what is wrong is told with file, key, and what was expected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.sites.centre.settings import load_centre
from flashferry.sites.keys import PublicKey

KEY = PublicKey(raw=bytes(32)).line
GOOD = f"""
[centre]
key = "centre.key"
plans_folder = "plans"
[broker]
url = "redis://127.0.0.1:6379/0"
[sites.ams]
agent_key = "{KEY}"
[sites.lim]
agent_key = "{KEY}"
inventory_sites = ["LIM", "CUZ"]
groups = ["andes"]
devices = ["r7"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "sites.toml"
    path.write_text(text)
    return path


def test_good_settings_are_read_with_their_defaults(tmp_path: Path) -> None:
    """A site's devices are by default those whose site has its name; paths start at the file's folder."""
    found = load_centre(written(tmp_path, GOOD))
    assert found.key == tmp_path / "centre.key"
    assert found.plans_folder == tmp_path / "plans"
    assert found.sites["ams"].inventory_sites == {"ams"}
    assert found.sites["lim"].inventory_sites == {"LIM", "CUZ"}
    assert found.sites["lim"].groups == {"andes"}
    assert found.sites["lim"].devices == {"r7"}
    assert [key.line for key in found.keys] == [KEY], "an agent of two sites has one key"


def test_paths_of_settings_behind_a_link_start_at_the_file_itself(tmp_path: Path) -> None:
    """A link to the settings, as a service's state folder may hold one, means the same keys and folders."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "state").mkdir()
    link = tmp_path / "state/sites.toml"
    link.symlink_to(written(tmp_path / "etc", GOOD))
    found = load_centre(link)
    assert (found.key, found.plans_folder) == (tmp_path / "etc/centre.key", tmp_path / "etc/plans")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('key = "centre.key"', "", r"centre\.key: expected this key, found none"),
        ('plans_folder = "plans"', "plans_folder = 3", r"centre\.plans_folder: expected text, found '3'"),
        ("[centre]", "[centre]\nclock_bound_s = 0", r"centre\.clock_bound_s: expected seconds above 0 .* found 0"),
        ("[centre]", '[centre]\nkeys = "x"', r"centre\.keys: unknown key"),
        ("redis://127.0.0.1", "redis://broker.example", r"\[broker\]: broker: expected TLS .* found redis://"),
        ("redis://127", "redis://u:p@127", r"\[broker\]: broker: expected a URL without user and password"),
        (f'agent_key = "{KEY}"', 'agent_key = "ed25519 x y"', r"sites\.ams\.agent_key: public key: expected a line"),
        ("[sites.ams]", '[sites."a b"]', r"sites\.a b: expected a name of letters"),
        (
            '["LIM", "CUZ"]',
            '["ams"]',
            r"sites\.lim\.inventory_sites: expected 'ams' at one site alone, found it at ams",
        ),
        ("[centre]", "[centre", r"not valid TOML"),
        ("[centre]", "[centre]\nkeep_days = 0", r"centre\.keep_days: expected days from 1 to 3660, found 0"),
        ("[centre]", "[centre]\nkeep_days = 3661", r"centre\.keep_days: expected days from 1 to 3660, found 3661"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_key(tmp_path: Path, before: str, after: str, told: str) -> None:
    """An error names the file, the key, what was expected and what was found, and says what to do."""
    assert before in GOOD
    path = written(tmp_path, GOOD.replace(before, after, 1))
    with pytest.raises(ConfigInvalid) as caught:
        load_centre(path)
    assert str(path) in caught.value.message
    assert re.search(told, caught.value.message), caught.value.message
    assert caught.value.hint


def test_settings_without_a_site_or_a_file_are_refused(tmp_path: Path) -> None:
    """No site, and no file, are told as such."""
    without = GOOD.split("[sites.ams]", maxsplit=1)[0] + "[sites]\n"
    with pytest.raises(ConfigInvalid, match=r"sites: expected at least one table \[sites.NAME\], found none"):
        load_centre(written(tmp_path, without))
    with pytest.raises(ConfigInvalid, match="expected the centre's settings of sites"):
        load_centre(tmp_path / "none.toml")
