"""The heads of our answers."""

from http import HTTPStatus

import h11
import pytest

from flashferry.httpserver.head import Part, image_head, refusal


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return an answer as a client of HTTP understands it."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    client.receive_data(answer)
    head = client.next_event()
    assert isinstance(head, h11.Response)
    body = b""
    while isinstance(event := client.next_event(), h11.Data):
        body += bytes(event.data)
    return head.status_code, {name.decode(): value.decode() for name, value in head.headers}, body


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 408, 416, 431, 500, 503])
def test_a_refusal_says_its_status_and_no_more(status: int) -> None:
    """A length, the end of the connection, a line for people; no word of us, our version or our files."""
    found, fields, body = parsed(refusal(HTTPStatus(status), size_bytes=5 if status == 416 else None))
    assert (found, body) == (status, f"{HTTPStatus(status).phrase}\n".encode())
    assert fields["connection"] == "close"
    assert "server" not in fields
    assert "location" not in fields


def test_an_image_s_head() -> None:
    """Its exact length; of a part, where it stands."""
    _, fields, _ = parsed(image_head('"tag"', 10, None) + b"0123456789")
    assert (fields["content-length"], fields["etag"], fields["accept-ranges"]) == ("10", '"tag"', "bytes")
    status, fields, _ = parsed(image_head('"tag"', 10, Part(first_byte=2, end_byte=5)) + b"234")
    assert (status, fields["content-length"], fields["content-range"]) == (206, "3", "bytes 2-4/10")
