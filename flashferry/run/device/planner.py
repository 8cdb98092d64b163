"""What is to be done to a device that was checked, by the transport that its copy goes by."""

from __future__ import annotations

from flashferry.run.context import RunContext
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import RecordKeeper
from flashferry.run.device.transports import DeviceTransport
from flashferry.run.device_plan import DevicePlan, plan_device
from inventory.view import HostView
from tasks.mark import mark_line
from tasks.tcp_config import TcpLines


class DevicePlanner:
    """Makes a device's plan, anew for each transport."""

    def __init__(
        self, context: RunContext, host: HostView, keeper: RecordKeeper, login: DeviceLogin, transport: DeviceTransport
    ) -> None:
        self._context, self._host, self._keeper = context, host, keeper
        self._login, self._transport = login, transport

    def plan(self, before: TcpLines) -> DevicePlan:
        """Return what will be done to the device; what its link carries is kept in its record.

        Args:
            before: Its lines as they were before anything of ours was set.

        Raises:
            ConfigInvalid: No copy command can carry the image's name or the addresses.
        """
        context, session = self._context, self._login.session()
        link = context.links.of(self._host, session.peer_address)
        self._keeper.update(link_rate=link)
        return plan_device(
            device=self._host,
            platform=session.platform,
            check=self._keeper.checked,
            before=before,
            options=context.options,
            link=link,
            image=context.image.name,
            port=self._transport.port,
            transport=self._transport.current,
            mark=mark_line(context.run_id, context.owner),
        )
