"""The name that an image carries in itself."""

from __future__ import annotations

import os

import pytest

from flashferry.images.manifest import NameFinder

IOS = b"CW_BEGIN$$\0CW_IMAGE$C870-ADVIPSERVICESK9-M$\0CW_FAMILY$C870$\0CW_VERSION$12.4(6)T5$\0CW_END$$"
PACKAGE = (
    b"\0\0\0\x09\0\0\0\x0bCW_BEGIN=$$\0\0\0\x09\0\0\0\x11CW_FAMILY=$cat9k$\0\0\0\x09\0\0\0\x2d"
    b"CW_IMAGE=$cat9k_iosxe.16.05.01a.prd3.SPA.bin$\0\0\0\x09\0\0\0\x14CW_VERSION=$16.5.1a$CW_END=$$"
)
MEBIBYTE = 1 << 20


def name_inside(content: bytes) -> str | None:
    """Return what is found in a file that comes in pieces of a mebibyte."""
    finder = NameFinder()
    for at in range(0, len(content), MEBIBYTE):
        finder.feed(content[at : at + MEBIBYTE])
    return finder.end()


@pytest.mark.parametrize(
    ("block", "name"),
    [(IOS, "C870-ADVIPSERVICESK9-M"), (PACKAGE, "cat9k_iosxe.16.05.01a.prd3.SPA.bin")],
    ids=["ios", "package"],
)
@pytest.mark.parametrize("before", [0, 500, MEBIBYTE - 4, MEBIBYTE - 40, MEBIBYTE, 2 * MEBIBYTE + 7])
def test_the_name_is_found_wherever_the_block_stands(block: bytes, name: str, before: int) -> None:
    """At the beginning, far behind it, and over the border of two pieces that are read."""
    assert name_inside(os.urandom(before) + block + os.urandom(5000)) == name


@pytest.mark.parametrize(
    "content",
    [
        b"",
        os.urandom(3 * MEBIBYTE),
        b"CW_BEGIN",
        b"CW_BEGIN$$" + bytes(5000) + b"CW_IMAGE$C870-K9-M$",
        b"CW_IMAGE$C870-K9-M$",
    ],
    ids=["empty", "random", "cut off", "too far behind", "no block"],
)
def test_a_file_without_the_block_tells_nothing(content: bytes) -> None:
    """Nothing is made up from bytes that only look a little like it."""
    assert name_inside(content) is None


def test_a_mention_of_the_block_before_it_does_not_hide_it() -> None:
    """Code that looks for the block names it too."""
    assert name_inside(b"look for CW_BEGIN and CW_END" + bytes(9000) + IOS) == "C870-ADVIPSERVICESK9-M"


@pytest.mark.parametrize("size", [1, 3, 7, 8, 9, 50])
def test_a_block_at_the_very_end_is_read_too(size: int) -> None:
    """A file may end with its block, and come in pieces of any size."""
    finder, content = NameFinder(), b"code " + IOS
    for at in range(0, len(content), size):
        finder.feed(content[at : at + size])
    assert finder.end() == "C870-ADVIPSERVICESK9-M"
