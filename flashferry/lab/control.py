"""The control sockets of a world: one JSON request per line, one JSON answer per line.

They are unix sockets in the world's private directory: a path works across network namespaces, and
nothing of it goes over the emulated WAN.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any, cast

from flashferry.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LONGEST_ANSWER_BYTES = 16 * 2**20


def ask(path: Path, request: Mapping[str, Any], *, timeout_s: float = 10.0) -> dict[str, Any]:
    """Send one request and return the answer. Raises LabError: there is no answer, or the answer is an error."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as stream:
                line = stream.readline(_LONGEST_ANSWER_BYTES)
    except OSError as error:
        raise LabError(f"The lab does not answer on {path} ({error}); is it still running?") from error
    if not line.endswith(b"\n"):
        raise LabError(f"The lab closed {path} without an answer; is it still running?")
    answer = cast("dict[str, Any]", json.loads(line))
    if "error" in answer:
        raise LabError(str(answer["error"]))
    return answer
