"""Whether a device that answers is the one that was meant: by serial number and host name. Pure.

Neither is enough by itself. Virtual routers share serial numbers: copies of one machine have that of the first. Host
names are changed, and kept by the router that takes the place of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tasks.session import Facts

_NO_SERIAL = frozenset({"", "unknown", "none", "n/a"})
_VIRTUAL = ("csr1000v", "c8000v", "c8kv", "isrv", "iosv", "vios", "iol", "linux unix", "xrv")
"""What models of virtual routers have in their names, and no other."""


def identity_of(facts: Facts) -> str:
    """Return what a device calls itself: `serial number/host name`."""
    return f"{facts.serial_number}/{facts.hostname}"


def is_same(expected: str, found: Facts, others: Callable[[], Iterable[str]] = tuple) -> bool:
    """Tell whether a device is the one that was meant, also where its host name was changed since.

    A serial number decides alone only where it is one device's: that of a virtual router, one that is missing, or one
    that another device is known by, says nothing without the host name.

    Args:
        expected: What the device called itself, as `identity_of` gives it.
        found: What the one that answers says.
        others: Returns what other devices call themselves; asked only where the host name does not tell.
    """
    if expected == identity_of(found):
        return True
    serial = expected.rpartition("/")[0]
    model = found.model.casefold()
    if serial != found.serial_number or serial.casefold() in _NO_SERIAL or any(word in model for word in _VIRTUAL):
        return False
    return not any(other != expected and other.rpartition("/")[0] == serial for other in others())
