"""Facts about a device besides its copy: each as a value and as a sentence. Pure.

All report formats, the terminal and events take these sentences from here. A new fact is an entry of `FACTS` and a
field of `DeviceReport`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from flashferry.core.codec import to_json
from flashferry.core.json_access import Node

_AGAINST = ("not met", "unknown")
"""Values of `tasks.readiness.Met`, repeated here (start time): reports must not load device modules."""


class MemberReport(Struct, frozen=True, kw_only=True):
    """The image on another member of the device.

    Attributes:
        place: The member's number, or `standby`.
        path: Its path.
        digest: Digest computed by the device.
        duration_s: Duration of the copy, in seconds; 0 if the file was there.
        was_there: Whether it was there before.
    """

    place: str
    path: str
    digest: str
    duration_s: float
    was_there: bool


class DistributionReport(Struct, frozen=True, kw_only=True):
    """The image on the device's other members.

    Attributes:
        mode: Boot mode: `install` or `bundle`.
        copies: The image on each other member; empty if the device distributes it itself.
        bytes_per_s: Rate of copies between members; null if nothing or too little was copied.
    """

    mode: str
    copies: tuple[MemberReport, ...]
    bytes_per_s: float | None

    @property
    def sentence(self) -> str:
        """The members that have it, verified."""
        if not self.copies:
            return f"not copied: in {self.mode} mode the device distributes the image itself"
        return f"each copy proven there: {', '.join(one.path for one in self.copies)}"


class AddedReport(Struct, frozen=True, kw_only=True):
    """Result of `install add`.

    Attributes:
        outcome: `added`, `already added`, `runs it already` or `does not apply`.
        command: The command that was sent; empty for none.
        version: As `show install summary` shows it; null for none.
        duration_s: Duration on the device, in seconds.
        bytes_per_s: Processed bytes per second; null if not measured.
    """

    outcome: str
    command: str
    version: str | None
    duration_s: float | None
    bytes_per_s: float | None

    @property
    def sentence(self) -> str:
        """Result and version."""
        if self.outcome == "does not apply":
            return "not added: it boots from image files, not from packages"
        return f"{self.outcome}: {self.version or 'version not known'}"


class DeadManReport(Struct, frozen=True, kw_only=True):
    """The applet by which a device restores its lines itself if the run does not return (`--dead-man`).

    Attributes:
        name: Name of the applet.
        is_armed: Whether the device accepted it.
        countdown_s: Its delay, in seconds.
        reason: Why the device has none; empty if it accepted it.
        earlier: An older applet that is still active and does not cover all our lines; empty for none.
    """

    name: str
    is_armed: bool
    countdown_s: int
    reason: str
    earlier: str

    @property
    def sentence(self) -> str:
        """Whether it was armed, with its delay, or why not."""
        if self.earlier:
            return f"{self.earlier} counts on, and does not know all of our lines: {self.reason}"
        if not self.is_armed:
            return f"staged without a dead-man: {self.reason}"
        return (
            f"the device takes our lines back by itself in {self.countdown_s // 60} min ({self.name}), "
            "without comparing what stands there by then"
        )


class ReadinessReport(Struct, frozen=True, kw_only=True):
    """Whether the device is ready to boot the image.

    Attributes:
        verdict: `yes`, `no`, `unknown` or `runs it already`.
        in_the_way: What prevents it, one sentence each.
    """

    verdict: str
    in_the_way: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The result, with what prevents it."""
        if self.verdict == "runs it already":
            return "it runs the image already"
        if self.verdict == "yes":
            return "ready to boot the image"
        return f"ready to boot the image: {'; '.join((self.verdict, *self.in_the_way))}"


class ActivationReport(Struct, frozen=True, kw_only=True):
    """Result of the restart into the image.

    Attributes:
        outcome: `committed`, `activated`, `not activated`, `rolled back`, `came back with the old image` or
            `activated, something is lacking`.
        mode: Boot mode: `install` or `bundle`.
        from_release: Release before.
        to_release: Running release; null if unknown.
        lacks: What was there before and is missing now, one sentence each.
        away_s: How long the device did not answer, in seconds; null if it always did.
    """

    outcome: str
    mode: str
    from_release: str
    to_release: str | None
    lacks: tuple[str, ...]
    away_s: float | None

    @property
    def headline(self) -> str:
        """Result and running release."""
        away = f", away for {self.away_s:.0f} s" if self.away_s else ""
        was, runs = self.from_release, self.to_release or "not known"
        return f"{self.outcome}: {f'{was} -> {runs}' if runs != was else f'{runs} runs'}{away}"

    @property
    def sentence(self) -> str:
        """Result, running release, and what is missing."""
        return "; lacking: ".join((self.headline, *self.lacks))


class FactKind(Struct, frozen=True, kw_only=True):
    """A kind of fact.

    Attributes:
        heading: Label of its sentence and column.
        read: Returns its value from a field of a device's record as JSON; None for none. The value is a text, or has
            its text as `sentence`.
    """

    heading: str
    read: Callable[[Node], Any]


class Fact(Struct, frozen=True, kw_only=True):
    """Heading and sentence of a fact about a device."""

    heading: str
    sentence: str

    def __str__(self) -> str:
        """Return both in a line."""
        return f"{self.heading}: {self.sentence}"


def _readiness(found: Node) -> ReadinessReport | None:
    verdict = found.text("verdict")
    if verdict is None:
        return None
    against = [one for met in _AGAINST for one in found.list("conditions") if one.text("met") == met]
    reasons = dict.fromkeys(f"{_place_of(one)}: {one.text('sentence') or one.text('met')}" for one in against)
    return ReadinessReport(verdict=verdict, in_the_way=tuple(reasons))


def _place_of(condition: Node) -> str:
    """Return what a condition is about: `image (flash-2:)`."""
    name, place = condition.text("name") or "condition", condition.text("place")
    return f"{name} ({place})" if place else name


def _read(kind: type, read: Callable[[Node, str], object], key: str) -> Callable[[Node], Any]:
    """Return a function that reads a value of a class; None if its field `key` is missing or of another type."""
    return lambda found: None if read(found, key) is None else found.values(kind)


def _activation(found: Node) -> ActivationReport | None:
    if found.text("outcome") is None:
        return None
    return found.values(ActivationReport, from_release=found.text("from_release") or "not known")


FACTS: dict[str, FactKind] = {
    "dead_man": FactKind(heading="dead-man", read=_read(DeadManReport, Node.flag, "is_armed")),
    "distribution": FactKind(heading="other members", read=_read(DistributionReport, Node.text, "mode")),
    "added": FactKind(heading="install add", read=_read(AddedReport, Node.text, "outcome")),
    "readiness": FactKind(heading="readiness", read=_readiness),
    "activation": FactKind(heading="activation", read=_activation),
}
"""By field name in record and report, in the order of a run."""


def read_facts(record: Node) -> dict[str, Any]:
    """Return the facts of a device's record by field name of `DeviceReport`."""
    return {name: kind.read(record.at(name)) for name, kind in FACTS.items()}


def in_words(found: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Return the facts as sentences; `found` has values by the names of FACTS."""
    return tuple(
        Fact(heading=FACTS[name].heading, sentence=sentence_of(value))
        for name, value in found.items()
        if value is not None
    )


def record_facts(record: object) -> tuple[Fact, ...]:
    """Return the facts of a device's record during its run, as the report will have them."""
    return in_words({name: fact_of(name, getattr(record, name)) for name in FACTS})


def fact_of(name: str, value: object) -> Any:
    """Return one fact as the report has it; None for none.

    Args:
        name: A key of FACTS.
        value: That field of a device's record.
    """
    return FACTS[name].read(Node(to_json(value)))


def sentence_of(value: Any) -> str:
    """Return a fact's value as text."""
    return value if isinstance(value, str) else str(value.sentence)
