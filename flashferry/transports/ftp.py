"""FTP as a device's client uses it.

Facts
-----
* `copy ftp://user:password@host[:port]/name`: the device takes the credentials from the URL and asks for none; without
  a user there it uses its own `ip ftp username`. Old releases may not accept a port in the URL.
* `ip ftp source-interface NAME` is a configuration line, not an option of the command. The device prints the
  interface's full name, whatever was typed, and ignores the line while the interface is down.
* A device that cannot reach a server retries for up to half an hour and then prints `Timed out`, whatever the cause.
* After the login it opens a data connection to a port of our passive range, or asks us to open one to it, depending on
  `ip ftp passive`. Sources disagree about its default. Our server does both, so the line is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.transports.transport import FailureCause, ListenOptions, Messages, Ports, Transport, source_setting

if TYPE_CHECKING:
    from flashferry.fileserver import ListenerSettings

_ACTIVE = ("PORT", "EPRT")
_PASSIVE = ("PASV", "EPSV")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ftp(Transport):
    """Copy by FTP: a control and a data connection, in clear text."""

    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Return the settings of a listener for FTP."""
        # Start time: most commands serve nothing.
        from ftpserver import ftp_listener

        return ftp_listener(
            listen_address=options.address,
            port=options.port,
            passive_ports=options.passive_ports,
            masquerade_address=options.masquerade_address,
        )

    def data_mode(self, commands: Iterable[str], /) -> str | None:
        """Return `passive` if the device opens the data connection, `active` if we do, None if none was requested."""
        asked = [one for one in commands if any(word in one for word in (*_PASSIVE, *_ACTIVE))]
        if not asked:
            return None
        return "active" if any(word in asked[-1] for word in _ACTIVE) else "passive"


FTP = Ftp(
    name="ftp",
    title="FTP",
    is_clear_text=True,
    listener_name="ftp",
    ports=Ports(well_known=21, others=range(2121, 2131)),
    source=source_setting("source-interface", "ip ftp source-interface"),
    words=Messages(
        no_client="no connection reached our FTP port",
        no_data="it logged in and no data connection came about",
        hints={
            FailureCause.NO_CLIENT: (
                "Check route, firewall and access lists from the device to our FTP port, its VRF (inventory key 'vrf') "
                "and the address that it is given for us ('server_address')"
            ),
            FailureCause.NO_LOGIN: (
                "Something between us may inspect or rewrite FTP (application layer gateway, 'ip inspect'); or the "
                "device does not take credentials from the URL"
            ),
            FailureCause.WRONG_SOURCE: (
                "Something between us translates its address: log in to it at the address that FTP comes from, or have "
                "both translated alike"
            ),
            FailureCause.NO_DATA: (
                "Open our passive ports towards the device (--passive-ports where they are to be few), or set "
                "'ip ftp passive' where the device wants us to connect to it"
            ),
            FailureCause.BROKEN_OFF: "Look for loss and MTU trouble on the path",
        },
        stuck={
            FailureCause.NO_CLIENT: (
                "the device did not reach our FTP port",
                "Check route, access lists, VRF and source interface",
            ),
            FailureCause.NO_LOGIN: ("the device came but did not log in", "Check that nothing between us rewrites FTP"),
            FailureCause.NO_DATA: (
                "the device logged in but opened no data connection",
                "Check that our passive ports are reachable",
            ),
        },
    ),
)
