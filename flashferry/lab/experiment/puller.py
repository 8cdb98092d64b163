"""``python -m flashferry.lab.experiment.puller``: clients at the site, a plain Linux one and the stand-in's own.

Runs in a site's namespace. A line of JSON in, the copy's bytes and seconds as a line of JSON out. Both clients write
nowhere, so that no disk is the limit, and count from the reply that opens the transfer to the last byte, as `ftp` does.

They ask for real-time priority, behind the links: ten first segments are more than a small window's buffer holds, and
where a busy machine had the reader wake up milliseconds late the kernel dropped three of them, on a link without loss.
"""

from __future__ import annotations

import contextlib
import ftplib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flashferry.lab.standin import device_tcp
from flashferry.lab.standin.connections import ConnectionTable
from flashferry.lab.standin.device_tcp import LARGEST_UNSCALED_BYTES, SynOptions, TcpSettings
from flashferry.lab.standin.flash import Pace
from flashferry.lab.standin.ftp_client import AbortedError, CopyError, Pull, PullHooks, TransferRequest
from flashferry.lab.standin.receiver import PUBLISHED
from flashferry.lab.standin.server_url import ServerUrl

_CHUNK_BYTES = 65536
_PATIENCE_S = 60.0


class _Nowhere:
    """A target that keeps nothing, and takes everything at once or at a rate."""

    def __init__(self, pace: Pace | None) -> None:
        self._pace = pace

    def write(self, chunk: bytes) -> None:
        """Take a piece."""
        if self._pace is not None:
            self._pace.spend(len(chunk))

    def close(self) -> None:
        """Finish."""


def pull_as_router(request: Mapping[str, Any]) -> tuple[int, float]:
    """Fetch as the stand-in does, with a fixed window; return bytes and seconds."""
    window_bytes = request["window_bytes"]
    options = SynOptions(
        window_scaling=window_bytes > LARGEST_UNSCALED_BYTES, sack=request["sack"], timestamps=False
    )  # fmt: skip
    url = ServerUrl(host=request["address"], port=request["port"], path=request["name"])
    transfer = TransferRequest(
        url=url,
        user=request["user"],
        password=request["password"],
        source_address=request["source"],
        tcp=TcpSettings(window_bytes=window_bytes, syn_options=options, synwait_s=_PATIENCE_S),
        reply_timeout_s=_PATIENCE_S,
    )
    stop = threading.Event()
    pull = Pull(transfer, ConnectionTable(), stop)
    slow = request["read_bytes_per_s"]
    target = _Nowhere(None if slow is None else Pace(slow, stop))
    watch = _Watch(pull, request["seconds"], request["longest_s"])
    try:
        hooks = PullHooks(may_begin=watch.begin, open_sink=lambda _: target, progress=watch.note)
        result = pull.run(hooks)
    except AbortedError:
        if request["seconds"] is None:
            raise TimeoutError(f"not done within {request['longest_s']:.0f} s") from None
        return watch.size_bytes, request["seconds"]
    finally:
        watch.end()
    return result.size_bytes, result.seconds


class _Watch:
    """Ends a fetch when its time is over, and knows what had come by then."""

    def __init__(self, pull: Pull, seconds: float | None, longest_s: float) -> None:
        self.size_bytes = 0
        self._pull = pull
        self._timer = threading.Timer(longest_s if seconds is None else seconds, self._leave)
        self._left = False

    def begin(self) -> bool:
        """Start the clock."""
        self._timer.start()
        return True

    def note(self, size_bytes: int) -> None:
        """Note how much has come."""
        if not self._left:
            self.size_bytes = size_bytes

    def end(self) -> None:
        """Stop the clock."""
        self._timer.cancel()

    def _leave(self) -> None:
        self._left = True
        self._pull.abort()


_PUBLISHED_WINDOW_BYTES = 295_000
"""The window of the article's Linux client, as its graph has it; why that did not grow is not known."""

_PUBLISHED_BUFFERS = "4096 131072 6291456"
"""`tcp_rmem` of its Ubuntu 18.04, whose SYN had a scale of 7."""


def pull_as_linux(request: Mapping[str, Any]) -> tuple[int, float]:
    """Fetch as a Linux host does, by the window that its receiver profile names; return bytes and seconds."""
    deadline_s = time.monotonic() + request["longest_s"]
    ends_s: float | None = request["seconds"]
    with ftplib.FTP(timeout=_PATIENCE_S, source_address=(request["source"], 0)) as client:  # noqa: S321 - FTP is what is measured
        client.connect(request["address"], request["port"])
        client.login(request["user"], request["password"])
        client.voidcmd("TYPE I")
        is_published = request["profile"] == PUBLISHED
        with (
            _buffers(_PUBLISHED_BUFFERS if is_published else None),
            client.transfercmd(f"RETR {request['name']}") as data,
        ):
            opened_s, size = time.monotonic(), 0
            while count := len(data.recv(_CHUNK_BYTES)):
                if is_published and not size:
                    device_tcp.after_first_data(data, _PUBLISHED_WINDOW_BYTES)
                size += count
                if ends_s is not None and time.monotonic() - opened_s > ends_s:
                    # Without a word, as the other client does: a QUIT would wait for the broken transfer's reply.
                    client.close()
                    return size, time.monotonic() - opened_s
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"not done within {request['longest_s']:.0f} s")
            seconds = time.monotonic() - opened_s
        client.voidresp()
    return size, seconds


@contextlib.contextmanager
def _buffers(sizes: str | None) -> Iterator[None]:
    """Have connections that open in this namespace meanwhile begin with other receive buffers, if any are given."""
    if sizes is None:
        yield
        return
    path = Path("/proc/sys/net/ipv4/tcp_rmem")
    before = path.read_text(encoding="ascii")
    path.write_text(sizes, encoding="ascii")
    try:
        yield
    finally:
        path.write_text(before, encoding="ascii")


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out a request."""
    pull = pull_as_linux if request["kind"] == "linux" else pull_as_router
    try:
        size_bytes, seconds = pull(request)
    except (OSError, EOFError, CopyError, AbortedError, ftplib.Error) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"size_bytes": size_bytes, "seconds": seconds}


def main() -> None:
    """Answer until standard input ends."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
