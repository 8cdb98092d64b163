"""By which transport a device's copy goes, and what is to be done to the device for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flashferry.run.context import RunContext
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import RecordKeeper
from flashferry.run.device_plan import DevicePlan, plan_device
from flashferry.run.neighbours.board import ServedBy
from flashferry.transports import NEIGHBOUR, PUSH
from flashferry.transports.serving import check_files, is_certified
from flashferry.transports.transport import Transport
from inventory.host_view import HostView
from tasks.run_marker import mark_line
from tasks.tcp_config import TcpLines


class DeviceTransport:
    """Holds the transport of a device's copy.

    Attributes:
        current: The one by which it goes now.
        served_by: The neighbour that it comes from now, or None: it comes from us.
        own_interface: The interface that the copy from a neighbour leaves by.
    """

    def __init__(self, context: RunContext) -> None:
        self._server = context.server
        self.current: Transport = context.transports[0]
        self._next = context.transports[1:]
        self.served_by: ServedBy | None = None
        self.own_interface: str | None = None

    def take_neighbour(self, served_by: ServedBy, own_interface: str) -> None:
        """Have the copy come from a neighbour; where that fails it goes on with the transport of now."""
        self._next = (self.current, *self._next)
        self.current, self.served_by, self.own_interface = NEIGHBOUR, served_by, own_interface

    @property
    def port(self) -> int:
        """Return our server's port for it; 0 where the device does not come to us."""
        if self.served_by is not None:
            return self.current.ports.well_known
        return 0 if self.is_push else self._server.port_of(self.current.name)

    @property
    def is_push(self) -> bool:
        """Return whether our side writes to the device."""
        return self.current is PUSH

    @property
    def following(self) -> Transport | None:
        """Return the one that is tried where this one fails before a byte came; None where there is none left."""
        return self._next[0] if self._next else None

    def fall(self) -> Transport:
        """Go on to the next one, and return it."""
        self.served_by = None
        self.current, *left = self._next
        self._next = tuple(left)
        return self.current


class DevicePlanner:
    """Makes a device's plan, anew for each transport."""

    def __init__(
        self, context: RunContext, host: HostView, keeper: RecordKeeper, login: DeviceLogin, transport: DeviceTransport
    ) -> None:
        self._context, self._host, self._keeper = context, host, keeper
        self._login, self._transport = login, transport
        self._made: tuple[dict[str, Any], DevicePlan] | None = None

    def plan(self, before: TcpLines) -> DevicePlan:
        """Return what will be done to the device; what its link carries is kept in its record.

        Args:
            before: Its lines as they were before anything of ours was set.

        Raises:
            ConfigInvalid: No copy command can carry the image's name or the addresses, or our certificate is for other
                addresses than the device is told.
        """
        self._check_certificate()
        context, session = self._context, self._login.session()
        link = context.links.of(self._host, session.peer_address)
        self._keeper.update(link_rate=link)
        device, address, served_by = self._host, context.server_address, self._transport.served_by
        if served_by is not None:
            device = replace(device, source_interface=self._transport.own_interface)
            address = served_by.address
        given: dict[str, Any] = {
            "device": device,
            "platform": session.platform,
            "check": self._keeper.checked,
            "before": before,
            "policy": context.policy,
            "to_null": context.to_null,
            "server_address": address,
            "link": link,
            "image": context.image.name,
            "port": self._transport.port,
            "transport": self._transport.current,
            "mark": mark_line(context.run_id, context.owner),
        }
        # The lines of the snapshot are mostly those of the check, for which the plan is made.
        if self._made is None or self._made[0] != given:
            self._made = (given, plan_device(**given))
        return self._made[1]

    def _check_certificate(self) -> None:
        """Hold our address, as the device is told it, against the names of our certificate.

        Raises:
            ConfigInvalid: It is for others; the device would say no more than that there was an error.
        """
        if self._context.certificate is None or not is_certified(self._transport.current):
            return
        address = self._context.server_address or self._host.server_address or self._keeper.checked.server_address
        check_files(*self._context.certificate, told=(address,))
