"""Where our file server is reached and listens, as a person says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from inventory.transport_policy import USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """Where our server is, for devices that fetch from it.

    Attributes:
        address: Our address as devices reach it, or None: the inventory's, else as their SSH connection shows it.
        listen_address: Address that it listens on.
        port: Its port for FTP, 0 to 65535, or None: 21 where that is allowed and free, else the first free one from
            2121 on.
        other_ports: Its ports for other transports, by listener: `http`, `https`, and `ssh` for SCP and SFTP; one that
            is missing is the well-known one where that is allowed and free, else the first free of a few others.
        certificate: File of its certificate for HTTPS, PEM, or None: it serves none.
        key: File of the certificate's private key, PEM; only together with it.
        passive_ports: Range for data connections, or None: the kernel chooses.
        depot: The host's depot: `auto`, where there is one; `never`; or the path of its socket.
    """

    address: str | None = None
    listen_address: str = "0.0.0.0"  # noqa: S104 -- routers reach us by any interface; tickets decide who gets what
    port: int | None = None
    other_ports: Mapping[str, int] = field(default_factory=dict)
    certificate: Path | None = None
    key: Path | None = None
    passive_ports: tuple[int, int] | None = None
    depot: str = "auto"

    @property
    def certificate_and_key(self) -> tuple[Path, Path] | None:
        """Return both files of the certificate, or None where there is none."""
        return None if self.certificate is None or self.key is None else (self.certificate, self.key)

    def port_of(self, listener: str) -> int | None:
        """Return the port that was asked for, for what listens for a transport; None where none was."""
        return self.port if listener == USUAL else self.other_ports.get(listener)

    def moved(self, given: ServerPlace) -> ServerPlace:
        """Return this place but for what is given now; the depot is that of now in any case."""
        return replace(
            self,
            address=given.address or self.address,
            port=self.port if given.port is None else given.port,
            other_ports={**self.other_ports, **given.other_ports},
            certificate=given.certificate or self.certificate,
            key=given.key or self.key,
            depot=given.depot,
        )
