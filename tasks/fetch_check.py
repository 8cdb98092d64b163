"""Check by which protocols a device can fetch, how fast at most, from which address, and what is at the target."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from flashferry.core.units import bound_rate
from flashferry.devices.errors import DeviceRefused, OutputNotUnderstood
from flashferry.devices.platforms.platform import ChannelWindow, FileSystems, Platform
from flashferry.devices.session import DeviceSession
from flashferry.images.image import Image
from flashferry.tcp.receive_window import ASSUMED_RTT_S
from flashferry.tcp.ssh_channel_window import ChannelRate, Limit, channel_rate, link_payload_bytes_per_s
from flashferry.transports import TRANSPORTS, USUAL, transport_named
from flashferry.transports.transport import Transport
from tasks.file_system import FlashSpace, file_named, free_bytes, read_listing
from tasks.partial_file import file_at
from tasks.read_config import Configured
from tasks.step import CHECK_WORD
from tasks.tcp_config import Change, TcpLines, TunePlan, plan_tune
from templates.rows import DirError, DirFile, DirTotals, FileSystem, PkiTrustpoint, VrfDefinition, first, rows
from templates.version import ntc_rows


class Ceiling(Struct, frozen=True, kw_only=True):
    """The highest possible rate of a copy by one protocol.

    Attributes:
        bytes_per_s: No copy is faster, in payload bytes per second.
        likely_bytes_per_s: Expected rate without another limit: no flash, no processor, no loss.
        limit: What limits the rate.
        channel_window_bytes: Window of the SSH channel, or None if there is none.
        is_assumed: Whether a window or the round-trip time is assumed.
        untuned_bytes_per_s: The highest possible rate without any line of ours.
    """

    transport: str
    title: str
    bytes_per_s: float
    likely_bytes_per_s: float
    limit: Limit
    tcp_window_bytes: int
    channel_window_bytes: int | None
    is_assumed: bool
    untuned_bytes_per_s: float

    @property
    def reason(self) -> str:
        """Return in words what limits the rate."""
        words = {
            Limit.TCP_WINDOW: f"TCP window of {self.tcp_window_bytes} bytes",
            Limit.SSH_WINDOW: f"SSH window of {self.channel_window_bytes} bytes",
            Limit.LINK: "its link",
        }[self.limit]
        return f"{words}, assumed" if self.is_assumed else words


def ceilings(
    before: TcpLines,
    *,
    platform: Platform,
    release: str,
    transports: Iterable[Transport],
    window_bytes: int | None,
    rtt_s: float | None,
    link_rate_bps: float | None,
) -> tuple[Ceiling, ...]:
    """Return the highest possible rate by each of some protocols.

    Args:
        before: The device's lines as they are.
        platform: Its platform.
        release: Its release as printed; empty if unknown.
        transports: The protocols.
        window_bytes: The window to set for TCP and SSH channel, or None if nothing is tuned.
        rtt_s: Round-trip time in seconds, or None if not measured.
        link_rate_bps: Bits per second of the link that copies may use, or None if unknown.
    """
    link = None if link_rate_bps is None else link_payload_bytes_per_s(link_rate_bps)
    found = []
    for one in transports:
        plan = plan_tune(before, platform=platform, transport=one, window_bytes=window_bytes)
        tuned = _Windows.of(_expected(before, plan, one.windows(platform), release), platform, one)
        untuned = _Windows.of(before, platform, one)
        most = tuned.rate(rtt_s, link)
        found.append(
            Ceiling(
                transport=one.name,
                title=one.title,
                bytes_per_s=most.most_bytes_per_s,
                likely_bytes_per_s=most.likely_bytes_per_s,
                limit=most.limit,
                tcp_window_bytes=tuned.tcp_bytes,
                channel_window_bytes=tuned.channel_bytes,
                is_assumed=tuned.is_assumed(most.limit) or (rtt_s is None and most.limit is not Limit.LINK),
                untuned_bytes_per_s=untuned.rate(rtt_s, link).most_bytes_per_s,
            )
        )
    return tuple(found)


def announce(found: Iterable[Ceiling]) -> str:
    """Return `SCP will run at most at 82 kB/s here (...); HTTP at 5.9 MB/s (...)`, the slowest first; may be empty."""
    ordered = sorted(found, key=lambda one: one.bytes_per_s)
    if not ordered:
        return ""
    first, *others = ordered
    said = f"{first.title} will run at most at {bound_rate(first.bytes_per_s)} here ({first.reason})"
    return "; ".join((said, *(f"{one.title} at {bound_rate(one.bytes_per_s)} ({one.reason})" for one in others)))


def announce_choice(found: Iterable[Ceiling], by: str) -> str:
    """Return the highest rate by the chosen protocol, with those of the others; empty if the chosen one is unknown.

    `the copy goes by FTP, here at most at 5.9 MB/s (its link); it would go by SCP at most at 82 kB/s (...)`.
    """
    ordered = sorted(found, key=lambda one: (one.transport != by, one.bytes_per_s))
    if not ordered or ordered[0].transport != by:
        return ""
    first, *others = ordered
    said = f"the copy goes by {first.title}, here at most at {bound_rate(first.bytes_per_s)} ({first.reason})"
    if not others:
        return said
    rest = [f"by {one.title} at most at {bound_rate(one.bytes_per_s)} ({one.reason})" for one in others]
    return f"{said}; it would go {', '.join(rest)}"


def should_announce(found: Iterable[Ceiling], *, by: str = USUAL.name) -> bool:
    """Return whether ceilings are shown: not if the copy goes as usual and the inventory names no protocols."""
    names = {one.transport for one in found}
    return bool(names) and (by != USUAL.name or names != {one.name for one in TRANSPORTS})


class _Windows(Struct, frozen=True, kw_only=True):
    """The two windows of a copy, each with whether it is assumed."""

    tcp_bytes: int
    channel_bytes: int | None
    is_tcp_assumed: bool
    is_channel_assumed: bool

    @classmethod
    def of(cls, lines: TcpLines, platform: Platform, transport: Transport) -> _Windows:
        tcp, ssh = lines.window_bytes, platform.ssh
        channel: int | None = None
        stated = 0
        if transport.has_channel:
            stated = next((value for one in ssh.windows if (value := one.window_of(lines.of(one.setting.keyword)))), 0)
            channel = stated or ssh.default_bytes
        return cls(
            tcp_bytes=tcp or platform.defaults.typical_window_bytes,
            channel_bytes=channel,
            is_tcp_assumed=tcp is None,
            is_channel_assumed=channel is not None and not stated,
        )

    def rate(self, rtt_s: float | None, link_bytes_per_s: float | None) -> ChannelRate:
        return channel_rate(
            tcp_window_bytes=self.tcp_bytes,
            channel_window_bytes=self.channel_bytes,
            rtt_s=rtt_s or ASSUMED_RTT_S,
            link_bytes_per_s=link_bytes_per_s,
        )

    def is_assumed(self, limit: Limit) -> bool:
        return {Limit.TCP_WINDOW: self.is_tcp_assumed, Limit.SSH_WINDOW: self.is_channel_assumed}.get(limit, False)


def _expected(before: TcpLines, plan: TunePlan, windows: tuple[ChannelWindow, ...], release: str) -> TcpLines:
    """Return the lines that a device is assumed to have once it is tuned."""
    others = [one for one in plan.changes if not one.is_channel]
    tried = [one for one in (*plan.changes, *plan.channel) if one.is_channel]
    taken = next((one for one in tried if _is_known(one, windows, release)), None)
    changes = others if taken is None else [*others, taken]
    kept = [line for line in before.lines if line not in {one.before for one in changes}]
    return TcpLines(lines=(*kept, *(one.ours for one in changes)))


def _is_known(change: Change, windows: tuple[ChannelWindow, ...], release: str) -> bool:
    """Return whether a release is assumed to have a line: it is set already, or the release is new enough."""
    if change.before is not None:
        return True
    found = re.match(r"\D*(\d+)\.(\d+)", release)
    since = next((one.since for one in windows if one.setting.keyword == change.keyword), None)
    return found is not None and since is not None and (int(found[1]), int(found[2])) >= since


_OWN = re.compile(r"TP-self-signed-\d+|SLA-TrustPoint")


def trustpoints(running: str) -> tuple[str, ...]:
    """Return the trustpoints of a running configuration that may belong to our server."""
    return tuple(row.name for row in rows(PkiTrustpoint, running) if not _OWN.fullmatch(row.name))


def trust_refusal(transport: Transport, known: Iterable[str] | None) -> str | None:
    """Return why a device would not trust our server, or None."""
    if not transport.needs_trust or known is None or tuple(known):
        return None
    return (
        f"{transport.title} needs a trustpoint of our certificate's authority on the device, found none; none is ever "
        "set up by us"
    )


def trusting(found: Iterable[Ceiling], known: Iterable[str] | None) -> tuple[Ceiling, ...]:
    """Return the ceilings without those of protocols that the device would refuse without a trustpoint."""
    trusted = None if known is None else tuple(known)
    return tuple(one for one in found if trust_refusal(transport_named(one.transport), trusted) is None)


def network_protocols(listing: str, names: FileSystems) -> tuple[str, ...]:
    """Return the protocols that a device lists among its file systems, without the colon."""
    found = (name.rstrip(":") for row in rows(FileSystem, listing) for name in row.names)
    return tuple(name for name in dict.fromkeys(found) if name in names.network)


def protocols_refusal(listed: Iterable[str], transports: Iterable[Transport]) -> str | None:
    """Return why a device cannot fetch by any of some protocols, or None."""
    there, titles = tuple(listed), [one.title for one in transports]
    if not there or any(one.name in there for one in transports):
        return None
    others = ", ".join(f"{name}:" for name in there)
    return (
        f"expected {' or '.join(titles)} among the device's file systems, found {others} only; TFTP is no "
        "transport of ours: it has no login and no proof"
    )


def refusal_before_copy(
    session: DeviceSession, file_system: str, image: Image, *, overwrites_silently: bool = False
) -> str | None:
    """Return, right before the copy, why the image cannot be written where the check found space, or None.

    Raises:
        DeviceRefused: The file system cannot be listed any more.
    """
    listing = list_files(session, file_system)
    space = FlashSpace(file_system=file_system, free_bytes=free_bytes(listing))
    present = present_file(session, listing, image, file_system)
    if overwrites_silently and present is None:
        if (doubt := absence_doubt(file_system, listing, image)) is not None:
            return doubt
        present = _asked_by_name(session, file_system, image.name)
    return image_refusal(space, image, present)


def overwrites_silently(running: Configured) -> bool:
    """Return whether the device overwrites a file without asking."""
    return any(line.split() == ["file", "prompt", "quiet"] for line in running.lines)


def absence_doubt(file_system: str, listing: str, image: Image) -> str | None:
    """Return why a copy may overwrite a file on a device that does not ask, or None."""
    doubt = read_listing(listing).doubt
    if doubt is None:
        return None
    return (
        f"with 'file prompt quiet' the device overwrites without a question, and the listing of {file_system} does not "
        f"prove that there is no {image.name}: {doubt}"
    )


def doubt_hint(session: DeviceSession) -> str:
    """Return what to do if a listing does not prove a file absent and the device does not ask."""
    words = session.width_refusal
    width = f"let the user give 'terminal width 511', which the device refuses ({words}), or " if words else ""
    return f"Look at 'dir' by hand: {width}have the device ask before it overwrites ('no file prompt quiet')"


def list_files(session: DeviceSession, file_system: str) -> str:
    """Return the output of `dir` of a file system.

    Raises:
        DeviceRefused: It cannot be listed.
    """
    listing = session.ask(session.platform.list_command(file_system), limit_s=60)
    if (error := first(DirError, listing)) is not None and not rows(DirTotals, listing):
        command = session.platform.list_command(error.subject)
        raise DeviceRefused(
            f"'{command}': {error.reason}",
            host=session.name,
            step=CHECK_WORD,
            hint="Look at the file system with 'dir' by hand: it may be absent, unformatted or in use",
        )
    return listing


def present_file(session: DeviceSession, listing: str, image: Image, file_system: str) -> DirFile | None:
    """Return the file of the image's name; if the listing is in doubt, the device is asked for that name alone."""
    try:
        return file_named(listing, image.name)
    except ValueError:
        return _asked_by_name(session, file_system, image.name)


def _asked_by_name(session: DeviceSession, file_system: str, name: str) -> DirFile | None:
    found = file_at(session, f"{file_system}{name}")
    if found.size_bytes is None:
        return None
    return DirFile(permissions="-", size_bytes=found.size_bytes, modified=found.modified, name=name)


def image_refusal(space: FlashSpace, image: Image, present: DirFile | None) -> str | None:
    """Return why an image cannot be written to a file system, or None: a file of its name, or too little space."""
    file_system = space.file_system
    if present is None:
        return space.refusal(image.size_bytes)
    if present.name != image.name:
        return (
            f"{file_system}{present.name} exists, which a file system may take for {image.name}; nothing is "
            "overwritten: rename or delete it first"
        )
    return _other_contents(f"{file_system}{image.name}", image, present)


def _other_contents(path: str, image: Image, present: DirFile) -> str:
    found = f"{present.size_bytes} bytes, expected {image.size_bytes}"
    if present.size_bytes == image.size_bytes:
        found = f"{present.size_bytes} bytes, but another hash"
    return f"{path} exists with other contents ({found}); nothing is overwritten: rename or delete it first"


MOST_ADDRESSES = 256
"""A provider's router has thousands of interfaces; the ticket is bound to its first addresses."""

_ROW = re.compile(r"(?m)^[A-Za-z]\S*\s+(\d{1,3}(?:\.\d{1,3}){3})\s+(?:YES|NO)\b")


def own_addresses(session: DeviceSession) -> tuple[str, ...]:
    """Return the possible source addresses of the device: the one we reach it at, then those it lists."""
    reached = session.peer_address
    try:
        listed = _ROW.findall(session.ask(session.platform.commands.addresses, limit_s=60))
    except (DeviceRefused, OutputNotUnderstood):
        listed = []
    return tuple(dict.fromkeys((reached, *(one for one in listed if _is_ipv4(one)))))[:MOST_ADDRESSES]


def _is_ipv4(text: str) -> bool:
    return all(int(part) <= 255 for part in text.split(".")) and not text.startswith(("0.", "127."))


_INTERFACE_ROW = re.compile(r"(?m)^([A-Za-z]\S*)\s+(\d{1,3}(?:\.\d{1,3}){3})\s+(?:YES|NO)\b.*\bup\s+up\s*$")


def interface_with(session: DeviceSession, *, named: str | None = None) -> tuple[str, str] | None:
    """Return name and address of the interface that a copy comes from; None if it is not up.

    `named` is the inventory's source interface; None: the interface with the address that we reach the device at.
    """
    try:
        listed = _INTERFACE_ROW.findall(session.ask(session.platform.commands.addresses, limit_s=60))
    except (DeviceRefused, OutputNotUnderstood):
        return None
    reached = session.peer_address
    is_meant = (lambda row: row[1] == reached) if named is None else (lambda row: same_interface(named, row[0]))
    return next((row for row in listed if is_meant(row)), None)


_NAME = re.compile(r"([A-Za-z-]+)\s*([\d/.:]*)")


def vrf_refusal(vrf: str | None, running: str) -> str | None:
    """Return why a VRF cannot be used, or None."""
    names = [row.name for row in rows(VrfDefinition, running)]
    if vrf is None or vrf in names:
        return None
    there = f"the device has {', '.join(names)}" if names else "the device has none"
    return f"VRF '{vrf}' of the inventory: {there}; VRF names are case-sensitive"


def interface_refusal(interface: str | None, brief: str) -> str | None:
    """Return why a source interface cannot be used, or None."""
    if interface is None:
        return None
    table = {str(row["interface"]): row for row in ntc_rows("show ip interface brief", brief)}
    found = next((name for name in table if same_interface(interface, name)), None)
    if found is None:
        known = ", ".join(list(table)[:8]) or "no interface at all"
        return f"source interface '{interface}' of the inventory: the device has {known}"
    row = table[found]
    if not re.match(r"\d", str(row["ip_address"])):
        return f"source interface {found} of the inventory has no IPv4 address"
    if (str(row["status"]), str(row["proto"])) != ("up", "up"):
        return f"source interface {found} of the inventory is {row['status']}/{row['proto']}: it would be ignored"
    return None


def same_interface(given: str, full: str) -> bool:
    """Return whether a name, possibly abbreviated as for IOS (`Gi1`), means an interface (`GigabitEthernet1`)."""
    short, long = _NAME.fullmatch(given.strip()), _NAME.fullmatch(full.strip())
    if short is None or long is None:
        return given.strip().lower() == full.strip().lower()
    return short[2] == long[2] and long[1].lower().startswith(short[1].lower())
