"""Access the lab's routers by SSH and measure links through them: a lab's link may differ from its setting.

Facts
-----

- Whether Cisco Modeling Labs applies latency per round trip or per direction is documented nowhere (facts of the
  controller's API, read 2026-11): both fit the plan, and the finding says which. Anything else is a lab's failure.
- Of twenty pings through 0.01 % loss one is lost in one night of 250, two in one of 130,000. A larger planned loss is
  compared with the binomial distribution: more than occurs once in a thousand nights is a failure.
- An unprivileged process can ping by a datagram socket if `net.ipv4.ping_group_range` allows it (systemd allows all),
  root by a raw socket. Otherwise TCP handshakes with the SSH port are timed: a lost SYN is sent again after a second,
  so a slower handshake counts as lost.
"""

from __future__ import annotations

import math
import os
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from msgspec import Struct

from flashferry.devices.errors import DeviceRefused
from flashferry.devices.host_keys import HostKeys
from flashferry.devices.login import Login
from flashferry.devices.session import DeviceSession
from flashferry.nightly.backend import LinkCondition, PlannedNode
from flashferry.nightly.night import Fault, NightFault, NodeLogin, StepName
from flashferry.nightly.topology.definitions import host_name
from inventory.host_key_rules import HostKeyPolicy

PINGS = 20
PAUSE_S = 0.1
ANSWER_S = 2.0
"""A ping counts as lost after this time plus the planned latency."""

_PACKET_BYTES = 84
_RARE = 0.001
_OWN_MS = 3.0
"""Response time of a virtual router, plus the resolution of the emulation."""

_TCP_RETRY_S = 1.0
_ECHO, _ECHO_REPLY = 8, 0


class Pings(Struct, frozen=True, kw_only=True):
    """The result of pings through a link.

    Attributes:
        answers_s: Round trips of the answered pings, in seconds.
        is_tcp: Whether TCP handshakes were timed, because this host permits no ICMP.
    """

    answers_s: tuple[float, ...]
    sent: int
    is_tcp: bool = False

    @property
    def rtt_ms(self) -> float | None:
        """Median round trip; None if no ping was answered."""
        return 1e3 * median(self.answers_s) if self.answers_s else None

    @property
    def lost(self) -> int:
        """How many pings were not answered."""
        return self.sent - len(self.answers_s)

    @property
    def loss_percent(self) -> float:
        """Share of pings that were not answered."""
        return 100 * self.lost / self.sent


class LinkFinding(Struct, frozen=True, kw_only=True):
    """Whether a link is as planned, and the finding in words."""

    is_as_planned: bool
    sentence: str


def judge_link(planned: LinkCondition, pings: Pings) -> LinkFinding:
    """Compare pings through a link with its planned condition."""
    if pings.rtt_ms is None:
        return LinkFinding(is_as_planned=False, sentence=f"none of {pings.sent} pings was answered")
    allowed = allowed_losses(planned.loss_percent, pings.sent)
    loss = f"{pings.lost} of {pings.sent} lost"
    if pings.lost > allowed:
        sentence = f"expected at most {allowed} of {pings.sent} pings lost at {planned.loss_percent:g} %, found {loss}"
        return LinkFinding(is_as_planned=False, sentence=sentence)
    fits = [times for times in (1, 2) if _fits(planned, times, pings.rtt_ms)]
    if not fits:
        once, twice = (_round_trip_ms(planned, times) for times in (1, 2))
        sentence = f"expected a round trip of {once:.0f} or {twice:.0f} ms, found {pings.rtt_ms:.1f} ms; {loss}"
        return LinkFinding(is_as_planned=False, sentence=sentence)
    return LinkFinding(is_as_planned=True, sentence=f"{pings.rtt_ms:.1f} ms, {loss}{_counted(planned, fits)}")


def allowed_losses(loss_percent: float, sent: int) -> int:
    """Return how many pings may be lost: one, or the number exceeded once in a thousand nights.

    The planned loss may apply in each direction.
    """
    lost = 1 - (1 - min(loss_percent, 100.0) / 100) ** 2
    more, allowed = 1.0, -1
    while more > _RARE and allowed < sent:
        allowed += 1
        more -= math.comb(sent, allowed) * lost**allowed * (1 - lost) ** (sent - allowed)
    return max(1, allowed)


def _counted(planned: LinkCondition, fits: list[int]) -> str:
    if not planned.latency_ms or len(fits) == 2:
        return ""
    return "; latency counts once per round trip" if fits == [1] else "; latency counts in each direction"


def _fits(planned: LinkCondition, times: int, rtt_ms: float) -> bool:
    expected_ms = _round_trip_ms(planned, times)
    return abs(rtt_ms - expected_ms) <= max(_OWN_MS, 0.1 * expected_ms) + times * planned.jitter_ms / 2


def _round_trip_ms(planned: LinkCondition, times: int) -> float:
    serial_ms = _PACKET_BYTES * 8 / planned.bandwidth_kbps if planned.bandwidth_kbps else 0.0
    return times * (planned.latency_ms + serial_ms)


def ping(address: str, *, port: int, planned: LinkCondition, count: int = PINGS) -> Pings:
    """Ping a router, or time handshakes with its SSH port if this host permits no ICMP.

    Args:
        address: Address or name; a name that cannot be resolved answers no ping.
        port: SSH port.
        planned: The link's planned condition, which determines the time-out.
        count: Number of pings.
    """
    limit_s = ANSWER_S + 2 * (planned.latency_ms + planned.jitter_ms) / 1e3
    try:
        target = socket.getaddrinfo(address, None, socket.AF_INET, socket.SOCK_DGRAM)[0][4][0]
    except OSError:
        return Pings(answers_s=(), sent=count)
    if (echo := _icmp_socket()) is not None:
        with echo:
            return _rounds(lambda number: _echoed(echo, str(target), number, limit_s), count)
    return _rounds(lambda _: _shaken(str(target), port, limit_s), count, is_tcp=True)


def _rounds(one: Callable[[int], float | None], count: int, *, is_tcp: bool = False) -> Pings:
    answers = []
    for number in range(count):
        if (answer_s := one(number)) is not None:
            answers.append(answer_s)
        time.sleep(PAUSE_S)
    return Pings(answers_s=tuple(answers), sent=count, is_tcp=is_tcp)


def _icmp_socket() -> socket.socket | None:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        with suppress(PermissionError):
            return socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
    return None


def _echoed(echo: socket.socket, target: str, number: int, limit_s: float) -> float | None:
    """Return the round trip of one ping in seconds; None: no answer."""
    mine = os.urandom(16)
    began_s = time.monotonic()
    with suppress(OSError):
        echo.sendto(_request(os.getpid() & 0xFFFF, number, mine), (target, 0))
        while (left_s := began_s + limit_s - time.monotonic()) > 0:
            echo.settimeout(left_s)
            answer, _ = echo.recvfrom(2048)
            # A raw socket shows the IP header too, and everybody's packets: our own words are looked for.
            head = (answer[0] & 0x0F) * 4 if echo.type == socket.SOCK_RAW else 0
            if answer[head : head + 1] == bytes([_ECHO_REPLY]) and mine in answer:
                return time.monotonic() - began_s
    return None


def _request(identifier: int, number: int, payload: bytes) -> bytes:
    body = payload + bytes(_PACKET_BYTES - 28 - len(payload))
    head = struct.pack("!BBHHH", _ECHO, 0, 0, identifier, number)
    return struct.pack("!BBHHH", _ECHO, 0, _checksum(head + body), identifier, number) + body


def _checksum(data: bytes) -> int:
    """Return the Internet checksum of an even number of bytes (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _shaken(target: str, port: int, limit_s: float) -> float | None:
    began_s = time.monotonic()
    try:
        socket.create_connection((target, port), timeout=limit_s).close()
    except OSError:
        return None
    took_s = time.monotonic() - began_s
    return took_s if took_s < _TCP_RETRY_S or limit_s > ANSWER_S + _TCP_RETRY_S else None


LICENSED = ("csr1000v", "cat8000v")
"""A licence limits the throughput of node definitions that start with one of these."""

_THROUGHPUT = re.compile(r"current throughput level is\s+(?:(\d+)\s*kb(?:ps|/s)|(unthrottled))", re.IGNORECASE)


class RouterState(Struct, frozen=True, kw_only=True):
    """The output of `show version`, and the licensed throughput in bit/s; None: unlimited or unknown."""

    version: str
    throughput_bps: float | None = None


class Configurations(Struct, frozen=True, kw_only=True):
    """A router's running and startup configuration; never stored, because they contain secrets."""

    running: str
    startup: str

    def __repr__(self) -> str:
        """Return a text without the configurations."""
        return "Configurations(...)"


class SshRouters:
    """The lab's routers, accessed by SSH; every method raises `FlashferryError` if the session fails."""

    def __init__(self, login: NodeLogin) -> None:
        self._login = login

    def read_state(self, node: PlannedNode, address: str) -> RouterState:
        """Return the output of `show version` and the licensed throughput."""
        with self._session(node, address) as session:
            version = session.show_version()
            output = version
            if node.node_definition.startswith(LICENSED) and not _THROUGHPUT.search(version):
                try:
                    output = session.ask("show platform hardware throughput level")
                except DeviceRefused:
                    output = ""
        return RouterState(version=version, throughput_bps=throughput_bps(output))

    def configurations(self, node: PlannedNode, address: str) -> Configurations:
        """Return the running and startup configuration."""
        with self._session(node, address) as session:
            return Configurations(running=session.running_config(), startup=session.startup_config())

    def ping(self, node: PlannedNode, address: str, planned: LinkCondition) -> Pings:
        """Ping a router twenty times."""
        return ping(address, port=node.ssh_port, planned=planned)

    @contextmanager
    def _session(self, node: PlannedNode, address: str) -> Iterator[DeviceSession]:
        with TemporaryDirectory(prefix="flashferry-night-") as folder:
            keys = HostKeys(path=Path(folder) / "known_hosts", policy=HostKeyPolicy.ACCEPT_NEW, device=node.label)
            session = DeviceSession(
                Login(
                    name=node.label,
                    address=address,
                    port=node.ssh_port,
                    username=self._login.username,
                    password=self._login.password,
                    enable_secret=self._login.secret,
                    host_keys=keys,
                )
            )
            try:
                yield session
            finally:
                session.close()


def check_is_the_labs(node: PlannedNode, address: str, found: Configurations) -> None:
    """Check that the router at an address belongs to this lab, before anything is changed on it.

    A controller's address table may be out of date, and people mistype: the address may be a router in production.

    Raises:
        NightFault: `LAB`: its host name differs, or the mark of the lab's first configuration is missing.
    """
    named = host_name(found.running)
    if node.host_name is not None and named != node.host_name:
        calls = "does not give its name" if named is None else f"calls itself {named}"
        wrong = f"expected the lab's own router at {address}, found one that {calls}"
    elif node.mark and node.mark not in found.running:
        wrong = f"expected {node.mark} in the configuration of what answers at {address}, found a router without it"
    else:
        return
    raise NightFault(
        f"{wrong}; it is left alone",
        fault=Fault.LAB,
        step=StepName.CHECK,
        hint="Look whose address that is: two may have it, or the controller has one that is out of date",
        host=node.label,
    )


def throughput_bps(output: str) -> float | None:
    """Return the licensed throughput in a router's output, in bit/s; None: unlimited or not shown."""
    found = _THROUGHPUT.search(output)
    return None if found is None or found[2] else float(found[1]) * 1e3
