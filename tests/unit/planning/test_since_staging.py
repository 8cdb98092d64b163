"""What changed on a device since its image was staged, in sentences."""

from __future__ import annotations

from flashferry.planning.readiness import since_staging
from flashferry.store.staged import Staged
from tasks.readiness.values import Asked, Condition, Met, Readiness, Verdict

THEN = Staged(
    run_id="20261120-220000-ab12",
    image="x.bin",
    at="2026-11-20T22:00:00+00:00",
    serial_number="FOC1",
    release="17.6.1",
    members=(1, 2),
    conditions=(("image", "flash:", "met"), ("boot variable", "", "not met"), ("members", "", "met")),
)


def now(*conditions: Condition, running: str = "17.6.1", members: tuple[int, ...] = (1, 2)) -> Readiness:
    return Readiness(
        verdict=Verdict.NO,
        image="x.bin",
        version=None,
        running=running,
        mode="install",
        members=members,
        conditions=conditions,
    )


def condition(name: Asked, met: Met, place: str = "") -> Condition:
    return Condition(name=name, met=met, sentence="told", command="show", place=place)


def test_what_is_as_it_was_is_not_told():
    """Neither is a condition that nobody looked at then."""
    same = now(condition(Asked.IMAGE, Met.MET, "flash:"), condition(Asked.SAVED, Met.NOT_MET))
    assert since_staging(THEN, same, "FOC1") == ()


def test_everything_that_changed_is_told():
    """Another box, another release, a member that left, and a file that is gone; also what is better now."""
    found = now(
        condition(Asked.IMAGE, Met.NOT_MET, "flash:"),
        condition(Asked.BOOT, Met.MET),
        running="17.9.4",
        members=(1,),
    )
    assert since_staging(THEN, found, "FOC2") == (
        "another device answers: serial number FOC2, it was FOC1",
        "it runs 17.9.4, it ran 17.6.1",
        "its members are 1, they were 1, 2",
        "image (flash:): not met now, met then: told",
        "boot variable: met now, not met then: told",
    )
