"""Values that are stored are read as they were, and nothing else gets through."""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest

from flashferry.core.codec import CodecError, decode, decode_exactly, encode, stored_json, to_json
from flashferry.core.redaction import forget_secrets, keep_secret


class _Kind(StrEnum):
    ONE = "one"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Simple:
    number: int
    ratio: float = 0.0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    kind: _Kind
    path: Path | None
    simple: _Simple | None = None
    pairs: tuple[tuple[str, int], ...] = ()
    word: str = field(default="", repr=False)


_WHOLE = _Whole(
    kind=_Kind.ONE, path=Path("/a"), simple=_Simple(number=1, names=("x",)), pairs=(("a", 1),), word="secret"
)


def test_values_survive_json() -> None:
    """Nested values, tuples, enums, paths and None come back equal."""
    for value in (_WHOLE, _Whole(kind=_Kind.ONE, path=None)):
        assert decode(_Whole, json.loads(json.dumps(encode(value)))) == value


def test_secrets_are_no_part_of_what_is_public() -> None:
    """A field that is not shown is not written either, and all others are, in their order."""
    shown = to_json(_WHOLE)
    assert list(shown) == ["kind", "path", "simple", "pairs"]
    assert json.loads(json.dumps(shown)) == {key: value for key, value in encode(_WHOLE).items() if key != "word"} | {
        "pairs": [["a", 1]],
        "simple": {"number": 1, "ratio": 0.0, "names": ["x"]},
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "missing required field `number`"),
        ({"number": "1"}, r"Expected `int`, got `str` - at `\$.number`"),
        ({"number": 1, "names": "abc"}, r"Expected `array`, got `str` - at `\$.names`"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_other_shapes_are_refused(data: object, message: str) -> None:
    """Missing and mistyped fields are errors that name them."""
    with pytest.raises(CodecError, match=f"^_Simple: .*{message}"):
        decode(_Simple, data)


def test_whole_numbers_may_stand_for_fractions() -> None:
    """JSON writes 1.0 as it likes; defaults fill in the rest."""
    assert decode(_Simple, {"number": 1, "ratio": 2}) == _Simple(number=1, ratio=2.0)


def test_what_a_later_version_added_is_left_out_of_account() -> None:
    """A field that is not known here takes nothing from those that are."""
    assert decode(_Simple, {"number": 1, "later": 2}) == _Simple(number=1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kind": "two", "path": None}, "kind: expected one, found 'two'"),
        ({"kind": "one", "path": 5}, "path: expected text, found '5'"),
        ({"kind": "one"}, "path: expected this key, found none"),
        ({"kind": "one", "path": None, "simple": {}}, "simple.number: expected this key, found none"),
        ({"kind": "one", "path": None, "simple": {"number": "1"}}, "simple.number: expected a whole number, found '1'"),
        (
            {"kind": "one", "path": None, "simple": {"number": 1, "names": ["x", None]}},
            "simple.names[1]: expected text, found 'None'",
        ),
        ({"kind": "one", "path": None, "simple": {"number": 1, "nmes": []}}, "simple.nmes: unknown key"),
        ({"kind": "one", "path": None, "simple": []}, "simple: expected a mapping, found '[]'"),
    ],
)
def test_what_people_edited_is_told_by_its_key(data: object, message: str) -> None:
    """The key, what is expected there and what was found; a key that is none of ours is a slip, not a later version."""
    with pytest.raises(CodecError) as caught:
        decode_exactly(_Whole, data)
    assert caught.value.message == message


def test_what_is_exact_is_read() -> None:
    """The same as by the lenient reader."""
    assert decode_exactly(_Whole, json.loads(json.dumps(encode(_WHOLE)))) == _WHOLE


def test_what_has_no_form_in_json_is_a_fault_of_ours() -> None:
    """It is told by its class; sets, which have no order, are lists."""
    assert to_json({"some": frozenset({1})}) == {"some": [1]}
    with pytest.raises(TypeError, match="no JSON form for object"):
        to_json(object())


def test_secrets_that_this_process_knows_are_not_kept() -> None:
    """Wherever they came into a value; what a run is gone on with by stays as it is."""
    keep_secret("sesame-open-now")
    try:
        kept = stored_json({"reason": "login sesame-open-now refused", "host": "sesame-open-now"})
    finally:
        forget_secrets()
    assert kept == {"reason": "login *** refused", "host": "sesame-open-now"}
