"""`flashferry init`: create a first inventory from options, a table, or answers at the terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.cli.command_line import DEVICES
from flashferry.cli.options.shared import JsonOption
from flashferry.cli.terminal.output import echo, finish, say
from flashferry.cli.terminal.questions import PromptSource, answered
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.core.values import replace
from flashferry.model.exit_codes import ExitCode
from inventory.first_files import check_each_once, check_new, device_of, devices_of_table, texts, write
from inventory.nornir_loader import check_inventory
from inventory.value_readers import read_line, read_word

if TYPE_CHECKING:
    from inventory.first_files import FirstDevice

DEFAULT = Path("routers")
"""Default folder."""

_MBPS = 1_000_000
_NO_SITE = "-"


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Its folder; no file of it may be there.")] = DEFAULT,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME=ADDRESS",
            help="A device: its name, and its IPv4 address or DNS name, with :PORT where SSH's is not 22; may be "
            "repeated.",
            rich_help_panel=DEVICES,
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="FILE",
            help="A table of devices, whose first line names its columns: name, address, and, as you like, port, "
            "site, platform.",
            rich_help_panel=DEVICES,
        ),
    ] = None,
    site: Annotated[
        str,
        typer.Option(
            "--site", metavar="NAME", help="The site of devices for which none is named.", rich_help_panel=DEVICES
        ),
    ] = "",
    link_mbps: Annotated[
        float | None,
        typer.Option(
            "--link-mbps",
            metavar="MBIT/S",
            min=0.001,
            max=1_000_000,
            help="Rate of the site's WAN link in Mbit/s; of several sites each has it.",
            rich_help_panel=DEVICES,
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="NAME", help="Who logs in to the devices.", rich_help_panel=DEVICES),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write a first inventory: hosts.yaml, groups.yaml and defaults.yaml, with every key in a comment.

    Without --host and --csv it asks, on a terminal. No file is ever written over, and no password is written: those
    come from the environment, the keyring, a program or a prompt.
    """
    check_new(folder)
    site, user = _site(site), _user(user)
    if host or table:
        devices = (
            *(_of_option(text, site, device_of) for text in host or ()),
            *(devices_of_table(table, site=site) if table else ()),
        )
    else:
        devices = _asked_devices(site)
    check_each_once(devices)
    sites = tuple(dict.fromkeys(one.site for one in devices if one.site is not None))
    if link_mbps is not None and not sites:
        raise ConfigInvalid("--link-mbps: expected a site with it, found none", hint="Give --site NAME too")
    is_asked = not host and not table
    rates = dict.fromkeys(sites, link_mbps)
    if is_asked:
        rates = {one: answered(_rate_question(one), _rate) if rate is None else rate for one, rate in rates.items()}
        if user is None:
            user = answered("User name for their logins (nothing: FLASHFERRY_USERNAME has it): ", _user)
    files = write(folder, texts(devices, username=user, link_rates_bps=_in_bps(rates)), check=check_inventory)
    if is_asked and not json and _is_yes(f"Log in to {devices[0].name} now, to test it? Nothing is changed. [y/N] "):
        _test_login(folder, devices[0].name)
    _print_result(folder, files, devices, sites, as_json=json)


def _of_option(text: str, site: str, read: Callable[..., FirstDevice]) -> FirstDevice:
    try:
        return read(text, site=site)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"--host: {error.message}", hint=error.hint) from None


def _site(text: str) -> str:
    try:
        return read_word(text.strip()) or ""
    except ConfigInvalid as error:
        raise ConfigInvalid(f"--site: {error.message}", hint=error.hint) from None


def _user(text: str | None) -> str | None:
    try:
        return read_line((text or "").strip()) or None
    except ConfigInvalid as error:
        raise ConfigInvalid(f"--user: {error.message}", hint=error.hint) from None


def _asked_devices(site: str) -> tuple[FirstDevice, ...]:
    """Ask for devices at the terminal, and for the site of each.

    Args:
        site: Site of all devices; empty: ask for each.

    Raises:
        ConfigInvalid: There is no terminal, or no device was entered.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigInvalid(
            "expected devices, found none", hint="Give them by --host NAME=ADDRESS or --csv FILE, or ask at a terminal"
        )
    echo("Devices, one a line, as NAME=ADDRESS; an empty line ends them.", err=True)
    devices: list[FirstDevice] = []

    def another(text: str) -> FirstDevice | None:
        if not text:
            return None
        one = device_of(text, site=site)
        check_each_once([*devices, one])
        return one

    while (one := answered(f"Device {len(devices) + 1}: ", another)) is not None:
        devices.append(one)
    if not devices:
        raise ConfigInvalid("expected at least one device, found none", hint="Start again; nothing was written")
    if site:
        return tuple(devices)
    echo("Devices of a site share its WAN link.", err=True)
    found, last = [], ""
    for one in devices:
        usual = f"nothing: {last}; - for none" if last else "one word; nothing: none"
        typed = answered(f"Site of {one.name} ({usual}): ", _site)
        last = "" if typed == _NO_SITE else typed or last
        found.append(replace(one, site=last or None))
    return tuple(found)


def _rate_question(site: str) -> str:
    return f"Rate of {site}'s WAN link in Mbit/s (nothing: unknown): "


def _in_bps(rates_mbps: Mapping[str, float | None]) -> dict[str, int]:
    return {site: round(rate * _MBPS) for site, rate in rates_mbps.items() if rate is not None}


def _is_yes(question: str) -> bool:
    try:
        return answered(question, str.casefold) in {"y", "yes"}
    except ConfigInvalid:
        return False  # the end of the input


def _test_login(folder: Path, name: str) -> None:
    """Log in to a device of the new inventory, and print its platform or why the login failed."""
    everything = api.FleetOptions(inventory=folder)
    which = replace(everything, selection=replace(everything.selection, hosts=(name,)))
    try:
        (record,) = api.check(api.open_fleet(which, ask=PromptSource())).devices
    except ConfigInvalid as error:
        say(f"{name}: {error}")
        return
    if record.failure is not None:
        hint = f". {record.failure.hint}" if record.failure.hint else ""
        say(f"{name}: {record.failure.step}: {record.failure.reason}{hint}")
    elif record.check is not None:
        say(f"{name}: logged in: {record.check.facts.model}, release {record.check.version.release}")


def _rate(text: str) -> float | None:
    if not text:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.001 <= rate <= _MBPS:
        raise ConfigInvalid("expected a number from 0.001 to 1000000, found something else", hint="50 is 50 Mbit/s")
    return rate


def _print_result(
    folder: Path, files: tuple[Path, ...], devices: tuple[FirstDevice, ...], sites: tuple[str, ...], *, as_json: bool
) -> None:
    following = [f"export FLASHFERRY_INVENTORY={shlex.quote(str(folder))}", "flashferry doctor", "flashferry check"]

    def human() -> None:
        where = f", {counted(len(sites), 'site')}" if sites else ""
        echo(f"{folder} is written, and read again: {counted(len(devices), 'device')}{where}.")
        echo(
            "No password is in it: it comes from FLASHFERRY_PASSWORD (FLASHFERRY_ENABLE_SECRET for the enable secret),"
        )
        echo("--keyring, --secrets-command, or a prompt (docs/secrets.md).")
        echo("Next:")
        for line in following:
            echo(f"  {line}")

    result: dict[str, object] = {
        "folder": str(folder),
        "files": [str(file) for file in files],
        "devices": [one.name for one in devices],
        "sites": sorted(sites),
        "next": following,
    }
    finish("init", ExitCode.OK, result, as_json=as_json, human=human)
