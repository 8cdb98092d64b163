"""What a ticket's progress tells of the device."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.errors import Kind
from flashferry.fileserver import TransferState
from flashferry.transports.witness import Hindrance, ServerView, view_of


@pytest.mark.parametrize(
    ("state", "client_seen", "logged_in"),
    [
        (TransferState.WAITING, False, False),
        (TransferState.CONNECTED, True, False),
        *((state, True, True) for state in list(TransferState)[2:]),
    ],
)
def test_how_far_a_device_came(state, client_seen, logged_in):
    """It is there once it connected, and logged in with any state behind that."""
    seen = view_of(SimpleNamespace(state=state, bytes_acked=7, last_error="reset"))
    assert seen == ServerView(client_seen=client_seen, logged_in=logged_in, acked_bytes=7, failure="reset")


def test_each_hindrance_is_a_kind_of_failure():
    """The words that journals and metrics keep."""
    assert [one.kind for one in Hindrance] == [Kind[one.name] for one in Hindrance]
