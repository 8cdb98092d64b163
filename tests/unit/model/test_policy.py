"""One policy: every setting once, and what follows from its field."""

from __future__ import annotations

from functools import reduce

import pytest

from flashferry.core.codec import decode, to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.model.limits import Limits
from flashferry.model.policy import (
    PlanSettings,
    StagePolicy,
    TuneMode,
    as_options,
    carried,
    check_resumable,
    settings,
)
from flashferry.model.setting import Setting
from tasks.tcp_config import EXTRAS
from tests.policy import another_value

ALL = [one for one in settings().values() if one.name not in {"until", "extra"}]
CARRIED = [one for one in ALL if one.label]


@pytest.mark.parametrize("known", ALL, ids=lambda known: known.name)
def test_a_setting_is_changed_by_its_name_alone(known: Setting) -> None:
    """All others stay, and the policy comes back from the journal as it was."""
    value = another_value(known, StagePolicy())
    found = StagePolicy().changed({known.name: value})
    assert reduce(getattr, known.path, found) == value
    others = [one for one in ALL if one is not known]
    assert all(reduce(getattr, one.path, found) == one.default for one in others)
    assert decode(StagePolicy, to_json(found)) == found


@pytest.mark.parametrize("known", CARRIED, ids=lambda known: known.name)
def test_a_plan_shows_each_setting_that_it_carries(known: Setting) -> None:
    """With a name for people, and whether it is the default."""
    changed = StagePolicy().changed({known.name: another_value(known, StagePolicy())})
    assert [one for one, value in carried(changed) if not one.is_usual(value)] == [known]


def test_one_failure_is_not_a_hundred_per_cent() -> None:
    """Both are equal as numbers."""
    one = StagePolicy().changed({"max_failures": 1})
    shown = [known.in_words(value) for known, value in carried(one) if not known.is_usual(value)]
    assert shown == ["1"]


def test_a_plan_carries_what_has_a_label() -> None:
    """What is approved with a plan is what its readers are shown."""
    assert {one.path[0] for one, _ in carried(PlanSettings())} == PlanSettings().of_plan().keys()


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"speed": 1}, "setting 'speed': expected one of"),
        ({"logins": 0}, "--max-logins: expected 1 to 10000, found 0"),
        ({"add": "yes"}, "--add: Expected `bool`"),
        ({"tune": "some"}, "--tune: Invalid enum value"),
    ],
)
def test_what_makes_no_sense_is_refused(chosen: dict[str, object], told: str) -> None:
    """With the option that it belongs to, and what was found."""
    with pytest.raises(ConfigInvalid, match=told):
        StagePolicy().changed(chosen)


@pytest.mark.parametrize("known", settings().values(), ids=lambda known: known.name)
def test_a_resumed_run_takes_what_may_change_alone(known: Setting) -> None:
    """What it settled when it started is refused by the option's name."""
    if not known.is_settled:
        check_resumable({known.name: True})
        return
    with pytest.raises(ConfigInvalid, match=f"{known.option} cannot be combined with --resume"):
        check_resumable({known.name: True})


def test_who_names_a_window_or_an_extra_wants_all_tuned() -> None:
    """Unless they said which."""
    assert StagePolicy.without_plan({"window_bytes": 65_535}).tune is TuneMode.ALWAYS
    assert StagePolicy.without_plan({"extra": tuple(EXTRAS), "tune": "auto"}).tune is TuneMode.AUTO
    assert StagePolicy.without_plan({"copies": 3}) == StagePolicy(limits=Limits(copies=3))


@pytest.mark.parametrize(
    ("asked", "takes", "expected"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False)],
)
def test_a_dead_man_nobody_asked_for_goes_to_devices_that_are_shown_to_take_it(
    asked: bool | None, takes: bool, expected: bool
) -> None:
    """Resolved in one place, for a run and for its rehearsal."""
    policy = replace(StagePolicy(), dead_man=asked)
    assert policy.of_device(is_untuned=False, adds=False, takes_dead_man=takes).dead_man is expected


def test_words_of_a_command_line() -> None:
    """On, off, and a value; what has no word for off says nothing."""
    chosen = {"add": True, "dead_man": False, "ready": False, "copies": 3}
    assert as_options(chosen) == ("--add", "--no-dead-man", "--max-copies=3")


def test_help_names_the_extras_that_there_are() -> None:
    """It is written without what knows them, so that help waits for no device's code."""
    assert all(name in settings()["extra"].help for name in EXTRAS)
