"""The transport of a device's copy, and the device's plan for it."""

from __future__ import annotations

from dataclasses import replace

from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device_plan import DevicePlan, plan_device
from flashferry.run.neighbours.board import ServedBy
from flashferry.transports import NEIGHBOUR, PUSH
from flashferry.transports.serving import check_files, is_certified
from flashferry.transports.transport import Transport
from tasks.run_marker import mark_line
from tasks.tcp_config import TcpLines


def take_neighbour(run: DeviceRun, served_by: ServedBy, own_interface: str) -> None:
    """Copy from a neighbour first, and by the present transport where that fails."""
    run.next_transports = (run.transport, *run.next_transports)
    run.transport, run.served_by, run.own_interface = NEIGHBOUR, served_by, own_interface


def next_transport(run: DeviceRun) -> Transport:
    """Change to the next transport, and return it."""
    run.served_by = None
    run.transport, *left = run.next_transports
    run.next_transports = tuple(left)
    return run.transport


def server_port(run: DeviceRun) -> int:
    """Return the port that the device connects to; 0 for a push, where we connect to the device."""
    if run.served_by is not None:
        return run.transport.ports.well_known
    return 0 if run.transport is PUSH else run.context.server.port_of(run.transport.name)


def plan_now(run: DeviceRun, before: TcpLines) -> DevicePlan:
    """Return the plan for the present transport; the link's rate is recorded.

    Args:
        run: The device's run.
        before: The device's lines before anything of ours was set.

    Raises:
        ConfigInvalid: No copy command can carry the image's name or the addresses, or our certificate is for other
            addresses than the device connects to.
    """
    _check_certificate(run)
    context, session = run.context, run.session()
    link = context.links.of(run.host, session.peer_address)
    run.update(link_rate=link)
    made_from = (before, run.transport, run.served_by, run.checked, link, server_port(run))
    # The lines of the snapshot are mostly those of the check, for which there is a plan already.
    if run.plan is None or run.plan[0] != made_from:
        device, address = run.host, context.server_address
        if run.served_by is not None:
            device, address = replace(device, source_interface=run.own_interface), run.served_by.address
        run.plan = (
            made_from,
            plan_device(
                device=device,
                platform=session.platform,
                check=run.checked,
                before=before,
                policy=context.policy,
                to_null=context.to_null,
                server_address=address,
                link=link,
                image=context.image.name,
                port=server_port(run),
                transport=run.transport,
                mark=mark_line(context.run_id, context.owner),
            ),
        )
    return run.plan[1]


def _check_certificate(run: DeviceRun) -> None:
    """Check that our certificate is for the address that the device connects to.

    Raises:
        ConfigInvalid: It is not; the device itself would report no more than an error.
    """
    if run.context.certificate is None or not is_certified(run.transport):
        return
    address = run.context.server_address or run.host.server_address or run.checked.server_address
    check_files(*run.context.certificate, told=(address,))
