"""A first inventory's files: whole, commented, read by the product, and never over what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from inventory import first_files as module
from inventory.entry_checks import DATA_KEYS
from inventory.first_files import FILE_NAMES, FirstDevice, texts, write
from inventory.host_view import view
from inventory.keys import KEYS
from inventory.nornir_loader import open_inventory
from inventory.sites import sites_of

DEVICES = (
    FirstDevice(name="r1", address="192.0.2.1", site="ams"),
    FirstDevice(name="r2", address="192.0.2.2", port=2022, site="par"),
    FirstDevice(name="r3", address="core.example.net"),
)
RATES = {one.site: 50_000_000 for one in DEVICES if one.site}
FILES = texts(DEVICES, username="netops", link_rates_bps=RATES)


def read(folder: Path) -> None:
    open_inventory(folder)


def test_what_is_written_is_what_was_said(tmp_path):
    """By the product's own reader: addresses, ports, sites, their links, who logs in."""
    made = write(tmp_path / "new", FILES, check=read)
    assert {path.name for path in made} == {path.name for path in (tmp_path / "new").iterdir()} == set(FILE_NAMES)
    hosts = open_inventory(tmp_path / "new").inventory.hosts
    views = [view(hosts[one.name]) for one in DEVICES]
    assert [(one.name, one.address, one.port, one.site) for one in views] == [
        ("r1", "192.0.2.1", 22, "ams"),
        ("r2", "192.0.2.2", 2022, "par"),
        ("r3", "core.example.net", 22, None),
    ]
    assert {name: site.link_rate_bps for name, site in sites_of(views).items()} == {"ams": 5e7, "par": 5e7}
    assert {host.username for host in hosts.values()} == {"netops"}
    assert {host.password for host in hosts.values()} == {None}
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]


@pytest.mark.parametrize("devices", [DEVICES, DEVICES[2:]], ids=["sites", "none"])
def test_each_line_that_is_commented_out_will_do_as_it_is(tmp_path, devices):
    """Whoever takes the sign away gets a key that is read: none is called otherwise by now."""
    files = dict(texts(devices))
    _, _, groups = files["groups.yaml"].partition("---\n")
    groups = groups if devices[0].site else re.sub(r"^# ", "", groups, flags=re.MULTILINE)
    bare = re.sub(r"^( *)# ( *(?:- \{|[a-z_0-9]+:(?: |$)))", r"\1\2", groups, flags=re.MULTILINE)
    files["groups.yaml"] = bare.replace("A site, for example:\n", "")
    write(tmp_path / "new", files, check=read)
    data = next(iter(open_inventory(tmp_path / "new").inventory.groups.values())).data
    assert data.keys() == {"site", *(key.name for key in KEYS if key.note)}


def test_every_key_that_there_is_can_be_found_in_it():
    """A key that is added to the inventory is named here too; the enable secret by the ways it comes."""
    text = "".join(texts(DEVICES).values()).lower()
    assert [key for key in DATA_KEYS if key not in text] == []


@pytest.mark.parametrize("word", ["no", "ON", "null", "1e3", "007", "1.5", "0x10", "1_000", "12-30", "2026-11-23", "y"])
def test_a_name_that_yaml_takes_for_something_else_is_a_name(tmp_path, word):
    """A site `NO` is Norway's."""
    devices = (FirstDevice(name=word, address="192.0.2.1", site=word),)
    write(tmp_path / "new", texts(devices, username=word), check=read)
    host = open_inventory(tmp_path / "new").inventory.hosts[word]
    assert (view(host).site, host.username, [group.name for group in host.groups]) == (word, word, [word])


@pytest.mark.parametrize("user", ["ann@example.net", 'a"b', "a: b", "{x", "ä\u202e", "*", "#"])
def test_any_user_name_is_kept_as_it_is(tmp_path, user):
    """Signs of YAML's in it are no YAML."""
    write(tmp_path / "new", texts(DEVICES, username=user), check=read)
    assert open_inventory(tmp_path / "new").inventory.hosts["r1"].username == user


@pytest.mark.parametrize("name", FILE_NAMES)
@pytest.mark.parametrize("kind", ["file", "link"])
def test_nothing_is_written_over(tmp_path, name, kind):
    """The file that is there is named, and all else stays as it was."""
    if kind == "file":
        (tmp_path / name).write_text("mine")
    else:
        (tmp_path / name).symlink_to("nowhere")
    with pytest.raises(ConfigInvalid, match=rf"{name}: expected no file, found one"):
        write(tmp_path, FILES, check=read)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_with_other_files_gets_these_beside_them(tmp_path):
    """Image rules, say, which somebody wrote first."""
    (tmp_path / "images.yaml").write_text("rules: []\n")
    write(tmp_path, FILES, check=read)
    assert {path.name for path in tmp_path.iterdir()} == {"images.yaml", *FILE_NAMES}


def test_what_the_reader_refuses_is_not_left_behind(tmp_path):
    """It would be a fault of ours; nobody has to clear up after it."""

    def refuse(folder: Path) -> None:
        assert {path.name for path in folder.iterdir()} == set(FILE_NAMES)
        raise ConfigInvalid("no", hint="Tell us")

    with pytest.raises(ConfigInvalid, match="no"):
        write(tmp_path / "new", FILES, check=refuse)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_comes_meanwhile_stays_and_takes_the_others_back(tmp_path):
    """Two at once: the second one leaves nothing of its own."""

    def somebody_else(_folder: Path) -> None:
        (tmp_path / "hosts.yaml").write_text("theirs")

    with pytest.raises(ConfigInvalid, match=r"hosts\.yaml: expected no file"):
        write(tmp_path, FILES, check=somebody_else)
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.yaml"]
    assert (tmp_path / "hosts.yaml").read_text() == "theirs"


def test_a_disk_that_is_full_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    """Also in the midst of it."""

    def full(path: Path, *_: object, **__: object) -> None:
        if path.name == "hosts.yaml":
            raise OSError(28, "No space left on device")
        path.touch()

    monkeypatch.setattr(module, "write_whole", full)
    with pytest.raises(ConfigInvalid, match="new: cannot be written: No space left on device"):
        write(tmp_path / "new", FILES, check=read)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    """A file in its place, and one below a folder that is not there."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigInvalid, match="expected a folder, found something else"):
        write(tmp_path / "file", FILES, check=read)
    with pytest.raises(ConfigInvalid, match="expected a folder to make it in, found none"):
        write(tmp_path / "a" / "b", FILES, check=read)
