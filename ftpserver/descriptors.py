"""How many sessions the open-file limit of this host carries.

Facts
-----

- A session takes four descriptors at most: control connection, passive listener, data connection, image.
- A process may raise its soft limit to the hard one; more takes privileges (setrlimit(2)), and is the host's decision.
"""

import resource

from ftpserver.errors import ServerStartFailed

DESCRIPTORS_PER_SESSION = 4
MOST_SESSIONS = 4000
"""Sessions allowed where nobody asked for a number; each costs some 10 kB."""

_OWN_DESCRIPTORS = 32
_LEAST_SESSIONS = 8


def sessions_allowed(wanted: int | None, open_files: int) -> int:
    """Return how many sessions may run at once.

    Args:
        wanted: The number asked for; None takes what there is, at most `MOST_SESSIONS`.
        open_files: The hard limit on open files; `resource.RLIM_INFINITY` for none.

    Raises:
        ServerStartFailed: The limit is too low for the sessions wanted, or for any use at all.
    """
    most = MOST_SESSIONS if wanted is None else wanted
    if open_files == resource.RLIM_INFINITY:
        return most
    carried = (open_files - _OWN_DESCRIPTORS) // DESCRIPTORS_PER_SESSION
    least = _LEAST_SESSIONS if wanted is None else wanted
    if carried < least:
        needed = least * DESCRIPTORS_PER_SESSION + _OWN_DESCRIPTORS
        way_out = "" if wanted is None else f", or ask for at most {max(carried, 0)} sessions"
        raise ServerStartFailed(
            f"open files: {least} sessions take {needed} descriptors, the hard limit is {open_files}; raise it "
            f"(LimitNOFILE= in the unit, 'hard nofile' in limits.conf){way_out}"
        )
    return min(most, carried)


def hard_limit() -> int:
    """Return the hard limit on open files of this process."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def raise_soft_limit() -> None:
    """Take as many descriptors as this process may without asking anybody."""
    hard = hard_limit()
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
