"""The model of a report: run, sites, devices, transfers, proofs."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from flashferry.model.states import ACCEPTED_LABEL, FOREIGN_LABEL, LEFT, Outcome, Phase, RunState
from flashferry.reports.facts import (
    FACTS,
    ActivationReport,
    AddedReport,
    DeadManReport,
    DistributionReport,
    Fact,
    ReadinessReport,
    in_words,
    read_facts,
)
from flashferry.reports.words import line_families, partial_file_sentence, running_sentence, startup_sentence
from flashferry.tcp.sample import Sample
from inventory.transport_policy import USUAL

__all__ = [
    "IN_PROGRESS",
    "LEFT",
    "NOT_STARTED",
    "SCHEMA",
    "AttemptReport",
    "Count",
    "DeviceReport",
    "ImageReport",
    "LineReport",
    "Proof",
    "Report",
    "RestoreReport",
    "Severity",
    "SiteReport",
    "Speed",
    "StepTime",
    "Summary",
    "TransferReport",
    "TransportComparedReport",
    "TransportTriedReport",
    "VerdictReport",
    "read_facts",
]


class Proof(StrEnum):
    """What is known about a device's configuration after the run."""

    PROVEN = "proven equal to the start"
    UNTOUCHED = "never changed"
    FOREIGN = "restored but for somebody else's change"
    NOT_PROVEN = "not proven restored"
    IN_PROGRESS = "not restored yet"
    UNKNOWN = "not known"

    @property
    def label(self) -> str:
        """Display name."""
        return FOREIGN_LABEL if self is Proof.FOREIGN else self.value


class Speed(Struct, frozen=True, kw_only=True):
    """A measured payload rate.

    Attributes:
        bytes_per_s: The rate, > 0.
        source: How and when it was measured.
        to_flash: Whether it was a copy to flash; one to `null:` does not include the flash.
    """

    bytes_per_s: float
    source: str
    to_flash: bool


class VerdictReport(Struct, frozen=True, kw_only=True):
    """What limited a transfer; `share` is the part of the duration for which it did, 0 to 1."""

    kind: str
    share: float | None
    sentence: str
    evidence: tuple[str, ...]
    advice: str


class TransportTriedReport(Struct, frozen=True, kw_only=True):
    """A transport by which no byte arrived, and why."""

    transport: str
    reason: str


class TransportComparedReport(Struct, frozen=True, kw_only=True):
    """A transport of a speed test that compares several.

    Attributes:
        transport: Its name.
        bytes_per_s: Rate of its tuned copy to `null:` after slow start; null if there was none, or it was too short.
        verdict: What limited that copy.
        reason: Why there was none; else empty.
        is_best: Whether `auto` prefers it: the fastest, or the preferred one of those that our own cap limited.
    """

    transport: str
    bytes_per_s: float | None
    verdict: VerdictReport | None
    reason: str
    is_best: bool


class TransferReport(Struct, frozen=True, kw_only=True):
    """One transfer, as our server recorded it.

    Attributes:
        at: Start, ISO 8601, UTC.
        kind: `stage`, `probe as it is`, `probe tuned`.
        is_tuned: Whether our TCP settings were in force.
        target: Path on the device.
        outcome: `delivered`, or why not.
        syn: Options of the device's SYN, which show its TCP settings.
        window_bytes: Largest receive window.
        cap_bytes_per_s: Pacing cap at its end; `cap_source` is where that is from.
        samples: Readings of TCP_INFO.
        transport: Transport of the copy.
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


class LineReport(Struct, frozen=True, kw_only=True):
    """A configuration line that was set for the copy; `before` and `after` are null if the line was absent."""

    ours: str
    before: str | None
    after: str | None
    is_as_before: bool | None


class RestoreReport(Struct, frozen=True, kw_only=True):
    """Proof that the configuration is restored.

    Attributes:
        proof: What is known.
        lines: Each line that was set, its value before, and now.
        commands: Commands sent to undo it.
        running_is_equal: Whether the whole running configuration, compared by salted digests of its lines, equals the
            start.
        running_difference: How it differs; empty if equal or not compared.
        startup_is_equal: Whether the startup configuration's lines of the kinds that a run sets are unchanged.
        foreign: Changes by others meanwhile, one sentence each.
        failure: Why the restore failed; empty if it did not.
        by_recovery: Whether `flashferry recover` restored it, and not the run.
        is_accepted: Whether the operator accepted it as it is (`recover --accept`).
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
        """Display name of what is known."""
        return ACCEPTED_LABEL if self.is_accepted else self.proof.label


class StepTime(Struct, frozen=True, kw_only=True):
    """Duration of a step, repetitions included."""

    step: str
    seconds: float


class AttemptReport(Struct, frozen=True, kw_only=True):
    """An earlier attempt in the same run."""

    outcome: str
    step: str
    reason: str


IN_PROGRESS = Phase.IN_PROGRESS.value

NOT_STARTED = Outcome.NOT_STARTED.value
"""Outcome of a device that did not start; see also IN_PROGRESS and LEFT."""

SCHEMA = "flashferry.report/1"
"""Name and version of the report's JSON format; a field that is changed or removed increases the version."""


class Severity(StrEnum):
    """Severity of a device's state for colours, sorting and counts, the worst first."""

    UNRESTORED = "unrestored"
    FAILED = "failed"
    UNKNOWN = "could not tell"
    REFUSED = "refused"
    OPEN = "open"
    GOOD = "good"


class DeviceReport(Struct, frozen=True, kw_only=True):
    """One device of a run.

    Attributes:
        standing: Severity of its state, the configuration included.
        needs_attention: Whether the operator must act.
        outcome: A value of `flashferry.model.states.Outcome`; before the end IN_PROGRESS or NOT_STARTED; `left by the
            dead run` if the run was killed while it held the device.
        label: Display name of the outcome.
        phase: The phase as which it counts.
        state: Its state, `planned` to `done`.
        step: The step that failed or refused it; null for none.
        reason: Why, in a sentence.
        hint: What to do about it.
        transcript: For a failed device, the last lines sent and received, secrets masked, each with its time (UTC) and
            `<` for received, `>` for sent, `-` for a remark.
        release: Running release.
        rtt_s: Least round-trip time.
        link_bytes_per_s: Payload rate of its link; `link_source` is where that is from.
        as_is: Speed with its own TCP settings.
        tuned: Speed while tuned, in this run.
        untuned: Speed of this run's copy without tuning.
        gain: `tuned` over `as_is`.
        saved_s: Seconds that tuning saved for the copied bytes.
        verdict: What limited the decisive copy.
        hash_proof: How the image was verified on the device; null if it was not.
        steps: Duration of its steps.
        total_s: Their sum; null if no step ended.
        attempt: Number of this attempt, from 1.
        partial_file: Partial file on the device; null for none.
        partial_advice: What to do about it.
        notes: Notes for the operator.
        transport: Transport of its copy.
        transports_tried: Transports by which no byte arrived before, with the reasons.
        compared: Results by transport of a speed test that compares them; else empty.
        readiness: Readiness to boot the image; null if not checked.
        dead_man: Applet by which it restores its lines itself; null for none.
        distribution: The image on its other members; null if it has none.
        added: Result of `install add`; null if not requested.
        activation: Result of its restart into the image; null for none.
    """

    host: str
    address: str
    site: str | None
    wave: int | None
    standing: Severity
    needs_attention: bool
    outcome: str
    label: str
    phase: Phase
    state: str
    step: str | None
    reason: str | None
    hint: str | None
    transcript: tuple[str, ...]
    model: str | None
    serial_number: str | None
    release: str | None
    file_system: str | None
    image: str | None
    rtt_s: float | None
    link_bytes_per_s: float | None
    link_source: str | None
    as_is: Speed | None
    tuned: Speed | None
    untuned: Speed | None
    gain: float | None
    saved_s: float | None
    verdict: VerdictReport | None
    hash_proof: str | None
    restore: RestoreReport
    steps: tuple[StepTime, ...]
    total_s: float | None
    attempt: int
    attempts: tuple[AttemptReport, ...]
    transfers: tuple[TransferReport, ...]
    partial_file: str | None
    partial_advice: str | None
    notes: tuple[str, ...]
    transport: str = USUAL
    transports_tried: tuple[TransportTriedReport, ...] = ()
    compared: tuple[TransportComparedReport, ...] = ()
    readiness: ReadinessReport | None = None
    dead_man: DeadManReport | None = None
    distribution: DistributionReport | None = None
    added: AddedReport | None = None
    activation: ActivationReport | None = None

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What the run did besides the copy, as sentences."""
        return in_words({name: getattr(self, name) for name in FACTS})

    @property
    def left_over(self) -> str:
        """Return the partial file on the device and what to do about it; empty for none."""
        return partial_file_sentence(self.partial_file, self.partial_advice) if self.partial_file else ""

    @property
    def speed(self) -> Speed | None:
        """Return the speed of this run's copy, tuned or not."""
        return self.tuned or self.untuned


class Count(Struct, frozen=True, kw_only=True):
    """Number of devices with a word."""

    word: str
    devices: int


class SiteReport(Struct, frozen=True, kw_only=True):
    """The devices of a site, which share a link; `name` is null for devices without a site.

    Attributes:
        acked_bytes: Acknowledged payload of its devices.
        span_s: From the first byte of its first copy to the last acknowledgement of its last.
        copying_share: Part of that span with at least one copy, 0 to 1.
        rate_bytes_per_s: Payload rate while at least one copy ran.
        cap_bytes_per_s: Rate limit of its copies together.
        cap_share: `rate_bytes_per_s` over `cap_bytes_per_s`.
        link_bytes_per_s: Payload rate of the link.
    """

    name: str | None
    devices: int
    outcomes: tuple[Count, ...]
    good: int
    needing_attention: int
    acked_bytes: int
    copies: int
    span_s: float | None
    copying_share: float | None
    rate_bytes_per_s: float | None
    cap_bytes_per_s: float | None
    cap_share: float | None
    link_bytes_per_s: float | None


class Summary(Struct, frozen=True, kw_only=True):
    """Figures of the run.

    Attributes:
        outcomes: Devices by outcome, the most frequent first.
        proofs: Devices by what is known about their configuration.
        hashes_proven: Number of devices with the image verified by its hash.
        acked_bytes: Acknowledged payload of all transfers.
        retransmitted_bytes: Retransmitted bytes; null if not measured.
        wall_s: Duration of the run so far; null if it died.
        saved_s: Copy time saved by tuning, for devices with both speeds measured.
        saved_devices: Number of those devices.
    """

    devices: int
    outcomes: tuple[Count, ...]
    proofs: tuple[Count, ...]
    good: int
    needing_attention: int
    hashes_proven: int
    copies: int
    acked_bytes: int
    retransmitted_bytes: int | None
    wall_s: float | None
    saved_s: float | None
    saved_devices: int


class ImageReport(Struct, frozen=True, kw_only=True):
    """An image of the run; size and digest are null if no record has them."""

    name: str
    size_bytes: int | None
    md5: str | None
    devices: int


class Report(Struct, frozen=True, kw_only=True):
    """The report of a run.

    Attributes:
        written_at: ISO 8601, UTC.
        written_by: Name and version of the program.
        notes: Damaged entries that could not be read.
    """

    run_id: str
    verb: str
    standing: RunState
    started_at: str
    finished_at: str | None
    written_at: str
    written_by: str
    images: tuple[ImageReport, ...]
    summary: Summary
    sites: tuple[SiteReport, ...]
    devices: tuple[DeviceReport, ...]
    notes: tuple[str, ...] = ()
    schema: str = SCHEMA
