"""A seed's case: the device as it was, its behaviours, and what the controllers do. Pure; a seed is a case for ever."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from flashferry.core.values import replace
from tests.adversary.behaviours import (
    ARCHIVE,
    COPIED_JOURNAL,
    NEEDS_ENABLE,
    REMOVES,
    SOURCE_INTERFACE,
    TWIN,
    Behaviour,
    Kind,
    drawn,
    fits,
)
from tests.adversary.kinds import FIRST_KINDS, LATER_KINDS, STALE_JOURNAL

FIRST_LATER_SEED = 50
"""From this seed on a case may have a kind besides that came later; drawn by dice of its own."""

KILLS = (
    *("config:1", "config:1:line", "config:1:end", "copy", "copy:25", "copy:50", "copy:75", "copied", "verify"),
    *("verified", "config:2", "config:2:line", "config:2:end"),
    *("config:1:end", "copy:50", "copy:75", "copied", "verified", "config:2", "config:2:line"),
    *(f"command:{number}" for number in (5, 14, 17, 20, 23, 26)),
)
"""Late moments stand there twice: there is more to be left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of a controller.

    Attributes:
        verb: `stage`, `resume`, `probe`, `check` or `recover`; or `copy`, which is no command: the state directory of
            `a` is copied to this controller's place, files as they are.
        controller: `a`, `b`, or `c`, which has a copy of what `a` knew; each has a state directory of its own.
        decides: What the operator says by name of the device: `--device-is` or `--accept`; empty: nothing.
        killed_at: The moment at which it is killed; empty: it is not.
        interrupted_at: The moment of Ctrl-C.
        beside_at: The moment at which the next step begins beside this one.
        mended: The device that is meant answers again, and everybody is let in, before this step.
    """

    verb: str
    controller: str = "a"
    killed_at: str = ""
    interrupted_at: str = ""
    beside_at: str = ""
    mended: bool = False
    decides: str = ""

    def __str__(self) -> str:
        """Return it in a few words."""
        how = [
            word
            for word in (
                f"killed at {self.killed_at}" if self.killed_at else "",
                f"interrupted at {self.interrupted_at}" if self.interrupted_at else "",
                f"beside the next from {self.beside_at} on" if self.beside_at else "",
                f"{self.decides} r1" if self.decides else "",
            )
            if word
        ]
        return f"{self.verb} {self.controller}{f' ({how[0]})' if how else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The device before anybody came, and how it is treated.

    Attributes:
        platform: `xe`, `ios` or `stack`.
        lines: `ip tcp` lines that were there, and others of the case's own.
        has_archive: Whether the configuration has an `archive` section.
        needs_enable: Whether the login leads to `>`.
        twin: How a second device differs: `serial`, `hostname`, `both`; empty: there is none.
    """

    platform: str
    lines: tuple[str, ...]
    has_archive: bool
    needs_enable: bool
    twin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that a seed says.

    Attributes:
        options: Options of `stage`, of each controller.
        source_interface: Whether the inventory names one.
        credentials_by_environment: Whether they come from the environment instead of the inventory.
        flash_bytes_per_s: How fast the flash takes an image; slow where another controller is to come in mid-copy.
    """

    seed: int
    start: Start
    behaviours: tuple[Behaviour, ...]
    steps: tuple[Step, ...]
    image_bytes: int
    options: dict[str, tuple[str, ...]]
    source_interface: bool
    credentials_by_environment: bool
    flash_bytes_per_s: int = 400_000

    def __str__(self) -> str:
        """Return the case in one line."""
        steps = ", ".join(map(str, self.steps))
        behaviours = "; ".join(map(str, self.behaviours)) or "nothing"
        lines = ", ".join(self.start.lines) or "no ip tcp line"
        return f"{self.seed}: {self.start.platform} ({lines}) | {steps} | {behaviours}"

    @property
    def knobs(self) -> dict[str, Any]:
        """Return what its behaviours turn."""
        return {name: value for behaviour in self.behaviours for name, value in behaviour.knobs}


_WINDOWS: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("ip tcp window-size 8000",),
    ("ip tcp window-size 8000",),
    ("ip tcp window-size 65535",),
    ("ip tcp window-size 65535",),
    ("ip tcp window-size 4000000",),
)
_OTHER_LINES: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("ip tcp path-mtu-discovery",),
    ("ip tcp timestamp", "ip tcp synwait-time 12"),
    ("ip tcp selective-ack",),
)


def case_of(seed: int) -> Case:
    """Return the case of a seed."""
    dice = Random(f"adversary {seed}")
    platform = dice.choice(("xe", "xe", "ios", "stack"))
    behaviours = (*_behaviours(dice, platform), *_later(seed, platform), *_stale(seed))
    needs = frozenset(need for behaviour in behaviours for need in behaviour.needs)
    steps = _steps(dice)
    if COPIED_JOURNAL in needs:
        steps = _stale_steps(Random(f"steps of a copy {seed}"))
    has_company = any(step.beside_at for step in steps)
    size = dice.choice((60_000, 150_000, 300_000))
    return Case(
        seed=seed,
        start=_start(dice, platform, needs),
        behaviours=behaviours,
        steps=steps,
        image_bytes=300_000 if has_company else size,
        options={name: _options(dice, removes=REMOVES in needs) for name in ("a", "b")},
        source_interface=SOURCE_INTERFACE in needs or dice.random() < 0.1,
        credentials_by_environment=dice.random() < 0.4,
        flash_bytes_per_s=40_000 if has_company else 400_000,
    )


def alone(kind: Kind, number: int) -> Case:
    """Return a case of one behaviour alone, on a device where there is everything to be tuned, with a plain run."""
    dice = Random(f"alone {kind.name} {number}")
    behaviour = drawn(kind, dice)
    platform = dice.choice(sorted(kind.platforms or ("xe", "ios", "stack")))
    start = _start(dice, platform, behaviour.needs)
    steps = (Step(verb="stage"), Step(verb="recover", mended=True))
    return Case(
        seed=-1000 - number,
        start=replace(start, lines=dice.choice(((), ("ip tcp window-size 8000",)))),
        behaviours=(behaviour,),
        steps=_stale_steps(dice) if COPIED_JOURNAL in behaviour.needs else steps,
        image_bytes=150_000,
        options={
            name: ("--retries", "0", *(["--remove-partial"] if REMOVES in behaviour.needs else [])) for name in "ab"
        },
        source_interface=SOURCE_INTERFACE in behaviour.needs,
        credentials_by_environment=False,
    )


def _behaviours(dice: Random, platform: str) -> tuple[Behaviour, ...]:
    wanted = dice.choices((0, 1, 2, 3, 4), weights=(6, 34, 32, 20, 8))[0]
    kinds = [kind for kind in FIRST_KINDS if not kind.platforms or platform in kind.platforms]
    chosen: tuple[Behaviour, ...] = ()
    while len(chosen) < wanted:
        kind = dice.choices(kinds, weights=[kind.weight for kind in kinds])[0]
        behaviour = drawn(kind, dice)
        if all(one.name != kind.name for one in chosen) and fits(behaviour, chosen):
            chosen = (*chosen, behaviour)
    return chosen


def _later(seed: int, platform: str) -> tuple[Behaviour, ...]:
    dice = Random(f"later {seed}")
    if seed < FIRST_LATER_SEED or dice.random() < 0.8:
        return ()
    return (
        drawn(dice.choice([kind for kind in LATER_KINDS if not kind.platforms or platform in kind.platforms]), dice),
    )


def _stale(seed: int) -> tuple[Behaviour, ...]:
    dice = Random(f"copied {seed}")
    return () if seed < FIRST_LATER_SEED or dice.random() < 0.96 else (drawn(STALE_JOURNAL, dice),)


def _start(dice: Random, platform: str, needs: frozenset[str]) -> Start:
    window, other = dice.choice(_WINDOWS), dice.choice(_OTHER_LINES)
    twin = dice.choice(("serial", "hostname", "both"))
    return Start(
        platform=platform,
        lines=(*window, *other),
        has_archive=ARCHIVE in needs or dice.random() < 0.4,
        needs_enable=NEEDS_ENABLE in needs or dice.random() < 0.2,
        twin=twin if TWIN in needs else "",
    )


def _steps(dice: Random) -> tuple[Step, ...]:
    kill, mended = dice.choice(KILLS), dice.random() < 0.6
    recover = Step(verb="recover", mended=mended)
    stage, killed = Step(verb="stage"), Step(verb="stage", killed_at=kill)
    beside = Step(verb="stage", beside_at=dice.choice(("config:1", "config:1:line", "copy", "copy:25", "copy:25")))
    other, other_recover = Step(verb="stage", controller="b"), Step(verb="recover", controller="b")
    plots = {
        (stage,): 32,
        (stage, recover): 26,
        (stage, stage): 4,
        (killed, recover): 12,
        (killed, stage, recover): 6,
        (killed, other, recover): 3,
        (killed, Step(verb="resume", mended=mended)): 4,
        (killed, Step(verb="recover", killed_at="config:2:line"), recover): 3,
        (Step(verb="stage", interrupted_at=kill), recover): 4,
        (beside, other, recover, other_recover): 5,
        (Step(verb="probe"), recover): 3,
        (Step(verb="check"),): 2,
    }
    return dice.choices(list(plots), weights=list(plots.values()))[0]


def _stale_steps(dice: Random) -> tuple[Step, ...]:
    killed = Step(
        verb="stage", killed_at=dice.choice(("config:1:line", "config:1:end", "config:1:end", "copy", "copy:50"))
    )
    copied, mended = Step(verb="copy", controller="c"), dice.random() < 0.6
    recover, other = Step(verb="recover", mended=mended), Step(verb="recover", controller="b", mended=mended)
    # The first run tunes and restores in three visits; the other's lines are in force behind its own first.
    next_killed = Step(verb="stage", controller="b", killed_at=dice.choice(("config:4:line", "config:4:end")))
    stale = Step(verb="recover", controller="c", mended=mended)
    decided = replace(stale, decides=dice.choice(("--device-is", "--accept")))
    return dice.choice(
        (
            (killed, copied, stale, recover, stale),
            (killed, copied, stale, decided, recover),
            (killed, copied, recover, next_killed, stale, other),
            (killed, copied, recover, next_killed, stale, decided, other),
        )
    )


def _options(dice: Random, *, removes: bool) -> tuple[str, ...]:
    options: list[str] = []
    if dice.random() < 0.4:
        options += ["--window-bytes", str(dice.choice((20_000, 70_001, 1_250_000)))]
    if removes or dice.random() < 0.3:
        options.append("--remove-partial")
    if dice.random() < 0.2:
        options += ["--extra", "path-mtu-discovery"]
    options += ["--retries", str(dice.choice((0, 0, 1)))]
    return tuple(options)
