"""What the ticket service is told of a transfer: its rate while it runs, and none once it ended."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from flashferry.fileserver.client_session import CommandLog
from flashferry.fileserver.transfer_records import TransferState
from flashferry.fileserver.transfer_reporter import Reporter


def reporter() -> tuple[Reporter, MagicMock]:
    """Return who speaks for a transfer that made 4 MB/s in its last second, and the ticket service that listens."""
    channel = object()
    tickets = MagicMock()
    tickets.clock.return_value = 10.0
    tickets.link_of.return_value = None
    client = SimpleNamespace(
        tickets=tickets,
        client_address="192.0.2.1",
        command_log=CommandLog(),
        settings=SimpleNamespace(profile=SimpleNamespace(stall_after_s=10.0), stream_samples=False),
    )
    transfer = MagicMock(rate_bytes_per_s=4_000_000.0, acked_bytes=20_000_000, progressed_s=9.9)
    transfer.start.now_s, transfer.start.offset_bytes = 0.0, 0
    account = SimpleNamespace(channel=channel, grant=SimpleNamespace(ticket_id="t"))
    return Reporter(client, channel, account, transfer, MagicMock()), tickets


def test_a_running_transfer_has_the_rate_of_its_last_second():
    """Progress tells what was measured."""
    speaker, tickets = reporter()
    speaker.progress(10.0)
    told = tickets.change.call_args.kwargs
    assert (told["state"], told["rate_bytes_per_s"]) == (TransferState.TRANSFERRING, 4_000_000.0)


@pytest.mark.parametrize(
    ("failure", "state"), [("", TransferState.DELIVERED), ("connection reset", TransferState.FAILED)]
)
def test_an_ended_transfer_has_no_rate(failure, state):
    """Its last second is over: who sums up a site's copies would count it beside that of its successor."""
    speaker, tickets = reporter()
    speaker.conclude(failure, None)
    told = tickets.change.call_args.kwargs
    assert (told["state"], told["rate_bytes_per_s"]) == (state, 0.0)
