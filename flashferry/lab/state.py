"""The control sockets of a world: one JSON request per line, one JSON answer per line.

They are unix sockets in the world's private directory: a path works across network namespaces, and
nothing of it goes over the emulated WAN.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from flashferry.lab.errors import LabError
from flashferry.lab.world_spec import DepotHost, DeviceAccess

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


_FILE_NAME = "flashferry-lab.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabState:
    """What a second command needs of a running lab.

    Attributes:
        pid: The process that owns the lab.
        started_ticks: When that process started, so that a reused pid is noticed.
        core_pid: A process in the core namespace.
        profile: Name of the link's profile.
        devices: How to reach the devices.
        links: For each site the control socket of its link; none where there is no WAN.
    """

    pid: int
    started_ticks: int
    core_pid: int
    server_address: str
    profile: str
    rung: str
    devices: tuple[DeviceAccess, ...]
    depots: tuple[DepotHost, ...] = ()
    links: dict[str, str] = field(default_factory=dict)


def state_path() -> Path:
    """Return where the state file is; its folder is made private if it is ours."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime, _FILE_NAME)
    folder = Path(tempfile.gettempdir(), f"flashferry-{_outer_user()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise LabError(f"{folder} is not private to this user; remove it or set XDG_RUNTIME_DIR.")
    return folder / _FILE_NAME


def _outer_user() -> int:
    """Return this user's number outside a user namespace, so that a lab in one is found from without."""
    user = os.getuid()
    for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
        inside, outside, count = map(int, line.split())
        if inside <= user < inside + count:
            return outside + user - inside
    return user


def write_state(state: LabState) -> Path:
    """Write the state file whole, mode 0600. Raises LabError: another lab is running."""
    running = read_state()
    if running is not None and running.pid != state.pid:
        raise LabError(f"A lab is already running (process {running.pid}); stop it first with Ctrl-C there.")
    path = state_path()
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(state), file)
    part.rename(path)
    return path


def read_state() -> LabState | None:
    """Return the running lab, or None; a file whose lab is gone is removed."""
    path = state_path()
    try:
        state = msgspec.json.decode(path.read_bytes(), type=LabState)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        path.unlink(missing_ok=True)
        return None
    if started_ticks(state.pid) != state.started_ticks:
        path.unlink(missing_ok=True)
        return None
    return state


def remove_state(pid: int | None = None) -> None:
    """Remove the state file of this process's lab (or of ``pid``); another's stays."""
    state = read_state()
    if state is not None and state.pid == (os.getpid() if pid is None else pid):
        state_path().unlink(missing_ok=True)


def started_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot (proc_pid_stat(5), field 22); None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])
