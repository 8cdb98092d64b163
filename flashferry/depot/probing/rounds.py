"""Rounds of copies: each round takes all methods in an order of its own, and the first round counts for nothing.

So what changes on the path or the machine meanwhile meets all methods alike, and what has to be read, resolved or woken
up once is behind them all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flashferry.depot.probing.figures import Ceilings, Login, Row, Trial, login_of, row_of
from flashferry.depot.probing.methods import Method

Copy = Callable[[Method, int], Trial]
"""Copies once by a method, in a round of that number; 0 is the one that does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All trials of some methods.

    Attributes:
        methods: In the order in which they were given.
        trials: All of them, copies of nothing too.
    """

    methods: tuple[Method, ...]
    trials: tuple[Trial, ...]

    def of(self, key: str) -> tuple[Trial, ...]:
        """Return the trials of a method."""
        return tuple(one for one in self.trials if one.key == key)

    def login(self, method: Method) -> Login:
        """Return what a copy of nothing takes by a method."""
        return login_of(self.of(method.of_nothing.key))

    def rows(self, ceilings: Ceilings) -> list[Row]:
        """Return a row per method."""
        return [row_of(one.key, self.of(one.key), self.login(one), ceilings) for one in self.methods]


def in_rounds(
    methods: Sequence[Method],
    copy: Copy,
    *,
    rounds: int,
    seed: int,
    report: Callable[[str], None] = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
    warms_up: bool = True,
) -> Measured:
    """Copy by each method in each round; a method that fails twice is left out of the rounds that follow.

    Args:
        methods: The methods.
        copy: Copies once.
        rounds: How many rounds count, >= 1.
        seed: Of their orders.
        report: Takes a line of what is going on.
        interrupted: Whether the rest is to be left out.
        warms_up: Whether a round that does not count comes first.
    """
    chance = random.Random(f"{seed} {len(methods)}")  # noqa: S311 -- an order, no secret
    nothing = {one.of_nothing.key: one.of_nothing for one in methods if one.name != "http"}
    trials: list[Trial] = []
    for number in range(0 if warms_up else 1, rounds + 1):
        order = [*methods, *nothing.values()]
        chance.shuffle(order)
        report(f"round {number} of {rounds}" if number else "a round to warm up, which does not count")
        for method in order:
            if interrupted():
                return Measured(methods=tuple(methods), trials=tuple(trials))
            if _has_failed(trials, method.key):
                continue
            trial = copy(method, number)
            # One that was ended for us shows nothing of its method.
            if (number or trial.error) and not (trial.error and interrupted()):
                trials.append(trial)
    return Measured(methods=tuple(methods), trials=tuple(trials))


def _has_failed(trials: Sequence[Trial], key: str) -> bool:
    return sum(1 for one in trials if one.key == key and one.error) > 1
