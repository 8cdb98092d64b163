"""Find the depot's socket: in the state folder, in that of a systemd unit, or where the operator says.

Imports little, because most commands find no depot.
"""

from __future__ import annotations

import socket
import stat
from pathlib import Path

NAME = "depot.sock"
"""The socket's name in either folder."""

SHARED = Path("/run/flashferry") / NAME
"""The socket of a systemd unit (`RuntimeDirectory=flashferry`)."""

CATALOGUE = "catalogue"
"""Default folder of proven images, in the state folder."""

AUTO, NEVER = "auto", "never"
"""Choices besides a socket's path: use the depot if there is one; use none."""


class DepotNotRunning(ConnectionError):
    """No depot serves the socket."""


class DepotNotUsable(ConnectionError):
    """This user may not use or trust the depot, or it is in another network."""


def places(state: Path) -> tuple[Path, ...]:
    """Return where a depot is searched, for a state folder."""
    return state / NAME, SHARED


def socket_of(choice: str, state: Path) -> Path | None:
    """Return the socket that a run uses, served or not; None: a server of its own.

    Args:
        choice: `auto`, `never`, or the path of a socket.
        state: The state folder.
    """
    if choice == NEVER:
        return None
    if choice != AUTO:
        return Path(choice).absolute()
    return next((path for path in places(state) if is_socket(path)), None)


def is_served(path: Path) -> bool:
    """Return whether a depot serves a socket and this user may use it: a killed depot leaves its socket.

    Connects without sending: without a listener that is refused at once (unix(7), ECONNREFUSED).
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.setblocking(False)
        try:
            line.connect(str(path))
        except BlockingIOError:
            # A depot listens, and others are in line.
            return True
        except OSError:
            return False
    return True


def is_socket(path: Path) -> bool:
    """Return whether a socket exists, served or not."""
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
