"""Whether a sample shrinks: random does not, words do, and the sentence says which."""

import os

import pytest

from flashferry.depot.probing.findings import PIECE_BYTES, PIECES, Shrinking, offsets, shrinking, shrinking_of


def test_random_bytes_do_not_shrink():
    """As images are: compression off, in words."""
    found = shrinking([os.urandom(PIECE_BYTES) for _ in range(4)])
    assert not found.helps
    assert found.sentence().startswith("Compression: off, for a sample of 262.1 kB shrinks by a ratio of 1.00")


def test_words_shrink():
    """It may pay, on a link that is slow enough; the sentence says how slow."""
    found = shrinking([b"interface GigabitEthernet0/0\n" * 2000])
    assert found.helps
    assert "it pays only where the link is slower" in found.sentence()


@pytest.mark.parametrize(("ratio", "helps"), [(1.049, False), (1.05, True)])
def test_the_bound_is_five_percent(ratio, helps):
    """Less is not worth any processor time."""
    assert Shrinking(ratio=ratio, sample_bytes=1).helps is helps


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, 5 * PIECE_BYTES, 1000 * PIECE_BYTES + 7])
def test_pieces_are_spread_over_the_whole_file(size):
    """At most sixteen, each once, none behind its end."""
    found = offsets(size)
    blocks = max(1, size // PIECE_BYTES)
    assert len(found) == len(set(found)) == min(PIECES, blocks)
    assert found[0] == 0
    assert max(found) < blocks


def test_a_file_that_cannot_be_read_is_told():
    """Nothing is claimed of what nobody saw."""
    found = shrinking_of(10, lambda _: b"")
    assert not found.helps
    assert "nothing of the file could be read" in found.sentence()
