"""What a night does and how long it may take, and its values: steps, faults, measured copies, ratings, exit code.

A failed lab shows nothing about the product and must not wake its owners; a lab left running must wake its operator at
once. So every failure has a `Fault`, and the gravest fault decides the exit code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec import field as struct_field

from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind
from flashferry.model.exit_codes import ExitCode
from flashferry.nightly.backend import LabNode, LinkCondition
from flashferry.nightly.trend import Side


class Fault(StrEnum):
    """The party that is responsible for a failure, the gravest last."""

    LAB = "lab"
    DEVICE = "device"
    PRODUCT = "product"
    CLEANUP = "cleanup"


_GRAVITY = tuple(Fault)

_CODES = {
    Fault.LAB: ExitCode.LAB,
    Fault.DEVICE: ExitCode.REFUSED,
    Fault.PRODUCT: ExitCode.DEVICES_FAILED,
    Fault.CLEANUP: ExitCode.CLEANUP,
}


class NightFault(FlashferryError):
    """Report why a step of a night failed, and which party is responsible.

    Attributes:
        is_unrestored: Whether a device's configuration is not proven to be restored: the gravest fault of the product,
            with the exit code that it has for every command.
    """

    kind: ClassVar[Kind] = Kind.NIGHT_FAULT

    def __init__(
        self,
        message: str,
        *,
        fault: Fault,
        step: str,
        hint: str,
        host: str | None = None,
        is_unrestored: bool = False,
    ) -> None:
        super().__init__(message, host=host, step=step, hint=hint)
        self.fault = fault
        self.is_unrestored = is_unrestored

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command that ends with this error."""
        return exit_code(self.fault, is_unrestored=self.is_unrestored)


class NoCapacity(NightFault):
    """Report that a lab does not fit on its controller; labs left by killed nights may occupy the space."""

    kind: ClassVar[Kind] = Kind.NO_CAPACITY

    def __init__(self, message: str, *, step: str, hint: str) -> None:
        super().__init__(message, fault=Fault.LAB, step=step, hint=hint)


def exit_code(fault: Fault | None, *, is_unrestored: bool = False) -> ExitCode:
    """Return the exit code for a night's gravest fault; None: the night had none."""
    if fault is Fault.PRODUCT and is_unrestored:
        return ExitCode.RESTORE_INCOMPLETE
    return _CODES[fault] if fault is not None else ExitCode.OK


def gravest(faults: Iterable[Fault | None]) -> Fault | None:
    """Return the gravest of some faults; None if there is none."""
    return max((one for one in faults if one is not None), key=_GRAVITY.index, default=None)


class StepName(StrEnum):
    """The steps of a night, in order."""

    PREFLIGHT = "preflight"
    REAP = "reap"
    IMPORT = "import"
    START = "start"
    REACH = "reach"
    CONDITION = "condition"
    CHECK = "check"
    PROBE = "probe"
    STAGE = "stage"
    KILL = "kill"
    RESUME = "resume"
    RECOVER = "recover"
    JUDGE = "judge"
    ARTEFACTS = "artefacts"
    CLEAN = "clean"


class StepOutcome(StrEnum):
    """How a step ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Rating(StrEnum):
    """The rating of a series tonight."""

    GOOD = "good"
    AMBER = "amber"
    RED = "red"
    CHANGED_UP = "changed_up"
    NO_HISTORY = "no_history"


CONNECT, VERIFY, LINES_LEFT = "connect", "verify", "lines left"
"""Verbs of the series that are no rates: seconds of a login, seconds of a hash on the device, configuration lines of
ours left on it.
"""

AS_IS = " as it is"
"""Suffix of a series' verb if its devices were not tuned."""

_BY_SSH = "ssh"
_DEFAULT_IMAGE = "-"


class SeriesKey(Struct, frozen=True, kw_only=True):
    """Identify a series of measurements that is compared from night to night; its text is stored.

    Attributes:
        image_definition: The image that the node booted; None: the node definition's default.
        condition: Name of the link's condition.
        verb: `probe`: timed copies to `null:` on a tuned device; `probe as it is`: before tuning; `stage`: copies to
            flash; `connect`, `verify`: seconds; `lines left`: a count.
    """

    node_definition: str
    image_definition: str | None
    condition: str
    transport: str
    verb: str

    def __str__(self) -> str:
        """Return the key as text: `cat8000v/-/wan50/ftp/probe`."""
        image = self.image_definition or _DEFAULT_IMAGE
        return f"{self.node_definition}/{image}/{self.condition}/{self.transport}/{self.verb}"

    @classmethod
    def of(cls, text: str) -> SeriesKey:
        """Parse a key's text; image names of containers contain slashes.

        Raises:
            ValueError: The text has too few parts.
        """
        node_definition, *image, condition, transport, verb = text.split("/")
        whole = "/".join(image)
        return cls(
            node_definition=node_definition,
            image_definition=None if whole == _DEFAULT_IMAGE else whole,
            condition=condition,
            transport=transport,
            verb=verb,
        )

    @property
    def is_seconds(self) -> bool:
        """Whether the figures are seconds; others are bytes per second, or a count for `lines left`."""
        return self.verb in {CONNECT, VERIFY}


class MeasuredNode(Struct, frozen=True, kw_only=True):
    """The router that was measured, with the name of its link's condition."""

    node: str
    node_definition: str
    image_definition: str | None
    condition: str

    def series(self, *, transport: str, verb: str) -> SeriesKey:
        """Return the key of this router's series for a transport and a verb."""
        return SeriesKey(
            node_definition=self.node_definition,
            image_definition=self.image_definition,
            condition=self.condition,
            transport=transport,
            verb=verb,
        )


class NightCopy(MeasuredNode, frozen=True, kw_only=True):
    """One timed copy, as the product's report has it.

    Attributes:
        verdict: What limited the copy, in the product's word; empty if it reported none.
        gain: Rate divided by the untuned rate of the same probe; None if not measured.
        cap_bytes_per_s: Rate limit or pacing rate set by our server; None: none, or unknown.
    """

    transport: str
    verb: Literal["probe", "stage"]
    is_tuned: bool
    rate_bytes_per_s: float
    duration_s: float
    verdict: str = ""
    gain: float | None = None
    cap_bytes_per_s: float | None = None

    @property
    def key(self) -> SeriesKey:
        """The series that the copy belongs to."""
        return self.series(transport=self.transport, verb=self.verb if self.is_tuned else f"{self.verb}{AS_IS}")


class NightFigure(MeasuredNode, frozen=True, kw_only=True):
    """A figure besides copy rates: seconds of a login or a hash, or the number of configuration lines left."""

    what: Literal["connect", "verify", "lines left"]
    value: float

    @property
    def key(self) -> SeriesKey:
        """The series that the figure belongs to."""
        return self.series(transport=_BY_SSH, verb=self.what)


class MeasuredLink(Struct, frozen=True, kw_only=True):
    """A link of the lab: its condition as planned, as set, and as measured.

    Attributes:
        applied: The condition read back; None if it could not be set.
        rtt_ms: Median round trip to the slowest router; None: not measured.
        loss_percent: Share of unanswered pings, of the worst router; None: not measured.
        told: In a few words: that latency counts per direction, say.
    """

    name: str
    condition: str
    planned: LinkCondition
    applied: LinkCondition | None = None
    rtt_ms: float | None = None
    loss_percent: float | None = None
    is_as_planned: bool = False
    told: str = ""


class NightStep(Struct, frozen=True, kw_only=True):
    """A step of a night and its result.

    Attributes:
        fault: The responsible party of a failed step; None: it did not fail.
        sentence: The result in words.
        hint: What to do after a failure; else empty.
        is_unrestored: Whether a device's configuration is not proven to be restored.
    """

    name: StepName
    started_at: datetime
    duration_s: float
    outcome: StepOutcome
    fault: Fault | None = None
    sentence: str = ""
    hint: str = ""
    is_unrestored: bool = False


class Judgement(Struct, frozen=True, kw_only=True):
    """The rating of one series tonight.

    Attributes:
        tonight: Median of tonight's figures, in bytes per second or seconds.
        history_median: Median of the last good nights; None: too few nights.
        threshold: Limit of the expected band on its bad side; None: too few nights.
        side: Position relative to the band.
        is_within_thresholds: Whether all absolute thresholds held.
    """

    key: SeriesKey
    tonight: float
    copies: int = 0
    history_median: float | None = None
    threshold: float | None = None
    side: Side = Side.UNJUDGED
    is_within_thresholds: bool = True
    colour: Rating
    sentence: str


class Night(Struct, frozen=True, kw_only=True):
    """A whole night.

    Attributes:
        night_id: The lab's title: `ff-nightly-20261122T0100-3f2a`.
        ended_at: End of its last step so far.
        controller: The controller's address; empty if it was never reached; likewise `controller_version`.
        kernel: Kernel of this host.
        is_comparable: Whether the night counts in the history of its series.
        not_comparable_because: The reason if it does not; else empty.
        judgements: One for each series; none before the rating.
        is_interrupted: Whether the operator stopped the night.
    """

    night_id: str
    started_at: datetime
    ended_at: datetime
    backend: str
    controller: str = ""
    controller_version: str = ""
    kernel: str
    tool_version: str
    steps: tuple[NightStep, ...] = ()
    nodes: tuple[LabNode, ...] = ()
    links: tuple[MeasuredLink, ...] = ()
    copies: tuple[NightCopy, ...] = ()
    figures: tuple[NightFigure, ...] = ()
    is_comparable: bool = True
    not_comparable_because: str = ""
    judgements: tuple[Judgement, ...] = ()
    is_interrupted: bool = False

    @property
    def fault(self) -> Fault | None:
        """The gravest fault of its steps; None: no step failed. A red series fails the step `judge`."""
        return gravest(step.fault for step in self.steps)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of `flashferry nightly run`.

        A lab left running, or a configuration not restored, outweighs an interruption.
        """
        code = exit_code(self.fault, is_unrestored=any(step.is_unrestored for step in self.steps))
        graver = (ExitCode.CLEANUP, ExitCode.RESTORE_INCOMPLETE)
        return ExitCode.INTERRUPTED if self.is_interrupted and code not in graver else code


class NightLimits(Struct, frozen=True, kw_only=True):
    """Time limits in seconds.

    Attributes:
        whole_s: The night without its clean-up.
        import_s: Importing and starting the lab.
        start_s: Until all nodes are BOOTED.
        reach_s: Until all routers accept SSH.
        condition_s: Setting and measuring all links.
        product_s: Each step of the product.
        clean_s: The clean-up, independent of the other limits.
        poll_s: Interval between polls of the nodes.
    """

    whole_s: float = 5400.0
    import_s: float = 300.0
    start_s: float = 1200.0
    reach_s: float = 600.0
    condition_s: float = 300.0
    product_s: float = 2400.0
    clean_s: float = 300.0
    poll_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLogin:
    """The login of the lab's routers, passed to the product by environment. Secret None: the user has privilege 15."""

    username: str
    password: str = field(repr=False)
    secret: str | None = field(default=None, repr=False)


PRODUCT_STEPS = (
    StepName.CHECK,
    StepName.PROBE,
    StepName.STAGE,
    StepName.KILL,
    StepName.RESUME,
    StepName.RECOVER,
)
"""The steps that a description can leave out."""


class NightWork(Struct, frozen=True, kw_only=True):
    """What a night does.

    Attributes:
        md5: The image's published MD5, or None.
        does: Steps of the product to run; others are skipped.
        copies: Timed copies per router, untuned and tuned each; the trend's statistic assumes 5.
        probe_seconds: Intended duration of a timed copy, 2 to 60.
        transport: The transport of the copies; None: the product chooses.
        options: More options for the product's commands, such as `--port`.
        target_bps: Licensed throughput that a router needs, bit/s; None: its link's rate.
        capture_node: The router of which one tuned copy is captured, or None.

    Raises:
        ConfigInvalid: No copies, or a step that is not the product's.
    """

    image: Path
    md5: str | None = None
    does: tuple[StepName, ...] = PRODUCT_STEPS
    copies: int = 5
    probe_seconds: float = 5.0
    transport: str | None = None
    options: tuple[str, ...] = ()
    target_bps: int | None = None
    capture_node: str | None = None

    def __post_init__(self) -> None:
        """Check copies and steps."""
        if self.copies < 1:
            raise ConfigInvalid(f"copies: expected at least 1, found {self.copies}", hint="Give 5, or leave it out")
        if unknown := [step.value for step in self.does if step not in PRODUCT_STEPS]:
            raise ConfigInvalid(
                f"steps: expected some of {', '.join(PRODUCT_STEPS)}, found {unknown[0]}",
                hint="The other steps of a night are always done",
            )


class NightSettings(NightWork, frozen=True, kw_only=True):
    """What a night does, on which routers, and its time limits.

    Attributes:
        inventory_data: Inventory data for all routers: `{"clear_text": false}`.
    """

    login: NodeLogin
    inventory_data: Mapping[str, object] = struct_field(default_factory=dict)
    limits: NightLimits = struct_field(default_factory=NightLimits)
