"""Each way in which a device fails to fetch from us has its own answer, and none takes half an hour."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tasks.connectivity
from flashferry.core.values import replace
from flashferry.devices.dialogue import Dialogue
from flashferry.devices.errors import DeviceRefused, TransferStalled
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.transports import USUAL
from flashferry.transports.scp import NO_COMMON, SCP
from flashferry.transports.transport import FailureCause, Offer, ServerView
from tasks.connectivity import LIMITS, check_connectivity, failure_cause
from tests.patience import until

HOME, ELSEWHERE = "192.0.2.11", "203.0.113.7"
OFFER = Offer(
    transport=USUAL,
    server="192.0.2.1",
    port=21,
    image="reach.bin",
    username="q7Zk2mXw",
    password="Gf4tR9bLs0Vn8cJd",
)
CONNECTED = ServerView(client_seen=True)
LOGGED_IN = ServerView(client_seen=True, logged_in=True, came_from=HOME)


@pytest.mark.parametrize(
    ("seen", "hindrance", "said"),
    [
        (ServerView(), FailureCause.NO_CLIENT, f"no connection reached our FTP port from {HOME}"),
        (CONNECTED, FailureCause.NO_LOGIN, "did not log in with its ticket"),
        (replace(CONNECTED, other_users=("b***",)), FailureCause.NO_LOGIN, "tried as b***"),
        (LOGGED_IN, FailureCause.NO_DATA, "no data connection came about"),
        (replace(LOGGED_IN, acked_bytes=1460), FailureCause.BROKEN_OFF, "it took 1460 bytes and no more"),
        (replace(LOGGED_IN, came_from=ELSEWHERE), FailureCause.WRONG_SOURCE, f"from {ELSEWHERE}, expected {HOME}"),
    ],
)
def test_what_is_in_the_way(seen, hindrance, said):
    """How far the device came with us names the cause."""
    found, sentence = failure_cause(seen, USUAL.words, expected=(HOME,), is_copied=False)
    assert found is hindrance
    assert said in sentence


def test_nothing_is_in_the_way_of_a_copy_that_went_well():
    """Also from another of the device's own addresses."""
    seen = replace(LOGGED_IN, came_from=ELSEWHERE)
    assert failure_cause(seen, USUAL.words, expected=(HOME, ELSEWHERE), is_copied=True) == (None, "")


def test_a_copy_from_a_strange_address_went_well_and_is_told():
    """The tickets of a staging run are bound to the device's addresses, so this would fail there."""
    assert failure_cause(replace(LOGGED_IN, came_from=ELSEWHERE), USUAL.words, expected=(HOME,), is_copied=True)[0] is (
        FailureCause.WRONG_SOURCE
    )


def test_an_answer_within_45_seconds():
    """Time until the first byte, and ten seconds to interrupt the copy, leave ten for the login."""
    assert LIMITS.total_s + 10 <= 45
    assert LIMITS.start_s + 10 <= 35


class FakeSession:
    """A device that prints what it is told to."""

    name = "r1"
    platform = IOS_XE
    peer_address = HOME
    prompt_pattern = r"(?m)^r1#\s*$"

    def __init__(self, output: str) -> None:
        self._output = output

    def converse(self, command: str, dialogue: Dialogue, on_wait: Callable[[], None]) -> None:
        assert command.endswith("null:")
        dialogue.take(self._output)
        until(lambda: dialogue.is_over or on_wait(), "the dialogue ends itself")


@pytest.fixture
def _impatient(monkeypatch):
    monkeypatch.setattr(tasks.connectivity, "LIMITS", replace(LIMITS, start_s=0.02))


@pytest.mark.usefixtures("_impatient")
def test_a_silent_device_is_not_waited_for():
    """A device that hangs at `Accessing` gets its answer when the time for a first byte is over."""
    report = check_connectivity(
        FakeSession("Accessing ftp://*:*@192.0.2.1/reach.bin..."),
        offer=OFFER,
        size_bytes=16_384,
        expected=(HOME,),
        server_view=lambda: LOGGED_IN,
    )
    assert (report.copied, report.hindrance) == (None, FailureCause.NO_DATA)
    assert report.sentence.startswith("no data connection: it logged in and no data connection came about")
    assert "passive ports" in report.hint


def test_a_device_that_gives_up_by_itself():
    """Its own words are in the sentence, behind ours."""
    report = check_connectivity(
        FakeSession("%Error opening ftp://*:*@192.0.2.1/reach.bin (Timed out)\nr1#"),
        offer=OFFER,
        size_bytes=16_384,
        expected=(HOME,),
        server_view=ServerView,
    )
    assert report.hindrance is FailureCause.NO_CLIENT
    assert "Timed out" in report.sentence


def test_why_a_client_did_not_log_in_may_be_told_a_little_later():
    """The device is back at its prompt before our server has told why: its word is waited for, and has its own hint."""
    told = "SSH: no kex algorithm in common: client a, server b"
    views = iter((CONNECTED, CONNECTED))
    report = check_connectivity(
        FakeSession("%Error opening scp://*:*@192.0.2.1/reach.bin (I/O error)\nr1#"),
        offer=replace(OFFER, transport=SCP),
        size_bytes=16_384,
        expected=(HOME,),
        server_view=lambda: next(views, replace(CONNECTED, failure=told)),
    )
    assert (report.hindrance, report.hint) == (FailureCause.NO_LOGIN, NO_COMMON)
    assert told in report.sentence


def test_a_command_that_is_not_allowed_is_no_fault_of_the_network():
    """The device's owner must act, not whoever runs the firewall: nothing is said of a path that was never tried."""
    with pytest.raises(DeviceRefused, match="does not take the copy command: Command authorization failed"):
        check_connectivity(
            FakeSession("Command authorization failed.\n\nr1#"),
            offer=OFFER,
            size_bytes=16_384,
            expected=(HOME,),
            server_view=ServerView,
        )


def test_a_device_that_can():
    """The device's own line and the address that it came from."""
    report = check_connectivity(
        FakeSession("!\n[OK - 16384/4096 bytes]\n\n16384 bytes copied in 0.107 secs (153121 bytes/sec)\nr1#"),
        offer=OFFER,
        size_bytes=16_384,
        expected=(HOME,),
        server_view=lambda: replace(LOGGED_IN, acked_bytes=16_384),
    )
    assert (report.hindrance, report.came_from) == (None, HOME)
    assert report.copied.rate_bytes_per_s == 153_121


def test_the_operators_interruption_is_no_finding():
    """Ctrl-C ends the look and blames nobody."""
    with pytest.raises(TransferStalled, match="interrupted"):
        check_connectivity(
            FakeSession("Accessing..."),
            offer=OFFER,
            size_bytes=16_384,
            expected=(HOME,),
            server_view=ServerView,
            interrupted=lambda: True,
        )
