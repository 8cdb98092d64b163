"""What a ticket's progress tells of the device."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.errors import Kind
from flashferry.fileserver import TransferState
from flashferry.transports.transport import FailureCause, ServerView, delivered_whole, view_of


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
    seen = view_of(progress(state, 7))
    assert seen == ServerView(
        client_seen=client_seen,
        logged_in=logged_in,
        acked_bytes=7,
        failure="reset",
        delivered=state is TransferState.DELIVERED,
        is_over=state.is_final,
    )


@pytest.mark.parametrize(
    ("state", "acked_bytes", "offset_bytes", "delivered"),
    [
        (TransferState.DELIVERED, 1000, 0, True),
        (TransferState.FAILED, 1000, 0, True),
        (TransferState.FAILED, 999, 0, False),
        (TransferState.TRANSFERRING, 500, None, False),
        (TransferState.WAITING, 0, None, False),
        # The client asked for the last byte alone, and got it; or for two pieces with a hole between them.
        (TransferState.DELIVERED, 1000, 999, False),
        (TransferState.DELIVERED, 1000, 600, False),
        (TransferState.FAILED, 400, 0, False),
        (TransferState.LOGGED_IN, 0, None, False),
    ],
)
def test_an_image_is_delivered_from_its_first_byte_to_its_last(state, acked_bytes, offset_bytes, delivered):
    """The end alone, however well delivered, is no image."""
    record = SimpleNamespace(offset_bytes=offset_bytes) if offset_bytes is not None else None
    assert delivered_whole(progress(state, acked_bytes, record)) is delivered


def progress(state, acked_bytes, record=None):
    """Return a ticket's progress for an image of 1000 bytes."""
    return SimpleNamespace(state=state, bytes_acked=acked_bytes, last_error="reset", size_bytes=1000, record=record)


def test_each_hindrance_is_a_kind_of_failure():
    """The words that journals and metrics keep."""
    assert [one.kind for one in FailureCause] == [Kind[one.name] for one in FailureCause]
