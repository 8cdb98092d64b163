"""One timed copy of a device, and what it is good for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from flashferry.core.safe_quote import counted
from flashferry.core.units import rate
from flashferry.store.transfer_row import PROBE_AS_IS, PROBE_TUNED, STAGE
from flashferry.tcp.probing import too_short
from flashferry.tcp.verdict_rules import VerdictKind
from inventory.transport_policy import USUAL

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
_BEHIND_SHARE = 1.2
_BEHIND_S = 2.0
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
        return self.device_s > _BEHIND_SHARE * self.duration_s and self.device_s - self.duration_s > _BEHIND_S

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
