"""Selection and login options of devices, and the location of the state folder. Light enough for command-line help."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from inventory.host_key_rules import state_directory
from inventory.selection import SAMPLE, Selection, sample_directory
from inventory.value_readers import HostKeyPolicy


def state_folder(state: Path | str | None) -> Path:
    """Return the folder of journal and history: the given one, or else the default."""
    return state_directory(None if state is None else Path(state))


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """Which devices, and how to log in to them.

    Attributes:
        inventory: Folder of the inventory, a Nornir configuration file, or `sample` for the lab's devices.
        selection: Which of its devices; all by default.
        host_keys: Policy for unknown host keys; None: as the inventory says.
        known_hosts: File of known host keys; None: as the inventory says.
        keyring: Whether the system's keyring is a source of credentials.
        secrets_command: Program that prints a device's credentials, with its arguments as in a shell; None: no program
            is asked.
        transcript: Folder for session transcripts with secrets masked; None: no transcripts.
        state_dir: State folder, which also holds known host keys; None: the default.
        at_depot: Whether this host is the depot of its devices' sites: images reach them over the LAN.
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
        """Return whether devices were selected by name, group or filter."""
        return self.selection != Selection()

    @property
    def path(self) -> Path:
        """Return the inventory's folder or file."""
        return sample_directory() if self.inventory == SAMPLE else Path(self.inventory)

    @property
    def folder(self) -> Path:
        """Return the folder for rules and images beside the inventory."""
        # For a Nornir configuration file, its folder.
        return self.path if self.path.is_dir() else self.path.parent
