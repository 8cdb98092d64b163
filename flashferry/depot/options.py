"""How a depot is run: where it listens, for which transports, and how it sends; all that a run does not bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.places import NAME
from flashferry.fileserver import Limits, SenderProfile, ServerSettings
from flashferry.transports import TRANSPORTS, USUAL
from flashferry.transports.listening import HOST_KEYS, listeners_at
from flashferry.transports.serving import check_files, check_served, is_certified
from flashferry.transports.transport import ListenOptions, Transport

DIGESTS = "digests.json"
"""File that keeps digests between runs, in the state folder; `flashferry serve` has the same."""

_ANY = "0.0.0.0"  # noqa: S104 -- routers reach us by any interface; tickets decide who gets what


@dataclass(frozen=True, slots=True, kw_only=True)
class DepotOptions:
    """How a depot is run.

    Attributes:
        state: The state folder: of host keys, digests, and of the socket where none is given.
        socket: Path of the socket by which runs come, or None: in the state folder.
        transports: What it serves, by their names; the first comes first.
        listen: Address to listen on.
        port: Port of the usual transport, 0 to 65535, or None: 21 where that is allowed and free, else the first free
            one from 2121 on.
        other_ports: Ports of the others, by `Transport.listener_name`; one that is not named is found likewise.
        certificate: File of our certificate, for a transport that shows one, or None.
        key: File of its private key, or None.
        masquerade: Address to name in PASV replies behind NAT, or None.
        passive_ports: First and last port of data connections, or None: the kernel chooses.
        congestion_control: `auto`, `bbr`, `cubic`, `reno` or `system`.
        dscp: DSCP of control and data, 0 to 63; 1 is lower effort.
        sessions: Sessions at once, from 1, or None: what open files carry.
        drain_s: So long running transfers get to finish once it is told to end, > 0.

    Raises:
        ConfigInvalid: A transport is unknown or lacks what it needs; or a port or a certificate is given for what is
            not served; or the certificate will not do.
    """

    state: Path
    socket: Path | None = None
    transports: tuple[str, ...] = (USUAL.name,)
    listen: str = _ANY
    port: int | None = None
    other_ports: Mapping[str, int] = field(default_factory=dict)
    certificate: Path | None = None
    key: Path | None = None
    masquerade: str | None = None
    passive_ports: tuple[int, int] | None = None
    congestion_control: str = "auto"
    dscp: int = 0
    sessions: int | None = None
    drain_s: float = 3600.0

    def __post_init__(self) -> None:
        """Check that no two options contradict each other."""
        check_served(self.served, ports=self.other_ports, port=self.port, certificate=self.certificate, key=self.key)
        if self.certificate is not None and self.key is not None and any(map(is_certified, self.served)):
            check_files(self.certificate, self.key)

    @property
    def served(self) -> tuple[Transport, ...]:
        """Return the transports that it serves, each once."""
        known = {one.name: one for one in TRANSPORTS}
        if (unknown := next((name for name in self.transports if name not in known), None)) is not None:
            *others, last = known
            raise ConfigInvalid(
                f"--transports: expected {', '.join(others)} or {last}, found {unknown!r}",
                hint="Give one of these words, or several with commas between them",
            )
        return tuple(known[name] for name in dict.fromkeys(self.transports))

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
        where = ListenOptions(
            address=self.listen,
            passive_ports=self.passive_ports,
            masquerade_address=self.masquerade,
            certificate=self.certificate,
            key=self.key,
            host_keys=self.host_keys,
        )
        return ServerSettings(
            image_paths=(),
            listeners=listeners_at(self.served, where, ports={USUAL.listener_name: self.port, **self.other_ports}),
            profile=SenderProfile(congestion_control=self.congestion_control, dscp=self.dscp),
            limits=Limits(sessions=self.sessions, drain_s=self.drain_s),
        )
