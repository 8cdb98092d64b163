"""Keeping hundreds of waiting threads small: glibc's malloc gives threads regions of their own unless told otherwise.

Each thread that allocates while another one does gets a region (arena) of its own, up to eight per core (mallopt(3),
M_ARENA_MAX), and each of them keeps free memory that the others cannot use. Our threads wait, and hold Python's lock
while they do not: two regions serve them as well.
"""

import ctypes
from contextlib import suppress

_M_ARENA_MAX = -8  # malloc.h
_ARENAS = 2
_MANY_DEVICES = 100


def share_arenas(devices: int) -> bool:
    """Have the threads of a large run share malloc's regions, for the rest of this process; tell whether they do.

    Args:
        devices: How many devices the run has; a small one is left as it is. So is any C library but glibc.
    """
    if devices < _MANY_DEVICES:
        return False
    with suppress(AttributeError, OSError):
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS))
    return False
