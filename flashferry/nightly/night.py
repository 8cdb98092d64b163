"""Whose fault a night's failure is: the lab's, a device's, the product's, or that of the clean-up.

A night that fails for the lab says nothing about the product and must not wake its owners; one that leaves a lab
running must wake its operator at once. So every failure is one of four, and the gravest decides the exit code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal

from flashferry.core.errors import FlashferryError, Kind
from flashferry.model.exit_codes import ExitCode
from flashferry.nightly.backend import LabNode, LinkCondition
from flashferry.nightly.trend import Side


class Fault(StrEnum):
    """Whose fault a failure is, the gravest last."""

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
    """What ended a step of a night.

    Attributes:
        fault: Whose fault it is.
        is_unrestored: Whether a device's configuration is not proven to be what it was: graver than all else of the
            product's, with the exit code that it has everywhere.
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
        """The exit code of a night, or of a command about nights, that ends with this."""
        return exit_code(self.fault, is_unrestored=self.is_unrestored)


class NoCapacity(NightFault):
    """A lab does not fit beside what runs on its controller; what dead nights left there may be in its place."""

    kind: ClassVar[Kind] = Kind.NO_CAPACITY

    def __init__(self, message: str, *, step: str, hint: str) -> None:
        super().__init__(message, fault=Fault.LAB, step=step, hint=hint)


def exit_code(fault: Fault | None, *, is_unrestored: bool = False) -> ExitCode:
    """Return the exit code of a night by its gravest fault.

    Args:
        fault: The gravest; None: there was none.
        is_unrestored: Whether a device's configuration is not proven to be what it was.
    """
    if fault is Fault.PRODUCT and is_unrestored:
        return ExitCode.RESTORE_INCOMPLETE
    return _CODES[fault] if fault is not None else ExitCode.OK


def gravest(faults: Iterable[Fault | None]) -> Fault | None:
    """Return the gravest of some faults, or None where there was none."""
    return max((one for one in faults if one is not None), key=_GRAVITY.index, default=None)


class StepName(StrEnum):
    """The steps of a night, in their order."""

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
    """What a series was judged to be tonight."""

    GOOD = "good"
    AMBER = "amber"
    RED = "red"
    CHANGED_UP = "changed_up"
    NO_HISTORY = "no_history"


CONNECT, VERIFY, LINES_LEFT = "connect", "verify", "lines left"

"""What is compared besides rates: seconds of a login, seconds of a hash on the device, lines of ours left on it."""

AS_IS = " as it is"

"""Behind the verb of a series whose devices were not tuned."""

_BY_SSH = "ssh"

_DEFAULT_IMAGE = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesKey:
    """What nights are compared by; its text stays the same from night to night.

    Attributes:
        node_definition: `cat8000v`, ...
        image_definition: The image that the node booted; None: the node definition's own.
        condition: The name of the link's condition.
        transport: `ftp`, ...
        verb: `probe` for timed copies to `null:` of a tuned device, `probe as it is` for those before it was tuned,
            `stage` for copies to flash; `connect` and `verify` for seconds, `lines left` for a count.
    """

    node_definition: str
    image_definition: str | None
    condition: str
    transport: str
    verb: str

    def __str__(self) -> str:
        """Return it as one text: `cat8000v/-/wan50/ftp/probe`."""
        image = self.image_definition or _DEFAULT_IMAGE
        return f"{self.node_definition}/{image}/{self.condition}/{self.transport}/{self.verb}"

    @classmethod
    def of(cls, text: str) -> SeriesKey:
        """Return the key that was written as one text; images of containers have slashes in their names.

        Raises:
            ValueError: It is no key's text.
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
        """Whether it is about seconds; all others but `lines left` are about bytes per second."""
        return self.verb in {CONNECT, VERIFY}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNode:
    """The router that something was measured of, and what stood between it and the server.

    Attributes:
        node: Label of the router.
        node_definition: What it is.
        image_definition: What it booted; None: the node definition's own.
        condition: The name of its link's condition.
    """

    node: str
    node_definition: str
    image_definition: str | None
    condition: str

    def series(self, *, transport: str, verb: str) -> SeriesKey:
        """Return the series of what was measured by a transport and a verb."""
        return SeriesKey(
            node_definition=self.node_definition,
            image_definition=self.image_definition,
            condition=self.condition,
            transport=transport,
            verb=verb,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NightCopy(MeasuredNode):
    """One copy of a night, by the product's own report.

    Attributes:
        transport: By which it copied.
        verb: `probe` or `stage`.
        is_tuned: Whether the router was tuned for it.
        rate_bytes_per_s: Its rate.
        duration_s: Seconds it took.
        verdict: What held it back, by the product's word; empty where it gave none.
        gain: How many times as fast as untuned, where that was measured in the same probe; else None.
        cap_bytes_per_s: The cap or pace that our server held it to; None: none, or unknown.
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
        """The series that it belongs to."""
        return self.series(transport=self.transport, verb=self.verb if self.is_tuned else f"{self.verb}{AS_IS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NightFigure(MeasuredNode):
    """A figure of a router besides the rates of its copies, by the product's own report.

    Attributes:
        what: `connect` and `verify`: seconds; `lines left`: configuration lines of ours that are on it still.
        value: The figure, >= 0.
    """

    what: Literal["connect", "verify", "lines left"]
    value: float

    @property
    def key(self) -> SeriesKey:
        """The series that it belongs to."""
        return self.series(transport=_BY_SSH, verb=self.what)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLink:
    """A link of a night: what was planned, what was set, what was measured through it.

    Attributes:
        name: The link's label.
        condition: The name of its condition.
        planned: The condition as planned.
        applied: As read back; None where it could not be set.
        rtt_ms: Median round trip to the slowest of its routers; None: not measured.
        loss_percent: Share of pings that were not answered, the worst of its routers; None: not measured.
        is_as_planned: Whether what was measured is what was planned.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NightStep:
    """A step of a night.

    Attributes:
        name: Which.
        started_at: When, with a time zone.
        duration_s: Seconds it took.
        outcome: How it ended.
        fault: Whose fault, where it failed.
        sentence: What came of it.
        hint: What to do, where it failed; else empty.
        is_unrestored: Whether a device's configuration is not proven to be what it was.
    """

    name: StepName
    started_at: datetime
    duration_s: float
    outcome: StepOutcome
    fault: Fault | None = None
    sentence: str = ""
    hint: str = ""
    is_unrestored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a series was judged to be tonight.

    Attributes:
        key: The series.
        tonight: Median of tonight's copies, bytes per second; of a series of seconds, seconds.
        copies: How many there were.
        history_median: Median of the last good nights; None: too few.
        threshold: Below it, of seconds above it, a night is noticed; None: too few nights.
        side: Where it lies beside the nights before.
        is_within_thresholds: Whether all absolute thresholds held.
        colour: The judgement.
        sentence: The same in words.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """A whole night.

    Attributes:
        night_id: The lab's title: `ff-nightly-20261122T0100-3f2a`.
        started_at: When it began, with a time zone.
        ended_at: When its last step so far ended.
        backend: `cml`.
        controller: Its address; empty where it was never reached.
        controller_version: Its version; empty where it was never reached.
        kernel: This host's kernel.
        tool_version: Flashferry's version.
        steps: What was done, in its order.
        nodes: The lab's nodes as last seen.
        links: Its links.
        copies: All timed copies.
        figures: What was measured besides.
        is_comparable: Whether it may stand in the history of its series.
        not_comparable_because: Why not; empty where it may.
        judgements: One for each series; none before it is judged.
        is_interrupted: Whether it was ended before it was done.
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
        """The gravest fault of its steps, or None where all is well; a red series fails the step `judge`."""
        return gravest(step.fault for step in self.steps)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the command that ran it: a lab left behind outweighs everything.

        A requested end hides neither that nor a configuration that is not what it was.
        """
        code = exit_code(self.fault, is_unrestored=any(step.is_unrestored for step in self.steps))
        graver = (ExitCode.CLEANUP, ExitCode.RESTORE_INCOMPLETE)
        return ExitCode.INTERRUPTED if self.is_interrupted and code not in graver else code
