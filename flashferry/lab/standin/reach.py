"""`ping` and `traceroute`: real packets from the device's own address, and what comes back.

Echoes need a raw socket, which the namespaces of a world allow. Where none is to be had, a datagram to a closed port
asks the same question: the host's `port unreachable` is its answer, and the round trip is as real.

Facts: ``!`` a reply, ``.`` nothing within the timeout, ``U`` unreachable; five echoes of 100 bytes, two seconds each
(Cisco command reference, `ping`); three probes a hop, three seconds each, ``*`` for none, at most thirty hops
(`traceroute`). Genie's and ntc-templates' captures of both have these lines.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin.connections import bind_to, stoppable
from flashferry.lab.standin.routing import path_to, vrf_names
from flashferry.lab.syn import checksum

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]
_ECHO, _ECHO_REPLY, _UNREACHABLE = 8, 0, 3
_FIRST_PORT = 33434  # above all that listens: the first port of traceroute
_IP_RECVERR, _MOST_HOPS, _PROBES = 11, 30, 3
_UNKNOWN_HOST = "% Unrecognized host or address, or protocol not running.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo:
    """What came of one echo: its mark, and the round trip where there was a reply."""

    mark: str
    rtt_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a `ping` asks for; sizes include the IP header, as on IOS."""

    host: str
    count: int = 5
    size_bytes: int = 100
    timeout_s: float = 2.0
    source: str | None = None
    vrf: str | None = None


def parse_request(arguments: Arguments) -> Request | None:
    """Read `HOST [repeat N] [size N] [timeout N] [source X] [vrf X] [df-bit]`; None for what a device would refuse."""
    words = [word for argument in arguments for word in argument.split()]
    vrf = words[1] if words[:1] == ["vrf"] and len(words) > 2 else None
    words = words[2:] if vrf else words[1:] if words[:1] == ["ip"] else words
    found: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        key = next(
            (key for key in ("repeat", "size", "timeout", "source", "df-bit") if key.startswith(word.lower())), None
        )
        if key is None:
            return None
        found[key] = "" if key == "df-bit" else next(rest, "")
    numbers = [found[key] for key in ("repeat", "size", "timeout") if key in found]
    if not all(text.isdecimal() for text in numbers) or found.get("source") == "":
        return None
    return Request(
        host=words[0],
        count=min(100_000, max(1, int(found.get("repeat", "5")))),
        size_bytes=min(18_024, max(36, int(found.get("size", "100")))),
        timeout_s=float(found.get("timeout", "2")),
        source=found.get("source"),
        vrf=vrf,
    )


async def ping(vty: Vty, arguments: Arguments) -> None:
    """`ping [ip] HOST ...`."""
    request = parse_request(arguments)
    if request is None:
        vty.terminal.write("% Invalid input detected at '^' marker.\n\n")
        return
    await _ping(vty, request)


async def ping_dialogue(vty: Vty, _: Arguments) -> None:
    """`ping`: asked for piece by piece (Cisco command reference, extended ping)."""
    answers = await _asked(vty, _PING_QUESTIONS)
    if answers is None:
        return
    host, count, size, timeout, extended = answers
    source = None
    if extended.lower() in {"y", "yes"}:
        more = await _asked(vty, _PING_MORE)
        if more is None:
            return
        source = more[0] or None
    if "y" in (await vty.terminal.ask("Sweep range of sizes [n]: ", "n")).lower():
        await _asked(vty, (("Sweep min size [36]: ", "36"), ("Sweep max size [18024]: ", "18024"),
                           ("Sweep interval [1]: ", "1")))  # fmt: skip
    words = f"repeat {count} size {size} timeout {timeout}" + (f" source {source}" if source else "")
    request = parse_request((host, words))
    if request is None:
        vty.terminal.write("% A decimal number is expected\n")
    else:
        await _ping(vty, request)


async def traceroute_dialogue(vty: Vty, _: Arguments) -> None:
    """`traceroute`: asked for piece by piece (Cisco command reference)."""
    answers = await _asked(vty, _TRACE_QUESTIONS)
    if answers is not None:
        await traceroute(vty, (answers[0], *((f"source {answers[2]}",) if answers[2] else ())))


_PING_QUESTIONS: tuple[tuple[str, str | None], ...] = (
    ("Target IP address: ", None), ("Repeat count [5]: ", "5"), ("Datagram size [100]: ", "100"),
    ("Timeout in seconds [2]: ", "2"), ("Extended commands [n]: ", "n"),
)  # fmt: skip
_PING_MORE: tuple[tuple[str, str | None], ...] = (
    ("Source address or interface: ", ""), ("DSCP Value [0]: ", "0"),
    ("Type of service [0]: ", "0"), ("Set DF bit in IP header? [no]: ", "no"), ("Validate reply data? [no]: ", "no"),
    ("Data pattern [0x0000ABCD]: ", "0x0000ABCD"), ("Loose, Strict, Record, Timestamp, Verbose[none]: ", "none"),
)  # fmt: skip
_TRACE_QUESTIONS: tuple[tuple[str, str | None], ...] = (
    ("Target IP address: ", None), ("Ingress traceroute [n]: ", "n"), ("Source address: ", ""),
    ("DSCP Value [0]: ", "0"), ("Numeric display [n]: ", "n"), ("Timeout in seconds [3]: ", "3"),
    ("Probe count [3]: ", "3"), ("Minimum Time to Live [1]: ", "1"), ("Maximum Time to Live [30]: ", "30"),
    ("Port Number [33434]: ", "33434"), ("Loose, Strict, Record, Timestamp, Verbose[none]: ", "none"),
)  # fmt: skip


async def _asked(vty: Vty, questions: tuple[tuple[str, str | None], ...]) -> list[str] | None:
    """Ask questions in their order; None where the protocol is not IP or a question without a default has no answer."""
    if questions in (_PING_QUESTIONS, _TRACE_QUESTIONS):
        protocol = await vty.terminal.ask("Protocol [ip]: ", "ip")
        if not "ip".startswith(protocol.lower()):
            vty.terminal.write(f'% Unknown protocol - "{protocol}", type "ping ?" for help\n')
            return None
    answers = []
    for question, default in questions:
        answer = await vty.terminal.ask(question, default or "")
        if not answer and default is None:
            vty.terminal.write("% Bad IP address\n")
            return None
        answers.append(answer)
    return answers


async def _ping(vty: Vty, request: Request) -> None:
    source = _source(vty, request)
    if source is None:
        return
    vty.terminal.write(
        f"Type escape sequence to abort.\nSending {request.count}, {request.size_bytes}-byte ICMP Echos to "
        f"{request.host}, timeout is {request.timeout_s:.0f} seconds:\n"
    )
    if request.source is not None:
        vty.terminal.write(f"Packet sent with a source address of {source} \n")
    echoes: list[Echo] = []

    def each(echo: Echo) -> None:
        echoes.append(echo)
        end = "\n" if len(echoes) % 70 == 0 and len(echoes) < request.count else ""
        vty.terminal.write(echo.mark + end)

    await _run(vty, lambda stop, show: _echo_all(request, source, stop, show), each)
    vty.terminal.write("\n" + summary(echoes))


def summary(echoes: list[Echo]) -> str:
    """Return the last line; the round trips are whole milliseconds, and one at least."""
    times = [max(1, round(echo.rtt_ms)) for echo in echoes if echo.rtt_ms is not None]
    percent = 100 * len(times) // len(echoes) if echoes else 0
    line = f"Success rate is {percent} percent ({len(times)}/{len(echoes)})"
    if times:
        line += f", round-trip min/avg/max = {min(times)}/{sum(times) // len(times)}/{max(times)} ms"
    return line + "\n"


async def traceroute(vty: Vty, arguments: Arguments) -> None:
    """`traceroute HOST`: hop by hop, until the host itself answers."""
    request = parse_request(arguments)
    source = _source(vty, request) if request is not None else None
    if request is None or source is None:
        return
    vty.terminal.write(
        f"Type escape sequence to abort.\nTracing the route to {request.host}\n"
        "VRF info: (vrf in name/id, vrf out name/id)\n"
    )
    await _run(vty, lambda stop, show: _trace(request.host, source, stop, show), vty.terminal.write)


def _source(vty: Vty, request: Request) -> str | None:
    """Return the address that packets leave with; None where the device says that it cannot."""
    running = vty.device.running
    try:
        ipaddress.IPv4Address(request.host)
    except ValueError:
        vty.terminal.write(_UNKNOWN_HOST)
        return None
    if request.vrf is not None and request.vrf not in vrf_names(running):
        vty.terminal.write(f"% VRF {request.vrf} does not exist\n")
        return None
    route = path_to(running, request.host, vrf=request.vrf, source_interface=request.source)
    # Without a way nothing leaves, which a device does not say: its echoes time out.
    return route.source_address if route is not None else "0.0.0.0"  # noqa: S104 - no socket is bound to it


async def _run(vty: Vty, work: Callable[..., None], show: Callable[..., None]) -> None:
    """Run blocking work that reports what it finds; Ctrl-Shift-6 or a lost session ends it."""
    stop, loop = threading.Event(), asyncio.get_running_loop()
    await stoppable(vty.terminal, stop.set, lambda: work(stop, lambda one: loop.call_soon_threadsafe(show, one)))
    await asyncio.sleep(0)


def _echo_all(request: Request, source: str, stop: threading.Event, show: Callable[[Echo], None]) -> None:
    for number in range(request.count):
        if stop.is_set():
            return
        show(_one_echo(request, source, number, stop))


def _one_echo(request: Request, source: str, number: int, stop: threading.Event) -> Echo:
    if source == "0.0.0.0":  # noqa: S104 - there is no way
        stop.wait(request.timeout_s)
        return Echo(mark=".")
    try:
        try:
            return _by_icmp(request, source, number)
        except PermissionError:
            return _by_udp(request, source, number)
    except OSError:
        return Echo(mark="U")


def _by_icmp(request: Request, source: str, number: int) -> Echo:
    own = os.getpid() & 0xFFFF ^ threading.get_ident() & 0xFFFF
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        bind_to(raw, source)
        packet = struct.pack("!BBHHH", _ECHO, 0, 0, own, number & 0xFFFF) + bytes(request.size_bytes - 28)
        packet = packet[:2] + struct.pack("!H", checksum(packet)) + packet[4:]
        started_s = time.monotonic()
        raw.sendto(packet, (request.host, 0))
        while (left_s := started_s + request.timeout_s - time.monotonic()) > 0:
            if not select.select([raw], (), (), left_s)[0]:
                break
            kind = _answers(raw.recv(65535), request.host, own, number & 0xFFFF)
            if kind == _ECHO_REPLY:
                return Echo(mark="!", rtt_ms=1000 * (time.monotonic() - started_s))
            if kind == _UNREACHABLE:
                return Echo(mark="U")
    return Echo(mark=".")


def _answers(packet: bytes, host: str, own: int, number: int) -> int | None:
    """Return the ICMP type of a packet that answers this echo, None of any other."""
    body = packet[(packet[0] & 15) * 4 :]
    if len(body) < 8:
        return None
    if body[0] == _ECHO_REPLY and struct.unpack("!HH", body[4:8]) == (own, number):
        return _ECHO_REPLY if socket.inet_ntoa(packet[12:16]) == host else None
    inner = body[8:]
    if body[0] == _UNREACHABLE and len(inner) >= 28 and struct.unpack("!HH", inner[24:28]) == (own, number):
        return _UNREACHABLE
    return None


def _by_udp(request: Request, source: str, number: int) -> Echo:
    found = _probe(request.host, source, 64, _FIRST_PORT + number % 100, request.timeout_s)
    if found is None:
        return Echo(mark=".")
    return Echo(mark="!", rtt_ms=found[1]) if found[0] == request.host else Echo(mark="U")


def _trace(host: str, source: str, stop: threading.Event, show: Callable[[str], None]) -> None:
    for hop in range(1, _MOST_HOPS + 1):
        answered: set[str] = set()
        show(f"{hop:3d} ")
        for number in range(_PROBES):
            found = _probe(host, source, hop, _FIRST_PORT + 3 * hop + number, 3.0) if not stop.is_set() else None
            if stop.is_set():
                show("\n")
                return
            if found is None:
                show(" * ")
                continue
            name = "" if found[0] in answered else f"{found[0]} "
            answered.add(found[0])
            show(f"{name}{found[1]:.0f} msec ")
        show("\n")
        if host in answered:
            return


def _probe(host: str, source: str, ttl: int, port: int, timeout_s: float) -> tuple[str, float] | None:
    """Send a datagram to a closed port; return who says that it did not arrive, and after how many milliseconds."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        probe.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
        try:
            bind_to(probe, source)
            started_s = time.monotonic()
            probe.sendto(b"\0" * 12, (host, port))
        except OSError:
            return None
        poll = select.poll()
        poll.register(probe, 0)  # errors are always reported
        if not poll.poll(int(1000 * timeout_s)):
            return None
        rtt_ms = 1000 * (time.monotonic() - started_s)
        _, ancillary, _, _ = probe.recvmsg(512, 512, socket.MSG_ERRQUEUE)
        for _level, _kind, data in ancillary:
            # struct sock_extended_err of 16 bytes, and the address of who sent the error (ip(7), IP_RECVERR).
            if len(data) >= 24 and data[4] == 2:
                return socket.inet_ntoa(data[20:24]), rtt_ms
    return None
