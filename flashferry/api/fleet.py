"""The devices that a job is about, and where state is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import descriptor_of
from inventory.host_key_rules import (
    HOST_KEYS,
    KNOWN_HOSTS,
    confine_known_hosts,
    known_hosts_in,
    state_directory,
)
from inventory.selection import SAMPLE, Selection, narrowed
from inventory.value_readers import HostKeyPolicy

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.devices.credentials import Refused, Source
    from flashferry.devices.transcript import Transcripts
    from flashferry.store.control_requests import Origin
    from flashferry.store.journal import Journal


def state_folder(state: Path | str | None) -> Path:
    """Return the folder of journal and history: the one given, else where the command line has it."""
    return state_directory(None if state is None else Path(state))


@contextmanager
def journal_in(state: Journal | Path | str | None, origin: Origin | None = None) -> Iterator[Journal]:
    """Yield a journal: one that is open stays so, another is opened for as long as the block runs.

    Args:
        state: The journal, or its folder; None: where the command line has it.
        origin: Origin of the runs that are started with it, where it is opened here; None: unknown.

    Raises:
        JournalUnusable: It cannot be opened, or is of a later release.
    """
    from flashferry.store.journal import Journal

    if isinstance(state, Journal):
        yield state
        return
    with Journal(state_folder(state), origin) as journal:
        yield journal


_TAKEN: dict[str, str] = {}

"""Secrets that stood in our environment, and were taken out of it."""

Tell = Callable[[str], None]

"""Takes a sentence for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """Which devices, and how they are logged in to.

    Attributes:
        inventory: Folder of the inventory, a Nornir configuration file, or `sample` for the lab's fleet.
        selection: Which of its devices; all by default.
        host_keys: What becomes of a device whose host key is not known; None leaves it to the inventory.
        known_hosts: File of known host keys; None leaves it to the inventory.
        keyring: Whether the system's keyring is asked for credentials.
        secrets_command: Program that prints a device's credentials, with its arguments as in a shell.
        transcript: Folder for transcripts of the sessions, secrets masked; None for none.
        state_dir: Folder of our state where another than the usual one is meant; known host keys are kept there too.
        at_depot: Whether this host is the depot of its devices' sites: images go to them over the LAN.
    """

    inventory: Path | str
    selection: Selection = field(default_factory=Selection)
    host_keys: HostKeyPolicy | None = None
    known_hosts: Path | None = None
    keyring: bool = False
    secrets_command: str | None = None
    transcript: Path | None = None
    state_dir: Path | None = None
    at_depot: bool = False

    @property
    def has_selection(self) -> bool:
        """Return whether devices were chosen: by name, group or filter."""
        return self.selection != Selection()

    @property
    def folder(self) -> Path:
        """Return the folder in which rules and images may lie beside the inventory."""
        path = _path(self.inventory)
        # A Nornir configuration file stands for the folder that it is in.
        return path if path.is_dir() else path.parent


def open_fleet(options: FleetOptions, *, ask: Source | None = None, tell: Tell | None = None) -> Nornir:
    """Return the devices that are meant, with their credentials.

    Args:
        options: Which devices, and how they are logged in to.
        ask: Asked last for what no other source knows, such as a prompt; None: no one is asked.
        tell: Takes a notice where a transcript cannot be written any more; None: there is no notice.

    Raises:
        ConfigInvalid: The inventory is wrong or empty, nothing fits the selection, two devices have one address, or a
            source of credentials cannot be used.
    """
    from inventory.sites import check_addresses

    selected = narrowed(whole_fleet(options, tell=tell), options.selection)
    check_addresses(selected.inventory.hosts.values())
    return with_credentials(selected, options, ask=ask)


def whole_fleet(options: FleetOptions, *, tell: Tell | None = None) -> Nornir:
    """Return all devices of an inventory with the rules for host keys, without credentials; there may be none.

    Args:
        options: Where the inventory is; its selection does not count here.
        tell: As for `open_fleet`.

    Raises:
        ConfigInvalid: The inventory is wrong, the known hosts cannot be read, or no transcript can be written.
    """
    from inventory.nornir_loader import open_inventory

    if not options.inventory:
        raise ConfigInvalid(
            "no inventory: expected --inventory PATH",
            hint=f"'flashferry init' writes a first one; '{SAMPLE}' is the lab's fleet",
        )
    nornir = open_inventory(_path(options.inventory))
    rules: dict[str, object] = {}
    if options.host_keys is not None:
        rules[HOST_KEYS] = options.host_keys.value
    if options.known_hosts is not None:
        rules[KNOWN_HOSTS] = _readable(options.known_hosts)
    else:
        confine_known_hosts(nornir.inventory, state_directory(options.state_dir))
    if options.state_dir is not None:
        # What the inventory says itself goes before.
        nornir.inventory.defaults.data.setdefault(KNOWN_HOSTS, known_hosts_in(options.state_dir).absolute())
    for data in (nornir.inventory.defaults.data, *(host.data for host in nornir.inventory.hosts.values())):
        data.update(rules)
    if options.at_depot:
        _seen_from_depot(nornir)
    if options.transcript is not None:
        record_sessions(nornir, options.transcript, tell or _dropped)
    return nornir


def record_sessions(nornir: Nornir, folder: Path, report: Tell) -> Transcripts:
    """Write sessions that are opened with the devices from now on into a folder, with secrets masked.

    Args:
        nornir: The devices.
        folder: The folder; it is created if missing.
        report: Receives one sentence, once, when a transcript can no longer be written.

    Raises:
        ConfigInvalid: No file can be written there.
    """
    from flashferry.devices.connection import TRANSCRIPTS
    from flashferry.devices.transcript import transcripts_in

    made = transcripts_in(folder, tell=report)
    nornir.config.user_defined[TRANSCRIPTS] = made
    return made


def _seen_from_depot(nornir: Nornir) -> None:
    """Make devices with a depot look as the depot sees them: on its LAN, and no other server brings their images.

    Windows stay, and so does the share of the rate. On a LAN of unknown rate copies find their pace.
    """
    for host in nornir.inventory.hosts.values():
        if host.get("depot") is not None:
            host.data |= {"link_rate_bps": host.get("lan_rate_bps"), "depot": None, "neighbours": False}


def transcripts_reported_by(nornir: Nornir, tell: Tell) -> None:
    """Report a transcript that cannot be written any more by another function: a live view has the terminal.

    Args:
        nornir: The devices.
        tell: Takes a sentence for people.
    """
    from flashferry.devices.connection import TRANSCRIPTS
    from flashferry.devices.transcript import Transcripts

    found = nornir.config.user_defined.get(TRANSCRIPTS)
    if isinstance(found, Transcripts):
        found.report_by(tell)


def with_credentials(
    nornir: Nornir, options: FleetOptions, *, ask: Source | None = None, failed: Refused | None = None
) -> Nornir:
    """Fill in the credentials of all devices; return the same Nornir.

    The inventory's own come first, then those of the environment, of the keyring, of the secrets command, and what is
    asked for. Passwords are taken out of the process's environment, so that no other program started from here inherits
    them.

    Args:
        nornir: The devices.
        options: How they are logged in to.
        ask: As for `open_fleet`.
        failed: Takes the failures of single devices; without it the first one is raised.

    Raises:
        ConfigInvalid: A source of credentials cannot be used.
    """
    from flashferry.devices.credentials import (
        ENABLE,
        PASSWORD,
        CommandSource,
        Environment,
        KeyringSource,
        apply_credentials,
    )

    # The operator's own program gets what the operator gave.
    everything = dict(os.environ) | _TAKEN
    for name in (PASSWORD, ENABLE):
        if (found := os.environ.pop(name, None)) is not None:
            _TAKEN[name] = everything[name] = found
    sources: list[Source] = [Environment(everything)]
    if options.keyring:
        sources.append(KeyringSource())
    if options.secrets_command is not None:
        sources.append(CommandSource(options.secrets_command, everything))
    if ask is not None:
        sources.append(ask)
    return apply_credentials(nornir, sources, failed=failed)


def _path(inventory: Path | str) -> Path:
    if inventory != SAMPLE:
        return Path(inventory)
    from inventory.nornir_loader import sample_directory

    return sample_directory()


def _readable(path: Path) -> Path:
    """Return the path of a known_hosts file; it need not exist, for it is made with the first key."""
    try:
        os.close(descriptor_of(path))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ConfigInvalid(
            f"known hosts {path}: cannot be read: {error.strerror}",
            hint="Check the path and the file's rights; one that is not there yet is made with the first key",
        ) from None
    return path.absolute()


def _dropped(text: str) -> None:
    """Drop a text."""
