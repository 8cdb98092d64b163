"""Where a depot's socket is: in the state folder, in the folder of a unit of systemd, or where the operator says.

Nothing here says anything to one: a command that finds none waits for none of that to be imported.
"""

from __future__ import annotations

import socket
import stat
from pathlib import Path

NAME = "depot.sock"
"""The socket's name, in the state folder or in the one that follows."""

SHARED = Path("/run/flashferry") / NAME
"""Where a unit of systemd has it (`RuntimeDirectory=flashferry`)."""

CATALOGUE = "catalogue"
"""The folder of proven images, in the state folder, where no other one is named."""

AUTO, NEVER = "auto", "never"
"""A run takes the depot that it finds, or none, where no socket is named."""


class DepotNotRunning(ConnectionError):
    """No depot serves a socket at present."""


class DepotNotUsable(ConnectionError):
    """A depot that this user may not use, whose word this user is not to take, or that is in another network."""


def places(state: Path) -> tuple[Path, ...]:
    """Return where a depot is looked for, with the state folder that is used."""
    return state / NAME, SHARED


def socket_of(choice: str, state: Path) -> Path | None:
    """Return the socket that a run uses, whether or not a depot serves it; None for a server of its own.

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

    It is connected to and nothing is sent: without a listener that is refused at once (unix(7), ECONNREFUSED).
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
    """Return whether a socket is there, served or not."""
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
