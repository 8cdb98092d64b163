"""After a lost session: what server and flash show, and what is done about it."""

from __future__ import annotations

import itertools

import pytest

from flashferry.core.values import replace
from flashferry.model.lost_copy_rules import Decision, Evidence, decide_recovery
from tests.some import some

IMAGE_BYTES = 1000
NOTHING = Evidence(
    image_bytes=IMAGE_BYTES,
    to_null=False,
    began=True,
    transferring=False,
    delivered=False,
    flash_bytes=None,
    busy=False,
    settled=True,
    waited=True,
    may_remove=False,
    may_repeat=True,
)


@pytest.mark.parametrize(
    ("changes", "decision", "reason"),
    [
        ({"transferring": True}, Decision.WAIT, "goes on copying"),
        ({"transferring": True, "flash_bytes": 10}, Decision.WAIT, "goes on copying"),
        ({"flash_bytes": 1000}, Decision.GIVE_UP, "our server delivered 0 of 1000"),
        ({"flash_bytes": 1000, "delivered_bytes": 999}, Decision.GIVE_UP, "our server delivered 999 of 1000"),
        ({"flash_bytes": 1000, "began": False, "may_remove": True}, Decision.GIVE_UP, "not proven"),
        # A copy from a neighbour, which no server of ours counts.
        ({"flash_bytes": 1000, "delivered": None}, Decision.DONE, "hash decides"),
        ({"settled": False}, Decision.WAIT, "still be writing"),
        ({"flash_bytes": 10, "settled": False}, Decision.WAIT, "still be writing"),
        ({"delivered": True, "flash_bytes": 999, "waited": False}, Decision.WAIT, "has every byte"),
        ({"delivered": True, "waited": False}, Decision.WAIT, "has every byte"),
        ({"delivered": True, "flash_bytes": 1000, "waited": False}, Decision.DONE, "hash decides"),
        ({"delivered": True, "flash_bytes": 999}, Decision.GIVE_UP, "999 of 1000 bytes are on flash"),
        ({"flash_bytes": 999, "waited": False}, Decision.GIVE_UP, "999 of 1000 bytes are on flash"),
        ({"busy": True, "waited": False}, Decision.WAIT, "has the file open"),
        ({"busy": True}, Decision.GIVE_UP, "keeps the file open"),
        ({}, Decision.AGAIN, "no file is left"),
        ({"began": False}, Decision.AGAIN, "no file is left"),
        ({"may_repeat": False}, Decision.GIVE_UP, "second attempt"),
        ({"flash_bytes": 10}, Decision.GIVE_UP, "10 of 1000 bytes are on flash; removing them was not allowed"),
        ({"flash_bytes": 10, "may_remove": True}, Decision.REMOVE_AND_AGAIN, "10 of 1000"),
        ({"flash_bytes": 0, "may_remove": True}, Decision.REMOVE_AND_AGAIN, "0 of 1000"),
        ({"flash_bytes": 10, "may_remove": True, "may_repeat": False}, Decision.GIVE_UP, "second attempt"),
        ({"flash_bytes": 10, "may_remove": True, "began": False}, Decision.GIVE_UP, "not ours"),
        ({"flash_bytes": 1001, "may_remove": True}, Decision.GIVE_UP, "not ours"),
        ({"to_null": True}, Decision.AGAIN, "lost its session"),
        ({"to_null": True, "may_repeat": False}, Decision.GIVE_UP, "second attempt"),
        ({"to_null": True, "transferring": True}, Decision.WAIT, "goes on"),
    ],
    ids=str,
)
def test_the_table(changes, decision, reason):
    """Each situation has one decision, with its reason."""
    found = decide_recovery(replace(NOTHING, **changes))
    assert found.decision is decision
    assert reason in found.reason


def every_situation():
    flags = itertools.product((False, True), repeat=9)
    for (null, began, transferring, delivered, busy, settled, waited, remove, repeat), flash in itertools.product(
        flags, (None, 0, 999, 1000, 1001)
    ):
        yield Evidence(
            image_bytes=IMAGE_BYTES,
            to_null=null,
            began=began,
            transferring=transferring,
            delivered=delivered,
            flash_bytes=None if null or busy else flash,
            busy=busy,
            settled=settled,
            waited=waited,
            may_remove=remove,
            may_repeat=repeat,
        )


def test_what_never_happens():
    """In none of all situations is a file removed that is not ours or without leave, or a copy begun a third time."""
    for seen in some(every_situation()):
        decision = decide_recovery(seen).decision
        if decision is Decision.REMOVE_AND_AGAIN:
            assert seen.may_remove
            assert seen.began
            assert seen.may_repeat
            assert seen.waited or not seen.delivered
            assert not seen.busy
            assert seen.flash_bytes is not None
            assert seen.flash_bytes < IMAGE_BYTES
        if decision is Decision.AGAIN:
            assert seen.may_repeat
            assert seen.flash_bytes is None
        if decision is Decision.DONE:
            assert seen.flash_bytes == IMAGE_BYTES
            assert not seen.to_null
        if decision is not Decision.WAIT:
            assert not seen.transferring


def test_waiting_ends():
    """Once the server is done and the flash is settled there is nothing to wait for."""
    assert all(
        decide_recovery(seen).decision is not Decision.WAIT
        for seen in some(seen for seen in every_situation() if seen.settled and seen.waited and not seen.transferring)
    )
