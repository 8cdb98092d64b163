"""How many sessions an open-file limit carries."""

import resource

import pytest

from flashferry.fileserver.errors import ServerStartFailed
from flashferry.fileserver.host_capabilities import MOST_SESSIONS, sessions_allowed


@pytest.mark.parametrize(
    ("wanted", "open_files", "allowed"),
    [
        (None, resource.RLIM_INFINITY, MOST_SESSIONS),
        (None, 1_048_576, MOST_SESSIONS),
        (None, 1024, 248),
        (None, 64, 8),
        (1000, 4032, 1000),
        (10_000, resource.RLIM_INFINITY, 10_000),
    ],
)
def test_sessions_fit_the_limit(wanted: int | None, open_files: int, allowed: int) -> None:
    """Four descriptors per session and some for the server itself; without a number it takes what there is."""
    assert sessions_allowed(wanted, open_files) == allowed


@pytest.mark.parametrize(
    ("wanted", "open_files", "message"),
    [
        (1000, 4031, "1000 sessions take 4032 descriptors, the hard limit is 4031"),
        (1000, 4031, "or ask for at most 999 sessions"),
        (1, 20, "or ask for at most 0 sessions"),
        (None, 63, "8 sessions take 64 descriptors, the hard limit is 63"),
    ],
)
def test_a_limit_too_low_is_an_error(wanted: int | None, open_files: int, message: str) -> None:
    """What it would take, what there is, and both ways out are named."""
    with pytest.raises(ServerStartFailed, match=message):
        sessions_allowed(wanted, open_files)
