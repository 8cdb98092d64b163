"""An HTTP client that costs next to nothing: as `client.py`, with the same orders and results.

In clear text the kernel drops the bytes of the image instead of copying them (`MSG_TRUNC`, tcp(7)); by TLS every byte
has to be read and decrypted, so there the client takes as much of a processor as the server does.
"""

import base64
import json
import resource
import socket
import ssl
import sys
import time
from typing import Any

_BUFFER = bytearray(1 << 20)
_SMALL_RECEIVE_BUFFER = 4096
_TIMEOUT_S = 120.0


def connected(order: dict[str, Any], receive_buffer_bytes: int | None = None) -> socket.socket:
    """Return a connection, within TLS if that is asked for; whose certificate it is does not matter here."""
    connection = socket.socket()
    if receive_buffer_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    connection.settimeout(_TIMEOUT_S)
    connection.connect((order["host"], order["port"]))
    if order["scheme"] == "http":
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connection)


def asked(connection: socket.socket, path: str, credential: list[str]) -> tuple[int, int]:
    """Ask for a file; return its size and how many of its bytes came with the head."""
    login = base64.b64encode(":".join(credential).encode()).decode()
    request = f"GET /{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {login}\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(2048)
        if not piece:
            raise RuntimeError("expected an answer, found the connection closed")
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    if " 200 " not in status:
        raise RuntimeError(f"expected 200, found {status!r}")
    fields = dict(line.lower().split(": ", 1) for line in lines)
    return int(fields["content-length"]), len(body)


def say(**message: Any) -> None:
    """Report to the driver."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def fetch(order: dict[str, Any]) -> None:
    """Fetch one file; the clock runs from the request to the last byte."""
    connection = connected(order)
    flags = 0 if order["copying"] or order["scheme"] == "https" else socket.MSG_TRUNC
    say(ready=True)
    sys.stdin.readline()
    started_s, cpu_before_s = time.monotonic(), time.process_time()
    size, total = asked(connection, order["path"], order["credentials"][0])
    while total < size and (count := connection.recv_into(_BUFFER, min(len(_BUFFER), size - total), flags)):
        total += count
    ended_s, cpu_s = time.monotonic(), time.process_time() - cpu_before_s
    connection.close()
    say(bytes=total, started_s=started_s, last_byte_s=ended_s, completed_s=ended_s, cpu_s=cpu_s)


def hold(order: dict[str, Any]) -> None:
    """Open what each further line orders, in the middle of a transfer or without a request, and keep it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kept: list[socket.socket] = []
    say(ready=True)
    for text in sys.stdin:
        for credential in json.loads(text)["credentials"]:
            connection = connected(order, _SMALL_RECEIVE_BUFFER)
            if order["transfer"]:
                asked(connection, order["path"], credential)
            kept.append(connection)
        say(open=len(kept), local_port=kept[-1].getsockname()[1], server_port=order["port"])


def main() -> None:
    """Do as the first line orders; tell what went wrong as a result, not as a traceback."""
    order = json.loads(sys.stdin.readline())
    try:
        {"fetch": fetch, "hold": hold}[order["op"]](order)
    except (OSError, RuntimeError, ValueError) as error:
        say(error=f"{type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
