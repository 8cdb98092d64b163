"""How a depot is run: where it listens, for which transports, and how it sends; all that a run does not bring."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.offering.offer import PLANS, OfferFolders
from flashferry.depot.paths import CATALOGUE, NAME
from flashferry.fileserver import Limits, ServerSettings
from flashferry.transports.listeners import HOST_KEYS, Listening, check_files, is_certified

DIGESTS = "digests.json"
"""File that keeps digests between runs, in the state folder; `flashferry serve` has the same."""

_FOR_DEPOTS = frozenset({"http", "https"})
"""By what other depots fetch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepotOptions(Listening):
    """How a depot is run, besides how it listens and sends.

    Attributes:
        state: The state folder: of host keys, digests, and of the socket where none is given.
        socket: Path of the socket by which runs come, or None: in the state folder.
        drain_s: Seconds that running transfers get to finish once it is asked to end, > 0.
        catalogue: Folder of the images that are offered to depots of other sites, or None: in the state folder.
        plans: Folder of plans that are offered to them, or None: `plans` in the catalogue.
        mirrors: File of the sites whose depots may fetch, or None: none may.

    Raises:
        ConfigInvalid: A transport is unknown or lacks what it needs; or a port or a certificate is given for what is
            not served; or the certificate will not do; or depots may fetch, and not by HTTP; or the catalogue is a
            file.
    """

    state: Path
    socket: Path | None = None
    drain_s: float = 3600.0
    catalogue: Path | None = None
    plans: Path | None = None
    mirrors: Path | None = None

    def __post_init__(self) -> None:
        """Check that no two options contradict each other."""
        Listening.__post_init__(self)
        if self.certificate is not None and self.key is not None and any(map(is_certified, self.served)):
            check_files(self.certificate, self.key)
        catalogue_in(self.state, self.catalogue)
        if self.mirrors is not None and _FOR_DEPOTS.isdisjoint(self.transports):
            raise ConfigInvalid(
                f"--mirrors: expected http or https among the transports served, found {', '.join(self.transports)}",
                hint="Depots of other sites fetch by it: give --transports ftp,https, for example",
            )

    @property
    def at(self) -> Path:
        """Return the path of its socket."""
        return self.state / NAME if self.socket is None else self.socket.absolute()

    @property
    def offered(self) -> OfferFolders:
        """Return where what is offered to depots comes from, and where it is made."""
        catalogue = catalogue_in(self.state, self.catalogue)
        return OfferFolders(
            catalogue=catalogue,
            plans=catalogue / PLANS if self.plans is None else self.plans.absolute(),
            made=self.state / "offer",
            kept=self.state / "manifests.json",
            digests=self.state / DIGESTS,
        )

    @property
    def host_keys(self) -> Path:
        """Return the folder of its SSH server's host keys."""
        return self.state / HOST_KEYS

    def settings(self) -> ServerSettings:
        """Return how its file server runs.

        Raises:
            ConfigInvalid: A protocol needs what the options do not have.
            SettingsInvalid: An option is out of its range.
        """
        return ServerSettings(
            image_paths=(),
            listeners=self.listeners(self.host_keys),
            profile=self.profile,
            limits=Limits(sessions=self.sessions, drain_s=self.drain_s),
        )


def catalogue_in(state: Path, named: Path | None) -> Path:
    """Return the folder of the catalogue: the one that was named, else that in the state folder.

    Raises:
        ConfigInvalid: A file is there, or where one of the folders is to be that it lies in.
    """
    path = (state / CATALOGUE if named is None else named).absolute()
    there = next(one for one in (path, *path.parents) if os.path.lexists(one))
    if not there.is_dir():
        raise ConfigInvalid(
            f"catalogue {path}: expected a folder, or room for one, found the file {there}",
            hint="Name the folder of images with --catalogue",
        )
    return path
