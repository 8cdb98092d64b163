"""Rounds: every method once in each, in orders of a seed, the first of them for nothing."""

import pytest

from flashferry.core.values import replace
from flashferry.depot.probing.figures import Ceilings, Trial
from flashferry.depot.probing.methods import Method
from flashferry.depot.probing.path import in_rounds

METHODS = [Method(name="scp", cipher=f"c{number}") for number in range(6)]


def timed(method: Method, number: int) -> Trial:
    size = 0 if method.data == "nothing" else 1000
    return Trial(key=method.key, number=number, size_bytes=size, wall_s=0.5 if not size else 1.5)


def played(seed: int, **more):
    calls: list[tuple[int, str]] = []

    def copy(method: Method, number: int) -> Trial:
        calls.append((number, method.key))
        return timed(method, number)

    return calls, in_rounds(METHODS, copy, rounds=3, seed=seed, **more)


def test_each_round_has_all_methods_and_a_copy_of_nothing():
    """Interleaved: no method is measured twice before all others were once."""
    calls, _ = played(1)
    wanted = {*(one.key for one in METHODS), METHODS[0].of_nothing.key}
    for number in range(4):
        keys = [key for of, key in calls[number * 7 : number * 7 + 7] if of == number]
        assert set(keys) == wanted
        assert len(keys) == 7


def test_orders_differ_and_come_again_with_the_seed():
    """Chance, but the same chance."""
    calls, _ = played(1)
    orders = [tuple(key for of, key in calls if of == number) for number in range(4)]
    assert len(set(orders)) == 4
    assert played(1)[0] == calls
    assert played(2)[0] != calls


def test_the_round_to_warm_up_counts_for_nothing():
    """Three rounds are three trials each; the login is taken off."""
    _, found = played(1)
    rows = found.rows(Ceilings())
    assert [row.trials for row in rows] == [3] * 6
    assert {row.rate.median for row in rows if row.rate} == {1000.0}


def test_what_fails_twice_is_tried_no_more():
    """The others go on."""
    calls: list[str] = []

    def copy(method: Method, number: int) -> Trial:
        calls.append(method.key)
        if method.cipher == "c3":
            return Trial(key=method.key, number=number, size_bytes=1000, error="refused")
        return timed(method, number)

    found = in_rounds(METHODS, copy, rounds=5, seed=1)
    assert calls.count("scp c3") == 2
    assert calls.count("scp c4") == 6
    assert next(row for row in found.rows(Ceilings()) if row.key == "scp c3").error == "refused"


def test_an_interruption_leaves_what_was_measured():
    """Nothing is begun after it."""
    calls: list[str] = []

    def copy(method: Method, number: int) -> Trial:
        calls.append(method.key)
        return timed(method, number)

    found = in_rounds(METHODS, copy, rounds=5, seed=1, interrupted=lambda: len(calls) >= 10)
    assert len(calls) == 10
    assert len(found.trials) == 3


@pytest.mark.parametrize("good", [0, 14])
def test_a_copy_that_was_ended_by_an_interruption_has_not_failed(good):
    """Neither in the round that does not count, nor later: it says nothing of its method."""
    calls: list[int] = []

    def copy(method: Method, number: int) -> Trial:
        calls.append(number)
        return replace(timed(method, number), error="ended with -9: no word" if len(calls) > good else "")

    found = in_rounds(METHODS, copy, rounds=3, seed=1, interrupted=lambda: len(calls) > good)
    assert len(calls) == good + 1
    assert [one.error for one in found.trials if one.error] == []
    assert len(found.trials) == max(0, good - 7)
