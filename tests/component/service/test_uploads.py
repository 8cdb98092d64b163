"""An upload is gone on with after anything: a cut connection, another sender, a service that was killed."""

from __future__ import annotations

import hashlib
import os
import signal

import pytest

from flashferry.service.images.upload_sessions import SYNC_BYTES
from tests.component.service.processes import running
from tests.component.service.uploads import IMAGES, Sender, token_for
from tests.patience import PATIENCE_S, until

NAME = "cat9k_iosxe.17.12.04.SPA.bin"


@pytest.fixture
def token(tmp_path) -> str:
    return token_for(tmp_path / "state", "op", "operator")


def wait_for_offset(sender: Sender, least: int) -> int:
    """Return the offset once it is that far."""
    return until(lambda: found if (found := sender.offset(NAME)) >= least else None, f"an offset of {least}")


@pytest.mark.soak
def test_a_killed_service_loses_no_more_than_was_not_synced(tmp_path, token):
    """Killed in mid-upload and started again, it goes on from what was on disk; twice; the SHA-512 is right."""
    content = os.urandom(4 * SYNC_BYTES + 12345)
    # Each time it is behind a further sync when it is killed: so far it must be on disk.
    for kill_at in (2 * SYNC_BYTES + 1_000_000, 4 * SYNC_BYTES - 1_000_000):
        with running(tmp_path / "state") as service:
            sender = Sender(url=service.url, token=token)
            offset = sender.announce(NAME, len(content))
            connection = sender.begin(NAME, content, offset, kill_at)
            before = wait_for_offset(sender, kill_at - 2_000_000)
            service.process.send_signal(signal.SIGKILL)
            service.process.wait(PATIENCE_S)
            connection.close()
        with running(tmp_path / "state") as service:
            kept = Sender(url=service.url, token=token).offset(NAME)
            assert before - SYNC_BYTES - 2_000_000 <= kept <= kill_at
            assert kept > offset
    with running(tmp_path / "state") as service:
        sender = Sender(url=service.url, token=token)
        assert sender.send(NAME, content, 5)[0] == 409
        status, told = sender.send(NAME, content, sender.offset(NAME))
        assert (status, told["state"]) == (200, "unknown")
        assert told["sha512"] == hashlib.sha512(content).hexdigest()
        assert (tmp_path / "state" / "images" / NAME).read_bytes() == content


def test_of_two_senders_one_is_told_where_the_other_is(tmp_path, token):
    """The first goes on undisturbed; once its connection is cut, the second goes on from there."""
    content = os.urandom(6_000_000)
    with running(tmp_path / "state") as service:
        sender = Sender(url=service.url, token=token)
        sender.announce(NAME, len(content))
        first = sender.begin(NAME, content, 0, 3_000_000)
        at = wait_for_offset(sender, 1 << 20)
        status, told = sender.send(NAME, content, at)
        assert (status, told["offset"] >= at) == (409, True)
        assert "another client is sending it" in told["detail"]
        assert sender.call("GET", IMAGES)[2]["images"][0]["state"] == "arriving"
        first.close()
        at = wait_for_offset(sender, 3_000_000)
        status, told = sender.send(NAME, content, at)
        assert (status, told["sha512"]) == (200, hashlib.sha512(content).hexdigest())
