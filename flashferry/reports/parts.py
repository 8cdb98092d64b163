"""The parts of a device's report: speeds, transfers, verdicts, proofs. See `flashferry.reports.model`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flashferry.model.states import ACCEPTED_LABEL, FOREIGN_LABEL
from flashferry.reports.words import line_families, running_sentence, startup_sentence
from flashferry.tcp.sample import Sample
from inventory.transport_policy import USUAL


class Proof(StrEnum):
    """What is known about a device's configuration after the run."""

    PROVEN = "proven equal to the start"
    UNTOUCHED = "never changed"
    FOREIGN = "restored but for somebody else's change"
    NOT_PROVEN = "not proven restored"
    UNDER_WAY = "not restored yet"
    UNKNOWN = "not known"

    @property
    def label(self) -> str:
        """The word for people."""
        return FOREIGN_LABEL if self is Proof.FOREIGN else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A measured rate of payload.

    Attributes:
        bytes_per_s: The rate, > 0.
        source: How and when it was measured, in words.
        to_flash: Whether it was a copy to flash; one to `null:` knows nothing of flash.
    """

    bytes_per_s: float
    source: str
    to_flash: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictReport:
    """What limited a transfer. `share` is the part of its time that this cause held, 0 to 1."""

    kind: str
    share: float | None
    sentence: str
    evidence: tuple[str, ...]
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportTriedReport:
    """A transport by which no byte came, and why."""

    transport: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportComparedReport:
    """A transport of a speed test that compares them.

    Attributes:
        transport: Its name.
        bytes_per_s: What its copy to `null:` ran at, tuned, behind the start; null where there was none, or too short.
        verdict: What limited that copy.
        reason: Why there was none; else empty.
        is_best: Whether `auto` begins with it: the fastest, or the preferred one of those that our own cap held back.
    """

    transport: str
    bytes_per_s: float | None
    verdict: VerdictReport | None
    reason: str
    is_best: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReport:
    """One transfer by our server's account.

    Attributes:
        at: When it began, ISO 8601, UTC.
        kind: `stage`, `probe as it is`, `probe tuned`.
        is_tuned: Whether lines of ours were in force.
        target: Where it went on the device.
        outcome: `delivered`, or why not.
        syn: The options of the device's SYN in a line: what its settings came to on the wire.
        window_bytes: Largest receive window seen.
        cap_bytes_per_s: Pacing cap in force at its end, and `cap_source` where it came from.
        samples: Readings of TCP_INFO.
        transport: By what it was fetched.
    """

    at: str | None
    kind: str
    is_tuned: bool
    target: str | None
    image: str | None
    outcome: str | None
    size_bytes: int | None
    acked_bytes: int | None
    duration_s: float | None
    rate_bytes_per_s: float | None
    rtt_s: float | None
    window_bytes: int | None
    mss_bytes: int | None
    has_sack: bool | None
    syn: str | None
    congestion_control: str | None
    congestion_reason: str | None
    cap_bytes_per_s: float | None
    cap_source: str | None
    retransmitted_bytes: int | None
    retransmitted_share: float | None
    verdict: VerdictReport | None
    samples: tuple[Sample, ...]
    transport: str = USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReport:
    """A configuration line that was set for the copy: `before` and `after` are None where the line was absent."""

    ours: str
    before: str | None
    after: str | None
    is_as_before: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What proves that the configuration is what it was.

    Attributes:
        proof: What is known.
        lines: Each line that was set, what it was, and what it is now.
        commands: What was sent to undo it.
        running_is_equal: Whether the whole running configuration, line by line as salted digests, equals the start.
        running_difference: How it differs, in words; empty where it is equal or was not compared.
        startup_is_equal: Whether the startup configuration's lines of the kinds that a run sets are what they were.
        foreign: What others changed meanwhile, a sentence each.
        failure: Why restoring failed, in a sentence; empty where it did not.
        by_recovery: Whether it was not the run itself but `flashferry recover` that restored it.
        is_accepted: Whether the operator accepted it as it is (`recover --accept`), so that nothing of it is open.
    """

    proof: Proof
    lines: tuple[LineReport, ...]
    commands: tuple[str, ...]
    running_is_equal: bool | None
    running_difference: str
    startup_is_equal: bool | None
    foreign: tuple[str, ...]
    failure: str
    by_recovery: bool
    is_accepted: bool = False

    @property
    def running(self) -> str:
        """Return how the running configuration compares with the start."""
        if self.running_is_equal is None:
            return "running configuration: not compared"
        return running_sentence(self.running_difference)

    @property
    def startup(self) -> str:
        """Return how the startup configuration's lines of the kinds that a run sets compare with the start."""
        if self.startup_is_equal is None:
            return "startup configuration: not compared"
        return startup_sentence(line_families(one.ours for one in self.lines), is_equal=self.startup_is_equal)

    @property
    def label(self) -> str:
        """What is known, in the word for people."""
        return ACCEPTED_LABEL if self.is_accepted else self.proof.label


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """How long a step took, all its turns together."""

    step: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """An earlier attempt in the same run."""

    outcome: str
    step: str
    reason: str
