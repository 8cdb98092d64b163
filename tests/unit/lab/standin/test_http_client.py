"""What the device's HTTP client sends and understands, and the texts that it has, without any socket."""

from datetime import UTC, datetime

import pytest

from flashferry.lab.errors import LabError, Table, data_names
from flashferry.lab.standin.device_tcp import SynOptions, TcpSettings
from flashferry.lab.standin.ftp_client import Answer, HttpProtocolError, TransferRequest, read_head, request_head
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.standin.server_url import base_texts, parse_url, platform_texts
from tests.patience import PATIENCE_S

NOW = datetime(2026, 3, 1, 7, 5, 9, tzinfo=UTC)


def request(text: str, user: str = "", password: str = "") -> TransferRequest:
    url = parse_url(text)
    assert url is not None
    tcp = TcpSettings(window_bytes=4128, syn_options=SynOptions(), synwait_s=30)
    return TransferRequest(
        url=url, user=user, password=password, source_address="198.18.1.11", tcp=tcp, reply_timeout_s=PATIENCE_S
    )


def test_the_head_is_the_captured_one() -> None:
    """Names, order and ends of lines; the usual port is not named."""
    assert request_head(request("http://1.1.12.1/show-tech", "u", "p"), "GET", NOW) == (
        b"GET /show-tech HTTP/1.1\r\nUser-Agent: cisco-IOS\r\nHost: 1.1.12.1\r\nAuthorization: Basic dTpw\r\n"
        b"Date: Sun, 01 Mar 2026 07:05:09 GMT\r\nConnection: close\r\n\r\n"
    )


def test_a_port_and_a_length_are_named() -> None:
    """Where the URL has a port, and where a file follows; without a user there is no login."""
    lines = request_head(request("https://h:8443/a/b"), "PUT", NOW, length_bytes=7).decode().split("\r\n")
    assert lines[:3] == ["PUT /a/b HTTP/1.1", "User-Agent: cisco-IOS", "Host: h:8443"]
    assert lines[4:6] == ["Content-Length: 7", "Connection: close"]


@pytest.mark.parametrize(
    ("head", "answer", "failure"),
    [
        ("HTTP/1.1 200 OK\r\ncontent-length: 12", Answer(code=200, length_bytes=12, is_chunked=False), ""),
        ("HTTP/1.0 200 OK", Answer(code=200, length_bytes=None, is_chunked=False), ""),
        ("HTTP/1.1 200\r\nTransfer-Encoding: chunked", Answer(code=200, length_bytes=None, is_chunked=True), "chunked"),
        ("HTTP/1.1 401 No", Answer(code=401, length_bytes=None, is_chunked=False), "unauthorized"),
        ("HTTP/1.1 302 Found", Answer(code=302, length_bytes=None, is_chunked=False), "redirected"),
        ("HTTP/1.1 500 No", Answer(code=500, length_bytes=None, is_chunked=False), "server_error"),
        ("HTTP/1.1 100 Go on", Answer(code=100, length_bytes=None, is_chunked=False), "server_error"),
    ],
)
def test_answers_are_read(head: str, answer: Answer, failure: str) -> None:
    """Code, length and coding; what brings no file has the name of its text."""
    assert read_head(head.encode()) == answer
    assert answer.failure == failure


@pytest.mark.parametrize("head", ["220 ready", "HTTP/2 200", "HTTP/1.1 OK", ""])
def test_what_is_no_answer_is_refused(head: str) -> None:
    """FTP's greeting, another version, a code that is none, nothing."""
    with pytest.raises(HttpProtocolError):
        read_head(head.encode())


@pytest.mark.parametrize("platform", data_names("flashferry.lab.standin.platforms"))
def test_every_platform_has_every_text(platform: str) -> None:
    """And for HTTP and HTTPS alone: the other clients have no such data yet."""
    texts = load_platform(platform).texts_of("https")
    assert set(texts) == set(base_texts("http"))
    assert load_platform(platform).texts_of("ftp") == {}


def test_what_was_seen_is_not_a_guess() -> None:
    """An error in public logs has its source; most of the others say what nobody knows."""
    texts = base_texts("http")
    assert texts["unreachable"].source
    assert not texts["unreachable"].unknown
    assert texts["chunked"].unknown


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"refused": {"verb": "opening", "reason": "No"}}, "expected either source or unknown, found neither"),
        (
            {"refused": {"verb": "opening", "reason": "No", "source": "a", "unknown": "b"}},
            "expected either source or unknown, found both",
        ),
        ({"refusd": {}}, "unknown key 'refusd'"),
        ({"refused": {"verb": "opening", "unknown": "b"}}, "the key 'reason' is missing"),
    ],
)
def test_a_text_says_where_it_comes_from(values: dict[str, object], complaint: str) -> None:
    """Seen or guessed, never both and never neither; a misspelt name is found."""
    with pytest.raises(LabError, match=complaint):
        platform_texts("http", Table(where="p.toml: http_texts", values=values))


def test_a_platform_has_words_of_its_own() -> None:
    """What its data file says goes before the client's own texts; the rest stays."""
    own = {"not_found": {"verb": "opening", "reason": "Nope", "source": "a capture"}}
    texts = platform_texts("http", Table(where="p.toml: http_texts", values=own))
    assert (texts["not_found"].reason, texts["refused"]) == ("Nope", base_texts("http")["refused"])
