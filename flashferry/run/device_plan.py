"""The plan for one device: lines, copy command, verification and restore. Pure.

`stage --dry-run` prints this plan and a run carries it out, so the two cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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

# With credentials as long as a ticket's, so that a command that is too long is found before there is a ticket.
_STAND_IN = Ticket(ticket_id="", username="x" * 8, password="x" * 16, image_name="")


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlan:
    """What will be done to a device.

    Attributes:
        transport: Name of the transport by which it fetches.
        target: Where the copy goes, for example `bootflash:image.bin`, or `null:`.
        window: The window chosen and why, or None where nothing is tuned.
        tune: The lines to set; none where the device is good enough as it is.
        copy: The copy command, with `<user>` and `<password>` in place of the ticket's; of a push what our side does.
        verify: The commands that prove the copy; none for a copy to `null:`.
        restore: The lines that bring the configuration back.
        ceilings: How fast the device can fetch at most by each transport that the inventory allows, treated alike.
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
    """Return what a run will do.

    Args:
        device: The inventory's view.
        platform: What it runs.
        check: What the device is and has.
        before: Its lines as the snapshot has them: a line that others set since the check is theirs and is restored.
        policy: How the device is to be treated.
        link: What its link carries, or None.
        image: Name of the image.
        port: Port of our server for that transport; 0 where it is not known yet.
        to_null: Whether it copies to `null:`, which writes no flash.
        server_address: Our address as devices reach it, or None: the inventory's, else the SSH connection's.
        transport: By what it is to fetch.
        expected: The image's digests, or None where nothing is proven.
        mark: The line that shows others that this run holds the device while lines are set, or None.

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
        # Where there is a choice, transports that cannot be used are not announced.
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
    """Return the offer for a device: our address is as given, as the inventory has it, or as SSH shows it.

    Raises:
        ConfigInvalid: The inventory's VRF cannot be used with the protocol.
    """
    refusal = return_path_refusal(transport, vrf=device.vrf, source_interface=device.source_interface)
    if refusal is not None:
        raise ConfigInvalid(refusal, host=device.name, hint="Name one, or let the device take another transport")
    server = server_address or device.server_address or check.server_address
    return offer_of(transport, ticket, server=server, port=port, vrf=device.vrf, fingerprints=fingerprints)


def after(before: TcpLines, changes: tuple[Change, ...]) -> TcpLines:
    """Return the lines as they are once every change was taken."""
    replaced = {change.before for change in changes}
    kept = tuple(line for line in before.lines if line not in replaced)
    return TcpLines(lines=(*kept, *(change.ours for change in changes)))
