"""Nights as a lab of four routers on two conditions gives them, made of numbers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from flashferry.nightly.backend import LabNode, LinkCondition, NodeState
from flashferry.nightly.history import with_tonight
from flashferry.nightly.night import (
    Fault,
    MeasuredLink,
    Night,
    NightCopy,
    NightFigure,
    NightStep,
    StepName,
    StepOutcome,
)
from flashferry.nightly.thresholds import judge_night
from flashferry.store.nights import PastSeriesNight
from tests.unit.nightly.fakes import Rig

BEGUN = datetime(2026, 11, 1, 1, 0, tzinfo=UTC)
ROUTERS = (
    ("xe1", "cat8000v", None, "wan50", 4.9e6),
    ("xe2", "cat8000v", None, "wan50", 4.9e6),
    ("ios1", "iosv", "iosv-159-3-m6", "dsl", 0.6e6),
    ("ios2", "iosv", "iosv-159-3-m6", "dsl", 0.6e6),
)
CONDITIONS = {
    "wan50": LinkCondition(bandwidth_kbps=50_000, latency_ms=50, loss_percent=0.01),
    "dsl": LinkCondition(bandwidth_kbps=16_000, latency_ms=12),
}


def steps(started_at: datetime, fault: Fault | None = None, at: StepName = StepName.PROBE) -> tuple[NightStep, ...]:
    """Return the steps of a night; one fails where a fault is given, and those behind it are skipped."""
    made: list[NightStep] = []
    for place, name in enumerate(StepName):
        has_failed = any(one.outcome is StepOutcome.FAILED for one in made)
        fails = fault is not None and name is at
        is_always = name in {StepName.JUDGE, StepName.ARTEFACTS, StepName.CLEAN}
        outcome = StepOutcome.FAILED if fails else StepOutcome.PASSED
        made.append(
            NightStep(
                name=name,
                started_at=started_at + timedelta(seconds=20 * place),
                duration_s=20.0,
                outcome=StepOutcome.SKIPPED if has_failed and not is_always else outcome,
                fault=fault if fails else None,
                sentence="the controller answered 502" if fails else f"{name.value} is done",
                hint="Look at the controller" if fails else "",
            )
        )
    return tuple(made)


def made_night(
    number: int = 0, *, factor: float = 1.0, spread: float = 0.01, seed: int = 1, **changes: object
) -> Night:
    """Return a night that is not judged yet: five copies per router, untuned and tuned, one copy to flash."""
    chance = Random(f"{seed} {number}")
    started_at = BEGUN + timedelta(days=number)
    copies: list[NightCopy] = []
    figures: list[NightFigure] = []
    for node, definition, image, condition, level in ROUTERS:
        where = {"node": node, "node_definition": definition, "image_definition": image, "condition": condition}
        for verb, is_tuned, part, count in (("probe", False, 0.2, 5), ("probe", True, 1.0, 5), ("stage", True, 0.9, 1)):
            for _ in range(count):
                rate = max(1.0, chance.gauss(level * part * (factor if is_tuned else 1.0), level * part * spread))
                copies.append(
                    NightCopy(
                        **where,
                        transport="ftp",
                        verb=verb,
                        is_tuned=is_tuned,
                        rate_bytes_per_s=rate,
                        duration_s=20e6 / rate,
                        verdict="bandwidth" if is_tuned else "window",
                        gain=5.0 if is_tuned and verb == "probe" else None,
                        cap_bytes_per_s=level * 1.05 if is_tuned else None,
                    )
                )
        figures += [
            NightFigure(**where, what="connect", value=chance.gauss(2.0, 0.1)),
            NightFigure(**where, what="verify", value=chance.gauss(14.0, 0.3)),
            NightFigure(**where, what="lines left", value=0),
        ]
    links = tuple(
        MeasuredLink(
            name=f"{name} link",
            condition=name,
            planned=planned,
            applied=planned,
            rtt_ms=planned.latency_ms * 2.0,
            loss_percent=0.0,
            is_as_planned=True,
            told="latency counts per direction",
        )
        for name, planned in CONDITIONS.items()
    )
    nodes = tuple(
        LabNode(
            node_id=f"n{place}",
            label=node,
            node_definition=definition,
            image_definition=image,
            state=NodeState.BOOTED,
            addresses=(f"198.18.1.{place + 11}",),
            tags=(),
        )
        for place, (node, definition, image, _, _) in enumerate(ROUTERS)
    )
    values: dict[str, object] = {
        "night_id": f"ff-nightly-{started_at:%Y%m%dT%H%M}-{number:04x}",
        "started_at": started_at,
        "ended_at": started_at + timedelta(minutes=9),
        "backend": "cml",
        "controller": "https://cml.lab.example",
        "controller_version": "2.9.0+build.3",
        "kernel": "6.12.48",
        "tool_version": "0.1.0",
        "steps": steps(started_at),
        "nodes": nodes,
        "links": links,
        "copies": tuple(copies),
        "figures": tuple(figures),
    }
    return Night(**values | changes)


def played(*nights: Night, thresholds: tuple[object, ...] = ()) -> tuple[list[Night], list[PastSeriesNight]]:
    """Return nights as they were judged one after the other, and the history that they make."""
    judged: list[Night] = []
    history: list[PastSeriesNight] = []
    for night in nights:
        found = judge_night(night, history, thresholds)
        judged.append(found)
        tonight = [one.nights[-1] for one in with_tonight(history, found)]
        history += tonight
    return judged, history


@pytest.fixture
def night() -> Callable[..., Night]:
    return made_night


@pytest.fixture
def play() -> Callable[..., tuple[list[Night], list[PastSeriesNight]]]:
    return played


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A night in memory."""
    return Rig(tmp_path)


@pytest.fixture
def steps_of() -> Callable[..., tuple[NightStep, ...]]:
    return steps
