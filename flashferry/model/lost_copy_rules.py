"""What to do about a copy whose session was lost: a table of decisions. Pure: evidence in, decision out.

Facts
-----
* Whether a copy goes on when its vty closes is not documented, and differs: users report copies that `exec-timeout`
  killed (netmiko issue 568) and a switch that deleted the partial file (ansible issue 60440). So nothing is assumed:
  the flash and the server's account of the transfer are looked at.
* IOS was never shown to resume by REST: a copy that broke off is repeated as a whole, at most once.
* The server's last byte is not the device's: slow flash is written, and sums are checked, for minutes behind it.
* A file of the right size proves nothing: its hash does, in the step that follows every copy. The hash is the device's
  word, too; what our server delivered is ours. A file that has more bytes than were delivered is not our copy's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Decision(StrEnum):
    """What to do next."""

    WAIT = "wait"
    DONE = "done"
    AGAIN = "copy again"
    REMOVE_AND_AGAIN = "remove the partial file and copy again"
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What server and flash show after a session was lost.

    Attributes:
        image_bytes: Size of the image.
        to_null: The copy goes to `null:` and leaves no file.
        began: The server saw the device begin a transfer in this run, so a file at the target is our copy's: the check
            found none there, and the device overwrites nothing without a question that we answer with no.
        transferring: The server is still sending.
        delivered: The device acknowledged every byte of the image; None where no server of ours counts them.
        delivered_bytes: How many it acknowledged, as far as they were counted.
        flash_bytes: Size of the file at the target, None where there is none.
        busy: The device has the file open and does not show its size.
        settled: Server and flash were unchanged for long enough.
        waited: They were unchanged for as long as a device may take after the last byte.
        may_remove: The operator allowed to remove a partial file of ours.
        may_repeat: The copy was not repeated yet.
    """

    image_bytes: int
    to_null: bool
    began: bool
    transferring: bool
    delivered: bool | None
    delivered_bytes: int = 0
    flash_bytes: int | None
    busy: bool
    settled: bool
    waited: bool
    may_remove: bool
    may_repeat: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryDecision:
    """A decision and the reason in a sentence."""

    decision: Decision
    reason: str


def decide_recovery(seen: Evidence) -> RecoveryDecision:
    """Return what to do, by the first rule that fits."""
    if seen.transferring:
        return _decision(Decision.WAIT, "the device goes on copying without its session")
    if seen.to_null:
        # A speed test needs the device's own line, and a repeated one leaves no file.
        return _repeat(seen, "the copy to null: lost its session")
    if seen.busy:
        return _decide_busy(seen)
    if seen.flash_bytes == seen.image_bytes:
        return _decide_whole(seen)
    if seen.flash_bytes is not None and seen.flash_bytes > seen.image_bytes:
        return _decision(
            Decision.GIVE_UP, f"the file on flash has {seen.flash_bytes} bytes, more than the image: not ours"
        )
    if not seen.settled:
        return _decision(Decision.WAIT, "the device may still be writing")
    if seen.delivered and not seen.waited:
        return _decision(Decision.WAIT, "the device has every byte, and may still be writing or checking them")
    return _decide_partial(seen) if seen.flash_bytes is not None else _repeat(seen, "no file is left on flash")


def _decide_busy(seen: Evidence) -> RecoveryDecision:
    if seen.waited:
        return _decision(Decision.GIVE_UP, "the device keeps the file open and does not show its size")
    return _decision(Decision.WAIT, "the device has the file open")


def _decide_whole(seen: Evidence) -> RecoveryDecision:
    if seen.delivered is False:
        counted = f"our server delivered {seen.delivered_bytes} of {seen.image_bytes}"
        return _decision(Decision.GIVE_UP, f"the file on flash has the image's size, and {counted}: it is not proven")
    return _decision(Decision.DONE, "the file on flash has the image's size; its hash decides")


def _decide_partial(seen: Evidence) -> RecoveryDecision:
    found = f"{seen.flash_bytes} of {seen.image_bytes} bytes are on flash"
    if not seen.began:
        return _decision(Decision.GIVE_UP, f"{found}, though our copy never began: not ours")
    if not seen.may_remove:
        return _decision(Decision.GIVE_UP, f"{found}; removing them was not allowed (--remove-partial)")
    if not seen.may_repeat:
        return _decision(Decision.GIVE_UP, f"{found}, at the second attempt")
    return _decision(Decision.REMOVE_AND_AGAIN, found)


def _repeat(seen: Evidence, reason: str) -> RecoveryDecision:
    if seen.may_repeat:
        return _decision(Decision.AGAIN, reason)
    return _decision(Decision.GIVE_UP, f"{reason}, at the second attempt")


def _decision(decision: Decision, reason: str) -> RecoveryDecision:
    return RecoveryDecision(decision=decision, reason=reason)
