"""Deleting an old image: only what was shown, on the device that was looked at, and nothing that is named by then."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceRefused
from flashferry.devices.platforms.ios import IOS_XE
from tasks import clean
from tasks.clean import OldFile, RemovableImages, delete_old

FILE = OldFile(path="flash:old.bin", size_bytes=10, modified="Nov 24 2024 08:00:00 +00:00", reason="older")
SEEN = RemovableImages(serial_number="FOC1", file_system="flash:", free_bytes=5, files=(FILE,))
TOTALS = "100 bytes total (15 bytes free)\n"


@pytest.fixture
def deleted(monkeypatch):
    """Return what was deleted; `delete_file` is stood in for."""
    paths = []
    monkeypatch.setattr(clean, "delete_file", lambda _, path: paths.append(path))
    return paths


def later(monkeypatch, found):
    """Have the second look find something; return a session."""
    monkeypatch.setattr(clean, "find_old_images", lambda _, kept: found)
    return SimpleNamespace(name="r1", platform=IOS_XE, ask=lambda command, limit_s: TOTALS)


def test_a_file_that_is_as_it_was_shown_goes(monkeypatch, deleted):
    """The room that is left behind it is what `dir` says then."""
    session = later(monkeypatch, SEEN)
    assert delete_old(session, FILE, seen=SEEN, kept=()) == 15
    assert deleted == ["flash:old.bin"]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (replace(SEEN, serial_number="FOC2"), "serial number FOC2 answers, FOC1 was looked at"),
        (replace(SEEN, files=()), "named by something meanwhile"),
        (replace(SEEN, files=(replace(FILE, size_bytes=11),)), "not what was shown"),
        (replace(SEEN, files=(replace(FILE, modified="Nov 25 2024 08:00:00 +00:00"),)), "not what was shown"),
        (replace(SEEN, files=(replace(FILE, path="usb0:old.bin"),)), "not what was shown"),
        (replace(SEEN, files=(), reason="'show boot' cannot be read"), "is no longer known"),
    ],
    ids=["swapped", "named", "another size", "another date", "elsewhere", "unreadable"],
)  # fmt: skip
def test_a_file_that_is_not_what_was_shown_stays(monkeypatch, deleted, found, words):
    """Between look and deletion somebody may have been there, or somebody else answers."""
    session = later(monkeypatch, found)
    with pytest.raises(DeviceRefused, match=words):
        delete_old(session, FILE, seen=SEEN, kept=())
    assert deleted == []
