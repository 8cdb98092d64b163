"""The addresses that connections of the devices come from.

A device has one address from its world. Any other that its configuration gives to an interface, such as a loopback, is
made real when a connection wants to come from it, and only in a network namespace of the stand-ins' own. Whether
an answer finds its way there is the network's affair: within the network of the site it does.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from typing import TYPE_CHECKING

from flashferry.lab.namespaces import Interface, set_up_interfaces

if TYPE_CHECKING:
    import socket

_LOCK = threading.Lock()
_MAY_ADD = threading.Event()


def allow_new_addresses() -> None:
    """Say that the network namespace is the stand-ins' own, so that addresses may be added to it."""
    _MAY_ADD.set()


def bind_to(connection: socket.socket, address: str) -> None:
    """Bind a fresh socket to an address of the device.

    Raises OSError: it is not there and may not be made (EADDRNOTAVAIL).
    """
    try:
        connection.bind((address, 0))
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL or not _MAY_ADD.is_set():
            raise
        _add(address)
        connection.bind((address, 0))


def _add(address: str) -> None:
    from pyroute2 import NetlinkError

    with _LOCK, contextlib.suppress(NetlinkError):  # another copy may have added it meanwhile: binding shows
        set_up_interfaces((Interface(name="lo", addresses=(f"{address}/32",)),))
