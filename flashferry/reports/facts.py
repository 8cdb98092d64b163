"""What a run did for a device besides its copy: each fact once, as a value and as a sentence. Pure.

Every form of the report, the result of a run in the terminal and its events have these sentences from here. A fact is
in all of them once it stands in `FACTS` and as a field of `DeviceReport`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flashferry.core.codec import to_json
from flashferry.core.json_access import Node

_AGAINST = ("not met", "unknown")
"""Words of `tasks.readiness.Met`, written out: reading a report does not load what talks to devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReport:
    """The image on another member of the device.

    Attributes:
        place: The member's number, or `standby`.
        path: Where it is.
        digest: The digest that the device computed there.
        duration_s: How long the copy took, in seconds; 0 where the file was there before.
        was_there: Whether it was there before.
    """

    place: str
    path: str
    digest: str
    duration_s: float
    was_there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionReport:
    """The image on the device's other members.

    Attributes:
        mode: How the device boots: `install` or `bundle`.
        copies: The image on each other member; empty where the device distributes it itself.
        bytes_per_s: How fast it was copied from member to member; null where nothing was copied, or too little to
            measure.
    """

    mode: str
    copies: tuple[MemberReport, ...]
    bytes_per_s: float | None

    @property
    def sentence(self) -> str:
        """Which members have it, proven."""
        if not self.copies:
            return f"not copied: in {self.mode} mode the device distributes the image itself"
        return f"each copy proven there: {', '.join(one.path for one in self.copies)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedReport:
    """What `install add` came to.

    Attributes:
        outcome: `added`, `already added`, `runs it already` or `does not apply`.
        command: The command that was sent; empty where none was.
        version: The version as `show install summary` has it; null where there is none.
        duration_s: How long the device took, in seconds.
        bytes_per_s: How fast it went through the image; null where that was not measured.
    """

    outcome: str
    command: str
    version: str | None
    duration_s: float | None
    bytes_per_s: float | None

    @property
    def sentence(self) -> str:
        """What came of it, and for which version."""
        if self.outcome == "does not apply":
            return "not added: it boots from image files, not from packages"
        return f"{self.outcome}: {self.version or 'version not known'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadManReport:
    """The applet by which a device restores its lines itself, should the run not come back (`--dead-man`).

    Attributes:
        name: Name of the applet.
        is_armed: Whether the device took it.
        countdown_s: How long it waits, in seconds.
        reason: Why the device has none; empty where it took it.
        earlier: An older applet that still counts and does not know all of our lines; empty where there is none.
    """

    name: str
    is_armed: bool
    countdown_s: int
    reason: str
    earlier: str

    @property
    def sentence(self) -> str:
        """Whether it was armed, for how long, or why not."""
        if self.earlier:
            return f"{self.earlier} counts on, and does not know all of our lines: {self.reason}"
        if not self.is_armed:
            return f"staged without a dead-man: {self.reason}"
        return (
            f"the device takes our lines back by itself in {self.countdown_s // 60} min ({self.name}), "
            "without comparing what stands there by then"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessReport:
    """Whether the device is ready to boot the image.

    Attributes:
        verdict: `yes`, `no`, `unknown` or `runs it already`.
        in_the_way: What keeps it from being ready, a sentence each.
    """

    verdict: str
    in_the_way: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The answer, with what keeps the device from being ready."""
        if self.verdict == "runs it already":
            return "it runs the image already"
        if self.verdict == "yes":
            return "ready to boot the image"
        return f"ready to boot the image: {'; '.join((self.verdict, *self.in_the_way))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationReport:
    """What the restart into the image came to.

    Attributes:
        outcome: `committed`, `activated`, `not activated`, `rolled back`, `came back with the old image` or
            `activated, something is lacking`.
        mode: How the device boots: `install` or `bundle`.
        from_release: The release that ran before.
        to_release: The release that runs now; null where that is not known.
        lacks: What was there before and is not there now, a sentence each.
        away_s: How long the device did not answer, in seconds; null where it always did.
    """

    outcome: str
    mode: str
    from_release: str
    to_release: str | None
    lacks: tuple[str, ...]
    away_s: float | None

    @property
    def headline(self) -> str:
        """What came of it and which release runs, without what is lacking."""
        away = f", away for {self.away_s:.0f} s" if self.away_s else ""
        was, runs = self.from_release, self.to_release or "not known"
        return f"{self.outcome}: {f'{was} -> {runs}' if runs != was else f'{runs} runs'}{away}"

    @property
    def sentence(self) -> str:
        """What came of it, which release runs, and what is lacking."""
        return "; lacking: ".join((self.headline, *self.lacks))


@dataclass(frozen=True, slots=True, kw_only=True)
class FactKind:
    """A kind of fact.

    Attributes:
        heading: What it is called in front of its sentence, and over its column.
        read: Returns its value from a field of a device's record as JSON has it; None where there is none. The value
            is a text, or has its text as `sentence`.
    """

    heading: str
    read: Callable[[Node], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact about one device: its heading and its sentence."""

    heading: str
    sentence: str

    def __str__(self) -> str:
        """Return both in a line."""
        return f"{self.heading}: {self.sentence}"


def _distribution(found: Node) -> DistributionReport | None:
    mode = found.text("mode")
    if mode is None:
        return None
    copies = tuple(
        MemberReport(
            place=one.text("place") or "",
            path=one.text("path") or "",
            digest=one.text("digest") or "",
            duration_s=one.number("duration_s") or 0.0,
            was_there=one.flag("was_there") or False,
        )
        for one in found.list("copies")
    )
    return DistributionReport(mode=mode, copies=copies, bytes_per_s=found.number("bytes_per_s"))


def _added(found: Node) -> AddedReport | None:
    outcome = found.text("outcome")
    if outcome is None:
        return None
    return AddedReport(
        outcome=outcome,
        command=found.text("command") or "",
        version=found.text("version"),
        duration_s=found.number("duration_s"),
        bytes_per_s=found.number("bytes_per_s"),
    )


def _dead_man(found: Node) -> DeadManReport | None:
    is_armed = found.flag("is_armed")
    if is_armed is None:
        return None
    return DeadManReport(
        name=found.text("name") or "",
        is_armed=is_armed,
        countdown_s=found.whole("countdown_s") or 0,
        reason=found.text("reason") or "",
        earlier=found.text("earlier") or "",
    )


def _readiness(found: Node) -> ReadinessReport | None:
    verdict = found.text("verdict")
    if verdict is None:
        return None
    against = [one for met in _AGAINST for one in found.list("conditions") if one.text("met") == met]
    reasons = dict.fromkeys(f"{_place_of(one)}: {one.text('sentence') or one.text('met')}" for one in against)
    return ReadinessReport(verdict=verdict, in_the_way=tuple(reasons))


def _place_of(condition: Node) -> str:
    """Return what a condition is about, with its place: `image (flash-2:)`."""
    name, place = condition.text("name") or "condition", condition.text("place")
    return f"{name} ({place})" if place else name


def _activation(found: Node) -> ActivationReport | None:
    outcome = found.text("outcome")
    if outcome is None:
        return None
    return ActivationReport(
        outcome=outcome,
        mode=found.text("mode") or "",
        from_release=found.text("from_release") or "not known",
        to_release=found.text("to_release"),
        lacks=found.texts("lacks"),
        away_s=found.number("away_s"),
    )


FACTS: dict[str, FactKind] = {
    "dead_man": FactKind(heading="dead-man", read=_dead_man),
    "distribution": FactKind(heading="other members", read=_distribution),
    "added": FactKind(heading="install add", read=_added),
    "readiness": FactKind(heading="readiness", read=_readiness),
    "activation": FactKind(heading="activation", read=_activation),
}
"""By the name that a fact has in a device's record and in its report, in the order in which a run does them."""


def read_facts(record: Node) -> dict[str, Any]:
    """Return the facts of a device's record, for the fields of its report that have the same names."""
    return {name: kind.read(record.at(name)) for name, kind in FACTS.items()}


def in_words(found: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Return the facts that there are, as sentences.

    Args:
        found: Values by the names of FACTS.
    """
    return tuple(
        Fact(heading=FACTS[name].heading, sentence=sentence_of(value))
        for name, value in found.items()
        if value is not None
    )


def record_facts(record: object) -> tuple[Fact, ...]:
    """Return the facts of a device's record while its run is at hand, as its report will have them."""
    return in_words({name: fact_of(name, getattr(record, name)) for name in FACTS})


def fact_of(name: str, value: object) -> Any:
    """Return one fact as a report has it, or None.

    Args:
        name: One of FACTS.
        value: That field of a device's record, as the run has it.
    """
    return FACTS[name].read(Node(to_json(value)))


def sentence_of(value: Any) -> str:
    """Return a fact's value in words."""
    return value if isinstance(value, str) else str(value.sentence)
