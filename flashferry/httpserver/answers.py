"""The heads of our answers, as bytes: few statuses, an exact length, and the end of the connection behind each."""

from collections.abc import Mapping
from http import HTTPStatus

from flashferry.httpserver.head import CONTROL_HEADER
from flashferry.httpserver.ranges import Part

REALM = "flashferry"

_MORE: Mapping[HTTPStatus, Mapping[str, str]] = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": f'Basic realm="{REALM}"'},
    HTTPStatus.METHOD_NOT_ALLOWED: {"Allow": "GET, HEAD"},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "60"},
}


def refusal(status: HTTPStatus, *, with_text: bool = True, size_bytes: int | None = None) -> bytes:
    """Return a whole answer that says no more than its status.

    Args:
        status: 400 or above.
        with_text: Whether a line for people follows; not behind `HEAD`.
        size_bytes: With 416: the size of the image.
    """
    text = f"{status.phrase}\n".encode("ascii")
    fields = {"Content-Type": "text/plain", "Content-Length": str(len(text)), **_MORE.get(status, {})}
    if size_bytes is not None:
        fields["Content-Range"] = f"bytes */{size_bytes}"
    return _head(status, fields) + (text if with_text else b"")


def image_head(tag: str, size_bytes: int, part: Part | None, control: str = "") -> bytes:
    """Return the head of an answer whose body is an image, or a part of one.

    Args:
        tag: Stands for the image's content.
        size_bytes: Its size.
        part: The part; None for the whole.
        control: Congestion control that was asked for and is granted; empty: none was.
    """
    fields = {
        "Content-Type": "application/octet-stream",
        "Content-Length": str(size_bytes if part is None else part.size_bytes),
        "Accept-Ranges": "bytes",
        "ETag": tag,
    } | ({CONTROL_HEADER: control} if control else {})
    if part is None:
        return _head(HTTPStatus.OK, fields)
    fields["Content-Range"] = f"bytes {part.first_byte}-{part.end_byte - 1}/{size_bytes}"
    return _head(HTTPStatus.PARTIAL_CONTENT, fields)


def _head(status: HTTPStatus, fields: Mapping[str, str]) -> bytes:
    # Nothing between us may keep it or change it: it is one device's, for one time.
    whole = {**fields, "Cache-Control": "no-store, no-transform", "Connection": "close"}
    lines = (f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in whole.items()))
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
