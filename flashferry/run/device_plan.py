"""The plan for one device: lines, copy command, verification and restore. Pure.

`stage --dry-run` prints this plan and a run carries it out, so that the two agree.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.devices.platforms.platform import Platform
from flashferry.fileserver import Ticket
from flashferry.images.image import Digests
from flashferry.model.link_rates import LinkRate, copy_share
from flashferry.model.policy import StagePolicy
from flashferry.tcp.receive_window import ASSUMED_RTT_S, WindowChoice, choose_window
from flashferry.transports import PUSH, USUAL
from flashferry.transports.transport import Offer, Transport, offer_of, return_path_refusal, shown_command
from flashferry.transports.transport_selection import allowed
from inventory.host_view import HostView
from inventory.transport_policy import AS_USUAL
from tasks.check import CheckReport
from tasks.fetch_check import Ceiling, ceilings, trust_refusal
from tasks.restore_plan import plan_restore
from tasks.tcp_config import Change, TcpLines, TunePlan, plan_tune
from tasks.verify import commands_for

# Credentials as long as a ticket's, so that a copy command that is too long is found before a ticket exists.
_STAND_IN = Ticket(ticket_id="", username="x" * 8, password="x" * 16, image_name="")


class DevicePlan(Struct, frozen=True, kw_only=True):
    """What will be done to a device.

    Attributes:
        transport: Name of the transport.
        target: Destination of the copy, for example `bootflash:image.bin` or `null:`.
        window: The chosen window and why; None if nothing is tuned.
        tune: The lines to set; none if the device is good enough as it is.
        copy: The copy command, with `<user>` and `<password>` for the ticket's; for a push, our side's command.
        verify: The commands that prove the copy; none for a copy to `null:`.
        restore: The lines that restore the configuration.
        ceilings: Highest possible rate by each transport that the inventory allows, each tuned.
    """

    transport: str = USUAL.name
    target: str
    window: WindowChoice | None
    tune: TunePlan
    copy: str
    verify: tuple[str, ...]
    restore: tuple[str, ...]
    ceilings: tuple[Ceiling, ...] = ()


def plan_device(
    *,
    device: HostView,
    platform: Platform,
    check: CheckReport,
    before: TcpLines,
    policy: StagePolicy,
    link: LinkRate | None,
    image: str,
    port: int,
    to_null: bool = False,
    server_address: str | None = None,
    transport: Transport = USUAL,
    expected: Digests | None = None,
    mark: str | None = None,
) -> DevicePlan:
    """Return what a run will do to a device.

    Args:
        device: The inventory's values.
        platform: The device's platform.
        check: The check's report.
        before: The lines in the snapshot: a line that others set since the check is theirs and is restored.
        policy: How the device is to be treated.
        link: Its link's rate, or None.
        image: Name of the image.
        port: Port of our server for the transport; 0 if unknown.
        to_null: Whether the copy goes to `null:`, which writes no flash.
        server_address: Our address as devices reach it; None: the inventory's, else that of the SSH connection.
        transport: Transport of the copy.
        expected: The image's digests; None if nothing is proven.
        mark: The line that shows other controllers that this run holds the device, or None.

    Raises:
        ConfigInvalid: No copy command can carry the image's name or the addresses, or the device would not trust us.
    """
    if (refusal := trust_refusal(transport, check.trustpoints)) is not None:
        raise ConfigInvalid(
            refusal, host=device.name, hint="Have one set up on the device, or let it take another transport"
        )
    target = platform.copying.no_file if to_null else f"{check.file_system}{image}"
    ticket = replace(_STAND_IN, image_name=image)
    offer = offer_to(device, check, server_address, ticket=ticket, port=port, transport=transport)
    command = f"(our SCP) scp {image} {target}" if transport is PUSH else shown_command(offer, target, platform)
    window = None
    if policy.tunes:
        window = choose_window(
            rtt_s=check.rtt_s or ASSUMED_RTT_S,
            link_rate_bps=link.rate_bps if link else None,
            explicit_bytes=policy.window_bytes,
        )
    tune = plan_tune(
        before,
        platform=platform,
        transport=offer.transport,
        window_bytes=window.window_bytes if window else None,
        extras=policy.extras,
        source_interface=device.source_interface,
        may_back_off=policy.window_bytes is None,
        mark=mark,
    )
    undo = plan_restore(tune.changes, after(before, tune.changes))
    restore = (*undo.commands, *undo.closing)
    proof = () if expected is None else commands_for(target, expected, platform, signature=policy.verify_signature)
    others = [one for one in allowed(device.transport_policy) if one is not transport]
    if device.transports or device.clear_text is not None or transport is not USUAL or policy.transport != AS_USUAL:
        # If there is a choice, unusable transports are not announced.
        others = [one for one in others if trust_refusal(one, check.trustpoints) is None]
    most = ceilings(
        before,
        platform=platform,
        release=check.version.release,
        transports=(transport, *others) if transport.is_over_tcp else (),
        window_bytes=window.window_bytes if window else None,
        rtt_s=check.rtt_s,
        link_rate_bps=link.rate_bps * copy_share(device, link) if link else None,
    )
    return DevicePlan(
        transport=transport.name,
        target=target,
        window=window if transport.is_over_tcp else None,
        tune=tune,
        copy=command,
        verify=proof,
        restore=restore,
        ceilings=most,
    )


def offer_to(
    device: HostView,
    check: CheckReport,
    server_address: str | None,
    *,
    ticket: Ticket,
    port: int,
    transport: Transport = USUAL,
    fingerprints: tuple[str, ...] = (),
) -> Offer:
    """Return the offer for a device. Our address is the given one, the inventory's, or that of the SSH connection.

    Raises:
        ConfigInvalid: The inventory's VRF cannot be used with the transport.
    """
    refusal = return_path_refusal(transport, vrf=device.vrf, source_interface=device.source_interface)
    if refusal is not None:
        raise ConfigInvalid(refusal, host=device.name, hint="Name one, or let the device take another transport")
    server = server_address or device.server_address or check.server_address
    return offer_of(transport, ticket, server=server, port=port, vrf=device.vrf, fingerprints=fingerprints)


def after(before: TcpLines, changes: tuple[Change, ...]) -> TcpLines:
    """Return the lines as they are once every change is applied."""
    replaced = {change.before for change in changes}
    kept = tuple(line for line in before.lines if line not in replaced)
    return TcpLines(lines=(*kept, *(change.ours for change in changes)))
