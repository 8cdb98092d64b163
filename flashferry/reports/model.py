"""The parts of a device's report: speeds, transfers, verdicts, proofs. See `flashferry.reports.model`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flashferry.model.states import ACCEPTED_LABEL, FOREIGN_LABEL, LEFT, Outcome, Phase
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
    "RunStanding",
    "SiteReport",
    "Speed",
    "Standing",
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


IN_PROGRESS = Phase.IN_PROGRESS.value

NOT_STARTED = Outcome.NOT_STARTED.value

"""Outcomes of a device that has none of its own yet, had no turn, or was in a run's hands when that died."""

SCHEMA = "flashferry.report/1"

"""Name and version of the report's JSON form; the version grows when a field changes its meaning or goes."""


class Standing(StrEnum):
    """How a device stands, for colours, sorting and counts: the worst first."""

    UNRESTORED = "unrestored"
    FAILED = "failed"
    UNKNOWN = "could not tell"
    REFUSED = "refused"
    OPEN = "open"
    GOOD = "good"


class RunStanding(StrEnum):
    """Where the run stands."""

    ALIVE = "alive"
    FINISHED = "finished"
    DIED = "died"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReport:
    """One device of a run.

    Attributes:
        standing: How it stands, the configuration included.
        needs_attention: Whether a person has to look at it.
        outcome: What became of it, a value of `flashferry.model.states.Outcome`; `under way`, `not begun` where it has
            none yet, `left by the dead run` where that was killed with the device in its hands.
        label: The same in the word for people, which every page and table has.
        phase: What it counts as.
        state: How far it came, `planned` to `done`.
        step: Where it failed or was refused; None elsewhere.
        reason: Why, in a sentence.
        hint: What to do about it.
        transcript: Of a device that failed, the last that was sent to it and came from it, masked: an entry each, with
            its time (UTC) and `<` for what came, `>` for what was sent, `-` for a remark.
        release: Software that it runs.
        rtt_s: Least round-trip time seen.
        link_bytes_per_s: What its link carries, as payload, and `link_source` who says so.
        as_is: Speed with its own TCP settings.
        tuned: Speed while tuned, of this run.
        untuned: Speed of this run's copy where nothing was tuned.
        gain: Tuned over as it is.
        saved_s: Seconds that tuning saved for what was copied.
        verdict: What limited the copy that counts.
        hash_proof: How the image was proven on the device, or None where it was not.
        steps: What its time went into.
        total_s: Their sum, or None where no step ended.
        attempt: Number of this attempt, from 1.
        partial_file: What a broken copy left on the device, or None.
        partial_advice: What to do about it, or None.
        notes: What the operator should know all the same.
        transport: By what it fetched, or was to.
        transports_tried: By what no byte came before that, each with the reason.
        compared: What a speed test that compares transports found of each; none elsewhere.
        readiness: Whether it is ready to boot the image, or None where the run did not ask.
        dead_man: The applet by which it restores its lines itself, or None where that was not asked for.
        distribution: The image on its other members, or None where it has none.
        added: What `install add` came to, or None where that was not asked for.
        activation: What its restart into the image came to, or None where the run was none.
    """

    host: str
    address: str
    site: str | None
    wave: int | None
    standing: Standing
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
        """What the run did besides the copy, as sentences that every form of the report has."""
        return in_words({name: getattr(self, name) for name in FACTS})

    @property
    def left_over(self) -> str:
        """Return what a broken copy left on the device and what to do about it; empty where it left nothing."""
        return partial_file_sentence(self.partial_file, self.partial_advice) if self.partial_file else ""

    @property
    def speed(self) -> Speed | None:
        """Return what this run copied at, tuned or not."""
        return self.tuned or self.untuned


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many devices a word fits."""

    word: str
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """The devices of a site, which share a link; `name` is None for those without a site.

    Attributes:
        acked_bytes: Payload that its devices acknowledged.
        span_s: First byte of its first copy to the last acknowledgement of its last.
        copying_share: Part of that span in which at least one copy ran, 0 to 1.
        rate_bytes_per_s: Payload while copying: over the time in which at least one copy ran, gaps left out.
        cap_bytes_per_s: What its copies could take together.
        cap_share: That rate over that cap.
        link_bytes_per_s: What the link carries, as payload.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The run in figures.

    Attributes:
        outcomes: Devices by outcome, the most frequent first.
        proofs: Devices by what is known about their configuration.
        hashes_proven: Devices that have the image, proven by its hash.
        acked_bytes: Payload acknowledged by all transfers.
        retransmitted_bytes: Bytes sent again; None where nothing was measured.
        wall_s: Start to end of the run, or to now while it is under way; None where it died.
        saved_s: Copy time saved against the devices' own settings, over the devices where both were measured.
        saved_devices: How many those are.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReport:
    """An image of the run; size and digest are None where no device's record has them."""

    name: str
    size_bytes: int | None
    md5: str | None
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A run's report.

    Attributes:
        written_at: When the report was written, ISO 8601, UTC.
        written_by: Name and version of the program.
        notes: What could not be read: damaged entries.
    """

    run_id: str
    verb: str
    standing: RunStanding
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
