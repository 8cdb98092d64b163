"""The head of a request, whole or in pieces."""

import base64
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.httpserver.head import MOST_HEAD_BYTES, BadHead, HeadReader, Request, plain_name

# As an IOS sent it (packets of a public capture), with other credentials.
FROM_IOS = (
    b"GET /image.bin HTTP/1.1\r\nUser-Agent: cisco-IOS\r\nHost: 1.1.12.1\r\nAuthorization: Basic "
    + base64.b64encode(b"user:pass:word")
    + b"\r\nDate: Mon, 01 Mar 1993 00:03:57 GMT\r\nConnection: close\r\n\r\n"
)


def read(*pieces: bytes) -> Request | BadHead | None:
    """Feed pieces as a session does, and return what came of them."""
    reader = HeadReader()
    for piece in pieces:
        while piece:
            now, piece = piece[: reader.wants_bytes], piece[reader.wants_bytes :]
            found = reader.take(now)
            if found is not None:
                return found
    return None


def test_what_ios_sends_is_understood() -> None:
    """Credentials in the first request, a password with a colon in it, what it calls itself."""
    found = read(FROM_IOS)
    assert isinstance(found, Request)
    assert found.login is not None
    assert (found.login.username, found.login.password) == ("user", "pass:word")
    assert (found.method, found.target, found.user_agent, found.byte_range) == ("GET", "/image.bin", "cisco-IOS", "")


@given(st.lists(st.integers(0, len(FROM_IOS)), max_size=8))
def test_pieces_are_the_same_request(places: list[int]) -> None:
    """Wherever it is cut."""
    ends = sorted({0, *places, len(FROM_IOS)})
    assert read(*(FROM_IOS[a:b] for a, b in pairwise(ends))) == read(FROM_IOS)


@given(st.binary(max_size=600))
def test_anything_is_answered_or_waited_for(data: bytes) -> None:
    """No bytes are an error of ours."""
    found = read(data)
    assert found is None or isinstance(found, Request | BadHead)


@pytest.mark.parametrize("length", [MOST_HEAD_BYTES - 1, MOST_HEAD_BYTES])
def test_a_head_within_bounds_is_read(length: int) -> None:
    """To the last byte that is allowed, in one piece or two."""
    start = b"GET / HTTP/1.1\r\nHost: x\r\nA: "
    head = start + b"b" * (length - len(start) - 4) + b"\r\n\r\n"
    assert len(head) == length
    assert isinstance(read(head), Request)
    assert isinstance(read(head[:-1], head[-1:]), Request)


@pytest.mark.parametrize("length", [MOST_HEAD_BYTES + 1, 100_000])
def test_a_head_out_of_bounds_is_refused(length: int) -> None:
    """Whether it comes in one piece, in two, or without an end."""
    start = b"GET / HTTP/1.1\r\nHost: x\r\nA: "
    head = start + b"b" * (length - len(start) - 4) + b"\r\n\r\n"
    for pieces in ((head,), (head[:-1], head[-1:]), (head[:5000], head[5000:])):
        found = read(*pieces)
        assert isinstance(found, BadHead)
        assert found.status == 431


def test_secrets_are_not_shown() -> None:
    """Neither in what a request looks like nor in its line for the log; a strange target may hold one too."""
    found = read(FROM_IOS)
    assert isinstance(found, Request)
    assert "pass" not in repr(found)
    assert found.line == "GET /image.bin"
    assert Request(method="GET", target="http://user:pass@x/y").line == "GET ***"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/a.bin", "a.bin"),
        ("/A-b_c+1.2.SPA.bin", "A-b_c+1.2.SPA.bin"),
        ("//a.bin", "a.bin"),
        *(
            (bad, "")
            for bad in ("/", "", "a.bin", "//", "/a/b", "//a/b", "/..", "/.", "/%41", "/a b", "/a?b", "/ä", "*")
        ),
    ],
)
def test_only_a_plain_name_is_one(target: str, name: str) -> None:
    """A slash and letters, digits and `._+-`."""
    assert plain_name(target) == name
