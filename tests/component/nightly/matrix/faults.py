"""What goes wrong with a controller while a night runs: every switch of the stand-in, and for how long. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

ROUTER = "wan50-csr1000v-1"
"""The router of the night that a fault of a node hits; it has one neighbour that none hits."""

PATIENT_S, HURRY, LATE_S = 1.0, 60.0, 84.0
"""How long an answer is waited for where answers are late, the least that there is; how fast everybody's clock goes
then, for such a wait is not free; and how late they are on it."""

OVER_AND_OVER = 1_000_000


class Span(StrEnum):
    """How long a fault lasts, from the beginning of the step that it strikes in."""

    ONCE = "once"
    STEP = "the whole step"
    REST = "to the end of the night"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFault:
    """One fault.

    Attributes:
        name: Its name in the table.
        what: The switch's name; of several with the same end, a name for them.
        says: What it is, in a sentence.
        span: How long it lasts.
        switches: What is set on the stand-in.
        is_answer: Whether it hits answers, whatever is asked; else it is about what the controller does.
    """

    name: str
    what: str
    says: str
    span: Span = Span.REST
    switches: Mapping[str, Any] = field(default_factory=dict)
    is_answer: bool = False


_ANSWERS = {
    "bad_gateway": "502 with a page",
    "unavailable": "503 with a page",
    "server_error": "500 with a description",
    "slow": "done late, answered later than anybody waits",
    "slow_answer": "done at once, answered later than anybody waits",
    "reset": "connection reset, nothing done",
    "lost_answer": "done, then connection reset",
    "expired_token": "401, however often one logs in",
    "forbidden": "403",
    "plain_text": "done, answered by a sentence that is no JSON",
}
_LATE = ("slow", "slow_answer")


def _answers() -> tuple[ControllerFault, ...]:
    def made(name: str, span: Span) -> ControllerFault:
        selector: dict[str, object] = {"seconds": LATE_S} if name in _LATE else {}
        if span is Span.ONCE:
            selector["count"] = 1
        return ControllerFault(
            name=f"{name}, {span}",
            what=name,
            says=_ANSWERS[name],
            span=span,
            switches={name: selector},
            is_answer=True,
        )

    return tuple(made(name, span) for name in _ANSWERS for span in Span)


def _state(what: str, says: str, *, name: str = "", **switches: object) -> ControllerFault:
    return ControllerFault(name=name or what, what=what, says=says, switches=switches)


STATES = (
    _state("is_ready", "no compute can start nodes", is_ready=False),
    _state("is_licensed", "the licence is gone", is_licensed=False),
    _state("quota", "the licence has too few nodes", quota=1),
    _state("others_started", "others run all nodes of the licence", others_started=20),
    _state("memory_used_percent", "no memory is free", memory_used_percent=100),
    _state("version", "a version that is not taken", version="2.7.0"),
    _state("stuck", "a node stays QUEUED", stuck={ROUTER: "QUEUED"}),
    _state("no_boot", "a node never is BOOTED", no_boot=[ROUTER]),
    _state("disconnected", "a node is DISCONNECTED", disconnected=[ROUTER]),
    _state("no_address", "no address of a node is known", no_address=[ROUTER]),
    _state("is_snooping", "no address of any node is known", is_snooping=False),
    _state("wrong_condition", "another condition is stored and applied", wrong_condition={"latency": 500}),
    _state("wrong_operational", "another condition is in force", wrong_operational={"latency": 500}),
    _state("wrong_on_link", "another condition is on the link, unsaid", wrong_on_link={"latency": 500}),
    _state("condition_refused", "conditions are refused", condition_refused=True),
    _state("import_ignores_conditions", "an import applies no condition", import_ignores_conditions=True),
    _state(
        "is_condition_enabled_by_default", "conditions are off unless enabled", is_condition_enabled_by_default=False
    ),
    _state("stop_takes_s", "a stop takes 20 s", stop_takes_s=20.0),
    *(
        _state(f"refuse_{verb}", f"{verb} is refused {often}", name=f"refuse_{verb}, {often}", **{f"refuse_{verb}": n})
        for verb in ("stop", "wipe", "delete")
        for often, n in (("twice", 2), ("for ever", OVER_AND_OVER))
    ),
    _state("tiles_lag_s", "the page of all labs is an hour behind", tiles_lag_s=3600.0),
    _state("console_log_as", "consoles' logs are no JSON", console_log_as="plain"),
    _state("token_lifetime_s", "a login lives for 30 s", token_lifetime_s=30.0),
)

FAULTS = (*_answers(), *STATES)
"""All faults: each switch of the stand-in is in at least one."""
