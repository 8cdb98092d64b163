"""Words by their offsets: repeats, gaps, and any order."""

from hypothesis import given
from hypothesis import strategies as st

from flashferry.store.sites.words import Received, joined, receive


@given(st.integers(1, 30).flatmap(lambda last: st.permutations(range(1, last + 1))), st.data())
def test_whatever_the_order_and_the_repeats_every_word_is_news_once(order: list[int], data: st.DataObject) -> None:
    """Words that come in any order, some of them again, are each news exactly once, and whole at the end."""
    repeats = data.draw(st.lists(st.sampled_from(order), max_size=20))
    arrivals = data.draw(st.permutations([*order, *repeats]))
    received, news = Received(), []
    for offset in arrivals:
        received, is_news = receive(received, offset)
        news += [offset] * is_news
    assert sorted(news) == sorted(order)
    assert received == Received(whole=len(order))


@given(st.sets(st.integers(1, 40)))
def test_whole_is_all_before_the_first_gap(here: set[int]) -> None:
    """The whole part ends before the first offset that is missing; all others are early."""
    received = Received()
    for offset in here:
        received, _ = receive(received, offset)
    first_missing = next(offset for offset in range(1, 42) if offset not in here)
    assert received.whole == first_missing - 1
    assert received.early == {offset for offset in here if offset > first_missing}
    assert received.has_gap is bool(received.early)


def test_offsets_that_are_none_change_nothing() -> None:
    """An offset below 1 is no word of a run."""
    assert receive(Received(whole=3), 0) == (Received(whole=3), False)
    assert receive(Received(whole=3), -4) == (Received(whole=3), False)


def test_what_was_early_before_is_joined_when_it_is_read_again() -> None:
    """Rows left by a centre that died are sorted out when they are read."""
    assert joined(2, {1, 3, 4, 7}) == Received(whole=4, early=frozenset({7}))
