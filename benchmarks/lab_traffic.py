"""One end of a bulk transfer or an echo, in a namespace of the lab: `python -m benchmarks.lab_traffic PID ROLE ...`.

Roles: `sink ADDRESS` (prints its port, drops what comes; for each line on its standard input prints the bytes so far),
`source ADDRESS PORT SECONDS CONTROL BYTES_PER_S` (sends by the congestion control CONTROL, no faster than
BYTES_PER_S unless that is 0), `ping ADDRESS COUNT` (ICMP echo, prints milliseconds as a JSON list).
"""

import json
import socket
import struct
import sys
import threading
import time

from flashferry.lab.enter import enter_core

_BLOCK_BYTES = 1 << 20
_GAP_S = 0.01
_SO_TIMESTAMPNS = 35
_SO_MAX_PACING_RATE = 47
"""asm-generic/socket.h; the other one too."""


def sink(address: str) -> None:
    """Receive one connection to its end; MSG_TRUNC lets the kernel drop the bytes without copying them (tcp(7))."""
    room = bytearray(_BLOCK_BYTES)
    total = 0

    def tell() -> None:
        for _ in sys.stdin:
            print(total, flush=True)

    with socket.create_server((address, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        threading.Thread(target=tell, daemon=True).start()
        connection, _ = listener.accept()
        with connection:
            while received := connection.recv_into(room, _BLOCK_BYTES, socket.MSG_TRUNC):
                total += received


def source(address: str, port: int, seconds: float, control: str, rate_bytes_per_s: int) -> None:
    """Send for a while."""
    block = bytes(_BLOCK_BYTES)
    with socket.socket() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        if rate_bytes_per_s:
            connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, rate_bytes_per_s)
        connection.connect((address, port))
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            connection.send(block)


def ping(address: str, count: int) -> None:
    """Time ICMP echoes (RFC 792): the far kernel answers, and ours stamps the answer (SO_TIMESTAMPNS, socket(7)).

    So neither end waits for a process to wake up, and what is measured is the link.
    """
    times_ms = []
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as echo:
        echo.settimeout(5)
        echo.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        for number in range(count):
            head = struct.pack("!BBHHH", 8, 0, 0, 1, number)
            total = sum(struct.unpack("!4H", head))
            checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
            start_s = time.time()
            echo.sendto(struct.pack("!BBHHH", 8, 0, checksum, 1, number), (address, 0))
            answer, stamp = b"", b""
            while answer[20:21] != b"\0" or struct.unpack("!H", answer[26:28])[0] != number:
                answer, ((_, _, stamp),), _, _ = echo.recvmsg(256, 64)
            seconds, nanoseconds = struct.unpack("qq", stamp)
            times_ms.append((seconds + nanoseconds / 1e9 - start_s) * 1e3)
            time.sleep(_GAP_S)
    print(json.dumps(times_ms))


def main(pid: str, role: str, *words: str) -> None:
    """Enter the namespace of a process and play a role."""
    enter_core(int(pid))
    if role == "sink":
        sink(words[0])
    elif role == "source":
        source(words[0], int(words[1]), float(words[2]), words[3], int(words[4]))
    else:
        ping(words[0], int(words[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
