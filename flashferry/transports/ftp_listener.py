"""Where our FTP server listens: the one place that puts FTP and the file server together."""

from flashferry.fileserver import ListenerSettings, may_bind
from ftpserver import ftp_listener

FTP_PORT = 21
UNPRIVILEGED_FTP_PORTS = range(2121, 2131)


def listener_at(
    address: str,
    port: int | None = None,
    *,
    passive_ports: tuple[int, int] | None = None,
    masquerade_address: str | None = None,
) -> ListenerSettings:
    """Return what the file server needs to listen for FTP.

    Args:
        address: Address to listen on.
        port: Its port, 0 for any; None: 21 where that is allowed and free, else the first from 2121 on, else any.
        passive_ports: Range for data connections, or None: the kernel chooses.
        masquerade_address: Address to name to passive clients behind NAT; None names the one they came to.

    Raises:
        SettingsInvalid: An argument is out of its range.
    """
    return ftp_listener(
        listen_address=address,
        port=free_ftp_port() if port is None else port,
        passive_ports=passive_ports,
        masquerade_address=masquerade_address,
    )


def free_ftp_port() -> int:
    """Return 21 where allowed and free, else the first free one from 2121 on, else 0 (any).

    A URL without a port suits every release. The ports behind 2121 are few, so that a firewall can have a rule for
    them; any port is the last resort.
    """
    return next((port for port in (FTP_PORT, *UNPRIVILEGED_FTP_PORTS) if not may_bind(port)), 0)


def port_notice(port: int) -> str | None:
    """Return what to tell of the port that was found where none was asked for; None for 21."""
    if port == FTP_PORT:
        return None
    first, last = UNPRIVILEGED_FTP_PORTS[0], UNPRIVILEGED_FTP_PORTS[-1]
    taken = {True: "port 21 is not to be had", False: f"ports 21 and {first} are not to be had"}[port == first]
    if port not in UNPRIVILEGED_FTP_PORTS:
        taken = f"port 21 and those from {first} to {last} are not to be had"
    return (
        f"{taken}, listening on {port}; firewalls must let it through, and old IOS may not take a port in the URL. "
        "Give one with --port"
    )
