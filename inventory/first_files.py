"""Files of a first inventory, with all keys as comments. Existing files are never overwritten.

Existing files are never overwritten. The files are written to a temporary folder, read back by the inventory reader, and
then moved into place: another process sees all of them or none, and files that the reader rejects are removed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import write_whole
from inventory.first_devices import FirstDevice
from inventory.keys import KEYS

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
        f"{folder}: cannot be written: {error.strerror}", hint="Check the folder and its rights, or name another one"
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
