"""Sessions of all kinds against a server, by many threads: `python -m benchmarks.soak_client`, orders as JSON lines.

Each kind knows how it must end and raises if it ends otherwise.
"""

import contextlib
import json
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from benchmarks.client import Session

_THREADS = 96
_TCP_REPAIR = 19
_PAUSE_S = 0.5
_SMALL_RECEIVE_BUFFER = 4096


def _retrieve(session: Session, path: str, receive_buffer_bytes: int | None = None) -> socket.socket:
    data = session.data_connection(receive_buffer_bytes)
    session.ask(f"RETR {path}", "1")
    return data


def _read_all(data: socket.socket) -> int:
    total = 0
    while piece := data.recv(1 << 18):
        total += len(piece)
    return total


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _vanish(connection: socket.socket) -> None:
    """Close without a word on the wire, as a router that lost its power; takes CAP_NET_ADMIN (TCP_REPAIR)."""
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
    connection.close()


def full(order: dict[str, Any], number: int) -> None:
    """Fetch all of it."""
    session = Session(order["host"], order["port"], order["credentials"][number])
    with _retrieve(session, order["small"]) as data:
        received_bytes = _read_all(data)
    session.expect("226")
    session.close()
    if received_bytes != order["small_bytes"]:
        raise RuntimeError(f"expected {order['small_bytes']} bytes, found {received_bytes}")


def pause(order: dict[str, Any], number: int) -> None:
    """Close the window for a moment, then fetch all of it."""
    session = Session(order["host"], order["port"], order["credentials"][number])
    with _retrieve(session, order["small"], _SMALL_RECEIVE_BUFFER) as data:
        time.sleep(_PAUSE_S)
        received_bytes = _read_all(data)
    session.expect("226")
    session.close()
    if received_bytes != order["small_bytes"]:
        raise RuntimeError(f"expected {order['small_bytes']} bytes, found {received_bytes}")


def abort(order: dict[str, Any], number: int) -> None:
    """Send ABOR in the middle of a transfer."""
    session = Session(order["host"], order["port"], order["credentials"][number])
    with _retrieve(session, order["large"], _SMALL_RECEIVE_BUFFER) as data:
        data.recv(1000)
        session.ask("ABOR", "426")
        session.expect("226")
    session.close()


def reset_data(order: dict[str, Any], number: int) -> None:
    """Reset the data connection in the middle of a transfer."""
    session = Session(order["host"], order["port"], order["credentials"][number])
    data = _retrieve(session, order["large"], _SMALL_RECEIVE_BUFFER)
    data.recv(1000)
    _reset(data)
    session.expect("426")
    session.close()


def reset_control(order: dict[str, Any], number: int) -> None:
    """Reset the control connection in the middle of a transfer; the data connection must end too."""
    session = Session(order["host"], order["port"], order["credentials"][number])
    with _retrieve(session, order["large"], _SMALL_RECEIVE_BUFFER) as data:
        data.recv(1000)
        session.drop(_reset)
        with contextlib.suppress(ConnectionResetError):
            if _read_all(data) >= order["large_bytes"] - 1000:
                raise RuntimeError("expected the transfer to end with its control connection, found it complete")


def never_read(order: dict[str, Any], number: int) -> None:
    """Keep the window closed until the server gives up."""
    session = Session(order["host"], order["port"], order["credentials"][number])
    with _retrieve(session, order["large"], _SMALL_RECEIVE_BUFFER):
        session.expect("426")
    session.close()


def wrong_password(order: dict[str, Any], number: int) -> None:
    """Fail to log in, each time from another address, so that the ban of one does not hide the others."""
    place = order["first"] + number
    source = f"127.1.{place // 250 % 250}.{1 + place % 250}"
    session = Session(order["host"], order["port"], None, source=source)
    session.ask(f"USER {order['credentials'][number][0]}", "331")
    session.ask("PASS wrong", "530")
    session.close()


def idle(order: dict[str, Any], number: int) -> None:
    """Log in and say nothing until sent away."""
    session = Session(order["host"], order["port"], order["credentials"][number])
    session.expect("421")
    session.drop(socket.socket.close)


def silent(order: dict[str, Any], number: int) -> None:  # noqa: ARG001 - all kinds are called alike
    """Never log in."""
    session = Session(order["host"], order["port"], None)
    session.expect("421")
    session.drop(socket.socket.close)


def half_open(order: dict[str, Any], number: int) -> None:
    """Log in and vanish; every second one in the middle of a transfer."""
    session = Session(order["host"], order["port"], order["credentials"][number])
    if number % 2:
        data = _retrieve(session, order["large"], _SMALL_RECEIVE_BUFFER)
        data.recv(1000)
        _vanish(data)
    session.drop(_vanish)


KINDS: "dict[str, Callable[[dict[str, Any], int], None]]" = {
    kind.__name__: kind
    for kind in (full, pause, abort, reset_data, reset_control, never_read, wrong_password, idle, silent, half_open)
}


# These wait for a limit of the server; all others are over long before one, unless the host is too busy for us.
_WAITING = frozenset((never_read, idle, silent))


def _attempt(order: dict[str, Any], number: int, kind: str) -> tuple[str, str, bool]:
    """Return the kind, what went wrong, and whether it took so long that the server was right to end it."""
    began_s = time.monotonic()
    try:
        KINDS[kind](order, number)
    except (OSError, RuntimeError, ValueError) as error:
        late = KINDS[kind] not in _WAITING and time.monotonic() - began_s >= order["limit_s"]
        return kind, f"{kind}: {type(error).__name__}: {error}", late
    return kind, "", False


def main() -> None:
    """Run the sessions each line orders; answer with counts and the first few errors."""
    for text in sys.stdin:
        order = json.loads(text)
        with ThreadPoolExecutor(_THREADS) as pool:
            results = list(pool.map(partial(_attempt, order), *zip(*enumerate(order["kinds"]), strict=True)))
        done = Counter(kind for kind, error, _ in results if not error)
        too_late = Counter(error for _, error, late in results if error and late)
        errors = Counter(error for _, error, late in results if error and not late)
        answer = {"done": done, "errors": dict(errors.most_common(10)), "too_late": dict(too_late.most_common(10))}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
