"""The parts of a link that decide over single packets: loss of the wire, a policer, and one in front of a node."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from flashferry.lab.errors import LabError, Table, read_file, read_table


def stream(seed: int | str) -> Random:
    """Return a generator whose numbers are those of its seed, in every process and on every machine."""
    return Random(seed)  # noqa: S311 - repeatable loss is the point, not secrecy


class Loss:
    """Loses packets, in bursts where the profile asks for it.

    The state changes before a packet is judged, so that a burst that is entered loses its first packet too. Without
    bursts one number is drawn per packet; with them two.
    """

    def __init__(self, random: Random) -> None:
        self._draw = random.random
        self._is_bad = False

    def hits(self, profile: DirectionProfile, counters: Counters) -> bool:
        """Return whether the next packet is lost; count the bursts that begin."""
        if not profile.burst_enter_ratio:
            self._is_bad = False
            return self._draw() < profile.loss_ratio
        if self._is_bad:
            self._is_bad = self._draw() >= profile.burst_leave_ratio
        else:
            self._is_bad = self._draw() < profile.burst_enter_ratio
            counters.lost_bursts += self._is_bad
        return self._draw() < (profile.burst_loss_ratio if self._is_bad else profile.loss_ratio)


_FULL_BYTES = 1400
_COPY_PACKETS = 10
"""A copy starts with so many full packets, a server's first flight (RFC 6928); a login has fewer."""


class PlannedLoss:
    """Loses one full packet at each of some times, counted from the start of a copy."""

    def __init__(self, times_s: Sequence[float]) -> None:
        self._times_s = deque(times_s)
        self._full_packets = 0
        self._origin_s = 0.0

    def hits(self, size: int, now_s: float) -> bool:
        """Return whether a packet that is offered now is lost."""
        if size < _FULL_BYTES or not self._times_s:
            return False
        self._full_packets += 1
        if self._full_packets <= _COPY_PACKETS:
            self._origin_s = now_s
        if now_s - self._origin_s < self._times_s[0]:
            return False
        self._times_s.popleft()
        return True


class Bucket:
    """A token bucket without a queue: what finds too few tokens is dropped (RFC 2697's committed part).

    The bucket starts full, as after a pause.
    """

    def __init__(self) -> None:
        self._spent = self._seen_s = 0.0

    def passes(self, cost: float, now_s: float, *, rate_per_s: float, burst: float) -> bool:
        """Return whether something passes, and take its tokens if it does."""
        self._spent = max(0.0, self._spent - (now_s - self._seen_s) * rate_per_s)
        self._seen_s = now_s
        if self._spent + cost > burst:
            return False
        self._spent += cost
        return True


@dataclass(slots=True, kw_only=True)
class NodeCounters:
    """What came to a node's processor: what its policer let in, and what it dropped."""

    accepted_packets: int = 0
    accepted_bytes: int = 0
    dropped_packets: int = 0
    dropped_bytes: int = 0


class NodePolicer:
    """A policer in front of a node's processor: it counts packets, whatever their size, and queues none.

    A Catalyst polices so what is meant for itself (class ``system-cpp-police-forus``). How many packets its bucket
    holds is not known; here a tenth of a second's, and no fewer than a server's first flight may have.
    """

    def __init__(self, packets_per_s: int) -> None:
        self.counters = NodeCounters()
        self._rate, self._burst = packets_per_s, max(_LEAST_BURST_PACKETS, packets_per_s // 10)
        self._bucket = Bucket()

    def passes(self, size: int, now_s: float) -> bool:
        """Return whether a packet that arrives now is let in."""
        counters = self.counters
        if not self._bucket.passes(1, now_s, rate_per_s=self._rate, burst=self._burst):
            counters.dropped_packets += 1
            counters.dropped_bytes += size
            return False
        counters.accepted_packets += 1
        counters.accepted_bytes += size
        return True


_LEAST_BURST_PACKETS = 16
DESTINATION = slice(16, 20)
"""Where a packet's destination stands (RFC 791 3.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionProfile:
    """How one direction behaves; loss follows Gilbert and Elliott (Bell System Technical Journal 42, 1963).

    Attributes:
        rate_bps: Bottleneck rate in bits of IP packets per second, > 0.
        delay_s: One-way delay after serialisation, >= 0.
        jitter_s: Drawn evenly around ``delay_s``, 0 to that; packets never overtake, so dense ones gather.
        loss_ratio: Share of packets lost in the good state, 0 to 1.
        burst_enter_ratio: Chance per packet to fall into the bad state; 0 for independent loss alone.
        burst_leave_ratio: Chance per packet to return, above 0.
        burst_loss_ratio: Share of packets lost in the bad state.
        policer_rate_bps: Bits of IP packets per second that pass, by a bucket of `policer_burst_bytes`; None: all.
        queue_packets: Most packets waiting or in service, >= 1; None for no limit. `queue_bytes` is the same in bytes.
        loss_times_s: When the wire loses one full packet each, counted from the start of a copy (`_COPY_PACKETS`).
    """

    rate_bps: float
    delay_s: float
    jitter_s: float = 0.0
    loss_ratio: float = 0.0
    burst_enter_ratio: float = 0.0
    burst_leave_ratio: float = 1.0
    burst_loss_ratio: float = 1.0
    policer_rate_bps: float | None = None
    policer_burst_bytes: int = 65536
    queue_packets: int | None = None
    queue_bytes: int | None = None
    loss_times_s: tuple[float, ...] = ()

    @property
    def mean_loss_ratio(self) -> float:
        """Share of packets that the wire loses in the long run."""
        if not self.burst_enter_ratio:
            return self.loss_ratio
        bad_share = self.burst_enter_ratio / (self.burst_enter_ratio + self.burst_leave_ratio)
        return bad_share * self.burst_loss_ratio + (1 - bad_share) * self.loss_ratio


@dataclass(slots=True, kw_only=True)
class Counters:
    """What happened to the packets of one direction.

    Offered is delivered + lost + dropped + policed + policed by nodes + cut + under way.
    """

    offered_packets: int = 0
    offered_bytes: int = 0
    delivered_packets: int = 0
    delivered_bytes: int = 0
    lost_packets: int = 0
    lost_bursts: int = 0
    dropped_packets: int = 0
    policed_packets: int = 0
    node_policed_packets: int = 0
    cut_packets: int = 0
    most_queued_packets: int = 0
    most_queued_bytes: int = 0


class Direction:
    """The state of one direction.

    `seed`: Seeds loss and jitter; the same packets in the same order lose the same ones. `nodes`: Policers in front of
    the processors of nodes at its end, by address (four bytes). `is_cut`: The wire is cut: what is offered, and what
    would have arrived, is lost and counted.
    """

    def __init__(
        self, profile: DirectionProfile, *, seed: int | str, nodes: Mapping[bytes, NodePolicer] | None = None
    ) -> None:
        self._nodes = nodes or {}
        self.counters = Counters()
        self._loss = Loss(stream(seed))
        self._policer = Bucket()
        # A generator of its own: switching jitter on must not change which packets are lost.
        self._jitter: Random = stream(f"{seed}/jitter")
        self._in_service: deque[tuple[float, int]] = deque()
        self._queued_bytes = 0
        self._busy_until_s = 0.0
        self._last_due_s = 0.0
        self._in_flight: deque[tuple[float, bytes]] = deque()
        self.is_cut = False
        self.profile = profile

    @property
    def profile(self) -> DirectionProfile:
        """How it behaves; may be replaced while packets are under way, which keep their time."""
        return self._profile

    @profile.setter
    def profile(self, profile: DirectionProfile) -> None:
        self._profile = profile
        self._s_per_byte = 8 / profile.rate_bps
        # Most links have no limit in bytes, no loss and so on: what is off costs nothing per packet.
        self._has_loss = bool(profile.loss_ratio or profile.burst_enter_ratio)
        self._planned = PlannedLoss(profile.loss_times_s) if profile.loss_times_s else None
        self._free_packets = profile.queue_packets or 1 << 60
        self._free_bytes = profile.queue_bytes or 1 << 60

    def offer(self, packet: bytes, now_s: float) -> None:
        """Take a packet that the sender put on the interface at ``now_s``."""
        profile, counters = self._profile, self.counters
        size = len(packet)
        counters.offered_packets += 1
        counters.offered_bytes += size
        if self.is_cut:
            counters.cut_packets += 1
            return
        if profile.policer_rate_bps is not None and not self._policer.passes(
            size, now_s, rate_per_s=profile.policer_rate_bps / 8, burst=profile.policer_burst_bytes
        ):
            counters.policed_packets += 1
            return
        sent_s = self._serialise(size, now_s)
        if sent_s is None:
            counters.dropped_packets += 1
            return
        if self._has_loss and self._loss.hits(profile, counters):
            counters.lost_packets += 1
            return
        if self._planned is not None and self._planned.hits(size, now_s):
            counters.lost_packets += 1
            return
        due_s = sent_s + profile.delay_s
        if profile.jitter_s:
            due_s += profile.jitter_s * (2 * self._jitter.random() - 1)
        # Neither jitter nor a delay that was shortened meanwhile lets a later packet overtake.
        self._last_due_s = due_s = max(due_s, self._last_due_s)
        self._in_flight.append((due_s, packet))

    def due(self, now_s: float) -> list[bytes]:
        """Return the packets that have arrived by ``now_s``, in order."""
        arrived = []
        in_flight = self._in_flight
        while in_flight and in_flight[0][0] <= now_s:
            due_s, packet = in_flight.popleft()
            if self.is_cut:
                self.counters.cut_packets += 1
                continue
            if self._nodes and not self._is_let_in(packet, due_s):
                continue
            arrived.append(packet)
        if arrived:
            self.counters.delivered_packets += len(arrived)
            self.counters.delivered_bytes += sum(map(len, arrived))
        return arrived

    def _is_let_in(self, packet: bytes, arrived_s: float) -> bool:
        """Return whether the node that a packet is for lets it in."""
        policer = self._nodes.get(packet[DESTINATION])
        if policer is None or policer.passes(len(packet), arrived_s):
            return True
        self.counters.node_policed_packets += 1
        return False

    def next_due_s(self) -> float:
        """Return when the next packet arrives; infinity when none is under way."""
        return self._in_flight[0][0] if self._in_flight else math.inf

    def _serialise(self, size: int, now_s: float) -> float | None:
        """Queue a packet and return when its last bit has left; None when there is no room."""
        queue = self._in_service
        while queue and queue[0][0] <= now_s:
            self._queued_bytes -= queue.popleft()[1]
        waiting, waiting_bytes = len(queue) + 1, self._queued_bytes + size
        if waiting > self._free_packets or waiting_bytes > self._free_bytes:
            return None
        start_s = max(now_s, self._busy_until_s)
        self._busy_until_s = sent_s = start_s + size * self._s_per_byte
        queue.append((sent_s, size))
        self._queued_bytes = waiting_bytes
        counters = self.counters
        if waiting > counters.most_queued_packets:
            counters.most_queued_packets = waiting
        if waiting_bytes > counters.most_queued_bytes:
            counters.most_queued_bytes = waiting_bytes
        return sent_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a direction: its key in data files, and what is allowed.

    Attributes:
        field: Name of the field of `DirectionProfile`.
        key: Name in data files; its unit is in it.
        scale: A data file's figure times this is the field's.
        low: Least value of the field.
        high: Largest value of the field.
        off: The value 0 in a data file means that there is none.
    """

    field: str
    key: str
    scale: float = 1.0
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    off: bool = False


FIGURES = (
    Figure(field="rate_bps", key="rate_kbit_s", scale=1e3, low=1e3, high=1e11),
    Figure(field="delay_s", key="delay_ms", scale=1e-3, high=10),
    Figure(field="jitter_s", key="jitter_ms", scale=1e-3, high=10),
    Figure(field="loss_ratio", key="loss_percent", scale=1e-2),
    Figure(field="burst_enter_ratio", key="burst_enter_percent", scale=1e-2),
    Figure(field="burst_leave_ratio", key="burst_leave_percent", scale=1e-2, low=1e-6),
    Figure(field="burst_loss_ratio", key="burst_loss_percent", scale=1e-2),
    Figure(field="policer_rate_bps", key="policer_kbit_s", scale=1e3, low=1e3, high=1e11, off=True),
    Figure(field="policer_burst_bytes", key="policer_burst_bytes", low=1500, high=1e9, whole=True),
    Figure(field="queue_packets", key="queue_packets", low=1, high=1e6, whole=True, off=True),
    Figure(field="queue_bytes", key="queue_bytes", low=1500, high=1e9, whole=True, off=True),
)

KEYS = tuple(figure.key for figure in FIGURES)
"""What a data file may say of a direction, or of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProfile:
    """A link between the core and a site: to_site is the data direction of a download, to_core that of its ACKs."""

    name: str
    source: str
    to_site: DirectionProfile
    to_core: DirectionProfile

    @property
    def rtt_s(self) -> float:
        """Round-trip time of an empty packet on an idle link, in seconds."""
        return self.to_site.delay_s + self.to_core.delay_s

    @property
    def rate_bps(self) -> float:
        """What a download gets at most: the rate towards the site, or its policer's."""
        return min(self.to_site.rate_bps, self.to_site.policer_rate_bps or self.to_site.rate_bps)

    def with_changes(self, changes: Mapping[str, Any]) -> LinkProfile:
        """Return a copy with fields of both directions replaced, for example ``{"loss_ratio": 0.001}``.

        The keys ``to_site`` and ``to_core`` hold changes of one direction only.

        Raises LabError: a key or a value is not allowed.
        """
        changes = dict(changes)
        own = {key: changes.pop(key, {}) for key in ("to_site", "to_core")}
        try:
            return replace(
                self,
                to_site=checked(replace(self.to_site, **(changes | own["to_site"])), f"link {self.name}: to_site"),
                to_core=checked(replace(self.to_core, **(changes | own["to_core"])), f"link {self.name}: to_core"),
            )
        except TypeError as error:
            allowed = ", ".join(DirectionProfile.__dataclass_fields__)
            raise LabError(
                f"link {self.name}: {error}; allowed are {allowed}, or these within to_site or to_core."
            ) from error

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)

    def describe(self) -> str:
        """Return its figures in a line for people."""
        down, up = self.to_site, self.to_core
        words = [f"RTT {self.rtt_s * 1e3:g} ms", f"{down.rate_bps / 1e6:g} Mbit/s"]
        if up.rate_bps != down.rate_bps:
            words[-1] += f" down, {up.rate_bps / 1e6:g} up"
        if down.jitter_s or up.jitter_s:
            words.append(f"jitter {max(down.jitter_s, up.jitter_s) * 1e3:g} ms")
        if down.mean_loss_ratio or up.mean_loss_ratio:
            bursts = " in bursts" if down.burst_enter_ratio else ""
            words.append(f"loss {down.mean_loss_ratio * 100:.2g} %{bursts}")
        if down.policer_rate_bps is not None:
            words.append(f"policed to {down.policer_rate_bps / 1e6:g} Mbit/s")
        return ", ".join(words)


def profile_from_json(values: Mapping[str, Any]) -> LinkProfile:
    """Undo `LinkProfile.as_json`."""
    return LinkProfile(
        name=values["name"],
        source=values["source"],
        to_site=DirectionProfile(**values["to_site"]),
        to_core=DirectionProfile(**values["to_core"]),
    )


def load_profile(name: str, *, overrides: Table | None = None, base: Path | None = None) -> LinkProfile:
    """Read a profile by the lab's name, or a ``.toml`` file's path relative to `base`.

    `overrides` are keys that replace the file's, also within ``to_site`` or ``to_core``.

    Raises LabError: there is no such profile, or a value is not allowed.
    """
    is_file = name.endswith(".toml")
    table = read_file((base or Path()) / name) if is_file else read_table("flashferry.lab.profiles", name)
    table.only("source", "to_site", "to_core", *KEYS)
    layers = (table, overrides) if overrides is not None else (table,)
    return LinkProfile(
        name=Path(name).stem if is_file else name,
        source=table.text("source"),
        to_site=_direction(layers, "to_site"),
        to_core=_direction(layers, "to_core"),
    )


def checked(profile: DirectionProfile, where: str) -> DirectionProfile:
    """Return a direction whose figures are all allowed, also together.

    Raises LabError: one is not; ``where``, the field and what is allowed are named.
    """
    for figure in FIGURES:
        value = getattr(profile, figure.field)
        kinds = int if figure.whole else (int, float)
        if value is None and figure.off:
            continue
        if isinstance(value, bool) or not isinstance(value, kinds) or not figure.low <= value <= figure.high:
            number = "a whole number" if figure.whole else "a number"
            none = ", or None for none" if figure.off else ""
            allowed = f"{number} from {figure.low:g} to {figure.high:g}{none}"
            raise LabError(f"{where}: {figure.field}: expected {allowed}, found {value!r}.")
    if profile.jitter_s > profile.delay_s:
        seen = f"jitter {profile.jitter_s * 1e3:g} ms and delay {profile.delay_s * 1e3:g} ms"
        raise LabError(f"{where}: jitter_s: expected at most the delay, for no packet arrives early; found {seen}.")
    return profile


def _direction(layers: tuple[Table, ...], direction: str) -> DirectionProfile:
    """Read a direction; each layer's own way counts more than what it says for both, and later layers more still."""
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for layer in layers:
        own = layer.table(direction)
        own.only(*KEYS)
        for table in (layer, own):
            known = {key: value for key, value in table.values.items() if key in KEYS}
            values |= known
            origin |= dict.fromkeys(known, table.where)
    fields: dict[str, Any] = {}
    for figure in FIGURES:
        if figure.key in values or figure.key in ("rate_kbit_s", "delay_ms"):
            table = Table(where=origin.get(figure.key, layers[0].where), values=values)
            fields[figure.field] = _value(table, figure)
    where = origin.get("jitter_ms", layers[-1].where)
    return checked(DirectionProfile(**fields), where)


def _value(table: Table, figure: Figure) -> float | None:
    if figure.off and table.values[figure.key] == 0:
        return None
    if figure.whole:
        return table.integer(figure.key, low=int(figure.low), high=int(figure.high))
    # Rounded, so that 0.01 percent is 0.0001 and not its neighbour.
    low, high = round(figure.low / figure.scale, 9), round(figure.high / figure.scale, 9)
    return round(table.number(figure.key, low=low, high=high) * figure.scale, 12)
