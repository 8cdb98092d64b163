"""Orders and words in their envelopes: the same behind the wire, and nothing that was forged, altered or cut."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.values import replace
from flashferry.sites import wire
from flashferry.sites.keys import PrivateKey
from flashferry.sites.wire import Order, OrderJob, UnknownKey, WireError, Word, WordKind

KEY = PrivateKey.make()
NOW = datetime(2026, 11, 26, 12, 0, 0, tzinfo=UTC)
ORDER = Order(
    id="o1",
    job=OrderJob.STAGE,
    run="part-1",
    site="ams",
    agent_key="0123456789abcdef",
    plan="a" * 64,
    devices=("r1", "r2"),
    valid_from=wire.moment_text(NOW),
    valid_until=wire.moment_text(NOW + timedelta(hours=8)),
    release="0.1.0",
)
WORD = Word(
    agent="agent-1",
    site="ams",
    run="part-1",
    offset=1,
    kind=WordKind.EVENT,
    at=wire.moment_text(NOW),
    release="0.1.0",
    data={"events": [{"host": "r1", "at_s": 1.25}]},
)


def _enveloped(body: str, schema: str = wire.ORDER_SCHEMA, key: PrivateKey = KEY, **changed: Any) -> str:
    """Return a body as it would come from who has the key, whatever the body is."""
    signature = base64.b64encode(key.sign(f"{schema}\n{body}".encode())).decode()
    envelope = {"schema": wire.ENVELOPE_SCHEMA, "key": key.public.key_id, "body": body, "signature": signature}
    return wire.canonical(envelope | changed)


def _body(**changed: Any) -> str:
    content = json.loads(json.loads(wire.sealed_order(ORDER, KEY))["body"])
    return wire.canonical({key: value for key, value in (content | changed).items() if value != "MISSING"})


def test_an_order_is_the_same_behind_the_wire() -> None:
    """What was ordered is what is read."""
    assert wire.opened_order(wire.sealed_order(ORDER, KEY), [PrivateKey.make().public, KEY.public]) == ORDER


def test_a_word_is_the_same_behind_the_wire() -> None:
    """Its data, too."""
    assert wire.opened_word(wire.sealed_word(WORD, KEY), [KEY.public]) == WORD


def test_an_order_is_no_word_and_a_word_no_order() -> None:
    """The signature is over what it is for, so one never passes for the other, even under the same key."""
    with pytest.raises(UnknownKey):
        wire.opened_word(wire.sealed_order(ORDER, KEY), [KEY.public])
    with pytest.raises(UnknownKey):
        wire.opened_order(wire.sealed_word(WORD, KEY), [KEY.public])


def test_an_order_of_another_key_is_not_even_read() -> None:
    """Nothing of its body is parsed: this one has none."""
    with pytest.raises(UnknownKey, match="known here"):
        wire.opened_order(_enveloped("no json", key=PrivateKey.make()), [KEY.public])


def test_a_known_keys_name_over_another_keys_signature_is_refused() -> None:
    """The name in the envelope proves nothing."""
    forged = _enveloped(_body(), key=PrivateKey.make(), key_name="x").replace('"key_name": "x", ', "")
    content = json.loads(forged)
    content.pop("key_name", None)
    content["key"] = KEY.public.key_id
    with pytest.raises(UnknownKey, match="altered, or signed by another key"):
        wire.opened_order(wire.canonical(content), [KEY.public])


@given(at=st.integers(min_value=0, max_value=10_000), letter=st.characters(min_codepoint=32, max_codepoint=126))
def test_an_envelope_with_any_letter_changed_is_refused_or_says_the_same(at: int, letter: str) -> None:
    """Whatever is changed on the way, another order never comes out."""
    sealed = wire.sealed_order(ORDER, KEY)
    at %= len(sealed)
    altered = sealed[:at] + letter + sealed[at + 1 :]
    try:
        found = wire.opened_order(altered, [KEY.public])
    except WireError:
        return
    assert found == ORDER


@given(length=st.integers(min_value=0, max_value=2000))
def test_an_envelope_that_was_cut_is_refused(length: int) -> None:
    """At whatever place."""
    sealed = wire.sealed_order(ORDER, KEY)
    if length < len(sealed):
        with pytest.raises(WireError):
            wire.opened_order(sealed[:length], [KEY.public])


@given(
    content=st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5)
    | st.text()
)
def test_what_is_no_envelope_is_refused(content: Any) -> None:
    """Any text and any JSON; never another error."""
    for text in (json.dumps(content), str(content)):
        with pytest.raises(WireError):
            wire.opened_order(text, [KEY.public])


@given(
    body=st.text()
    | st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=4).map(wire.canonical)
)
def test_a_signed_body_that_is_no_order_is_refused(body: str) -> None:
    """The centre's key proves who says something, not that it is something."""
    with pytest.raises(WireError):
        wire.opened_order(_enveloped(body.encode("utf-8", "replace").decode()), [KEY.public])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"job": "reboot"}, "job"),
        ({"command": "reload"}, "command: unknown key"),
        ({"id": ""}, "id: expected one word"),
        ({"id": "../../etc"}, "id: expected one word"),
        ({"id": "a" * 129}, "id: expected one word"),
        ({"site": "ams rtm"}, "site: expected one word"),
        ({"run": ""}, "run: expected one word"),
        ({"run": "-x"}, "run: expected one word"),
        ({"plan": "A" * 64}, "plan: expected a SHA-256"),
        ({"plan": ""}, "plan: expected a SHA-256"),
        ({"agent_key": "MISSING"}, "agent_key: expected this key"),
        ({"agent_key": "AB"}, "agent_key: expected 16 hexadecimal digits"),
        ({"plan": "MISSING"}, "plan: expected this key"),
        ({"devices": []}, "devices: expected at least one"),
        ({"devices": ["r1", "r1"]}, "devices: expected each name once"),
        ({"devices": ["r1\n"]}, "devices: expected names"),
        ({"devices": [""]}, "devices: expected names"),
        ({"devices": [1]}, "devices"),
        ({"devices": "r1"}, "devices"),
        ({"devices": "MISSING"}, "devices: expected this key"),
        ({"wave": True}, "wave"),
        ({"wave": -1}, "wave: expected a whole number from 0"),
        ({"wave": 2**53}, "wave: expected a whole number"),
        ({"offset": 0}, "offset: expected a whole number from 1"),
        ({"offset": 1.5}, "offset"),
        ({"job": "approve"}, "wave: expected a whole number from 0, found 'none'"),
        ({"job": "heard"}, "offset: expected a whole number from 1, found 'none'"),
        ({"valid_from": "today"}, "valid_from: expected a time"),
        ({"valid_from": "2026-11-26T12:00:00+01:00"}, "valid_from: expected a time"),
        ({"valid_until": "2026-13-26T12:00:00Z"}, "valid_until: expected a time"),
        ({"valid_until": wire.moment_text(NOW)}, "valid_until: expected a time after"),
        ({"release": "yesterday's"}, "release: expected a release"),
        ({"schema": "flashferry.order/2"}, "expected the schema flashferry.order/1"),
        ({"schema": "MISSING"}, "expected the schema flashferry.order/1"),
    ],
)
def test_a_signed_order_with_a_wrong_field_is_refused_in_a_sentence(changed: dict[str, Any], told: str) -> None:
    """Every field is checked, whoever signed it."""
    with pytest.raises(WireError) as caught:
        wire.opened_order(_enveloped(_body(**changed)), [KEY.public])
    assert told in caught.value.message


def test_a_body_in_another_form_or_with_a_key_twice_is_refused() -> None:
    """There is one text for each content: two readers never see two contents in one."""
    body = _body()
    for odd in (f" {body}", body.replace(":", ": ", 1), body[:-1] + ',"site":"rtm"}', body.replace("ams", "\\u0061ms")):
        with pytest.raises(WireError, match="one form"):
            wire.opened_order(_enveloped(odd), [KEY.public])


def test_an_envelope_that_names_two_keys_is_refused() -> None:
    """Whoever looks at its text again must not find another signer than the one whose signature was proven."""
    envelope = wire.sealed_order(ORDER, KEY)
    other = PrivateKey.make().public
    with pytest.raises(WireError, match="one form"):
        wire.opened_order('{"key":"' + other.key_id + '",' + envelope[1:], [KEY.public, other])


def test_what_is_too_long_is_neither_sent_nor_read() -> None:
    """A mebibyte is the end of it."""
    with pytest.raises(WireError, match="at most 1,048,576 bytes"):
        wire.sealed_word(replace(WORD, data={"text": "x" * (1 << 20)}), KEY)
    with pytest.raises(WireError, match="at most 1,048,576 bytes"):
        wire.opened_word("x" * ((1 << 20) + 1), [KEY.public])


def test_an_order_for_as_many_devices_as_may_be_fits() -> None:
    """The limits go together."""
    names = tuple(f"{number:05d}-{'n' * 34}" for number in range(wire.MOST_DEVICES))
    order = replace(ORDER, devices=names)
    assert wire.opened_order(wire.sealed_order(order, KEY), [KEY.public]).devices == names


def test_a_words_data_of_the_largest_size_fits() -> None:
    """However many quotes are in it, which the envelope escapes."""
    data = {"a": ['""'] * 1}
    while len(wire.canonical(data)) < wire.MOST_DATA_BYTES // 2:
        data = {"a": data["a"] * 2}
    assert wire.opened_word(wire.sealed_word(replace(WORD, data=data), KEY), [KEY.public]).data == data


def test_a_beat_has_neither_run_nor_offset() -> None:
    """It is about no run, and nobody sends it again."""
    beat = replace(WORD, kind=WordKind.BEAT, run="", offset=0)
    assert wire.opened_word(wire.sealed_word(beat, KEY), [KEY.public]) == beat
    with pytest.raises(WireError, match="run"):
        replace(beat, run="part-1")
    with pytest.raises(WireError, match="offset"):
        replace(WORD, offset=0)


@given(
    data=st.dictionaries(
        st.text(max_size=10),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**53), 2**53)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=5,
    )
)
def test_any_data_is_the_same_behind_the_wire(data: dict[str, Any]) -> None:
    """Lone surrogates and odd numbers, too."""
    word = replace(WORD, data=data)
    assert wire.opened_word(wire.sealed_word(word, KEY), [KEY.public]) == word


def test_data_that_json_cannot_say_is_not_sent() -> None:
    """A number that is none would be read differently at the other end."""
    with pytest.raises(WireError, match="what JSON can say"):
        wire.sealed_word(replace(WORD, data={"rate": float("nan")}), KEY)
