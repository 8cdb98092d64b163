"""Scenes beside the seeds: one story each, for the transcripts that docs/adversary.md names."""

from __future__ import annotations

from tests.adversary.behaviours import Behaviour
from tests.adversary.case import Case, Start, Step
from tests.adversary.router.acts import PutFile, Swap
from tests.adversary.router.knobs import Redraw

_RECOVER = Step(verb="recover", mended=True)


def _case(
    seed: int, start: Start, steps: tuple[Step, ...], *behaviours: Behaviour, flash_bytes_per_s: int = 400_000
) -> Case:
    return Case(
        seed=seed,
        start=start,
        behaviours=behaviours,
        steps=steps,
        image_bytes=300_000,
        options={
            "a": ("--window-bytes", "70001", "--retries", "0"),
            "b": ("--window-bytes", "200000", "--retries", "0"),
        },
        source_interface=False,
        credentials_by_environment=False,
        flash_bytes_per_s=flash_bytes_per_s,
    )


def _start(platform: str, *lines: str, twin: str = "") -> Start:
    return Start(platform=platform, lines=lines, has_archive=False, needs_enable=False, twin=twin)


QUESTION_TWICE = _case(
    -1,
    _start("ios"),
    (Step(verb="stage"), _RECOVER),
    Behaviour(
        name="question drawn again",
        says="by a message to all terminals, while the next question is `Erase flash:`",
        knobs=(
            ("redraws", (Redraw(kind="destination", how="broadcast", times=1, after_s=0.2, is_behind_answer=False),)),
        ),
    ),
)
SWAPPED = _case(
    -2,
    _start("xe", "ip tcp window-size 8000", twin="serial"),
    (Step(verb="stage"), _RECOVER),
    Behaviour(
        name="another device answers",
        says="in mid-copy: same host key, same host name, another serial number; the first one is back for recover",
        acts=(Swap(at="copy:50", name="another device answers"),),
    ),
)
TWO_CONTROLLERS = _case(
    -3,
    _start("xe", "ip tcp window-size 8000"),
    (
        Step(verb="stage", beside_at="copy:25"),
        Step(verb="stage", controller="b"),
        _RECOVER,
        Step(verb="recover", controller="b"),
    ),
    flash_bytes_per_s=40_000,
)
WRAPPED_LISTING = _case(
    -4,
    _start("xe", "ip tcp window-size 8000"),
    (Step(verb="stage"),),
    Behaviour(
        name="listing at 80 columns",
        says="another file of the image's name lies there, its name on the line after its row; `file prompt quiet`",
        knobs=(("wraps", "after"),),
        acts=(PutFile(at="login", spelt="same", holds="another", name="listing at 80 columns"),),
        stock=(("file prompt quiet", ()),),
    ),
)
STALE_JOURNAL = _case(
    -5,
    _start("xe", "ip tcp window-size 8000"),
    (
        Step(verb="stage", killed_at="copy:50"),
        Step(verb="copy", controller="c"),
        Step(verb="recover"),
        Step(verb="stage", controller="b", killed_at="config:4:end"),
        Step(verb="recover", controller="c"),
        Step(verb="recover", controller="c", decides="--device-is"),
        Step(verb="recover", controller="c", decides="--accept"),
        Step(verb="recover", controller="b"),
    ),
)
SCENES = {
    "question-twice": QUESTION_TWICE,
    "swapped": SWAPPED,
    "two-controllers": TWO_CONTROLLERS,
    "wrapped-listing": WRAPPED_LISTING,
    "stale-journal": STALE_JOURNAL,
}
