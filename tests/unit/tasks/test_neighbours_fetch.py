"""A copy from a neighbour: what is asked of the device, and when it is given up."""

from __future__ import annotations

import pytest

from flashferry.devices.errors import CopyFailed, TransferStalled
from flashferry.fileserver import Ticket
from flashferry.transports import NEIGHBOUR, WAYS
from flashferry.transports.transport import offer_of
from tasks.copy import copy_limits
from tasks.neighbours import PATIENCE_S, fetch_image, marks_in, patience_s

OFFER = offer_of(
    NEIGHBOUR,
    Ticket(ticket_id="", username="", password="", image_name="image.bin"),
    server="10.0.0.1",
    port=NEIGHBOUR.ports.well_known,
)
LIMITS = copy_limits(size_bytes=1000, expected_bytes_per_s=100.0)
GOOD = (
    "Destination filename [image.bin]? \nAccessing tftp://10.0.0.1/image.bin...\n"
    "Loading image.bin from 10.0.0.1 (via GigabitEthernet1): !!\n[OK - 1000 bytes]\n\n"
    "1000 bytes copied in 0.500 secs (2000 bytes/sec)\n"
)


def fetched(device, *, longest_s: float = 100.0):
    return fetch_image(
        device, offer=OFFER, target="bootflash:image.bin", size_bytes=1000, limits=LIMITS, longest_s=longest_s
    )


def test_it_fetches_without_credentials(table_device):
    """The command has neither user nor port, and the device's own line counts the bytes."""
    device = table_device({"copy ": GOOD})
    report = fetched(device)
    assert device.asked == ["copy tftp://10.0.0.1/image.bin bootflash:image.bin"]
    assert (report.device.size_bytes, "*" in report.transcript) == (1000, False)


def test_the_device_tells_why_it_failed(table_device):
    """Its words are kept; our server knows nothing of it."""
    said = "Accessing tftp://10.0.0.1/image.bin...\n%Error opening tftp://10.0.0.1/image.bin (Timed out)\n"
    with pytest.raises(CopyFailed, match="Timed out"):
        fetched(table_device({"copy ": said}))


def test_slower_than_the_wan_is_given_up(table_device):
    """By the clock: what a mark stands for is not known."""
    with pytest.raises(TransferStalled, match="slower than the WAN"):
        fetched(table_device({"copy ": GOOD}), longest_s=-1.0)


def test_how_long_it_may_take():
    """As long as the WAN took, and the dialogue; for ever where nobody knows that."""
    assert patience_s(100.0) == 100.0 + PATIENCE_S
    assert patience_s(None) == float("inf")


def test_marks_count_behind_the_line_that_says_what_is_loaded():
    """A `!` in a banner or in front of it is none."""
    assert (marks_in("!!! no !\n"), marks_in(GOOD)) == (0, 2)


def test_nobody_can_ask_for_it():
    """It is chosen for sites that allow it, and by no option."""
    assert NEIGHBOUR not in WAYS
