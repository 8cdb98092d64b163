"""Where a depot's socket is: in the state folder, in the folder of a unit of systemd, or where the operator says.

Nothing here speaks to one: a command that finds none waits for none of that to be imported.
"""

from __future__ import annotations

import stat
from pathlib import Path

NAME = "depot.sock"
"""The socket's name, in the state folder or in the one that follows."""

SHARED = Path("/run/flashferry") / NAME
"""Where a unit of systemd has it (`RuntimeDirectory=flashferry`)."""

AUTO, NEVER = "auto", "never"
"""A run takes the depot that it finds, or none, where it is not told the socket of one."""


class NobodyThere(ConnectionError):
    """No depot serves a socket at present."""


class NotForUs(ConnectionError):
    """A depot that this user may not use, whose word this user is not to take, or that is in another network."""


def places(state: Path) -> tuple[Path, ...]:
    """Return where a depot is looked for, with the state folder that is used."""
    return state / NAME, SHARED


def socket_of(wish: str, state: Path) -> Path | None:
    """Return the socket that a run is to use, whether or not somebody serves it; None for a server of its own.

    Args:
        wish: `auto`, `never`, or the path of a socket.
        state: The state folder.
    """
    if wish == NEVER:
        return None
    if wish != AUTO:
        return Path(wish).absolute()
    return next((path for path in places(state) if is_socket(path)), None)


def is_socket(path: Path) -> bool:
    """Tell whether a socket is there; nobody need serve it."""
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
