"""Devices of a first inventory, typed or read from a table, and its files, with all keys as comments.

Existing files are never overwritten. The files are written to a temporary folder, read back by the inventory reader,
and then moved into place: another process sees all of them or none, and files that the reader rejects are removed.

A table is CSV as spreadsheets write it: with commas, semicolons or tabs, with or without a byte order mark, perhaps
with empty rows. Ambiguous content is refused, with its line. No password is read from it.
"""

from __future__ import annotations

import csv
import io
import ipaddress
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import reading, write_whole
from flashferry.core.redaction import is_secret_key
from flashferry.core.units import counted, size
from flashferry.core.value_description import PLATFORM_WORDS, described, unknown_key
from inventory.keys import KEYS
from inventory.platforms import IOS, NAMES, platform_of
from inventory.value_readers import read_word

COLUMNS = ("name", "address", "port", "site", "platform")
"""Columns of a table, in any order; the first two are required."""

MOST_BYTES = 10_000_000
"""Largest table, so that a huge file named by mistake is not read completely."""

_ALIASES = {"hostname": "address", "host": "name", "ip": "address", "ip address": "address"}
_SEPARATORS = (",", ";", "\t")
_DOTTED = re.compile(r"[\d.]+")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_LONGEST_NAME = 253
_SSH = 22
_SAYS_SEPARATOR = re.compile(r"\"?sep=.\"?", re.IGNORECASE)
_AS_UTF8 = "Save the table as 'CSV UTF-8', with one device a row"


class FirstDevice(Struct, frozen=True, kw_only=True):
    """A device of a first inventory.

    Attributes:
        name: Its name, unique in the inventory.
        address: IPv4 address or DNS name to log in to.
        port: SSH port; None for the default.
        site: Its site, or None.
    """

    name: str
    address: str
    port: int | None = None
    site: str | None = None


def device(name: str, address: str, *, port: str = "", site: str = "", platform: str = "") -> FirstDevice:
    """Make a device of typed texts; spaces around them are ignored.

    Raises:
        ConfigInvalid: A text is wrong.
    """
    if platform.strip() and platform_of(platform) != IOS:
        found = described(platform.strip(), PLATFORM_WORDS)
        raise ConfigInvalid(
            f"platform: expected {' or '.join(NAMES)} (Cisco IOS and IOS-XE), found {found}",
            hint="Leave devices of other platforms out",
        )
    return FirstDevice(
        name=_word("name", name), address=_address(address), port=_port(port), site=_word("site", site) or None
    )


def device_of(text: str, *, site: str = "") -> FirstDevice:
    """Parse `NAME=ADDRESS` or `NAME=ADDRESS:PORT`.

    Raises:
        ConfigInvalid: The text has another form, or a part of it is wrong.
    """
    name, sign, address = text.partition("=")
    if not sign:
        raise ConfigInvalid(
            f"expected NAME=ADDRESS, found {described(text)}", hint="Write it as branch1-rtr1=192.0.2.1"
        )
    address, _, port = address.partition(":") if address.count(":") == 1 else (address, "", "")
    return device(name, address, port=port, site=site)


def devices_of_table(path: Path, *, site: str = "") -> tuple[FirstDevice, ...]:
    """Return the devices of a CSV file.

    Args:
        path: The file.
        site: Site of rows without one; may be empty.

    Raises:
        ConfigInvalid: It cannot be read, or a line is wrong.
    """
    found: list[tuple[int, FirstDevice]] = []
    for line, row in _rows(path, _text(path)):
        try:
            one = device(
                row.get("name", ""),
                row.get("address", ""),
                port=row.get("port", ""),
                site=row.get("site", "").strip() or site,
                platform=row.get("platform", ""),
            )
        except ConfigInvalid as error:
            raise ConfigInvalid(f"{path}: line {line}: {error.message}", hint=error.hint) from None
        found.append((line, one))
    if not found:
        raise ConfigInvalid(f"{path}: expected devices, found none below its first line", hint=_AS_UTF8)
    _check_each_once((one, f"{path}: line {line}: ") for line, one in found)
    return tuple(one for _, one in found)


def check_each_once(devices: Iterable[FirstDevice]) -> None:
    """Check that no two devices have the same name, or the same address and port.

    Raises:
        ConfigInvalid: Two have.
    """
    _check_each_once((one, "") for one in devices)


def _check_each_once(devices: Iterable[tuple[FirstDevice, str]]) -> None:
    """Check devices, each with the prefix of an error message about it."""
    by_name: dict[str, str] = {}
    by_address: dict[tuple[str, int | None], str] = {}
    for one, where in devices:
        if one.name in by_name:
            raise ConfigInvalid(
                f"{where}expected each name once, found {one.name} twice", hint="Give one of the two another name"
            )
        place = (one.address.lower(), None if one.port == _SSH else one.port)
        if place in by_address:
            raise ConfigInvalid(
                f"{where}expected each address once, found {one.address} for {by_address[place]} and {one.name}",
                hint="Leave one of them out: a run would stage one router twice",
            )
        by_name[one.name] = one.name
        by_address[place] = one.name


def _text(path: Path) -> str:
    """Return a table's text without its byte order mark.

    Raises:
        ConfigInvalid: It cannot be read, is too large, or not UTF-8.
    """
    try:
        with reading(path) as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be read: {error.strerror}", hint="Check the path and the file's permissions"
        ) from None
    if len(content) > MOST_BYTES:
        raise ConfigInvalid(
            f"{path}: expected a table of {size(MOST_BYTES)} at most, found a larger file",
            hint="Name the CSV file with the devices",
        )
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in content:
        raise ConfigInvalid(f"{path}: line 1: expected text in UTF-8, found UTF-16 or no text", hint=_AS_UTF8)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigInvalid(
            f"{path}: line {line}: expected text in UTF-8, found the byte 0x{content[error.start]:02x}", hint=_AS_UTF8
        ) from None


def _rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows after the header, each with its line number and its cells by column name; skip empty rows.

    Raises:
        ConfigInvalid: The header has unknown or missing columns, or a row has too many cells.
    """
    columns: list[str] | None = None
    for line, cells in _cells(path, text):
        if not any(cell.strip() for cell in cells):
            continue
        if columns is None:
            columns = _columns(path, line, cells)
            continue
        filled = len(cells) - next((count for count, cell in enumerate(reversed(cells)) if cell.strip()), 0)
        if filled > len(columns):
            raise ConfigInvalid(
                f"{path}: line {line}: expected {counted(len(columns), 'cell')} as in the first line, found {filled}",
                hint="Put a cell with the separator in it in double quotes",
            )
        yield line, dict(zip(columns, cells, strict=False))
    if columns is None:
        raise ConfigInvalid(f"{path}: expected a line that names the columns, found an empty file", hint=_AS_UTF8)


def _cells(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows of cells, each with the number of its first line."""
    first, _, rest = text.partition("\n")
    # Spreadsheets may write a first line `sep=;` that names the separator.
    skipped = 1 if _SAYS_SEPARATOR.fullmatch(first.strip()) else 0
    rows = rest if skipped else text
    separator = max(_SEPARATORS, key=next((line for line in rows.splitlines() if line.strip()), "").count)
    reader = csv.reader(io.StringIO(rows, newline=""), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1 + skipped
        try:
            cells = next(reader, None)
        except csv.Error:
            raise ConfigInvalid(
                f"{path}: line {line}: expected cells with a separator between them, found a quote that is not closed, "
                "or something after one",
                hint="Put the whole cell in double quotes, and double those in it",
            ) from None
        if cells is None:
            return
        yield line, cells


def _columns(path: Path, line: int, cells: list[str]) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    while names and not names[-1]:
        names.pop()
    names = [_ALIASES.get(name, name) for name in names]
    for name in names:
        if is_secret_key(name):
            raise ConfigInvalid(
                f"{path}: line {line}: expected the columns {', '.join(COLUMNS)}, found one for secrets",
                hint="Leave it out, and delete the file: no password is written into an inventory; docs/secrets.md "
                "names the ways by which credentials come",
            )
        if name not in COLUMNS:
            raise ConfigInvalid(
                f"{path}: line {line}: {unknown_key(name, COLUMNS).replace('unknown key', 'unknown column', 1)}",
                hint="The first line names the columns; delete those that are none of these",
            )
        if names.count(name) > 1:
            raise ConfigInvalid(
                f"{path}: line {line}: expected each column once, found {name} twice", hint="Delete one of them"
            )
    if missing := [name for name in COLUMNS[:2] if name not in names]:
        raise ConfigInvalid(
            f"{path}: line {line}: expected the columns name and address, found none that is called {missing[0]}",
            hint=f"The first line names the columns: {','.join(COLUMNS)}",
        )
    return names


def _word(what: str, text: str) -> str:
    text = text.strip()
    if not text and what == "name":
        raise ConfigInvalid("name: expected one word, found none", hint="Give each device a name")
    try:
        return read_word(text) or ""
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{what}: {error.message}", hint=error.hint) from None


def _port(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not re.fullmatch(r"\d{1,5}", text, re.ASCII) or not 1 <= int(text) <= 65535:
        raise ConfigInvalid(
            f"port: expected 1 to 65535, found {described(text)}", hint="It is SSH's; leave it out for 22"
        )
    return int(text)


def _address(text: str) -> str:
    """Check an IPv4 address or a DNS name, and return it.

    Raises:
        ConfigInvalid: It is neither, or an address that no router can have.
    """
    text = text.strip()
    hint = "Give the address that SSH reaches the router at, such as 192.0.2.1, or its DNS name"
    if not text:
        raise ConfigInvalid("address: expected an IPv4 address or a DNS name, found none", hint=hint)
    if _DOTTED.fullmatch(text):
        try:
            address = ipaddress.IPv4Address(text)
        except ValueError:
            raise ConfigInvalid(f"address: expected an IPv4 address, found {described(text)}", hint=hint) from None
        if address.is_unspecified or address.is_multicast or text == "255.255.255.255":
            raise ConfigInvalid(f"address: expected that of one router, found {text}", hint=hint)
        return text
    if text.count(":") > 1:
        raise ConfigInvalid(
            "address: expected an IPv4 address or a DNS name, found an IPv6 address",
            hint="Devices fetch from us by IPv4 only: give the router's IPv4 address",
        )
    name = text.removesuffix(".")
    if len(name) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ConfigInvalid(f"address: expected an IPv4 address or a DNS name, found {described(text)}", hint=hint)
    return name


HOSTS, GROUPS, DEFAULTS = "hosts.yaml", "groups.yaml", "defaults.yaml"
FILE_NAMES = (GROUPS, DEFAULTS, HOSTS)
"""The files in the order in which they are moved into place, `hosts.yaml` last, for it makes a folder an inventory."""

EXAMPLE_SITE = "branch1"
"""Site name in the comments of an inventory without a site."""

_ABOUT_HOSTS = """\
# Your routers: a name and an address each. Written by 'flashferry init'; edit it as you like.
#
# 'flashferry check' reports what is wrong with this file; docs/inventory.md explains every key. A host may also have:
#   port: 22                  # of SSH
#   platform: ios             # where it is not that of defaults.yaml
#   data:
#     image: c2900-universalk9-mz.SPA.158-3.M9.bin   # its own image; goes before the rules in images.yaml
#     and any key of groups.yaml, for this host alone
---
"""

_ABOUT_GROUPS = """\
# A site is a group: its devices share one WAN link. docs/inventory.md explains every key.
---
"""

_ABOUT_DEFAULTS = """\
# What holds for every router, where neither it nor its groups say otherwise.
#
# No password stands here, and none should: it comes from the environment (FLASHFERRY_PASSWORD, and
# FLASHFERRY_ENABLE_SECRET), the system's keyring (--keyring), a program (--secrets-command) or a prompt; see
# docs/secrets.md.
---
platform: ios # NAPALM's name for IOS and IOS-XE alike
"""

_DEFAULT_KEYS = """\
# data:
#   host_keys: strict         # refuse routers whose SSH host key is not known yet; the default is to remember it
#   known_hosts: known_hosts  # the file of known host keys, below the state folder
#   and any key of groups.yaml, for all routers
"""

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._-]*|\d{1,3}(?:\.\d{1,3}){3}")
_NO_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "none"})
"""Words that some YAML parsers do not read as text."""


def check_new(folder: Path) -> None:
    """Check that a folder has none of the files, or can be created.

    Raises:
        ConfigInvalid: A file exists, the path is no folder, or its parent folder does not exist.
    """
    try:
        there = next((folder / name for name in FILE_NAMES if os.path.lexists(folder / name)), None)
        is_wrong = os.path.lexists(folder) and not folder.is_dir()
        is_below = folder.absolute().parent.is_dir()
    except OSError as error:
        raise _unwritable(folder, error) from None
    if there is not None:
        raise ConfigInvalid(
            f"{there}: expected no file, found one", hint="It stays as it is: name another folder, or edit that one"
        )
    if is_wrong:
        raise ConfigInvalid(f"{folder}: expected a folder, found something else", hint="Name another one")
    if not is_below:
        raise ConfigInvalid(
            f"{folder}: expected a folder to make it in, found none at {folder.absolute().parent}",
            hint="Make that one first, or name another",
        )


def texts(
    devices: Sequence[FirstDevice],
    *,
    username: str | None = None,
    link_rates_bps: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the texts of the files by file name.

    Args:
        devices: The devices, each by its own name.
        username: Who logs in to them, or None: from elsewhere.
        link_rates_bps: Rates of WAN links by site; one that is unknown is missing.
    """
    sites = list(dict.fromkeys(one.site for one in devices if one.site is not None))
    return {
        HOSTS: _ABOUT_HOSTS + "".join(map(_host, devices)),
        GROUPS: _ABOUT_GROUPS + _groups(sites, link_rates_bps),
        DEFAULTS: _ABOUT_DEFAULTS
        + (f"username: {_scalar(username)}\n" if username else "# username: netops # who logs in\n")
        + _DEFAULT_KEYS,
    }


def write(folder: Path, files: dict[str, str], *, check: Callable[[Path], None]) -> tuple[Path, ...]:
    """Write the files of a new inventory into a folder, which is created if missing.

    Args:
        folder: The folder.
        files: Their texts by name.
        check: Opens an inventory folder; raises if it is invalid.

    Returns:
        The paths of the files.

    Raises:
        ConfigInvalid: A file exists, they cannot be written, or the check failed. Nothing was written.
    """
    check_new(folder)
    try:
        where = folder if folder.is_dir() else folder.absolute().parent
        made = Path(tempfile.mkdtemp(prefix=".flashferry-init.", suffix=".part", dir=where))
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        for name in FILE_NAMES:
            write_whole(made / name, files[name], is_private=False)
        check(made)
        _put_in_place(made, folder)
    except FileExistsError:
        check_new(folder)
        raise
    except OSError as error:
        raise _unwritable(folder, error) from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return tuple(folder / name for name in (HOSTS, GROUPS, DEFAULTS))


def _put_in_place(made: Path, folder: Path) -> None:
    """Move the new files into the folder; a file that was created there meanwhile is not overwritten.

    Raises:
        FileExistsError: A file exists by now.
        OSError: A file cannot be moved.
    """
    if not folder.exists():
        mask = os.umask(0)
        os.umask(mask)
        made.chmod(0o777 & ~mask)
        made.rename(folder)
        return
    linked: list[Path] = []
    try:
        for name in FILE_NAMES:
            (folder / name).hardlink_to(made / name)
            linked.append(folder / name)
    except OSError:
        for path in linked:
            with suppress(OSError):
                path.unlink()
        raise


def _unwritable(folder: Path, error: OSError) -> ConfigInvalid:
    return ConfigInvalid(
        f"{folder}: cannot be written: {error.strerror}",
        hint="Check the folder and its permissions, or name another one",
    )


def _host(one: FirstDevice) -> str:
    lines = [f"{_scalar(one.name)}:", f"  hostname: {_scalar(one.address)}"]
    lines += [f"  port: {one.port}"] if one.port is not None else []
    lines += [f"  groups: [{_scalar(one.site)}]"] if one.site is not None else []
    return "\n".join(lines) + "\n"


def _groups(sites: Sequence[str], link_rates_bps: Mapping[str, int]) -> str:
    if not sites:
        lines = _group(EXAMPLE_SITE, None)
        return "".join(f"# {line}\n" for line in ["A site, for example:", *lines])
    first, *others = sites
    text = "\n".join(_group(first, link_rates_bps.get(first))) + "\n"
    for site in others:
        text += f"{_scalar(site)}: # its keys are as those of {first}\n  data:\n    site: {_scalar(site)}\n"
        text += _indented([_rate_line(link_rates_bps.get(site))])
    return text


def _group(site: str, link_rate_bps: int | None) -> list[str]:
    lines = [f"{_scalar(site)}:", "  data:", f"    site: {_scalar(site)}"]
    for key in KEYS:
        if not key.note:
            continue
        is_rate = key.name == "link_rate_bps"
        example = [_rate_line(link_rate_bps)] if is_rate else [f"# {line}" for line in key.example]
        lines += [f"    # {key.note}", *(f"    {line}" for line in example)]
    return lines


def _rate_line(link_rate_bps: int | None) -> str:
    return "# link_rate_bps: 10_000_000" if link_rate_bps is None else f"link_rate_bps: {link_rate_bps:_}"


def _indented(lines: Sequence[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


def _scalar(text: str) -> str:
    """Return a text as a YAML scalar, in double quotes if it could be read as something else than text."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _NO_TEXT else json.dumps(text)
