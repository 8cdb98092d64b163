"""SFTP's bytes: requests in, answers out."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.sshserver import scp
from flashferry.sshserver.scp import Kind, Request, Requests, Status


def _request(kind: int, number: int, rest: bytes = b"") -> bytes:
    return struct.pack(">IBI", 5 + len(rest), kind, number) + rest


def _text(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


_SAMPLES = [
    (_request(Kind.INIT, 3), Request(Kind.INIT, 3)),
    (_request(Kind.STAT, 7, _text(b"/a")), Request(Kind.STAT, 7, b"/a")),
    (_request(Kind.OPEN, 8, _text(b"a") + struct.pack(">II", 1, 0)), Request(Kind.OPEN, 8, b"a", 0, 1)),
    (_request(Kind.READ, 9, _text(b"h") + struct.pack(">QI", 1 << 33, 512)), Request(Kind.READ, 9, b"h", 1 << 33, 512)),
    (_request(Kind.CLOSE, 10, _text(b"")), Request(Kind.CLOSE, 10)),
    (_request(200, 11, _text(b"limits@openssh.com")), Request(200, 11)),
]


@given(st.lists(st.sampled_from(_SAMPLES), max_size=6), st.lists(st.integers(1, 9), max_size=200))
def test_requests_are_read_however_they_are_cut(samples: list[tuple[bytes, Request]], cuts: list[int]) -> None:
    """In their order, each once it is whole, and nothing is left behind them."""
    said, found, requests = b"".join(raw for raw, _ in samples), [], Requests()
    for cut in [*cuts, len(said)]:
        requests.feed(said[:cut])
        said = said[cut:]
        while (request := requests.next()) is not None:
            found.append(request)
    assert found == [request for _, request in samples]
    assert requests.waiting_bytes == 0


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (struct.pack(">I", 1 << 30), "found 1073741824"),
        (struct.pack(">I", 0), "found 0"),
        (_request(Kind.STAT, 1, b"\0\0"), "too short"),
        (_request(Kind.STAT, 1, struct.pack(">I", 9) + b"x"), "expected a text of 9 bytes, found 1"),
        (_request(Kind.READ, 1, _text(b"h") + b"\0"), "too short"),
        (_request(Kind.OPEN, 1, _text(b"h")), "too short"),
    ],
)
def test_what_is_no_request_is_refused(said: bytes, why: str) -> None:
    """With what was expected, or what is wrong with it."""
    requests = Requests()
    requests.feed(said)
    with pytest.raises(ValueError, match=why):
        requests.next()


@given(st.binary(max_size=300))
def test_nothing_but_a_value_error_comes_of_any_bytes(said: bytes) -> None:
    """So a session ends by the protocol's word, never by a fault of ours."""
    requests = Requests()
    requests.feed(said)
    with contextlib.suppress(ValueError):
        while requests.next() is not None:
            assert requests.waiting_bytes <= len(said)


@pytest.mark.parametrize(
    ("path", "real"),
    [(b".", b"/"), (b"", b"/"), (b"/a/./b//c", b"/a/b/c"), (b"../../x", b"/x"), (b"a/../..", b"/"), (b"/x/", b"/x")],
)
def test_paths_are_from_the_one_folder_on(path: bytes, real: bytes) -> None:
    """Without dots, and never above it."""
    assert scp.real_path(path) == real


@pytest.mark.parametrize(
    ("answer", "kind", "rest"),
    [
        (scp.status(5, Status.EOF, "end"), 101, struct.pack(">I", 1) + _text(b"end") + _text(b"")),
        (scp.handle(5, b"h"), 102, _text(b"h")),
        (scp.name(5, b"/"), 104, struct.pack(">I", 1) + _text(b"/") + _text(b"/") + struct.pack(">I", 0)),
        (scp.attributes(5, scp.image_attributes(1 << 33)), 105, struct.pack(">IQI", 5, 1 << 33, 0o100444)),
        (scp.data_header(5, 3) + b"abc", 103, _text(b"abc")),
    ],
)
def test_answers_carry_the_number_of_the_request(answer: bytes, kind: int, rest: bytes) -> None:
    """And their own length, kind and content."""
    assert answer == struct.pack(">IBI", 5 + len(rest), kind, 5) + rest
    assert scp.version() == struct.pack(">IBI", 5, 2, 3)
