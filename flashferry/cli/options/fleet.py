"""The fleet that a command is about: the options by which devices are chosen and logged in to, once for all verbs."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flashferry.cli.command_line import DEVICES
from flashferry.cli.options.shared import TranscriptOption
from flashferry.cli.terminal.output import say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import descriptor_of
from inventory.access import (
    HOST_KEYS,
    KNOWN_HOSTS,
    HostKeyPolicy,
    confine_known_hosts,
    known_hosts_in,
    state_directory,
)
from inventory.load import SAMPLE, open_inventory, sample_directory
from inventory.selection import Selection, narrowed
from inventory.sites import check_addresses

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.devices.credentials import Refused

_TAKEN: dict[str, str] = {}
"""Secrets that stood in our environment, and were taken out of it."""

_CREDENTIALS = (
    "User name, password and enable secret come from the inventory, then the environment (FLASHFERRY_USERNAME, "
    "FLASHFERRY_PASSWORD, FLASHFERRY_ENABLE_SECRET), then --keyring, then --secrets-command, then a prompt; each fills "
    "in what those before it left open."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """Which devices, and how they are logged in to.

    Attributes:
        inventory: Folder of the inventory, a Nornir configuration file, or `sample`.
        host: Only these devices.
        group: Only devices of these groups.
        filter: Only devices that fit these `key=value` pairs.
        host_keys: What becomes of a device whose host key is not known; None leaves it to the inventory.
        known_hosts: File of known host keys; None leaves it to the inventory.
        keyring: Whether the system's keyring is asked for credentials.
        secrets_command: Program that prints a device's credentials.
        transcript: Folder for transcripts of the sessions; None for none.
        state_dir: Folder of our state where the verb was given one; known host keys are kept there too.
    """

    inventory: str
    host: list[str] | None = None
    group: list[str] | None = None
    filter: list[str] | None = None
    host_keys: HostKeyPolicy | None = None
    known_hosts: Path | None = None
    keyring: bool = False
    secrets_command: str | None = None
    transcript: Path | None = None
    state_dir: Path | None = None


_option = functools.partial(typer.Option, rich_help_panel=DEVICES)


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
    ] = "",
    host: Annotated[
        list[str] | None, _option("--host", "-H", metavar="NAME", help="Only this device; may be repeated.")
    ] = None,
    group: Annotated[
        list[str] | None,
        _option("--group", "-g", metavar="NAME", help="Only devices of this group; may be repeated."),
    ] = None,
    filter: Annotated[  # noqa: A002 -- the option's name
        list[str] | None,
        _option(
            "--filter",
            metavar="KEY=VALUE",
            help="Only devices with this in the inventory, such as site=branch1 or platform=ios; may be repeated: "
            "values of one key are alternatives, several keys must all fit.",
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
    ] = None,
    known_hosts: Annotated[
        Path | None,
        _option(
            "--known-hosts",
            envvar="FLASHFERRY_KNOWN_HOSTS",
            metavar="FILE",
            help="Known SSH host keys, as OpenSSH keeps them (default: known_hosts in the state folder).",
        ),
    ] = None,
    keyring: Annotated[
        bool,
        _option(
            "--keyring", envvar="FLASHFERRY_KEYRING", help=f"Ask the system's keyring for credentials. {_CREDENTIALS}"
        ),
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
    ] = None,
    transcript: TranscriptOption = None,
) -> None:
    """Carry the options that every verb over a fleet has."""


def fleet_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of a fleet; it takes them together as its argument `which`, a FleetOptions."""
    return _with_options(verb, frozenset())


def login_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb those of them that do not choose devices."""
    return _with_options(verb, frozenset({"host", "group", "filter"}))


def _with_options(verb: Callable[..., None], without: frozenset[str]) -> Callable[..., None]:
    own = inspect.signature(verb, eval_str=True)
    offered = inspect.signature(_options, eval_str=True).parameters
    shared = {name: one for name, one in offered.items() if name not in without}

    @functools.wraps(verb)
    def with_fleet(**given: Any) -> None:
        options = {name: given.pop(name) for name in shared}
        verb(which=FleetOptions(**options, state_dir=given.get("state_dir")), **given)

    mine = [one for name, one in own.parameters.items() if name != "which"]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*shared.values(), *mine)]
    # Typer reads the signature, and the annotations by themselves.
    with_fleet.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # inspect's own hook
    with_fleet.__annotations__ = {one.name: one.annotation for one in parameters}
    del with_fleet.__wrapped__
    return with_fleet


def fleet(which: FleetOptions) -> Nornir:
    """Return the devices that a command is about, with their credentials.

    Raises:
        ConfigInvalid: The inventory is wrong or empty, nothing fits the selection, two devices have one address, or a
            source of credentials cannot be used.
    """
    everything = opened(which)
    chosen = Selection(
        hosts=tuple(which.host or ()), groups=tuple(which.group or ()), filters=tuple(which.filter or ())
    )
    selected = narrowed(everything, chosen)
    check_addresses(selected.inventory.hosts.values())
    return with_credentials(selected, which)


def opened(which: FleetOptions) -> Nornir:
    """Return all devices of an inventory with the rules for host keys, without credentials; there may be none.

    Raises:
        ConfigInvalid: The inventory is wrong, the known hosts cannot be read, or no transcript can be written.
    """
    if not which.inventory:
        raise ConfigInvalid("no inventory: expected --inventory PATH", hint=f"'{SAMPLE}' is the lab's fleet")
    nornir = open_inventory(sample_directory() if which.inventory == SAMPLE else Path(which.inventory))
    rules: dict[str, object] = {}
    if which.host_keys is not None:
        rules[HOST_KEYS] = which.host_keys.value
    if which.known_hosts is not None:
        rules[KNOWN_HOSTS] = _readable(which.known_hosts)
    else:
        confine_known_hosts(nornir.inventory, state_directory(which.state_dir))
    if which.state_dir is not None:
        # What the inventory says itself goes before.
        nornir.inventory.defaults.data.setdefault(KNOWN_HOSTS, known_hosts_in(which.state_dir).absolute())
    data = [nornir.inventory.defaults.data, *(host.data for host in nornir.inventory.hosts.values())]
    for one in data:
        one.update(rules)
    if which.transcript is not None:
        from flashferry.devices.connection import TRANSCRIPTS
        from flashferry.devices.transcript_files import transcripts_in

        nornir.config.user_defined[TRANSCRIPTS] = transcripts_in(which.transcript, tell=say)
    return nornir


def transcripts_told_by(nornir: Nornir, tell: Callable[[str], None]) -> None:
    """Have a transcript that cannot be written any more told in another way: a live view has the terminal.

    Args:
        nornir: The devices.
        tell: Takes a sentence for people.
    """
    from flashferry.devices.connection import TRANSCRIPTS
    from flashferry.devices.transcript_files import Transcripts

    found = nornir.config.user_defined.get(TRANSCRIPTS)
    if isinstance(found, Transcripts):
        found.tell_by(tell)


def with_credentials(nornir: Nornir, which: FleetOptions, *, failed: Refused | None = None) -> Nornir:
    """Fill in the credentials of all devices; return the same Nornir.

    Args:
        nornir: The devices.
        which: How they are logged in to.
        failed: Takes the failures of single devices; without it the first one is raised.

    Raises:
        ConfigInvalid: A source of credentials cannot be used.
    """
    from flashferry.devices.credentials import ENABLE, PASSWORD, Environment, Source, apply_credentials
    from flashferry.devices.secret_sources import CommandSource, KeyringSource, PromptSource

    # The operator's own program gets what the operator gave; no other process started from here inherits it.
    everything = dict(os.environ) | _TAKEN
    for name in (PASSWORD, ENABLE):
        if (found := os.environ.pop(name, None)) is not None:
            _TAKEN[name] = everything[name] = found
    sources: list[Source] = [Environment(everything)]
    if which.keyring:
        sources.append(KeyringSource())
    if which.secrets_command is not None:
        sources.append(CommandSource(which.secrets_command, everything))
    return apply_credentials(nornir, [*sources, PromptSource()], failed=failed)


def _readable(path: Path) -> Path:
    """Return the path of a known_hosts file; it need not exist, for it is made with the first key."""
    try:
        os.close(descriptor_of(path))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ConfigInvalid(f"known hosts {path}: cannot be read: {error.strerror}") from None
    return path.absolute()
