"""Neighbour: a device copies the image by TFTP from another device of its site that already has it.

Facts
-----
* `copy tftp://HOST/FILE TARGET` asks the same questions as other copies. It prints `Accessing tftp://HOST/FILE...`,
  `Loading FILE from HOST (via Vlan1): !!!O!...`, and `[OK - N bytes]` before the line with the byte count. Without a
  response it prints `%Error opening tftp://HOST/FILE (Timed out)`, during a copy `%Error reading ... (Timed out)`.
* There is no login and so no ticket; the serving device's access list permits the client's address.
* One block is sent per round trip, 512 bytes unless `ip tftp blocksize N` (512 to 8192) is set: that suits the network
  of a site, not a WAN.
* `ip tftp source-interface NAME` is a configuration line, as with the other clients; it determines the address that the
  serving device has to permit.
* A copy may have more than 65,535 blocks: a Catalyst's copy of 1,269,880,464 bytes was seen.
* It is clear text and the server is not authenticated: only the hash of the copied file counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.devices.platforms.platform import ChannelWindow, Platform
from flashferry.transports.transport import (
    FailureCause,
    ListenOptions,
    Messages,
    Offer,
    Ports,
    Transport,
    source_setting,
)

if TYPE_CHECKING:
    from flashferry.fileserver import ListenerSettings

_CHECK_PATH = "Look at the way between the two devices, access lists for UDP among them; the copy goes on over the WAN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour(Transport):
    """TFTP from a device of the same site; no server of ours is involved."""

    @property
    def scheme(self) -> str:
        """Return the scheme of its URLs."""
        return "tftp"

    def url(self, offer: Offer) -> str:
        """Return the URL, which has no credentials."""
        return f"{self.scheme}://{offer.place}"

    def windows(self, platform: Platform, /) -> tuple[ChannelWindow, ...]:
        """Return the settings that enlarge the TFTP block size."""
        return platform.serving.blocks if platform.serving is not None else ()

    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Refuse, for no server of ours is involved.

        Raises:
            ConfigInvalid: Always.
        """
        raise ConfigInvalid(
            f"{self.name}: expected a transport that devices fetch from us by, found {self.name}, for "
            f"{options.address}",
            hint="Name ftp, http, https, scp or sftp",
        )

    def data_mode(self, _commands: Iterable[str], /) -> str | None:
        """Return None, for our server receives no commands."""
        return None


NEIGHBOUR = Neighbour(
    name="neighbour",
    title="a neighbour",
    is_clear_text=True,
    listener_name="neighbour",
    is_over_tcp=False,
    ports=Ports(well_known=69, others=range(0)),
    source=source_setting("tftp source-interface", "ip tftp source-interface"),
    words=Messages(
        no_client="the neighbour did not answer",
        no_data="the neighbour answered and sent nothing",
        hints=dict.fromkeys(FailureCause, _CHECK_PATH),
        stuck=dict.fromkeys(FailureCause, ("the neighbour sent nothing, or nothing more", _CHECK_PATH)),
    ),
)
