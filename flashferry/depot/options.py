"""How a depot is run: where it listens, for which transports, and how it sends; all that a run does not bring."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flashferry.depot.places import NAME
from flashferry.fileserver import Limits, ServerSettings
from flashferry.transports.listening import HOST_KEYS
from flashferry.transports.serving import Listening, check_files, is_certified

DIGESTS = "digests.json"
"""File that keeps digests between runs, in the state folder; `flashferry serve` has the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepotOptions(Listening):
    """How a depot is run, besides how it listens and sends.

    Attributes:
        state: The state folder: of host keys, digests, and of the socket where none is given.
        socket: Path of the socket by which runs come, or None: in the state folder.
        drain_s: So long running transfers get to finish once it is told to end, > 0.

    Raises:
        ConfigInvalid: A transport is unknown or lacks what it needs; or a port or a certificate is given for what is
            not served; or the certificate will not do.
    """

    state: Path
    socket: Path | None = None
    drain_s: float = 3600.0

    def __post_init__(self) -> None:
        """Check that no two options contradict each other."""
        Listening.__post_init__(self)
        if self.certificate is not None and self.key is not None and any(map(is_certified, self.served)):
            check_files(self.certificate, self.key)

    @property
    def at(self) -> Path:
        """Return the path of its socket."""
        return self.state / NAME if self.socket is None else self.socket.absolute()

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
