"""Devices for a first inventory: what is typed and what a spreadsheet wrote is read, or refused with its line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from inventory import first_files as module
from inventory.first_files import FirstDevice, check_each_once, device, device_of, devices_of_table

R1 = FirstDevice(name="r1", address="192.0.2.1", site="ams")
R2 = FirstDevice(name="r2", address="192.0.2.2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r2=192.0.2.2", R2),
        (" r2 = 192.0.2.2 ", R2),
        ("r3=core.example.net:2022", FirstDevice(name="r3", address="core.example.net", port=2022)),
        ("r4=host_1.", FirstDevice(name="r4", address="host_1")),
    ],
)
def test_a_device_is_a_name_and_an_address(text, expected):
    """With the port of SSH behind it, where that is another."""
    assert device_of(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("r1", "expected NAME=ADDRESS"),
        ("=192.0.2.1", "name: expected one word, found none"),
        ("r 1=192.0.2.1", "name: expected one word"),
        ("-r1=192.0.2.1", "name: expected one word"),
        ("r1=", "address: expected an IPv4 address or a DNS name, found none"),
        ("r1=192.0.2.256", "address: expected an IPv4 address"),
        ("r1=192.0.2", "address: expected an IPv4 address"),
        ("r1=192.0.2.1/24", "address: expected an IPv4 address or a DNS name"),
        ("r1=0.0.0.0", "expected that of one router"),
        ("r1=224.0.0.1", "expected that of one router"),
        ("r1=255.255.255.255", "expected that of one router"),
        ("r1=a..b", "address: expected"),
        ("r1=-a.example", "address: expected"),
        ("r1=" + "a." * 130, "address: expected"),
        ("r1=192.0.2.1:0", "port: expected 1 to 65535"),
        ("r1=192.0.2.1:ssh", "port: expected 1 to 65535"),
        ("r1=192.0.2.1:\u0663", "port: expected 1 to 65535"),
        ("r1=2001:db8::1", "found an IPv6 address"),
    ],
)
def test_what_is_no_device_is_refused_in_a_sentence(text, said):
    """Before anything is written, and with what to do."""
    with pytest.raises(ConfigInvalid, match=said) as raised:
        device_of(text)
    assert raised.value.hint


def test_an_address_of_ipv6_is_refused_by_its_name():
    """Devices could be logged in to, and would have no server to fetch from."""
    with pytest.raises(ConfigInvalid, match="found an IPv6 address"):
        device("r1", "2001:db8::1")


@pytest.mark.parametrize("platform", ["", "ios", "Cisco IOS-XE", "cisco_xe"])
def test_any_name_of_ios_will_do(platform):
    """An inventory of another tool has its own."""
    assert device("r2", "192.0.2.2", platform=platform) == R2


def test_another_platform_is_refused():
    """It is not left out silently."""
    with pytest.raises(ConfigInvalid, match=r"platform: expected ios or .* found 'nxos'"):
        device("r1", "192.0.2.1", platform="nxos")


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "table.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


TABLES = {
    "plain": "name,address,site\nr1,192.0.2.1,ams\nr2,192.0.2.2,\n",
    "byte order mark": b"\xef\xbb\xbfname,address,site\nr1,192.0.2.1,ams\nr2,192.0.2.2\n",
    "semicolons and CRLF": "Name;Address;Site\r\nr1;192.0.2.1;ams\r\nr2;192.0.2.2;\r\n",
    "tabs": "name\taddress\tsite\nr1\t192.0.2.1\tams\nr2\t192.0.2.2\t\n",
    "line ends of old": "name,address,site\rr1,192.0.2.1,ams\rr2,192.0.2.2,\r",
    "blank lines": "\n\nname,address,site\n\n , ,\nr1,192.0.2.1,ams\n;;\n"[:-4] + "\n,,\nr2,192.0.2.2,\n\n",
    "sep": "sep=;\r\nname;address;site\r\nr1;192.0.2.1;ams\r\nr2;192.0.2.2;\r\n",
    "quotes": '"name","address","site"\n"r1","192.0.2.1","ams"\n"r2","192.0.2.2",""\n',
    "other order, other names": "site,hostname,NAME \nams,192.0.2.1,r1\n,192.0.2.2,r2\n",
    "empty columns behind": "name,address,site,,\nr1,192.0.2.1,ams,,\nr2,192.0.2.2,,,\n",
    "no end of line": "name,address,site\nr1,192.0.2.1,ams\nr2,192.0.2.2,",
}


@pytest.mark.parametrize("content", TABLES.values(), ids=TABLES)
def test_a_table_is_read_as_spreadsheets_write_it(tmp_path, content):
    """Whatever separates cells and lines, and whatever is blank."""
    assert devices_of_table(written(tmp_path, content)) == (R1, R2)


def test_a_row_without_a_site_is_at_the_one_that_was_given(tmp_path):
    """What the row says itself goes before."""
    found = devices_of_table(written(tmp_path, TABLES["plain"]), site="par")
    assert [one.site for one in found] == ["ams", "par"]


REFUSED = {
    "not UTF-8": (
        b"name,address\nr1,192.0.2.1\nk\xf6ln,192.0.2.2\n",
        "line 3: expected text in UTF-8, found the byte 0xf6",
    ),
    "UTF-16": ("name,address\nr1,192.0.2.1\n".encode("utf-16"), "line 1: expected text in UTF-8"),
    "no text": (b"PK\x03\x04\x00\x00", "line 1: expected text in UTF-8"),
    "empty": ("", "found an empty file"),
    "only a head": ("name,address\n\n", "expected devices, found none"),
    "no head": ("r1,192.0.2.1\nr2,192.0.2.2\n", "line 1: unknown column"),
    "no address": ("name,site\nr1,ams\n", "line 1: expected the columns name and address, found none .* address"),
    "unknown column": ("name,address,sites\nr1,192.0.2.1,ams\n", "line 1: unknown column 'sites'; did you mean 'site'"),
    "twice a column": ("name,address,hostname\nr1,192.0.2.1,192.0.2.1\n", "line 1: expected each column once"),
    "secrets": ("name,address,password\nr1,192.0.2.1,cisco123\n", "line 1: .* found one for secrets"),
    "too many cells": ("name,address\nr1,192.0.2.1\nr2,192.0.2.2,ams\n", "line 3: expected 2 cells .* found 3"),
    "bad address": ("name,address\n\nr1,300.0.2.1\n", "line 3: address: expected an IPv4 address"),
    "no name": ("name,address\n,192.0.2.1\n", "line 2: name: expected one word, found none"),
    "open quote": ('name,address\nr1,192.0.2.1\n"r2,192.0.2.2\nr3,192.0.2.3\n', "line 3: expected cells"),
    "line break in a cell": ('name,address\n"r\n1",192.0.2.1\n', "line 2: name: expected one word"),
    "formula": ("name,address\n=1+1,192.0.2.1\n", "line 2: name: expected one word"),
    "name twice": ("name,address\nr1,192.0.2.1\nr1,192.0.2.2\n", "line 3: expected each name once, found r1 twice"),
    "address twice": (
        "name,address\nr1,core.example\nr2,CORE.example\n",
        "line 3: expected each address once, found CORE.example for r1 and r2",
    ),
    "address and port twice": (
        "name,address,port\nr1,192.0.2.1,\nr2,192.0.2.1,22\n",
        "line 3: expected each address once",
    ),
}


@pytest.mark.parametrize(("content", "said"), REFUSED.values(), ids=REFUSED)
def test_a_table_that_cannot_be_read_is_refused_with_its_line(tmp_path, content, said):
    """Nothing is guessed, and what stands there is not quoted where it could be a secret."""
    path = written(tmp_path, content)
    with pytest.raises(ConfigInvalid, match=said) as raised:
        devices_of_table(path)
    assert str(raised.value).startswith(str(path))
    assert raised.value.hint
    assert "cisco123" not in str(raised.value)


def test_two_devices_may_share_an_address_by_their_ports():
    """A jump host forwards a port to each."""
    check_each_once([device("r1", "192.0.2.1", port="2201"), device("r2", "192.0.2.1", port="2202")])


def test_a_file_that_is_none_and_one_that_is_too_large_are_refused(tmp_path, monkeypatch):
    """A pipe is not waited for, a disk not read to its end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "nothing"):
        with pytest.raises(ConfigInvalid, match="cannot be read"):
            devices_of_table(path)
    monkeypatch.setattr(module, "MOST_BYTES", 20)
    with pytest.raises(ConfigInvalid, match="found a larger file"):
        devices_of_table(written(tmp_path, TABLES["plain"]))
