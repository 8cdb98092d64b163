"""What became of a copy whose session was lost: how long flash and server are waited for, and what is made of it."""

from __future__ import annotations

from flashferry.devices.errors import FlashBusy
from flashferry.model.lost_copy_rules import Decision
from flashferry.run.device import copy_recovery
from tests.unit.run.device.scripted import IMAGE_BYTES, Clock, Flash, Steps, account


def recovered(lost):
    return copy_recovery.recover_copy(Steps(), lost).result


def lost_copy(server_account, **values):
    given = {
        "target": "flash:x.bin",
        "image_bytes": IMAGE_BYTES,
        "may_remove": True,
        "may_repeat": True,
        "began": True,
        "progress": lambda: server_account,
        "end_transfer": lambda: None,
        "interrupted": lambda: False,
    }
    return copy_recovery.LostCopy(**(given | values))


def test_slow_flash_behind_the_last_byte_is_waited_for(monkeypatch):
    """The server delivered everything; the device takes a minute without a sign to finish the file."""
    clock = Clock(monkeypatch, copy_recovery)
    Flash(monkeypatch, lambda: IMAGE_BYTES if clock.now_s > 60 else 900, copy_recovery)
    found = recovered(lost_copy(account()))
    assert found.decision is Decision.DONE


def test_a_file_that_stays_short_is_partial_in_the_end(monkeypatch):
    """Nothing is waited for without end: behind the copy's own limit the file is judged as it is."""
    clock = Clock(monkeypatch, copy_recovery)
    Flash(monkeypatch, lambda: 900, copy_recovery)
    assert recovered(lost_copy(account())).decision is Decision.REMOVE_AND_AGAIN
    assert 120 <= clock.now_s < 140


def test_a_busy_file_is_looked_at_again(monkeypatch):
    """Busy is neither there nor absent: it is waited for, and given up on at the limit, never removed."""
    clock = Clock(monkeypatch, copy_recovery)
    Flash(monkeypatch, lambda: IMAGE_BYTES if clock.now_s > 30 else FlashBusy("busy"), copy_recovery)
    assert recovered(lost_copy(account())).decision is Decision.DONE
    Flash(monkeypatch, lambda: FlashBusy("busy"), copy_recovery)
    assert recovered(lost_copy(account())).decision is Decision.GIVE_UP
