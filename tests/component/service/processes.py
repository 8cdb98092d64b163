"""The service as a process of its own, as a unit of systemd or a person would start it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE_S

_READY = re.compile(r"the service answers at (\S+)")
SERVICE = (sys.executable, "-P", "-m", "flashferry", "service")

STREAMING = """
import asyncio
from fastapi import APIRouter
from starlette.responses import StreamingResponse
from flashferry.service import access, app

async def lines():
    while True:
        yield b": here\\n\\n"
        await asyncio.sleep(0.05)

router = APIRouter()
router.add_api_route("/stream", lambda: StreamingResponse(lines(), media_type="text/event-stream"))
app.ROUTERS = (*app.ROUTERS, router)
access.ROUTES["GET", "/stream"] = access.PUBLIC

from flashferry.cli.main import main
main()
"""
"""A service with a stream that does not end by itself."""

PATIENT = f"""
from flashferry.service import outbound
from flashferry.service.people import oidc
oidc.TIMEOUT_S = outbound.WAIT_S = {10 * PATIENCE_S}
from flashferry.cli.main import main
main()
"""
"""A service that waits for its provider for longer than a test does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A service that answers.

    Attributes:
        process: Its process; its standard error is a pipe.
        url: Where it answers.
        said: What it printed until then.
    """

    process: subprocess.Popen[str]
    url: str
    said: str = ""

    def end(self, number: int = signal.SIGTERM) -> str:
        """End it by a signal; return what it said since it was ready."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=PATIENCE_S)[1]


@contextmanager
def running(state: Path, *words: str | Path, command: Sequence[str] = SERVICE, **environment: str) -> Iterator[Running]:
    """Yield a service over a state folder, on a free port of loopback."""
    process = subprocess.Popen(
        [*command, "--state-dir", str(state), "--listen", "127.0.0.1:0", *map(str, words)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    try:
        assert process.stderr is not None
        said = ""
        while (found := _READY.search(said)) is None:
            line = process.stderr.readline()
            assert line, f"expected a service, found: {said}"
            said += line
        yield Running(process=process, url=found[1].rstrip("/"), said=said)
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def refused(*words: str | Path) -> str:
    """Return in what sentence a service refuses to start."""
    done = subprocess.run([*SERVICE, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr
