"""Define the messages of centre and agents, orders and words, and their signed envelope. Pure.

An order contains a job of `OrderJob`, a plan's digest and device names, nothing else: access to the broker cannot make
an agent do what was not approved. A word reports a result, with a run and an offset by which a repeat is recognised.

Both are canonical JSON (sorted keys, no spaces, ASCII: `canonical`), signed by Ed25519 over the schema and that text. A
message is read only if its key is known, its signature valid, and its keys are exactly those of its schema.
docs/sites.md describes both.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from msgspec import Struct, field

from flashferry.core.codec import CodecError, decode_exactly, encode
from flashferry.core.errors import FlashferryError, Kind
from flashferry.core.values import field_names
from flashferry.sites.keys import PrivateKey, PublicKey

ENVELOPE_SCHEMA = "flashferry.signed/1"
ORDER_SCHEMA = "flashferry.order/1"
WORD_SCHEMA = "flashferry.word/1"
MOST_ENVELOPE_BYTES = 1 << 20
"""Longer messages are not parsed."""
MOST_DATA_BYTES = 400_000
"""Size of a word's data as `canonical` text; with escaped quotes it still fits into an envelope."""
MOST_DEVICES = 20_000
"""Devices of an order: 20,000 names of 40 letters fit into an envelope."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
"""ID of an order, run, agent or site: one word, usable in file names and command lines."""
_KEY_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_RELEASE = re.compile(r"\d{1,5}\.\d{1,5}\.\d{1,5}[A-Za-z0-9.+-]{0,40}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", re.ASCII)
_MOST_NAME = 255
_MOST_NUMBER = 2**53 - 1
"""Largest integer that every JSON parser preserves (RFC 8259, 6)."""

T = TypeVar("T")


class OrderJob(StrEnum):
    """What an agent can be asked to do."""

    STAGE = "stage"
    SYNC = "sync"
    CHECK = "look"
    RECOVER = "recover"
    PAUSE = "pause"
    CONTINUE = "continue"
    STOP = "stop"
    APPROVE = "approve"
    ACKNOWLEDGE = "heard"


CONTROL_JOBS = frozenset({OrderJob.PAUSE, OrderJob.CONTINUE, OrderJob.STOP, OrderJob.APPROVE, OrderJob.ACKNOWLEDGE})
"""Jobs that use a site's control queue, so that none waits for work."""
_WITH_A_PLAN = frozenset({OrderJob.STAGE, OrderJob.SYNC})


class WordKind(StrEnum):
    """What a word reports.

    ACCEPTED: an order is stored. REFUSED: it is not carried out; no device was touched. EVENT: lines of a run's events.
    RECORD: the result of a device. ENDED: the result of an order. BEAT: the agent is alive. DEPOT: the depot's content,
    after a check or a sync.
    """

    ACCEPTED = "accepted"
    REFUSED = "refused"
    EVENT = "event"
    RECORD = "record"
    ENDED = "ended"
    BEAT = "beat"
    DEPOT = "depot"


class WireError(FlashferryError):
    """Report a message that is malformed, not signed by a known key, or not what it claims to be."""

    kind: ClassVar[Kind] = Kind.WIRE_ERROR
    advice: ClassVar[str | None] = "Check that both ends are of one release and have each other's public key"


class Order(Struct, frozen=True, kw_only=True):
    """A job for an agent.

    Attributes:
        id: The order's unique ID, by which a repeat is recognised.
        run: The centre's name of the site's part; the same in all its orders and words. Empty with `look`, `sync` and
            `recover` without a part.
        agent_key: ID of the agent's key; an agent with another key does nothing.
        plan: Digest of the plan, 64 digits; empty if not needed.
        devices: Names of devices, each once; for `recover` and `look` too, if not all.
        wave: The last wave to approve, from 0; None: the order approves none.
        offset: With `ACKNOWLEDGE`: all words up to this one are stored, from 1; None: the order acknowledges none.
        valid_from: UTC, as `moment_text` writes it.
        valid_until: Until when it can start.
        release: The centre's release.
    """

    id: str
    job: OrderJob
    run: str
    site: str
    agent_key: str = ""
    plan: str = ""
    devices: tuple[str, ...] = ()
    wave: int | None = None
    offset: int | None = None
    valid_from: str
    valid_until: str
    release: str

    def __post_init__(self) -> None:
        _check_word("id", self.id)
        _check_word("site", self.site)
        if self.run or self.job is OrderJob.STAGE or self.job in CONTROL_JOBS:
            _check_word("run", self.run)
        if self.agent_key and not _KEY_ID.fullmatch(self.agent_key):
            raise _wrong("agent_key", "16 hexadecimal digits", self.agent_key)
        if (self.plan or self.job in _WITH_A_PLAN) and not _DIGEST.fullmatch(self.plan):
            raise _wrong("plan", "a SHA-256 in 64 hexadecimal digits", self.plan)
        _check_devices(self.devices, is_needed=self.job is OrderJob.STAGE)
        _check_number("wave", self.wave, is_needed=self.job is OrderJob.APPROVE, low=0)
        _check_number("offset", self.offset, is_needed=self.job is OrderJob.ACKNOWLEDGE, low=1)
        if moment_of(self.valid_until, "valid_until") <= moment_of(self.valid_from, "valid_from"):
            raise _wrong("valid_until", f"a time after {self.valid_from}", self.valid_until)
        _check_release(self.release)


class Word(Struct, frozen=True, kw_only=True):
    """A report of an agent.

    Attributes:
        agent: The agent's own name, made once for its state folder.
        run: The run of its order; empty with a `beat`.
        offset: Number among the agent's words about the run, from 1 without gaps; 0 with a `beat`.
        at: UTC, by the agent's clock.
        release: The agent's release.
        data: Details of the kind (docs/sites.md).
    """

    agent: str
    site: str
    run: str
    offset: int
    kind: WordKind
    at: str
    release: str
    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_word("agent", self.agent)
        _check_word("site", self.site)
        is_beat = self.kind is WordKind.BEAT
        if not is_beat:
            _check_word("run", self.run)
        elif self.run:
            raise _wrong("run", "none with a beat", self.run)
        _check_number("offset", self.offset, is_needed=True, low=0 if is_beat else 1)
        moment_of(self.at, "at")
        _check_release(self.release)


def sealed_order(order: Order, key: PrivateKey) -> str:
    """Return an order as a signed envelope.

    Raises:
        WireError: It is too long.
    """
    return sealed(order, ORDER_SCHEMA, key)


def sealed_word(word: Word, key: PrivateKey) -> str:
    """Return a word as a signed envelope.

    Raises:
        WireError: It is too long.
    """
    return sealed(word, WORD_SCHEMA, key)


def opened_order(envelope: str, keys: Iterable[PublicKey]) -> Order:
    """Return the order in an envelope.

    Raises:
        UnknownKey: None of them signed it; nothing of it was read.
        WireError: It was altered, or is malformed.
    """
    return opened(envelope, ORDER_SCHEMA, Order, keys)


def opened_word(envelope: str, keys: Iterable[PublicKey]) -> Word:
    """Return the word in an envelope; as `opened_order`."""
    return opened(envelope, WORD_SCHEMA, Word, keys)


class UnknownKey(WireError):
    """Report an envelope signed by an unknown key; it gets no answer."""

    kind: ClassVar[Kind] = Kind.UNKNOWN_KEY


def canonical(value: object) -> str:
    """Return JSON types as canonical text: sorted keys, no spaces, ASCII.

    Raises:
        WireError: A value cannot be expressed in JSON, such as NaN.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"message: expected what JSON can say, found something else: {error}") from None


def moment_text(at: datetime) -> str:
    """Return a time as text: UTC, to the millisecond, `2026-11-26T12:00:00.000Z`."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_of(text: str, key: str = "time") -> datetime:
    """Parse a time.

    Raises:
        WireError: It is invalid.
    """
    if _TIME.fullmatch(text):
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
    raise _wrong(key, "a time such as 2026-11-26T12:00:00.000Z", text)


def is_word(text: str) -> bool:
    """Return whether a text can be the ID of an order, run, agent or site."""
    return _ID.fullmatch(text) is not None


def sealed(message: object, schema: str, key: PrivateKey) -> str:
    """Return a message in its envelope, signed for its schema.

    Raises:
        WireError: It is too long.
    """
    body = canonical({"schema": schema} | encode(message))
    signature = base64.b64encode(key.sign(_signed(schema, body))).decode()
    text = canonical({"schema": ENVELOPE_SCHEMA, "key": key.public.key_id, "body": body, "signature": signature})
    if len(text) > MOST_ENVELOPE_BYTES:
        raise WireError(
            f"message: expected at most {MOST_ENVELOPE_BYTES:,} bytes in its envelope, found {len(text):,}",
            hint="Send it in parts: fewer devices in an order, less data in a word",
        )
    return text


def _signed(schema: str, body: str) -> bytes:
    """Return the signed bytes: they include the schema, so an order can never pass for a word."""
    return f"{schema}\n".encode() + body.encode("utf-8", "surrogatepass")


def opened(envelope: str, schema: str, kind: type[T], keys: Iterable[PublicKey]) -> T:
    """Return the message of a schema in an envelope; errors as of `opened_order`."""
    body, key_id, signature = _unwrapped(envelope)
    key = next((one for one in keys if one.key_id == key_id), None)
    if key is None:
        raise UnknownKey(f"envelope: expected one signed by a key that is known here, found the key {key_id!r}")
    if not key.verifies(signature, _signed(schema, body)):
        raise UnknownKey(
            f"envelope: its signature is not that of key {key_id} over this {schema}: it was altered, or signed by "
            "another key"
        )
    content = _parsed(body, "body")
    if canonical(content) != body:
        raise WireError("body: expected JSON in its one form (sorted keys, no blanks, ASCII), found another")
    if content.pop("schema", None) != schema:
        raise WireError(f"body: expected the schema {schema}, found another")
    return _decoded(kind, content)


def _unwrapped(envelope: str) -> tuple[str, str, bytes]:
    """Return body text, key ID and signature of an envelope."""
    if len(envelope) > MOST_ENVELOPE_BYTES:
        raise WireError(f"envelope: expected text of at most {MOST_ENVELOPE_BYTES:,} bytes, found more")
    content = _parsed(envelope, "envelope")
    if set(content) != {"schema", "key", "body", "signature"} or not all(
        isinstance(one, str) for one in content.values()
    ):
        raise WireError("envelope: expected schema, key, body and signature as text, found something else")
    if canonical(content) != envelope:
        # With a key twice, a reader of the text would find another signer than was proven.
        raise WireError("envelope: expected JSON in its one form (sorted keys, no blanks, ASCII), found another")
    if content["schema"] != ENVELOPE_SCHEMA:
        raise WireError(f"envelope: expected the schema {ENVELOPE_SCHEMA}, found {content['schema'][:40]!r}")
    try:
        signature = base64.b64decode(content["signature"], validate=True)
    except (binascii.Error, ValueError):
        raise WireError("envelope: expected a signature in base64, found something else") from None
    return content["body"], content["key"][:40], signature


def _parsed(text: str, what: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError(f"{what}: expected a JSON object, found something else, or a part of one") from None
    if not isinstance(content, dict):
        raise WireError(f"{what}: expected a JSON object, found something else")
    return content


def _decoded(kind: type[T], content: Mapping[str, Any]) -> T:
    missing = [
        name
        for name in ("agent_key", "devices", "wave", "offset", "plan", "data")
        if name in set(field_names(kind)) - set(content)
    ]
    if missing:
        raise WireError(f"body: {missing[0]}: expected this key, found none")
    try:
        return decode_exactly(kind, content)
    except CodecError as error:
        raise WireError(f"body: {error.message}") from None


def _check_word(key: str, value: str) -> None:
    if not is_word(value):
        raise _wrong(key, "one word of letters, digits, '.', '_', '-', at most 128 long", value)


def _check_devices(names: tuple[str, ...], *, is_needed: bool) -> None:
    if len(names) > MOST_DEVICES:
        raise _wrong("devices", f"at most {MOST_DEVICES:,} names", f"{len(names):,}")
    if is_needed and not names:
        raise _wrong("devices", "at least one name", "none")
    for name in names:
        if not 0 < len(name) <= _MOST_NAME or not name.isprintable():
            raise _wrong("devices", f"names of 1 to {_MOST_NAME} printable characters", name)
    if len(set(names)) != len(names):
        raise _wrong("devices", "each name once", "one twice")


def _check_number(key: str, value: int | None, *, is_needed: bool, low: int) -> None:
    if value is None and is_needed:
        raise _wrong(key, f"a whole number from {low}", "none")
    if value is not None and not low <= value <= _MOST_NUMBER:
        raise _wrong(key, f"a whole number from {low}", str(value))


def _check_release(value: str) -> None:
    if not _RELEASE.fullmatch(value):
        raise _wrong("release", "a release such as 1.2.3", value)


def _wrong(key: str, expected: str, found: str) -> WireError:
    return WireError(f"{key}: expected {expected}, found {found[:60]!r}")
