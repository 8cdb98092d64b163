"""What is held of an image follows from its digests and from what was published: one that differs is never usable."""

from __future__ import annotations

import pytest

from flashferry.images.image import Digests
from flashferry.service.images.verification import Stated, judged, why_not_what_it_says
from flashferry.store.service.images import Published

MINE, OTHER = "a" * 128, "b" * 128
DIGESTS = Digests(md5="1" * 32, sha512=MINE)


def listed(name: str, sha512: str, md5: str = "") -> Published:
    return Published(name=name, md5=md5, sha512=sha512, source="the list", at="2026")


@pytest.mark.parametrize(
    ("published", "stated", "state", "told"),
    [
        ([], None, "unknown", "no published digest"),
        ([listed("x.bin", MINE)], None, "published", "the list has its SHA-512"),
        ([listed("x.bin", MINE, "1" * 32)], None, "published", "the list has its SHA-512"),
        ([listed("x.bin", MINE, "2" * 32)], None, "mismatch", "the list has aaaa"),
        ([listed("y.bin", MINE)], None, "published", "the list has its SHA-512, as y.bin"),
        ([listed("x.bin", OTHER)], None, "mismatch", "the list has bbbb"),
        ([listed("x.bin", OTHER), listed("x.bin", MINE)], None, "published", "the list has its SHA-512"),
        ([listed("x.bin", OTHER), listed("y.bin", MINE)], None, "mismatch", "the list has bbbb"),
        ([], MINE, "published", "the one that ann pasted"),
        ([], OTHER, "mismatch", "ann pasted bbbb"),
        ([listed("x.bin", MINE)], OTHER, "mismatch", "ann pasted bbbb"),
        ([listed("x.bin", OTHER)], MINE, "mismatch", "the list has bbbb"),
    ],
)
def test_all_that_is_known_must_agree(published, stated, state, told):
    """One digest that differs makes a mismatch, whatever another one says."""
    found = judged("x.bin", DIGESTS, published, None if stated is None else Stated(sha512=stated, by="ann"))
    assert (found.state, told in found.reason) == (state, True), found


@pytest.mark.parametrize(
    ("name", "inside", "why"),
    [
        ("c2960x-universalk9-mz.152-7.E8.bin", "C2960X-UNIVERSALK9-M", False),
        ("c2960x-universalk9-mz.152-7.E8.bin", "C2900-UNIVERSALK9-M", True),
        ("renamed.bin", "C2900-UNIVERSALK9-M", False),
        ("c2960x-universalk9-mz.152-7.E8.bin", None, False),
    ],
)
def test_a_name_and_the_name_inside_are_of_one_family(name, inside, why):
    """Where the table of families knows both."""
    assert bool(why_not_what_it_says(name, inside)) is why
