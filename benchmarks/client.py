"""An FTP client that costs next to nothing: `python client.py`, orders on standard input, results on standard output.

It is the same for every server, runs in processes of its own, and is kept to the standard library so that starting
one takes milliseconds. Each order and each result is one JSON object on a line:

- `fetch`: log in, open the data connection, say `ready`, wait for `go`, fetch, tell the times and the byte count.
- `login`: log in and quit, once per credential.
- `hold`: open sessions and keep them, idle or in the middle of a transfer that is no longer read.

Facts: on a TCP socket `MSG_TRUNC` makes Linux drop the bytes instead of copying them (tcp(7)), so the client takes
less of the processor than any server. Times are CLOCK_MONOTONIC, which all processes of a host share.
"""

import contextlib
import json
import resource
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_BUFFER = bytearray(1 << 20)
_SMALL_RECEIVE_BUFFER = 4096
_TIMEOUT_S = 120.0


class Session:
    """One control connection, logged in if there is a credential."""

    def __init__(self, host: str, port: int, credential: list[str] | None, *, source: str = "") -> None:
        self.host = host
        self.socket = socket.create_connection((host, port), timeout=_TIMEOUT_S, source_address=(source, 0))
        self._lines = self.socket.makefile("rb")
        self.expect("220")
        if credential is not None:
            user, password = credential
            self.ask(f"USER {user}", "331")
            self.ask(f"PASS {password}", "230")

    def expect(self, code: str) -> str:
        """Read one reply, of however many lines; raise unless it begins with the code."""
        first = self._lines.readline().decode("latin-1").rstrip()
        last = first
        while first[3:4] == "-" and not (last.startswith(f"{first[:3]} ")):
            last = self._lines.readline().decode("latin-1").rstrip()
            if not last:
                break
        if not first.startswith(code):
            raise RuntimeError(f"expected {code}, found {first or 'the connection closed'!r}")
        return last

    def ask(self, command: str, code: str) -> str:
        """Send a command and read its reply."""
        self.socket.sendall(f"{command}\r\n".encode())
        return self.expect(code)

    def data_connection(self, receive_buffer_bytes: int | None = None) -> socket.socket:
        """Open a passive data connection."""
        reply = self.ask("EPSV", "229")
        port = int(reply.rpartition("(|||")[2].partition("|")[0])
        data = socket.socket()
        if receive_buffer_bytes is not None:
            data.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        data.settimeout(_TIMEOUT_S)
        data.connect((self.host, port))
        return data

    def close(self) -> None:
        """Say goodbye and close."""
        with contextlib.suppress(OSError, RuntimeError):
            self.ask("QUIT", "221")
        self.drop(socket.socket.close)

    def drop(self, close: Callable[[socket.socket], None]) -> None:
        """Close without goodbye, in a way of the caller's."""
        self._lines.close()
        close(self.socket)


def say(**message: Any) -> None:
    """Report to the driver."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def swallow(data: socket.socket, *, copying: bool) -> int:
    """Read a connection to its end, copying its bytes or not; return their number."""
    total, flags = 0, 0 if copying else socket.MSG_TRUNC
    while count := data.recv_into(_BUFFER, len(_BUFFER), flags):
        total += count
    return total


def fetch(order: dict[str, Any]) -> None:
    """Fetch one file and tell when it began, when the last byte came and when the server called it complete."""
    session = Session(order["host"], order["port"], order["credentials"][0])
    session.ask("TYPE I", "200")
    data = session.data_connection()
    say(ready=True)
    sys.stdin.readline()
    started_s, cpu_before_s = time.monotonic(), time.process_time()
    session.socket.sendall(f"RETR {order['path']}\r\n".encode())
    received_bytes = swallow(data, copying=order["copying"])
    last_byte_s, cpu_s = time.monotonic(), time.process_time() - cpu_before_s
    data.close()
    session.expect("1")
    session.expect("226")
    completed_s = time.monotonic()
    session.close()
    say(
        bytes=received_bytes,
        started_s=started_s,
        last_byte_s=last_byte_s,
        completed_s=completed_s,
        cpu_s=cpu_s,
    )


def login(order: dict[str, Any]) -> None:
    """Log in and out once per credential."""
    say(ready=True)
    sys.stdin.readline()
    started_s = time.monotonic()
    for credential in order["credentials"]:
        Session(order["host"], order["port"], credential).close()
    say(logins=len(order["credentials"]), started_s=started_s, ended_s=time.monotonic())


def hold(order: dict[str, Any]) -> None:
    """Open what each further line orders, and keep it."""
    Holder(order).run()


class Holder:
    """Sessions that stay, until standard input ends."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._kept: list[tuple[Session, socket.socket | None]] = []
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def run(self) -> None:
        """Open what each further line orders."""
        say(ready=True)
        for text in sys.stdin:
            for credential in json.loads(text)["credentials"]:
                self._kept.append(self._open(credential))
            data = self._kept[-1][1]
            say(
                open=len(self._kept),
                local_port=data.getsockname()[1] if data else 0,
                server_port=data.getpeername()[1] if data else 0,
            )

    def _open(self, credential: list[str]) -> tuple[Session, socket.socket | None]:
        session = Session(self._order["host"], self._order["port"], credential)
        if not self._order["transfer"]:
            return session, None
        session.ask("TYPE I", "200")
        data = session.data_connection(_SMALL_RECEIVE_BUFFER)
        session.ask(f"RETR {self._order['path']}", "1")
        data.recv(1024)
        return session, data


def main() -> None:
    """Do as the first line orders; tell what went wrong as a result, not as a traceback."""
    order = json.loads(sys.stdin.readline())
    try:
        {"fetch": fetch, "login": login, "hold": hold}[order["op"]](order)
    except (OSError, RuntimeError, ValueError) as error:
        say(error=f"{type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
