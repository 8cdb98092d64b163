"""Define the options of a depot: socket, transports, and how it sends."""

from __future__ import annotations

import os
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.offering.offer import PLANS, OfferFolders
from flashferry.depot.paths import CATALOGUE, NAME
from flashferry.fileserver import Limits, ServerSettings
from flashferry.transports.listeners import HOST_KEYS, Listening, check_files, is_certified

DIGESTS = "digests.json"
"""File in the state folder that keeps digests between runs; the same as of `flashferry serve`."""

_FOR_DEPOTS = frozenset({"http", "https"})
"""Transports by which other depots fetch."""


class DepotOptions(Listening, frozen=True, kw_only=True):
    """The options of a depot, besides `Listening`.

    Attributes:
        state: The state folder: host keys, digests, and by default the socket.
        socket: Path of the socket, or None: in the state folder.
        drain_s: How long running transfers may take once it is asked to end, > 0.
        catalogue: Folder of images offered to other sites' depots, or None: in the state folder.
        plans: Folder of plans offered to them, or None: `plans` in the catalogue.
        mirrors: File of the sites whose depots may fetch, or None: none may.

    Raises:
        ConfigInvalid: A transport is unknown or incomplete; a port or certificate is given for a transport that is not
            served; the certificate is invalid; depots may fetch, but not by HTTP; the catalogue is a file.
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
        """Return the folders of what is offered to depots."""
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
        """Return the settings of its file server.

        Raises:
            ConfigInvalid: A protocol needs an option that is missing.
            SettingsInvalid: An option is out of range.
        """
        return ServerSettings(
            image_paths=(),
            listeners=self.listeners(self.host_keys),
            profile=self.profile,
            limits=Limits(sessions=self.sessions, drain_s=self.drain_s),
        )


def catalogue_in(state: Path, named: Path | None) -> Path:
    """Return the folder of the catalogue: the given one, else that in the state folder.

    Raises:
        ConfigInvalid: A file is there, or in the place of a parent folder.
    """
    path = (state / CATALOGUE if named is None else named).absolute()
    there = next(one for one in (path, *path.parents) if os.path.lexists(one))
    if not there.is_dir():
        raise ConfigInvalid(
            f"catalogue {path}: expected a folder, or room for one, found the file {there}",
            hint="Name the folder of images with --catalogue",
        )
    return path
