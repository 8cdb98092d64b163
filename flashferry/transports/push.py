"""Push: our side writes the image to the device, by the device's own SCP server. The one way that is no fetching.

Facts
-----
* `ip scp server enable` switches the server on; it is one global line, absent by default, and off says `no` of it. The
  user needs privilege 15 at login and the right to give commands (exec authorization).
* The device overwrites a file of the same name without a question, so the target is looked at right before.
* Its SSH server has a channel window of its own, widened by the lines that widen the client's.
* The controller encrypts for all devices at once; the device's processor decrypts as with a fetch by SCP.
* Never taken unless the inventory names it (`transports: [..., push]`), or the operator allows it for a run.
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
"""Switched on for the time of a push, where it is not on already."""

_CANNOT = "Look at the device's log, and whether its user may log in twice ('line vty', 'ip ssh maxstartups')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Push(Transport):
    """The way that is no fetching. Nothing of ours listens for it, and the device asks nothing."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Return the line that switches the device's server on."""
        return (SCP_SERVER,)

    def url(self, offer: Offer) -> str:
        """Return what stands for it where others have a URL."""
        return f"{self.name}://{offer.image}"

    def needed_settings(self, *, source_interface: str | None) -> Iterable[tuple[Setting, str | None]]:  # noqa: ARG002 -- the device opens no connection
        """Return that line, on."""
        return ((SCP_SERVER, None),)

    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Refuse: nothing of ours listens.

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
