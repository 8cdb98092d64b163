"""Values that are stored are read as they were, and nothing else gets through."""

from dataclasses import dataclass

import pytest

from flashferry.core.codec import CodecError, decode


@dataclass(frozen=True, slots=True, kw_only=True)
class _Simple:
    number: int
    ratio: float = 0.0
    names: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, r"missing fields \['number'\]"),
        ({"number": 1, "other": 2}, r"unknown fields \['other'\]"),
        ({"number": "1"}, "expected int, found str"),
        ({"number": 1, "names": "abc"}, "expected a list, found str"),
        ([], "expected an object, found list"),
    ],
)
def test_other_shapes_are_refused(data: object, message: str) -> None:
    """Missing, unknown and mistyped fields are errors that name them."""
    with pytest.raises(CodecError, match=message):
        decode(_Simple, data)


def test_whole_numbers_may_stand_for_fractions() -> None:
    """JSON writes 1.0 as it likes; defaults fill in the rest."""
    assert decode(_Simple, {"number": 1, "ratio": 2}) == _Simple(number=1, ratio=2.0)
