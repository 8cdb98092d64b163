"""Space by how a device boots: once, twice, on each member."""

from __future__ import annotations

import pytest

from tasks.file_system import FlashSpace, MemberSpace, needed_bytes
from tasks.software_state import Mode

SIZE_BYTES = 473_808_711
ONCE, TWICE = needed_bytes(SIZE_BYTES), needed_bytes(SIZE_BYTES, times=2)


def room(free: int | None, *members: int, mode: Mode = Mode.INSTALL, adds: bool = False) -> FlashSpace:
    others = tuple(
        MemberSpace(file_system=f"flash-{number}:", free_bytes=each) for number, each in enumerate(members, start=2)
    )
    return FlashSpace(file_system="flash:", free_bytes=free, members=others, mode=mode, adds=adds)


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        (room(ONCE), True),
        (room(ONCE - 1), False),
        (room(TWICE - 1, adds=True), False),
        (room(TWICE, adds=True), True),
        (room(TWICE, TWICE, TWICE - 1, adds=True), False),
        (room(TWICE, TWICE, TWICE, adds=True), True),
        (room(ONCE, 0), True),
        (room(ONCE, ONCE, mode=Mode.BUNDLE), True),
        (room(ONCE, ONCE - 1, mode=Mode.BUNDLE), False),
        (room(ONCE, mode=Mode.BUNDLE, adds=True), True),
        (room(ONCE, 0, mode=Mode.UNKNOWN), True),
        (room(None, adds=True), True),
    ],
)
def test_what_does_not_fit_is_refused(given: FlashSpace, fits: bool) -> None:
    """To the byte; a device that does not tell its room is not refused for that."""
    assert (given.refusal(SIZE_BYTES) is None) is fits


def test_a_refusal_names_the_file_system_and_what_is_needed() -> None:
    """Of a member, too, and that it is for the add."""
    told = room(TWICE, TWICE, 5, adds=True).refusal(SIZE_BYTES)
    assert told is not None
    assert told.startswith("flash-3: of another member has 5 bytes free, the image needs 473808711")
    assert "as much again for 'install add'" in told


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (room(ONCE), "the copy fits, 'install add' after it would not find"),
        (room(None), "does not say how much room it has"),
        (room(TWICE, 5), "'install add' will not find space there"),
    ],
)
def test_what_fits_and_could_not_be_added_is_noted(given: FlashSpace, words: str) -> None:
    """One note for each."""
    (note,) = given.notes(SIZE_BYTES)
    assert words in note


@pytest.mark.parametrize("given", [room(TWICE), room(ONCE, mode=Mode.BUNDLE), room(TWICE, TWICE, adds=True)])
def test_enough_room_is_not_spoken_of(given: FlashSpace) -> None:
    """No note."""
    assert given.notes(SIZE_BYTES) == ()
