"""`show tcp`, `show tcp brief`, `show tcp tcb` and `show tcp statistics` of the live connections.

The block of a connection has the lines of the captures (facts 6). Window, scale and options are those of the present
configuration; sequence numbers, times and counters are fixed. The layout of a scale that is not zero is an
extrapolation.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lab.standin.tcp_settings import tcp_settings

if TYPE_CHECKING:
    from lab.standin.connections import Connection
    from lab.standin.vty import Vty

Arguments = tuple[str, ...]

_TIMERS = (
    "Retrans", "TimeWait", "AckHold", "SendWnd", "KeepAlive", "GiveUp", "PmtuAger", "DeadWait", "Linger", "ProcessQ",
)  # fmt: skip
_MSS_BYTES = 1460


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
    wanted = arguments[0].upper().removeprefix("0X")
    row = next((row for row in vty.device.connections.rows() if row.tcb == wanted), None)
    return f"%TCB {arguments[0]} is not valid\n" if row is None else _block(vty, row)


def statistics(vty: Vty, _: Arguments) -> str:
    """`show tcp statistics`: shape of the Cisco command reference; only the counts of connections are kept."""
    table = vty.device.connections
    return (
        f"Rcvd: {table.opened * 8} Total, 0 no port\n"
        "      0 checksum error, 0 bad offset, 0 too short\n"
        f"      {table.opened * 4} packets (0 bytes) in sequence\n"
        "      0 dup packets (0 bytes)\n"
        "      0 partially dup packets (0 bytes)\n"
        "      0 out-of-order packets (0 bytes)\n"
        f"Sent: {table.opened * 8} Total, 0 urgent packets\n"
        "      0 data packets retransmitted (0 bytes)\n"
        f"{table.opened} Connections initiated, {table.opened} connections accepted, "
        f"{table.opened} connections established\n"
        f"{table.opened - len(table.rows())} Connections closed (including 0 dropped, 0 embryonic dropped)\n"
        "0 Total rxmt timeout, 0 connections dropped in rxmt timeout\n"
        "0 Keepalive timeout, 0 keepalive probe, 0 Connections dropped in keepalive\n"
    )


def _block(vty: Vty, row: Connection) -> str:
    own = tcp_settings(vty.device.running, vty.device.platform.tcp)
    options, window = own.syn_options, own.window_bytes
    scale = next(shift for shift in range(15) if window >> shift <= 65535) if options.window_scaling else 0
    flags = ["nagle"]
    flags += ["path mtu capable"] if vty.device.running.find("ip tcp path-mtu-discovery") else []
    flags += ["SACK option permitted"] if options.sack else []
    flags += ["win-scale"] if options.window_scaling else []
    queue = vty.device.running.value("ip tcp queuemax") or "50"
    uptime_ms = int(1000 * (time.monotonic() - row.opened_s))
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
        "iss:          0  snduna:          0  sndnxt:          0\nirs:          0  rcvnxt:          0\n\n"
        f"sndwnd:  65535  scale: {0:6d}  maxrcvwnd: {window:6d}\n"
        f"rcvwnd: {window:6d}  scale: {scale:6d}  delrcvwnd:      0\n\n"
        "SRTT: 100 ms, RTTO: 300 ms, RTV: 3 ms, KRTT: 0 ms\nminRTT: 1 ms, maxRTT: 300 ms, ACK hold: 200 ms\n"
        f"uptime: {uptime_ms} ms, Sent idletime: 0 ms, Receive idletime: 0 ms\n"
        f"Status Flags: {'active open' if row.foreign[1] != 0 and row.local[1] != 22 else 'passive open, gen tcbs'}\n"
        f"Option Flags: {', '.join(flags)}\nIP Precedence value : 0\n\n"
        f"Datagrams (max data segment is {_MSS_BYTES} bytes):\n"
        "Rcvd: 0 (out of order: 0), with data: 0, total data bytes: 0\n"
        "Sent: 0 (retransmit: 0, fastretransmit: 0, partialack: 0, Second Congestion: 0), with data: 0, "
        "total data bytes: 0\n\n"
        " Packets received in fast path: 0, fast processed: 0, slow path: 0\n"
    )
