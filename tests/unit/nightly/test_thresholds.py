"""A night is judged by thresholds and by the nights before it, and nights of a broken lab judge nothing."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.nightly.history import by_series, keep, past, stored_nights
from flashferry.nightly.night import Fault, Night, Rating, SeriesKey, StepName
from flashferry.nightly.thresholds import judge_night, judges, named_judgements
from flashferry.reports.thresholds import parse_threshold
from flashferry.store import nights as stored
from tests.some import some

TUNED, AS_IS, STAGED = "cat8000v/-/wan50/ftp/probe", "cat8000v/-/wan50/ftp/probe as it is", "cat8000v/-/wan50/ftp/stage"


def colours(night: Night) -> dict[str, Rating]:
    return {str(one.key): one.colour for one in night.judgements}


def judgement(night: Night, key: str):
    (found,) = (one for one in night.judgements if str(one.key) == key)
    return found


def test_a_series_is_what_may_be_compared(night, play):
    """Routers that boot the same behind one condition are one series; tuned and untuned, probe and stage are not."""
    (found,), _ = play(night())
    assert {TUNED, AS_IS, STAGED, "iosv/iosv-159-3-m6/dsl/ftp/probe"} < set(colours(found))
    assert judgement(found, TUNED).copies == 10
    assert judgement(found, STAGED).copies == 2
    assert {"connect", "verify", "lines left"} <= {one.key.verb for one in found.judgements}


@pytest.mark.parametrize("image", [None, "iosv-159-3-m6", "vrnetlab/cisco_c8000v:17.12.04"])
def test_a_key_is_read_from_its_text(image):
    """Also one whose image has slashes in its name."""
    key = SeriesKey(node_definition="c8000v", image_definition=image, condition="wan50", transport="ftp", verb="probe")
    assert SeriesKey.of(str(key)) == key


def test_the_first_nights_are_held_against_thresholds_only(night, play):
    """Seven nights judge nothing by trend, the eighth does."""
    judged, _ = play(*(night(number) for number in range(8)))
    assert {colours(one)[TUNED] for one in judged[:7]} == {Rating.NO_HISTORY}
    assert colours(judged[7])[TUNED] is Rating.GOOD
    assert "7 good nights" in judgement(judged[7], TUNED).sentence


def test_a_drop_is_amber_then_red_and_says_what_changed(night, play):
    """Night 20 and 21 are 10 % slower with a new kernel: amber, red; the sentence has figures and the kernel."""
    usual = [night(number) for number in range(20)]
    slow = [night(number, factor=0.9, kernel="6.13.0") for number in (20, 21)]
    judged, _ = play(*usual, *slow)
    amber, red = judgement(judged[20], TUNED), judgement(judged[21], TUNED)
    assert (amber.colour, red.colour) == (Rating.AMBER, Rating.RED)
    assert "10% below the median of 14 good nights, 4.9" in amber.sentence
    assert "2 nights like it in a row turn red" in amber.sentence
    assert "2 nights in a row or more" in red.sentence
    assert "this host's kernel from 6.12.48 to 6.13.0" in amber.sentence
    assert red.threshold is not None
    assert red.history_median is not None
    assert red.tonight < red.threshold < red.history_median
    assert colours(judged[21])[AS_IS] is Rating.GOOD


def test_a_sentence_about_a_night_names_its_series(night, play):
    """Those of a colour, the first three of them; how many more there are."""
    judged, _ = play(*(night(number) for number in range(10)), *(night(number, factor=0.8) for number in (10, 11)))
    red, amber = (named_judgements(judged[-1].judgements, colour) for colour in (Rating.RED, Rating.AMBER))
    assert red.startswith(f"{TUNED}: {judgement(judged[-1], TUNED).sentence}; ")
    assert red.count("; expected at least") == 2
    assert amber.startswith(f"{STAGED}: ")
    assert named_judgements(judged[-1].judgements, Rating.CHANGED_UP) == ""
    assert named_judgements(judged[-1].judgements * 2, Rating.RED).endswith("; and 1 series more")


def test_a_rise_is_told_on_the_second_night(night, play):
    """Somebody took the condition off: good with a word the first night, then changed."""
    judged, _ = play(*(night(number) for number in range(10)), *(night(number, factor=3.0) for number in (10, 11)))
    assert [colours(one)[TUNED] for one in judged[10:]] == [Rating.GOOD, Rating.CHANGED_UP]
    assert "2 nights like it in a row count as a change" in judgement(judged[10], TUNED).sentence
    assert "condition was taken off" in judgement(judged[11], TUNED).sentence


def test_a_night_of_a_broken_link_counts_nowhere(night, play):
    """Its copies are half as fast; it is compared with nothing, nothing is red, and the nights behind it are good."""
    usual = [night(number) for number in range(10)]
    off = night(10, factor=0.5)
    off = replace(off, links=(replace(off.links[0], is_as_planned=False, told="round trip 250 ms, planned 100 ms"),))
    judged, history = play(*usual, off, replace(off, night_id="again"), night(12))
    assert not judged[10].is_comparable
    assert judged[10].not_comparable_because == "link wan50 link: round trip 250 ms, planned 100 ms"
    assert {one for key, one in colours(judged[11]).items() if "lines" not in key} == {Rating.NO_HISTORY}
    assert colours(judged[12])[TUNED] is Rating.GOOD
    kept = [one for one in history if one.row.night_id == judged[10].night_id]
    assert some(kept)
    assert not any(one.is_comparable for one in kept)


def test_a_night_of_a_broken_controller_counts_nowhere(night, play, steps_of):
    """A step that failed for the lab's fault makes the night not comparable, with its sentence."""
    usual = [night(number) for number in range(8)]
    broken = night(8, factor=0.5)
    broken = replace(broken, steps=steps_of(broken.started_at, Fault.LAB, StepName.STAGE))
    judged, _ = play(*usual, broken)
    assert judged[-1].not_comparable_because == "stage: the controller answered 502"
    assert Rating.RED not in colours(judged[-1]).values()


def test_what_somebody_else_found_not_comparable_stays_so(night, play):
    """A busy host, say, that the flow itself saw."""
    (found,), _ = play(night(is_comparable=False, not_comparable_because="a fifth of the time was stolen"))
    assert not found.is_comparable
    assert "a fifth of the time was stolen" in judgement(found, TUNED).sentence


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("tuned_share_of_cap=0.99", "expected tuned >= 99% of cap, found 9"),
        ("min_gain=6", "expected tuned >= 6 times as fast as before, found 5.0 times"),
        ("min_rate_mb_s=5.5", "expected rate >= 5.5 MB/s, found 4."),
        ("tuned_share_of_link=0.9", "expected tuned >= 90% of link, found 8"),
    ],
)
def test_a_missed_threshold_is_red_at_once(night, play, given, wanted):
    """Without any history, and with expected and found in the sentence; untuned copies are held against none."""
    (found,), _ = play(night(), thresholds=(parse_threshold(given),))
    assert judgement(found, TUNED).colour is Rating.RED
    assert wanted in judgement(found, TUNED).sentence
    assert not judgement(found, TUNED).is_within_thresholds
    assert judgement(found, AS_IS).colour is Rating.NO_HISTORY


def test_thresholds_that_hold_say_nothing(night, play):
    """And those that copies do not tell of are not judged here."""
    held = [parse_threshold(one) for one in ("tuned_share_of_cap=0.9", "min_gain=4", "max_minutes=1")]
    (found,), _ = play(night(), thresholds=tuple(held))
    assert Rating.RED not in colours(found).values()
    assert [judges(one.name) for one in held] == [True, True, False]


def test_a_line_left_behind_is_red_in_every_night(night, play):
    """Also where the night is not comparable."""
    usual = night(is_comparable=False, not_comparable_because="link off")
    left = replace(usual, figures=tuple(replace(one, value=1.0) for one in usual.figures if one.what == "lines left"))
    (found,), _ = play(left)
    reds = [one for one in found.judgements if one.colour is Rating.RED]
    assert {one.key.verb for one in some(reds)} == {"lines left"}
    assert reds[0].sentence == "expected no line of ours on any router, found 2"


def test_a_slow_login_is_found_and_its_threshold_lies_above(night, play):
    """Of seconds more is worse."""
    usual = [night(number) for number in range(10)]
    slow = [night(number) for number in (10, 11, 12)]
    slow = [
        replace(
            one,
            figures=tuple(replace(two, value=two.value * 2) if two.what == "connect" else two for two in one.figures),
        )
        for one in slow
    ]
    judged, _ = play(*usual, *slow)
    found = judgement(judged[-1], "cat8000v/-/wan50/ssh/connect")
    assert (found.colour, found.copies) == (Rating.RED, 2)
    assert judgement(judged[-2], "cat8000v/-/wan50/ssh/connect").colour is Rating.AMBER
    assert found.threshold is not None
    assert found.tonight > found.threshold


def test_nights_that_are_kept_are_read_as_they_were(tmp_path, night, play):
    """Values, judgements and order survive the database; a night kept twice is there once."""
    judged, history = play(*(night(number) for number in range(9)))
    for one in reversed(judged):
        keep(tmp_path, one)
    keep(tmp_path, judged[4])
    assert stored_nights(tmp_path, last=99) == tuple(judged)
    assert stored_nights(tmp_path, last=2) == tuple(judged[-2:])
    assert {one.row.night_id for one in past(tmp_path)} == {one.night_id for one in judged}
    assert sorted(past(tmp_path), key=lambda one: (one.started_at, one.row.series)) == sorted(
        history, key=lambda one: (one.started_at, one.row.series)
    )


def test_a_night_is_judged_the_same_when_it_is_judged_again(tmp_path, night, play):
    """The night itself, kept already, is no part of its own history; nor are those behind it."""
    judged, _ = play(*(night(number) for number in range(9)), night(9, factor=0.9), night(10))
    for one in judged:
        keep(tmp_path, one)
    again = judge_night(night(9, factor=0.9), past(tmp_path, before=judged[9].night_id))
    assert again == judged[9]


def test_series_come_with_their_nights(tmp_path, night, play):
    """Each with its own, the oldest first, and with the colour of the last."""
    _, history = play(*(night(number) for number in range(9)), night(9, factor=0.8))
    (found,) = (one for one in by_series(history) if str(one.key) == TUNED)
    assert len(found.nights) == 10
    assert found.colour is Rating.AMBER
    assert [one.started_at for one in found.nights] == sorted(one.started_at for one in found.nights)


def test_a_night_of_another_release_is_read(tmp_path, night, play):
    """Missing fields have their defaults, fields that are too many are left; a damaged account costs itself."""
    import json
    import sqlite3

    (found,), _ = play(night())
    keep(tmp_path, found)
    database = sqlite3.connect(tmp_path / stored.FILE)
    ((text,),) = database.execute("SELECT document FROM nights").fetchall()
    document = json.loads(text)
    del document["figures"], document["is_interrupted"]
    document["of_tomorrow"] = 1
    for one in document["copies"]:
        del one["cap_bytes_per_s"]
    database.execute("UPDATE nights SET document = ?", (json.dumps(document),))
    database.commit()
    (read,) = stored_nights(tmp_path, last=1)
    assert (read.figures, read.copies[0].cap_bytes_per_s, read.judgements) == ((), None, found.judgements)
    database.execute("UPDATE nights SET document = '{'")
    database.commit()
    database.close()
    (damaged,) = stored_nights(tmp_path, last=1)
    assert (damaged.night_id, damaged.copies) == (found.night_id, ())
    assert "damaged" in damaged.not_comparable_because


def test_no_nights_are_none_and_a_newer_database_is_refused_in_a_sentence(tmp_path, night, play):
    """Reading makes no file; what a newer release wrote is neither read nor written."""
    import sqlite3

    assert (past(tmp_path), stored_nights(tmp_path, last=9)) == ((), ())
    assert not (tmp_path / stored.FILE).exists()
    (found,), _ = play(night())
    keep(tmp_path, found)
    assert (tmp_path / stored.FILE).stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(tmp_path / stored.FILE) as database:
        database.execute("PRAGMA user_version = 99")
    for use in (lambda: past(tmp_path), lambda: keep(tmp_path, found)):
        with pytest.raises(ConfigInvalid, match="another flashferry") as error:
            use()
        assert error.value.hint
