"""How a run is to be done, and how its devices are to be treated: what does not differ from device to device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flashferry.images.digests import Digests
from flashferry.transports import USUAL
from flashferry.transports.choice import NotServed
from flashferry.transports.transport import ANY_ADDRESS, Transport
from inventory.transport_policy import AS_USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """How devices are to be treated.

    Attributes:
        tune: Whether the TCP configuration may be changed.
        to_null: Copy to `null:`, which writes no flash: a speed test.
        window_bytes: Window to set, or None: from the round-trip time and the link rate.
        extras: Names of further lines to switch on, see `tasks.tcp_config.EXTRAS`.
        remove_partial: Whether what a broken copy of ours left may be removed from flash.
        verify_signature: Whether devices are to verify the vendor's signature inside the image.
        server_address: Our address as devices reach it, or None: the inventory's, else the SSH connection's.
        add: Whether devices in install mode are to add the image (`install add`) once they are restored.
        ready: Whether devices are asked at the end whether they are ready to boot the image; `add` asks it, too.
        dead_man: Whether devices are to take our lines back by themselves when nobody comes back to do it; None: those
            that an earlier run has shown to take it.
        any_image: Whether an image is staged also on a platform that it is not for, or on several.
        uncapped: Whether copies may run with neither a cap nor a pace.
        transport: By what devices fetch: `usual` (FTP, or the first that the inventory allows where it leaves FTP out),
            `auto` (the fastest that is known, and the next one where one fails before a byte came), or a name; of
            several with commas between them each is tried until a byte came.
    """

    tune: bool = True
    to_null: bool = False
    window_bytes: int | None = None
    extras: tuple[str, ...] = ()
    remove_partial: bool = False
    verify_signature: bool = False
    server_address: str | None = None
    any_image: bool = False
    uncapped: bool = False
    transport: str = AS_USUAL
    add: bool = False
    ready: bool = False
    dead_man: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is to be done.

    Attributes:
        verb: `stage` or `probe`, for the journal.
        device: How devices are treated.
        listen_address: Address that our server listens on.
        port: Its port for the usual transport, FTP, or None: 21 where that is allowed and free, else 2121, else any.
        other_ports: Its ports for other transports, by listener: `http`, `https`, and `ssh` for SCP and SFTP; one that
            is missing is the well-known one where that is allowed and free, else the first of a few others, likewise.
        certificate: File of its certificate for HTTPS, PEM, or None: it serves none.
        key: File of the certificate's private key, PEM; only together with it.
        passive_ports: Range for data connections, or None: the kernel chooses.
        sample_interval_s: How often our server asks the kernel about each transfer; 0.05 to 60.
        depot: The host's depot: `auto`, where there is one; `never`; or the path of its socket.
        host_keys: Folder of our SSH server's host keys, or None: below the state folder.
        not_served: What the depot does not serve, where one is used; None: our own server serves what is wanted.
        vendor: What the vendor published for the image; another file is refused before any device is touched.
    """

    verb: str = "stage"
    device: DeviceOptions = field(default_factory=DeviceOptions)
    listen_address: str = ANY_ADDRESS
    port: int | None = None
    other_ports: Mapping[str, int] = field(default_factory=dict)
    certificate: Path | None = None
    key: Path | None = None
    passive_ports: tuple[int, int] | None = None
    sample_interval_s: float = 1.0
    depot: str = "auto"
    host_keys: Path | None = None
    not_served: NotServed | None = None
    vendor: Digests = field(default_factory=Digests)

    @property
    def certificate_and_key(self) -> tuple[Path, Path] | None:
        """Return both files of the certificate, or None where there is none."""
        return None if self.certificate is None or self.key is None else (self.certificate, self.key)

    def port_of(self, transport: Transport) -> int | None:
        """Return the port that was asked for, for a transport; None where none was."""
        name = transport.listener_name
        return self.port if name == USUAL.listener_name else self.other_ports.get(name)
