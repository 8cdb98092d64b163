"""How FTP is served, and the listener that a file server is given for it."""

import ipaddress
from dataclasses import asdict, dataclass

from flashferry.fileserver import ListenerSettings, SettingsInvalid

PROTOCOL = "ftpserver.protocol:FtpListener"
"""Where a file server finds FTP."""

TRANSPORTS = ("ftp",)
"""What is served here, as tickets name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FtpOptions:
    """What is FTP's own in how a server runs.

    Attributes:
        passive_ports: First and last port for passive data connections; None leaves the choice to the kernel.
        masquerade_address: IPv4 address to name in PASV replies behind NAT.
        masquerade_networks: Pairs of client network and address to name to clients from there; first match wins.

    Raises:
        SettingsInvalid: One of them is out of its range.
    """

    passive_ports: tuple[int, int] | None = None
    masquerade_address: str | None = None
    masquerade_networks: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.passive_ports is not None:
            first, last = self.passive_ports
            if not 1024 <= first <= last <= 65535:
                raise SettingsInvalid(
                    f"passive_ports: expected two ports from 1024 to 65535 in order, found {first} and {last}",
                    hint="Give a range that firewalls let through to this host",
                )
        if self.masquerade_address is not None:
            _require_ipv4("masquerade_address", self.masquerade_address)
        for network, address in self.masquerade_networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise SettingsInvalid(
                    f"masquerade_networks: expected networks as 10.0.0.0/8, found {error}",
                    hint="Write each as network and length, with no bits behind the length",
                ) from None
            _require_ipv4(f"masquerade_networks {network}", address)


def ftp_listener(
    *,
    listen_address: str = "0.0.0.0",  # noqa: S104 - routers reach us by any interface; tickets decide who gets what
    port: int = 0,
    passive_ports: tuple[int, int] | None = None,
    masquerade_address: str | None = None,
    masquerade_networks: tuple[tuple[str, str], ...] = (),
) -> ListenerSettings:
    """Return a listener for FTP; see `ListenerSettings` and `FtpOptions`.

    Raises:
        SettingsInvalid: An argument is out of its range.
    """
    options = FtpOptions(
        passive_ports=passive_ports, masquerade_address=masquerade_address, masquerade_networks=masquerade_networks
    )
    return ListenerSettings(protocol=PROTOCOL, listen_address=listen_address, port=port, options=asdict(options))


def _require_ipv4(name: str, text: str) -> None:
    try:
        version = ipaddress.ip_address(text).version
    except ValueError:
        raise SettingsInvalid(
            f"{name}: expected an IP address such as 192.0.2.1, found {text!r}", hint="Give an address, no name"
        ) from None
    if version != 4:
        raise SettingsInvalid(
            f"{name}: expected an IPv4 address, since PASV carries no other, found {text}",
            hint="Give the IPv4 address at which devices reach this host",
        )
