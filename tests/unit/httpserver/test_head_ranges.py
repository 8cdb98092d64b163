"""Which part a request asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.httpserver.head import NoSuchPart, Part, part_of
from flashferry.images.manifest import entity_tag

TAG = entity_tag("ab" * 64)


def asked(byte_range: str, if_range: str = "", size_bytes: int = 1000) -> tuple[int, int] | None:
    found = part_of(byte_range, if_range, size_bytes=size_bytes, tag=TAG)
    return None if found is None else (found.first_byte, found.end_byte)


@pytest.mark.parametrize(
    ("byte_range", "wanted"),
    [
        ("bytes=0-", (0, 1000)),
        ("bytes=999-", (999, 1000)),
        ("bytes=0-0", (0, 1)),
        ("BYTES=10-19", (10, 20)),
        ("bytes=10-5000", (10, 1000)),
        ("bytes=-1", (999, 1000)),
        ("bytes=-5000", (0, 1000)),
        *((none, None) for none in ("", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=0-1,3-4", "bytes=a-b")),
        ("bytes=1-2\r\nX: y", None),
        ("bytes=0-" + "9" * 100, (0, 1000)),
        ("bytes=-" + "9" * 5000, (0, 1000)),
    ],
)
def test_the_part_asked_for(byte_range: str, wanted: tuple[int, int] | None) -> None:
    """What is not understood counts as no range."""
    assert asked(byte_range) == wanted


@pytest.mark.parametrize("byte_range", ["bytes=1000-", "bytes=1000-1001", "bytes=-0", f"bytes={'9' * 100}-"])
def test_a_part_that_is_not_there(byte_range: str) -> None:
    """Not a byte of the image is in it."""
    with pytest.raises(NoSuchPart):
        asked(byte_range)


def test_a_part_of_another_image_is_none() -> None:
    """The range counts where the tag is that of the image, and nowhere else."""
    assert asked("bytes=5-", TAG) == (5, 1000)
    assert [asked("bytes=5-", other) for other in ('"x"', f"W/{TAG}", "Sun, 06 Nov 1994 08:49:37 GMT")] == [None] * 3


@given(st.text(max_size=30), st.integers(1, 10_000))
def test_a_part_lies_within_the_image(byte_range: str, size_bytes: int) -> None:
    """Whatever is asked for."""
    try:
        found = part_of(f"bytes={byte_range}", "", size_bytes=size_bytes, tag=TAG)
    except NoSuchPart:
        return
    assert found is None or 0 <= found.first_byte < found.end_byte <= size_bytes


def test_its_size() -> None:
    """Its end is not of it."""
    assert Part(first_byte=3, end_byte=5).size_bytes == 2
