"""The fleet that a command is about: the options by which devices are chosen and logged in to, once for all verbs."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flashferry import api
from flashferry.api.fleet import FleetOptions
from flashferry.cli.command_line import DEVICES, HERE, Offered
from flashferry.cli.options.shared import TranscriptOption, carried
from flashferry.cli.terminal.output import say
from inventory.selection import SAMPLE, Selection
from inventory.value_readers import HostKeyPolicy

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.devices.credentials import Source

_CREDENTIALS = (
    "User name, password and enable secret come from the inventory, then the environment (FLASHFERRY_USERNAME, "
    "FLASHFERRY_PASSWORD, FLASHFERRY_ENABLE_SECRET), then --keyring, then --secrets-command, then a prompt; each fills "
    "in what those before it left open."
)


_option = functools.partial(typer.Option, rich_help_panel=DEVICES)


_NAME = re.compile(r"^[\"']?([A-Za-z0-9][A-Za-z0-9._-]*)[\"']?:", re.MULTILINE)


def device_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the devices of the inventory that a command line names, for a shell that completes."""
    return _names_in("hosts.yaml", ctx, incomplete)


def group_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the groups of the inventory that a command line names, for a shell that completes."""
    return _names_in("groups.yaml", ctx, incomplete)


def _names_in(file: str, ctx: typer.Context, incomplete: str) -> list[str]:
    # The keys at the beginning of its lines: reading it whole would take longer than a person waits.
    path = Path(ctx.params.get("inventory") or ".").expanduser() / file
    try:
        found = _NAME.findall(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [name for name in found if name.startswith(incomplete)]


def _options(
    inventory: Annotated[
        str,
        _option(
            "--inventory",
            "-i",
            envvar="FLASHFERRY_INVENTORY",
            metavar="PATH",
            help="Folder with Nornir's hosts.yaml, groups.yaml and defaults.yaml, or a Nornir configuration file that "
            f"names an inventory plugin; '{SAMPLE}' is the lab's fleet.",
        ),
        HERE,
    ] = "",
    host: Annotated[
        list[str] | None,
        _option(
            "--host",
            "-H",
            metavar="NAME",
            help="Only this device; may be repeated.",
            autocompletion=device_names,
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        _option(
            "--group",
            "-g",
            metavar="NAME",
            help="Only devices of this group; may be repeated.",
            autocompletion=group_names,
        ),
    ] = None,
    filter: Annotated[  # noqa: A002 -- the option's name
        list[str] | None,
        _option(
            "--filter",
            metavar="KEY=VALUE",
            help="Only devices with this in the inventory, such as site=branch1 or platform=ios; may be repeated: "
            "values of one key are alternatives, several keys must all fit.",
        ),
        Offered(
            help="Only devices with this in the service's inventory, such as site=branch1; may be repeated: values of "
            "one key are alternatives, several keys must all fit."
        ),
    ] = None,
    host_keys: Annotated[
        HostKeyPolicy | None,
        _option(
            "--host-keys",
            envvar="FLASHFERRY_HOST_KEYS",
            help="Devices whose SSH host key is not known yet: accept and remember it (the default), or refuse. A "
            "changed key is always refused.",
        ),
        HERE,
    ] = None,
    known_hosts: Annotated[
        Path | None,
        _option(
            "--known-hosts",
            envvar="FLASHFERRY_KNOWN_HOSTS",
            metavar="FILE",
            help="Known SSH host keys, as OpenSSH keeps them (default: known_hosts in the state folder).",
        ),
        HERE,
    ] = None,
    keyring: Annotated[
        bool,
        _option(
            "--keyring", envvar="FLASHFERRY_KEYRING", help=f"Ask the system's keyring for credentials. {_CREDENTIALS}"
        ),
        HERE,
    ] = False,
    secrets_command: Annotated[
        str | None,
        _option(
            "--secrets-command",
            envvar="FLASHFERRY_SECRETS_COMMAND",
            metavar="COMMAND",
            help="Program that is given a device's name and prints JSON with username, password, enable_secret; run "
            "without a shell, once per device that lacks one of them.",
        ),
        HERE,
    ] = None,
    at_depot: Annotated[
        bool,
        _option(
            "--at-depot",
            envvar="FLASHFERRY_AT_DEPOT",
            help="This host is the depot that the inventory names for its sites: copies go over the LAN "
            "(lan_rate_bps), and the rate of the site's link holds none back.",
        ),
        HERE,
    ] = False,
    transcript: TranscriptOption = None,
) -> None:
    """Carry the options that every verb over a fleet has."""


def fleet_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of a fleet; it takes them together as its argument `which`, a FleetOptions."""
    return _with_options(verb, frozenset())


def login_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb those of them that do not choose devices."""
    return _with_options(verb, frozenset({"host", "group", "filter"}))


def device_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb those for one device that it names itself, and whose sessions it records itself."""
    return _with_options(verb, frozenset({"host", "group", "filter", "transcript"}))


def _with_options(verb: Callable[..., None], without: frozenset[str]) -> Callable[..., None]:
    offered = inspect.signature(_options, eval_str=True).parameters
    shared = {name: one for name, one in offered.items() if name not in without}
    return carried(
        verb, "which", shared, lambda given, own: _fleet_options(given, own.get("state_dir")), come_first=True
    )


def _fleet_options(given: dict[str, Any], state_dir: Path | None) -> FleetOptions:
    selection = Selection(
        hosts=tuple(given.pop("host", None) or ()),
        groups=tuple(given.pop("group", None) or ()),
        filters=tuple(given.pop("filter", None) or ()),
    )
    return FleetOptions(selection=selection, state_dir=state_dir, **given)


def fleet(which: FleetOptions) -> Nornir:
    """Return the devices that a command is about, with their credentials; what no source knows the operator is asked.

    Raises:
        ConfigInvalid: The inventory is wrong or empty, nothing fits the selection, two devices have one address, or a
            source of credentials cannot be used.
    """
    return api.open_fleet(which, ask=prompt(), tell=say)


def prompt() -> Source:
    """Return what asks the operator at the terminal for credentials, once for all devices."""
    from flashferry.cli.terminal.questions import PromptSource

    return PromptSource()
