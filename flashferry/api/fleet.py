"""The devices of a command with their credentials, and the location of journal and history."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet_options import FleetOptions, state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import descriptor_of
from flashferry.devices.connection import TRANSCRIPTS
from flashferry.devices.credentials import (
    ENABLE,
    PASSWORD,
    CommandSource,
    Environment,
    KeyringSource,
    apply_credentials,
)
from flashferry.devices.transcript import Transcripts, transcripts_in
from flashferry.store.journal import Journal
from inventory.host_key_rules import (
    HOST_KEYS,
    KNOWN_HOSTS,
    confine_known_hosts,
    known_hosts_in,
    state_directory,
)
from inventory.nornir_loader import open_inventory
from inventory.selection import SAMPLE, narrowed
from inventory.sites import check_addresses

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.devices.credentials import Refused, Source
    from flashferry.store.control_requests import Origin


@contextmanager
def journal_in(state: Journal | Path | str | None, origin: Origin | None = None) -> Iterator[Journal]:
    """Yield a journal: an open one stays open, another is opened for the block.

    Args:
        state: An open journal or its folder; None: the default folder.
        origin: Origin of the runs started with it, if it is opened here; None: unknown.

    Raises:
        JournalUnusable: The journal cannot be opened, or is from a later release.
    """
    if isinstance(state, Journal):
        yield state
        return
    with Journal(state_folder(state), origin) as journal:
        yield journal


_TAKEN: dict[str, str] = {}
"""Secrets removed from our environment."""

Notify = Callable[[str], None]
"""Receives a notice."""


def open_fleet(options: FleetOptions, *, ask: Source | None = None, notify: Notify | None = None) -> Nornir:
    """Return the selected devices with their credentials.

    Args:
        options: Which devices, and how to log in to them.
        ask: Last source of credentials, such as a prompt; None: none.
        notify: Receives a notice when a transcript can no longer be written; None: no notice.

    Raises:
        ConfigInvalid: The inventory is invalid or empty, no device is selected, two devices share an address, or a
            source of credentials cannot be used.
    """
    selected = narrowed(whole_fleet(options, notify=notify), options.selection)
    check_addresses(selected.inventory.hosts.values())
    return with_credentials(selected, options, ask=ask)


def whole_fleet(options: FleetOptions, *, notify: Notify | None = None) -> Nornir:
    """Return all devices of an inventory, perhaps none, with host key rules and without credentials.

    Args:
        options: Where the inventory is; its selection is ignored.
        notify: As for `open_fleet`.

    Raises:
        ConfigInvalid: The inventory is invalid, the known hosts cannot be read, or no transcript can be written.
    """
    if not options.inventory:
        raise ConfigInvalid(
            "no inventory: expected --inventory PATH",
            hint=f"'flashferry init' writes a first one; '{SAMPLE}' is the lab's fleet",
        )
    nornir = open_inventory(options.path)
    rules: dict[str, object] = {}
    if options.host_keys is not None:
        rules[HOST_KEYS] = options.host_keys.value
    if options.known_hosts is not None:
        rules[KNOWN_HOSTS] = _readable(options.known_hosts)
    else:
        confine_known_hosts(nornir.inventory, state_directory(options.state_dir))
    if options.state_dir is not None:
        # Values of the inventory have priority.
        nornir.inventory.defaults.data.setdefault(KNOWN_HOSTS, known_hosts_in(options.state_dir).absolute())
    for data in (nornir.inventory.defaults.data, *(host.data for host in nornir.inventory.hosts.values())):
        data.update(rules)
    if options.at_depot:
        _seen_from_depot(nornir)
    if options.transcript is not None:
        record_sessions(nornir, options.transcript, notify or _dropped)
    return nornir


def record_sessions(nornir: Nornir, folder: Path, report: Notify) -> Transcripts:
    """Write sessions that are opened with the devices from now on into a folder, with secrets masked.

    Args:
        nornir: The devices.
        folder: The folder; it is created if missing.
        report: Receives one sentence, once, when a transcript can no longer be written.

    Raises:
        ConfigInvalid: No file can be written there.
    """
    made = transcripts_in(folder, notify=report)
    nornir.config.user_defined[TRANSCRIPTS] = made
    return made


def _seen_from_depot(nornir: Nornir) -> None:
    """Change the inventory's values to those seen from a depot: devices are on its LAN, and no other server is used.

    Time windows and the share of the rate stay. With an unknown LAN rate, copies find their own pace.
    """
    for host in nornir.inventory.hosts.values():
        if host.get("depot") is not None:
            host.data |= {"link_rate_bps": host.get("lan_rate_bps"), "depot": None, "neighbours": False}


def transcripts_reported_by(nornir: Nornir, notify: Notify) -> None:
    """Send notices about unwritable transcripts to another function, as while a live view has the terminal.

    Args:
        nornir: The devices.
        notify: Receives a sentence.
    """
    found = nornir.config.user_defined.get(TRANSCRIPTS)
    if isinstance(found, Transcripts):
        found.report_by(notify)


def with_credentials(
    nornir: Nornir, options: FleetOptions, *, ask: Source | None = None, failed: Refused | None = None
) -> Nornir:
    """Fill in the credentials of all devices, and return the same Nornir.

    Sources in order: inventory, environment, keyring, secrets command, `ask`. Passwords are removed from the process's
    environment, so that child processes do not inherit them.

    Args:
        nornir: The devices.
        options: How to log in.
        ask: As for `open_fleet`.
        failed: Receives the failures of single devices; None: the first failure is raised.

    Raises:
        ConfigInvalid: A source of credentials cannot be used.
    """
    # The secrets command gets the whole environment, with the passwords.
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


def _readable(path: Path) -> Path:
    """Check that a known_hosts file can be read if it exists, and return its path."""
    try:
        os.close(descriptor_of(path))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ConfigInvalid(
            f"known hosts {path}: cannot be read: {error.strerror}",
            hint="Check the path and the file's permissions; one that is not there yet is made with the first key",
        ) from None
    return path.absolute()


def _dropped(text: str) -> None:
    """Ignore a notice."""
