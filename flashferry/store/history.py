"""One timed copy of a device, and what it is good for. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from types import MappingProxyType

from flashferry.core.units import rate
from flashferry.core.value_description import counted
from flashferry.store.reader import reading
from flashferry.store.tables import TransferRow, all_transfers, damaged_records, probe_rows
from flashferry.store.transfer_row import NULL, PROBE_AS_IS, PROBE_TUNED, STAGE
from flashferry.tcp.models import predicted_seconds
from flashferry.tcp.speed_test_size import too_short
from flashferry.tcp.tuning_benefit import LEAST_GAIN, nothing_to_tune
from flashferry.tcp.verdict_rules import VerdictKind
from inventory.transport_policy import CLEAR_TEXT, USUAL

__all__ = ["Expectation", "History", "Measurement"]

DELIVERED = "delivered"

LEAST_BYTES = 1_000_000

"""A copy that broke off earlier was mostly its own start."""

_STALLED = ("nothing acknowledged", "no progress")

_NOT_THE_WINDOW = frozenset(
    {
        VerdictKind.SLOW_RECEIVER,
        VerdictKind.BANDWIDTH,
        VerdictKind.POLICER,
        VerdictKind.CAP,
        VerdictKind.SERVER,
    }
)

_LATE_SHARE = 1.2

_LATE_S = 2.0

"""A device whose own clock runs on by more than both behind our last byte is held up by its flash."""

_LIKE_SHARE = 0.1

_LIKE_S = 30.0

"""A copy that is shorter than both is mostly start and end; a longer one says more about an image, if older."""

_DONE = {STAGE: "staged", PROBE_AS_IS: "probed as it is", PROBE_TUNED: "probed tuned"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One timed copy.

    Attributes:
        host: Inventory name.
        at: When it began, ISO 8601, UTC.
        run_id: The run.
        kind: `stage`, `probe as it is` or `probe tuned`.
        tuned: Whether lines of ours were in force.
        to_null: Whether it went to `null:`, which writes no flash.
        size_bytes: What the client acknowledged.
        duration_s: First byte to last acknowledgement, by our server.
        rate_bytes_per_s: That size over that time.
        steady_bytes_per_s: Rate behind the start, or None.
        rtt_s: Least round-trip time, or None.
        window_bytes: Largest receive window seen, or None.
        congestion_control: The sender's, or None.
        verdict: What limited it, in a word.
        outcome: `delivered`, or why not.
        device_s: How long the copy took by the device's own clock, flash writing included; None where it did not say.
        identity: What the device calls itself, or None.
        model: Its model, or None.
        transport: By what it was fetched.
    """

    host: str
    at: str
    run_id: str
    kind: str
    tuned: bool
    to_null: bool
    size_bytes: int
    duration_s: float
    rate_bytes_per_s: float
    steady_bytes_per_s: float | None
    rtt_s: float | None
    window_bytes: int | None
    congestion_control: str | None
    verdict: str
    outcome: str = DELIVERED
    device_s: float | None = None
    identity: str | None = None
    model: str | None = None
    transport: str = USUAL

    @property
    def counts(self) -> bool:
        """Whether it says something about the next copy: delivered, or broken off late and not by a stall.

        A speed test that ended with the copy by which it finds its size is none.
        """
        if self.rate_bytes_per_s <= 0:
            return False
        if self.to_null and too_short(size_bytes=self.size_bytes, duration_s=self.duration_s, rtt_s=self.rtt_s):
            return False
        stalled = any(word in self.outcome for word in _STALLED)
        return self.outcome == DELIVERED or (self.size_bytes > LEAST_BYTES and not stalled)

    @property
    def whole_bytes_per_s(self) -> float:
        """Rate of the whole copy: by the device's clock, which counts flash writing, else by the server's."""
        if self.outcome == DELIVERED and self.device_s:
            return self.size_bytes / self.device_s
        return self.rate_bytes_per_s

    @property
    def bytes_per_s(self) -> float:
        """Rate to show and to compare: behind the start for a speed test, of the whole copy for one to flash."""
        return (self.steady_bytes_per_s if self.to_null else None) or self.whole_bytes_per_s

    @property
    def is_limited_by_device(self) -> bool:
        """Whether the device itself was the limit: it did not keep up, or wrote on behind the last byte."""
        if self.verdict == VerdictKind.SLOW_RECEIVER:
            return True
        if self.to_null or not self.device_s or self.size_bytes < LEAST_BYTES:
            return False
        return self.device_s > _LATE_SHARE * self.duration_s and self.device_s - self.duration_s > _LATE_S

    def says_much_of(self, size_bytes: int) -> bool:
        """Whether a copy of this size may run as this one did: it was long enough not to be mostly its start."""
        return self.size_bytes >= _LIKE_SHARE * size_bytes or self.duration_s >= _LIKE_S

    @property
    def is_beyond_tuning(self) -> bool:
        """Whether what limited it is nothing that the device's TCP settings could move."""
        return self.is_limited_by_device or self.verdict in _NOT_THE_WINDOW

    def described(self, now: datetime) -> str:
        """Return what it was and when, in words: `staged 3 days ago, 1.60 MB/s`."""
        return f"{_DONE.get(self.kind, self.kind)} {age(self.at, now)}, {rate(self.bytes_per_s)}"


def age(at: str, now: datetime) -> str:
    """Return how long ago a time (ISO 8601 with its zone) is, in words."""
    try:
        minutes = (now - datetime.fromisoformat(at)).total_seconds() / 60
    except (ValueError, TypeError):
        return "at an unknown time"
    if minutes < 1:
        return "just now"
    for unit, length in (("day", 1440), ("hour", 60), ("minute", 1)):
        if minutes >= (2 * length if unit == "day" else length):
            count = int(minutes // length)
            return f"{counted(count, unit)} ago"
    return "just now"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeWord:
    """What the last speed test of a device said about tuning, when (ISO 8601, UTC), and of which transport."""

    at: str
    is_worth: bool
    reason: str
    transport: str = USUAL

    @property
    def has_nothing_to_tune(self) -> bool:
        """Whether the device's settings are enough as they are."""
        return not self.is_worth and self.reason.startswith(nothing_to_tune().reason)


@dataclass(slots=True, kw_only=True)
class HistoryRows:
    """What was read; `damaged` counts the rows that could not be."""

    measurements: list[Measurement] = field(default_factory=list)
    probes: dict[str, ProbeWord] = field(default_factory=dict)
    damaged: int = 0


def read_rows(directory: Path) -> HistoryRows:
    """Return all timed copies of a state directory.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    found = HistoryRows()
    with reading(directory) as database:
        if database is not None:
            found.measurements.extend(map(_measurement, all_transfers(database)))
            found.damaged = damaged_records(database)
            for word in probe_rows(database):
                found.probes[word.host] = ProbeWord(
                    at=word.updated_at,
                    is_worth=bool(word.is_worth),
                    reason=str(word.reason),
                    transport=word.transport or USUAL,
                )
    return found


def _measurement(row: TransferRow) -> Measurement:
    return Measurement(
        host=row.host,
        at=row.at,
        run_id=row.run_id,
        kind=row.kind,
        tuned=bool(row.tuned),
        to_null=row.target == NULL,
        size_bytes=row.bytes_acked,
        duration_s=row.duration_s,
        rate_bytes_per_s=row.rate_bytes_per_s,
        steady_bytes_per_s=row.steady_bytes_per_s,
        rtt_s=row.rtt_s,
        window_bytes=row.window_bytes,
        congestion_control=row.congestion_control,
        verdict=row.verdict,
        outcome=row.outcome,
        device_s=row.device_s,
        identity=row.identity,
        model=row.model,
        transport=row.transport,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a copy to flash may be expected to run at: size over the whole time, and where the figure comes from.

    Attributes:
        bytes_per_s: The rate.
        source: Where it comes from, in words.
        is_capped: Whether our own cap held that copy back, so that it says nothing of what would have been faster.
    """

    bytes_per_s: float
    source: str
    is_capped: bool = False


class History:
    """All timed copies of a store.

    Args:
        measurements: In any order.
        probes: The last word of each device's speed test on whether tuning is worth it, by host.
        now: The time that ages are counted from.
        damaged: How many rows could not be read.
    """

    def __init__(
        self,
        measurements: Iterable[Measurement],
        *,
        probes: Mapping[str, ProbeWord] = MappingProxyType({}),
        now: datetime | None = None,
        damaged: int = 0,
    ) -> None:
        self._by_host: dict[str, list[Measurement]] = defaultdict(list)
        for one in _without_pilots(sorted(measurements, key=lambda one: one.at)):
            self._by_host[one.host].append(one)
        self._probes = probes
        self._now = now or datetime.now(UTC)
        self._flash_of_model = _flash_by_model(self._by_host)
        self.damaged = damaged

    @classmethod
    def read(cls, directory: Path, now: datetime | None = None) -> History:
        """Return the history that the journal of a state directory holds; it need not exist.

        Raises:
            ConfigInvalid: There is a journal and it cannot be read.
        """
        rows = read_rows(directory)
        return cls(rows.measurements, probes=rows.probes, now=now, damaged=rows.damaged)

    @property
    def hosts(self) -> tuple[str, ...]:
        """All devices that something is known of, by name."""
        return tuple(sorted(self._by_host))

    def of(self, host: str) -> tuple[Measurement, ...]:
        """Return a device's copies, the oldest first; empty where nothing is known."""
        return tuple(self._by_host.get(host, ()))

    def expected(self, host: str, *, tuned: bool, size_bytes: int, transport: str = USUAL) -> Expectation | None:
        """Return what a copy to flash may be expected to run at, or None where there is no measurement.

        The device's newest copy to flash counts, if it went with the same settings or was limited by what settings do
        not move. Else its speed test, if that is not more than its flash, or that of its model, was seen to take. A
        short copy to flash was mostly its start: it bounds the expectation from below, and a speed test may raise it.

        Args:
            host: Inventory name.
            tuned: Whether the copy is to run tuned.
            size_bytes: Size of the image, > 0.
            transport: By what it is to fetch; copies by others say only how fast flash is.
        """
        flash = [one for one in self._flash(host, transport) if one.tuned == tuned or (tuned and one.is_beyond_tuning)]
        best = _most_alike(flash, size_bytes) if flash else None
        by_probe = (
            None
            if best is not None and best.says_much_of(size_bytes)
            else self._by_probe(host, transport, tuned, size_bytes)
        )
        if best is not None and (by_probe is None or by_probe.bytes_per_s <= best.whole_bytes_per_s):
            return Expectation(
                bytes_per_s=best.whole_bytes_per_s, source=best.described(self._now), is_capped=_is_capped(best)
            )
        return by_probe

    def fastest(self, host: str, transports: Iterable[str], *, size_bytes: int) -> tuple[str, Expectation] | None:
        """Return the transport by which a device was the fastest, and what to expect; None without a measurement.

        What was measured on the device itself counts; else what devices of its model took, by their medians. One that
        nothing is known of is not among them. Where our own cap was the limit, its share decided and no transport: then
        the first of those that were held back by it is the one.

        Args:
            host: Inventory name.
            transports: Their names, the preferred one first.
            size_bytes: Size of the image, > 0.
        """
        names = tuple(transports)
        own = [(name, found) for name in names if (found := self._best(host, name, size_bytes)) is not None]
        if own:
            best = max(own, key=lambda one: one[1].bytes_per_s)
            return next(one for one in own if one[1].is_capped) if best[1].is_capped else best
        model = self._model_of(host)
        like = [other for other in self._by_host if other != host and model and self._model_of(other) == model]
        of_model = []
        for name in names:
            rates = [found.bytes_per_s for other in like if (found := self._best(other, name, size_bytes)) is not None]
            if rates:
                words = f"the median of {counted(len(rates), 'other device')} of model {model}"
                of_model.append((name, Expectation(bytes_per_s=median(rates), source=words)))
        return max(of_model, key=lambda one: one[1].bytes_per_s) if of_model else None

    def _best(self, host: str, transport: str, size_bytes: int) -> Expectation | None:
        """Return what to expect of a transport, tuned or as the device is, whichever is known to be faster."""
        found = [
            one
            for tuned in (True, False)
            if (one := self.expected(host, tuned=tuned, size_bytes=size_bytes, transport=transport)) is not None
        ]
        return max(found, key=lambda one: one.bytes_per_s) if found else None

    def _model_of(self, host: str) -> str | None:
        return next((one.model for one in reversed(self._by_host.get(host, ())) if one.model), None)

    def _by_probe(self, host: str, transport: str, tuned: bool, size_bytes: int) -> Expectation | None:
        probe = self._probe(host, transport, tuned=tuned)
        if probe is None:
            return None
        steady = probe.steady_bytes_per_s or probe.rate_bytes_per_s
        whole = size_bytes / predicted_seconds(size_bytes, steady, probe.rtt_s or 0.0)
        found = self._limited(host, whole, f"{probe.described(self._now)} to null:", transport=transport)
        return replace(found, is_capped=_is_capped(probe) and found.bytes_per_s == whole)

    def flash_limit(self, host: str, model: str | None = None, *, transport: str = USUAL) -> Expectation | None:
        """Return the most that a device's flash, or that of its model, was seen to take; None without a measurement.

        Args:
            host: Inventory name.
            model: Its model, or None: as its earlier copies have it.
            transport: By what it is to fetch.
        """
        found = self._limited(host, float("inf"), "", model, transport=transport)
        if found.bytes_per_s == float("inf"):
            return None
        return Expectation(bytes_per_s=found.bytes_per_s, source=found.source.removeprefix("; "))

    def shown_not_to_gain(self, host: str, transport: str = USUAL) -> str | None:
        """Return why tuning a device gains nothing, in a sentence, or None where that was not shown.

        Copies to flash outweigh a speed test, which does not know the flash.
        """
        flash = list(self._flash(host, transport))
        tuned = next((one for one in flash if one.tuned), None)
        as_it_is = next((one for one in flash if not one.tuned), None)
        if tuned is not None and as_it_is is not None and tuned.verdict != VerdictKind.TOO_SHORT:
            return self._no_gain(tuned, as_it_is, as_it_is.whole_bytes_per_s)
        if tuned is not None and tuned.is_limited_by_device:
            probe = self._probe(host, transport, tuned=False)
            return None if probe is None else self._no_gain(tuned, probe, probe.steady_bytes_per_s or 0.0)
        if as_it_is is not None and as_it_is.is_limited_by_device:
            return f"{as_it_is.described(self._now)} to flash as it is, and the device itself was the limit"
        word = self._probes.get(host)
        if word is None or word.is_worth or word.transport != transport:
            return None
        return f"its speed test {age(word.at, self._now)}: {word.reason}"

    def _no_gain(self, tuned: Measurement, other: Measurement, other_bytes_per_s: float) -> str | None:
        if tuned.whole_bytes_per_s >= LEAST_GAIN * other_bytes_per_s:
            return None
        limit = ", and the device itself was the limit" if tuned.is_limited_by_device else ""
        where = " to null:" if other.to_null else " to flash"
        return f"tuned {tuned.described(self._now)}{limit}; as it is {other.described(self._now)}{where}"

    def _flash(self, host: str, *transports: str) -> Iterator[Measurement]:
        """Yield what counts of a device's copies to flash by some transports, the newest first.

        None of a router that was exchanged.
        """
        mine = self._by_host.get(host, ())
        identity = next((one.identity for one in reversed(mine) if one.identity), None)
        for one in reversed(mine):
            is_meant = one.transport in transports and one.identity in (identity, None)
            if not one.to_null and one.counts and is_meant:
                yield one

    def _probe(self, host: str, transport: str, *, tuned: bool) -> Measurement | None:
        """Return the newest speed test with these settings; as the device is, also where it needs no tuning."""
        required = {PROBE_TUNED} if tuned else {PROBE_AS_IS}
        word = self._probes.get(host)
        if word is not None and word.has_nothing_to_tune and word.transport == transport:
            required = {PROBE_AS_IS}
        mine = (one for one in reversed(self._by_host.get(host, ())) if one.transport == transport)
        return next((one for one in mine if one.kind in required and one.counts), None)

    def _limited(
        self, host: str, bytes_per_s: float, source: str, model: str | None = None, *, transport: str
    ) -> Expectation:
        """Return an expectation that is no more than the device's flash, or that of its model, was seen to take.

        What took its time by another transport that encrypts may have been the crypto, and not the flash.
        """
        own = next((one for one in self._flash(host, transport, *CLEAR_TEXT) if one.is_limited_by_device), None)
        if own is not None and own.whole_bytes_per_s < bytes_per_s:
            return Expectation(
                bytes_per_s=own.whole_bytes_per_s, source=f"{source}; its flash is slower: {own.described(self._now)}"
            )
        model = model or self._model_of(host)
        others = [rate for other, rate in self._flash_of_model.get(model or "", {}).items() if other != host]
        if others and (limit := median(others)) < bytes_per_s:
            count = counted(len(others), "other device")
            words = f"the flash of {model} took {rate(limit)} on {count}"
            return Expectation(bytes_per_s=limit, source=f"{source}; {words}")
        return Expectation(bytes_per_s=bytes_per_s, source=source)


def _is_capped(one: Measurement) -> bool:
    return one.verdict == VerdictKind.CAP


def _without_pilots(oldest_first: Iterable[Measurement]) -> Iterator[Measurement]:
    """Leave out the copies by which a speed test found its size: the last of each kind in a run is the one that counts.

    A pilot of 64 KiB measures the start of a connection and nothing else.
    """
    last: dict[tuple[str, str, str, str], Measurement] = {}
    everyone = tuple(oldest_first)
    for one in everyone:
        last[one.run_id, one.host, one.kind, one.transport] = one
    return (one for one in everyone if not one.to_null or last[one.run_id, one.host, one.kind, one.transport] is one)


def _most_alike(newest_first: list[Measurement], size_bytes: int) -> Measurement:
    """Return the newest copy that was delivered and long enough; else the newest delivered; else the newest."""
    delivered = [one for one in newest_first if one.outcome == DELIVERED]
    long = (one for one in delivered if one.says_much_of(size_bytes))
    return next(long, (delivered or newest_first)[0])


def _flash_by_model(by_host: Mapping[str, list[Measurement]]) -> dict[str, dict[str, float]]:
    """Return by model and device what its flash took last, where the device was shown to be the limit."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for host, measurements in by_host.items():
        for one in measurements:
            is_of_flash = not one.to_null and one.transport in CLEAR_TEXT
            if one.model and is_of_flash and one.counts and one.is_limited_by_device:
                found[one.model][host] = one.whole_bytes_per_s
    return found
