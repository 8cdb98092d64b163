"""Whose place goes to somebody else when all are taken."""

import pytest

from flashferry.fileserver.fixed_login import PendingLogins


class _Session:
    def __init__(self, name: str) -> None:
        self.name = name

    def evict(self) -> None:
        raise AssertionError("the service decides, the session acts")


def _sessions(**counts: int) -> PendingLogins:
    pending_logins = PendingLogins()
    for address, count in counts.items():
        for number in range(count):
            pending_logins.enter(address, _Session(f"{address}{number}"))
    return pending_logins


@pytest.mark.parametrize(
    ("counts", "newcomer", "named", "displaced"),
    [
        ({"a": 5, "b": 3, "x": 1}, "x", "", "a0"),  # the oldest of the address with the most
        ({"a": 1, "b": 1, "x": 1}, "x", "", None),  # nobody has more than the newcomer
        ({"a": 1, "b": 1, "x": 1}, "x", "x", "a0"),  # but a ticket names it
        ({"a": 5, "b": 3, "x": 1}, "x", "ax", "b0"),  # a named address keeps its own ...
        ({"a": 5, "x": 1}, "x", "a", None),  # ... also from a crowd
        ({"a": 5, "b": 3, "x": 1}, "x", "abx", "a0"),  # unless all are named
        ({"a": 2, "x": 5}, "x", "", None),  # who fills the house gains nothing by coming again
        ({"a": 2, "x": 5}, "x", "x", "a0"),
        ({"x": 5}, "x", "x", None),
    ],
)
def test_who_gives_way(counts: dict[str, int], newcomer: str, named: str, displaced: str | None) -> None:
    """The most crowded address no ticket names; named newcomers come before any other."""
    pending = _sessions(**counts).to_displace(newcomer, lambda address: address in named)
    assert getattr(pending, "name", None) == displaced


def test_who_has_left_is_forgotten() -> None:
    """An address without a session takes no memory, and leaving twice is harmless."""
    pending_logins, session = PendingLogins(), _Session("a")
    pending_logins.enter("a", session)
    assert pending_logins.count("a") == 1
    pending_logins.leave("a", session)
    pending_logins.leave("a", session)
    assert (pending_logins.count("a"), pending_logins._by_address) == (0, {})
