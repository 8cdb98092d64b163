"""Neighbour: a device fetches from another one of its site, which has the image already. No server of ours is in it.

Facts
-----
* `copy tftp://HOST/FILE TARGET` asks nothing that other copies do not ask. It prints `Accessing tftp://HOST/FILE...`,
  `Loading FILE from HOST (via Vlan1): !!!O!...`, and `[OK - N bytes]` in front of the line that counts the bytes;
  without
  an answer `%Error opening tftp://HOST/FILE (Timed out)`, in the middle `%Error reading ... (Timed out)`.
* There is no login, so there is no ticket; who may fetch is the serving device's list of addresses.
* The client sends a block of 512 bytes per round trip unless `ip tftp blocksize N` says more (512 to 8192): that is for
  networks of a site, not for a WAN.
* `ip tftp source-interface NAME` is a configuration line, as with the other clients; it settles which address the other
  device's list has to permit.
* No copy of more than 65,535 blocks ends there: a Catalyst's copy of 1,269,880,464 bytes was seen.
* It is clear text, without a proof of who served: only the hash of what came counts.
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
    """From a device of the same site. Nothing of ours listens for it."""

    @property
    def scheme(self) -> str:
        """Return how its URLs begin."""
        return "tftp"

    def url(self, offer: Offer) -> str:
        """Return the URL, which has no credentials."""
        return f"{self.scheme}://{offer.place}"

    def windows(self, platform: Platform, /) -> tuple[ChannelWindow, ...]:
        """Return what widens the blocks of its client."""
        return platform.serving.blocks if platform.serving is not None else ()

    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Refuse: nothing of ours listens.

        Raises:
            ConfigInvalid: Always.
        """
        raise ConfigInvalid(
            f"{self.name}: expected a transport that devices fetch from us by, found {self.name}, for "
            f"{options.address}",
            hint="Name ftp, http, https, scp or sftp",
        )

    def data_mode(self, _commands: Iterable[str], /) -> str | None:
        """Return None: our server is given no command."""
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
