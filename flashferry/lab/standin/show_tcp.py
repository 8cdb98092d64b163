"""`show tcp`, `show tcp brief`, `show tcp tcb` and `show tcp statistics` of the live connections.

The block of a connection has the lines of the captures (facts 6). Its window is the one it opened with; options,
scales, times and counters are what the kernel says of the live socket, and sequence numbers follow from them as in the
captures. An option is shown where both ends agreed on it and the device offered it: the kernel takes what a peer of its
SSH port offers, whatever the device is configured for. What the kernel does not know stays at zero. The layout of a
scale that is not zero is an extrapolation.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from flashferry.lab.standin.kernel_tcp import parse_kernel_tcp, read_kernel_tcp

if TYPE_CHECKING:
    from flashferry.lab.standin.connections import Connection
    from flashferry.lab.standin.kernel_tcp import KernelTcp
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]

_TIMERS = (
    "Retrans", "TimeWait", "AckHold", "SendWnd", "KeepAlive", "GiveUp", "PmtuAger", "DeadWait", "Linger", "ProcessQ",
)  # fmt: skip


def brief(vty: Vty, _: Arguments) -> str:
    """`show tcp brief`: the live connections of the device, SSH and FTP."""
    rows = ["TCB       Local Address               Foreign Address             (state)"]
    for row in vty.device.connections.rows():
        local, foreign = (f"{host}.{port}" for host, port in (row.local, row.foreign))
        rows.append(f"{row.tcb}  {local:<26}  {foreign:<26}  {row.state}")
    return "".join(f"{row}\n" for row in rows)


def blocks(vty: Vty, _: Arguments) -> str:
    """`show tcp`: a block for each connection."""
    return "".join(f"\nTCB {row.tcb}\n{_block(vty, row)}" for row in vty.device.connections.rows())


def tcb(vty: Vty, arguments: Arguments) -> str:
    """`show tcp tcb ADDRESS`."""
    requested = arguments[0].upper().removeprefix("0X")
    row = next((row for row in vty.device.connections.rows() if row.tcb == requested), None)
    return f"%TCB {arguments[0]} is not valid\n" if row is None else _block(vty, row)


def statistics(vty: Vty, _: Arguments) -> str:
    """`show tcp statistics`: shape of the Cisco command reference."""
    table = vty.device.connections
    total, live = table.totals(), len(table.rows())
    return (
        f"Rcvd: {total.segments_in} Total, 0 no port\n"
        "      0 checksum error, 0 bad offset, 0 too short\n"
        f"      {total.data_segments_in} packets ({total.bytes_in} bytes) in sequence\n"
        "      0 dup packets (0 bytes)\n"
        "      0 partially dup packets (0 bytes)\n"
        f"      {total.out_of_order} out-of-order packets (0 bytes)\n"
        f"Sent: {total.segments_out} Total, 0 urgent packets\n"
        f"      {total.data_segments_out} data packets ({total.bytes_out} bytes)\n"
        f"      {total.retransmitted} data packets retransmitted (0 bytes)\n"
        f"{table.opened} Connections initiated, {table.opened} connections accepted, "
        f"{table.opened} connections established\n"
        f"{table.opened - live} Connections closed (including 0 dropped, 0 embryonic dropped)\n"
        "0 Total rxmt timeout, 0 connections dropped in rxmt timeout\n"
        "0 Keepalive timeout, 0 keepalive probe, 0 Connections dropped in keepalive\n"
    )


def _block(vty: Vty, row: Connection) -> str:
    kernel = read_kernel_tcp(row.live) or parse_kernel_tcp(b"")
    return _head(vty, row) + _sequence(row, kernel) + _times(row, kernel) + _flags(vty, row, kernel) + _carried(kernel)


def _head(vty: Vty, row: Connection) -> str:
    queue = vty.device.running.value("ip tcp queuemax") or "50"
    timers = "".join(f"{name:<12}{0:8d}{0:11d}             0x0\n" for name in _TIMERS)
    return (
        f"Connection state is {row.state}, I/O status: 1, unread input bytes: 0\n"
        "Connection is ECN Disabled, Mininum incoming TTL 0, Outgoing TTL 255\n"
        f"Local host: {row.local[0]}, Local port: {row.local[1]}\n"
        f"Foreign host: {row.foreign[0]}, Foreign port: {row.foreign[1]}\n"
        f"Connection tableid (VRF): 0\nMaximum output segment queue size: {queue}\n\n"
        "Enqueued packets for retransmit: 0, input: 0  mis-ordered: 0 (0 bytes)\n\n"
        f"Event Timers (current time is 0x{int(1000 * time.monotonic()) & 0xFFFFFFFF:X}):\n"
        f"Timer          Starts    Wakeups            Next\n{timers}\n"
    )


def _sequence(row: Connection, kernel: KernelTcp) -> str:
    """Sequence numbers and windows: the initial numbers are made up, what was carried is added to them."""
    iss, irs = int(row.tcb[-8:], 16), int(row.tcb[-9:-1], 16)
    sent, received = ((start + 1 + more) % 2**32 for start, more in ((iss, kernel.bytes_out), (irs, kernel.bytes_in)))
    scales = (kernel.send_scale, kernel.receive_scale) if row.options.window_scaling else (0, 0)
    window = min(kernel.receive_window_bytes or row.window_bytes, row.window_bytes)
    return (
        f"iss: {iss:10d}  snduna: {sent:10d}  sndnxt: {sent:10d}\nirs: {irs:10d}  rcvnxt: {received:10d}\n\n"
        f"sndwnd: {kernel.send_window_bytes:6d}  scale: {scales[0]:6d}  maxrcvwnd: {row.window_bytes:6d}\n"
        f"rcvwnd: {window:6d}  scale: {scales[1]:6d}  delrcvwnd: {row.window_bytes - window:6d}\n\n"
    )


def _times(row: Connection, kernel: KernelTcp) -> str:
    most_ms = kernel.rtt_ms + 4 * kernel.rtt_variation_ms
    uptime_ms = int(1000 * (time.monotonic() - row.opened_s))
    return (
        f"SRTT: {kernel.rtt_ms} ms, RTTO: {kernel.retransmission_timeout_ms} ms, RTV: {kernel.rtt_variation_ms} ms, "
        f"KRTT: 0 ms\nminRTT: {kernel.least_rtt_ms} ms, maxRTT: {most_ms} ms, ACK hold: 200 ms\n"
        f"uptime: {uptime_ms} ms, Sent idletime: {kernel.idle_send_ms} ms, "
        f"Receive idletime: {kernel.idle_receive_ms} ms\n"
    )


def _flags(vty: Vty, row: Connection, kernel: KernelTcp) -> str:
    flags = ["nagle"]
    flags += ["path mtu capable"] if vty.device.running.find("ip tcp path-mtu-discovery") else []
    flags += ["SACK option permitted"] if kernel.has_sack and row.options.sack else []
    flags += ["win-scale"] if kernel.has_scaling and row.options.window_scaling else []
    status = "passive open, gen tcbs" if row.local[1] == vty.device.settings.port else "active open"
    return f"Status Flags: {status}\nOption Flags: {', '.join(flags)}\nIP Precedence value : 0\n\n"


def _carried(kernel: KernelTcp) -> str:
    return (
        f"Datagrams (max data segment is {kernel.segment_bytes} bytes):\n"
        f"Rcvd: {kernel.segments_in} (out of order: {kernel.out_of_order}), with data: {kernel.data_segments_in}, "
        f"total data bytes: {kernel.bytes_in}\n"
        f"Sent: {kernel.segments_out} (retransmit: {kernel.retransmitted}, fastretransmit: 0, partialack: 0, "
        f"Second Congestion: 0), with data: {kernel.data_segments_out}, total data bytes: {kernel.bytes_out}\n\n"
        " Packets received in fast path: 0, fast processed: 0, slow path: 0\n"
    )
