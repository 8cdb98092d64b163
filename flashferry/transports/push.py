"""Push: we write the image to the device through the device's own SCP server. All other transports are fetches.

Facts
-----
* `ip scp server enable` switches the server on; it is a global line, absent by default, and `no` removes it. The user
  needs privilege 15 at login and exec authorization.
* The device overwrites a file of the same name without a question, so the target is checked right before.
* Its SSH server has a channel window, widened by the same lines as the client's.
* This host encrypts for all devices at once; the device's processor decrypts as with a fetch by SCP.
* Push is only used if the inventory names it (`transports: [..., push]`), or the operator allows it for a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.devices.platforms.platform import Setting
from flashferry.transports.transport import FailureCause, ListenOptions, Messages, Offer, Ports, Transport
from inventory.transport_policy import PUSH as NAME

if TYPE_CHECKING:
    from flashferry.fileserver import ListenerSettings

SCP_SERVER = Setting(keyword="scp server", command="ip scp server enable", tail="", is_tuning=False)
"""Line that is set for the time of a push, unless it is set already."""

_CANNOT = "Look at the device's log, and whether its user may log in twice ('line vty', 'ip ssh maxstartups')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Push(Transport):
    """Copy by the device's own SCP server. No server of ours listens for it, and the device asks no questions."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Return the line that enables the device's SCP server."""
        return (SCP_SERVER,)

    def url(self, offer: Offer) -> str:
        """Return a text for displays that show a URL for other transports."""
        return f"{self.name}://{offer.image}"

    def needed_settings(self, *, source_interface: str | None) -> Iterable[tuple[Setting, str | None]]:  # noqa: ARG002 -- the device opens no connection
        """Return the line that enables the device's SCP server."""
        return ((SCP_SERVER, None),)

    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Refuse, for no server of ours is involved.

        Raises:
            ConfigInvalid: Always.
        """
        raise ConfigInvalid(
            f"push: expected a transport that devices fetch by, found {self.name}, for {options.address}",
            hint="Name ftp, http, https, scp or sftp",
        )


PUSH = Push(
    name=NAME,
    title="SCP push",
    is_clear_text=False,
    has_channel=True,
    listener_name=NAME,
    ports=Ports(well_known=0, others=range(0)),
    source=None,
    words=Messages(
        no_client="no second SSH session came about",
        no_data="its SCP server takes nothing",
        hints=dict.fromkeys(FailureCause, _CANNOT),
        stuck=dict.fromkeys(FailureCause, ("the device's SCP server took nothing", _CANNOT)),
    ),
)
