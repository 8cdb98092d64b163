"""HTTP as IOS's client speaks it, without sockets: the head it sends, and what it makes of an answer's head.

Facts
-----

- A packet capture of an IOS client (the Wireshark sample ``tcp-ecn-sample.pcap``) has
  ``GET /show-tech HTTP/1.1``, then User-Agent, Host, Authorization, Date and Connection, in this order: the login is
  sent unasked with the first request, one request goes over a connection, and there is no Range and no
  Accept-Encoding. XE 17 says ``User-Agent: cisco-IOS`` too, and uploads by PUT.
- What stands in Host where the URL names a port is not known; here the port, as RFC 9110 7.2 wants it.
- Where an upload's Content-Length stands is not known; here behind the Date.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from email.utils import format_datetime
from typing import TYPE_CHECKING

from flashferry.lab.standin.server_url import DEFAULT_PORTS

if TYPE_CHECKING:
    from datetime import datetime

    from flashferry.lab.standin.ftp_request import TransferRequest

END = b"\r\n\r\n"
"""Where a head ends."""

_WORDS = {401: "unauthorized", 403: "forbidden", 404: "not_found"}


class HttpProtocolError(Exception):
    """The server said something that is not HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The head of an answer: its code, the length it announces (None for none), and whether it is chunked."""

    code: int
    length_bytes: int | None
    is_chunked: bool

    @property
    def failure(self) -> str:
        """The name of the text for an answer that brings no file; empty for one that does."""
        if 200 <= self.code < 300:
            return "chunked" if self.is_chunked else ""
        return _WORDS.get(self.code, "redirected" if 300 <= self.code < 400 else "server_error")


def request_head(request: TransferRequest, method: str, now: datetime, *, length_bytes: int | None = None) -> bytes:
    """Return what the device sends: the head of a GET, or of a PUT with the length of what follows.

    Args:
        request: Which file, as whom; without a user no login is sent.
        method: ``GET`` or ``PUT``.
        now: What the device takes the time to be, in UTC.
        length_bytes: For an upload.
    """
    url = request.url
    port = f":{url.port}" if url.port != DEFAULT_PORTS[url.scheme] else ""
    lines = [f"{method} /{url.path} HTTP/1.1", "User-Agent: cisco-IOS", f"Host: {url.host}{port}"]
    if request.user:
        login = f"{request.user}:{request.password}".encode("latin-1", "replace")
        lines.append(f"Authorization: Basic {base64.b64encode(login).decode()}")
    lines.append(f"Date: {format_datetime(now, usegmt=True)}")
    if length_bytes is not None:
        lines.append(f"Content-Length: {length_bytes}")
    lines.append("Connection: close")
    return "\r\n".join(lines).encode("latin-1", "replace") + END


def read_head(head: bytes) -> Answer:
    """Read an answer's head, without the empty line that ends it. Raises HttpProtocolError: it is none."""
    status, *lines = head.decode("latin-1").split("\r\n")
    words = status.split()
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise HttpProtocolError
    named = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    length = named.get("content-length", "")
    return Answer(
        code=int(words[1]),
        length_bytes=int(length) if length.isdecimal() else None,
        is_chunked="chunked" in named.get("transfer-encoding", "").lower(),
    )
