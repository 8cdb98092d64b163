"""Predict the rate of a device's next copy from timed copies. Pure, except for `History.read`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.units import counted, rate
from flashferry.store.measurements import DELIVERED, Measurement, ProbeWord, age, read_rows
from flashferry.store.transfer_row import PROBE_AS_IS, PROBE_TUNED
from flashferry.tcp.models import predicted_seconds
from flashferry.tcp.tuning_benefit import LEAST_GAIN
from flashferry.tcp.verdict_rules import VerdictKind
from inventory.transport_policy import CLEAR_TEXT, USUAL


class Expectation(Struct, frozen=True, kw_only=True):
    """Expected rate of a copy to flash: size over the whole duration.

    Attributes:
        source: Which measurement it is from, for users.
        is_capped: Whether our rate limit held that copy back.
    """

    bytes_per_s: float
    source: str
    is_capped: bool = False


class History:
    """All timed copies of a journal.

    Args:
        measurements: In any order.
        probes: Result of each device's last speed test, by host.
        now: Time for ages; None for the current time.
        damaged: Number of unreadable rows.
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
    def read(cls, directory: Path, now: datetime | None = None, *, counts_damaged: bool = True) -> History:
        """Read the history of a state directory, which may not exist.

        Args:
            directory: The state directory.
            now: Time for ages; None for the current time.
            counts_damaged: Whether to count unreadable rows, which takes as long as all else.

        Raises:
            ConfigInvalid: The journal cannot be read.
        """
        rows = read_rows(directory, counts_damaged=counts_damaged)
        return cls(rows.measurements, probes=rows.probes, now=now, damaged=rows.damaged)

    @property
    def hosts(self) -> tuple[str, ...]:
        """All devices with a measurement, by name."""
        return tuple(sorted(self._by_host))

    def of(self, host: str) -> tuple[Measurement, ...]:
        """Return a device's copies, the oldest first."""
        return tuple(self._by_host.get(host, ()))

    def expected(self, host: str, *, tuned: bool, size_bytes: int, transport: str = USUAL) -> Expectation | None:
        """Return the expected rate of a copy to flash; None without a measurement.

        The newest copy to flash decides, if it ran with the same settings or with a limit that settings cannot move.
        Otherwise the last speed test decides, limited by the measured flash rate of the device or its model. A short
        copy to flash is a lower bound, which a speed test may raise.

        Args:
            host: Inventory name.
            tuned: Whether the copy will run with our TCP settings.
            size_bytes: Size of the image, > 0.
            transport: Transport of the copy; copies by others only show the flash rate.
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
        """Return a device's fastest transport and its expected rate; None without a measurement.

        Measurements of the device itself come before the medians of its model. If our rate limit decided the fastest
        copy, the first transport that was held back by it is returned.

        Args:
            host: Inventory name.
            transports: Names, the preferred one first.
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
        """Return the higher of the expected rates with and without tuning."""
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
        """Return the highest measured flash rate of a device, else of its model; None without a measurement.

        Args:
            host: Inventory name.
            model: Its model; None takes it from earlier copies.
            transport: Transport of the copy.
        """
        found = self._limited(host, float("inf"), "", model, transport=transport)
        if found.bytes_per_s == float("inf"):
            return None
        return Expectation(bytes_per_s=found.bytes_per_s, source=found.source.removeprefix("; "))

    def shown_not_to_gain(self, host: str, transport: str = USUAL) -> str | None:
        """Return why tuning does not speed up a device, in a sentence; None if that was not measured.

        Copies to flash count more than a speed test, which does not include the flash.
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
        if word is None or word.is_useful or word.transport != transport:
            return None
        return f"its speed test {age(word.at, self._now)}: {word.reason}"

    def _no_gain(self, tuned: Measurement, other: Measurement, other_bytes_per_s: float) -> str | None:
        if tuned.whole_bytes_per_s >= LEAST_GAIN * other_bytes_per_s:
            return None
        limit = ", and the device itself was the limit" if tuned.is_limited_by_device else ""
        where = " to null:" if other.to_null else " to flash"
        return f"tuned {tuned.described(self._now)}{limit}; as it is {other.described(self._now)}{where}"

    def _flash(self, host: str, *transports: str) -> Iterator[Measurement]:
        """Yield a device's copies to flash by some transports, the newest first, none of a router that was replaced."""
        mine = self._by_host.get(host, ())
        identity = next((one.identity for one in reversed(mine) if one.identity), None)
        for one in reversed(mine):
            is_meant = one.transport in transports and one.identity in (identity, None)
            if not one.to_null and one.counts and is_meant:
                yield one

    def _probe(self, host: str, transport: str, *, tuned: bool) -> Measurement | None:
        """Return the newest speed test with these settings.

        One without our settings also counts as tuned if the device needs no tuning.
        """
        required = {PROBE_TUNED} if tuned else {PROBE_AS_IS}
        word = self._probes.get(host)
        if word is not None and word.has_nothing_to_tune and word.transport == transport:
            required = {PROBE_AS_IS}
        mine = (one for one in reversed(self._by_host.get(host, ())) if one.transport == transport)
        return next((one for one in mine if one.kind in required and one.counts), None)

    def _limited(
        self, host: str, bytes_per_s: float, source: str, model: str | None = None, *, transport: str
    ) -> Expectation:
        """Return an expected rate limited by the measured flash rate of the device, or of its model.

        Copies by other encrypted transports do not count: their limit may have been the encryption.
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
    """Leave out pilot copies of speed tests: of each kind in a run, the last copy counts.

    A pilot of 64 KiB only measures slow start.
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
    """Return the last flash rate by model and device, for copies that the device limited."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for host, measurements in by_host.items():
        for one in measurements:
            is_of_flash = not one.to_null and one.transport in CLEAR_TEXT
            if one.model and is_of_flash and one.counts and one.is_limited_by_device:
                found[one.model][host] = one.whole_bytes_per_s
    return found
