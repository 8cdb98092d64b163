"""Decide about a copy whose SSH session was lost. Pure: evidence in, decision out.

Facts
-----
* Whether a copy continues when its vty closes is undocumented and differs: users report copies that `exec-timeout`
ended
  (netmiko issue 568) and a switch that deleted the partial file (ansible issue 60440). So flash and server are checked.
* IOS was never shown to resume by REST: a broken copy is repeated completely, at most once.
* The device may write to slow flash and compute sums for minutes after the server's last byte.
* A file of the right size proves nothing; its hash does, in the step after every copy, together with the server's count
  of delivered bytes. A file with more bytes than were delivered is not our copy's.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Decision(StrEnum):
    """What to do next."""

    WAIT = "wait"
    DONE = "done"
    AGAIN = "copy again"
    REMOVE_AND_AGAIN = "remove the partial file and copy again"
    GIVE_UP = "give up"


class Evidence(Struct, frozen=True, kw_only=True):
    """What server and flash show after a session was lost.

    Attributes:
        image_bytes: Size of the image.
        to_null: The copy goes to `null:` and leaves no file.
        began: The server saw the transfer start in this run, so a file at the target is from our copy: the check found
            none there, and the device never overwrites without our confirmation.
        transferring: The server is still sending.
        delivered: The device acknowledged the whole image; None if no server of ours counts.
        delivered_bytes: Acknowledged bytes.
        flash_bytes: Size of the file at the target; None for no file.
        busy: The device has the file open and shows no size.
        settled: Server and flash were unchanged for long enough.
        waited: They were unchanged for as long as a device may take after the last byte.
        may_remove: The operator allowed the removal of our partial file.
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


class RecoveryDecision(Struct, frozen=True, kw_only=True):
    """A decision and its reason in a sentence."""

    decision: Decision
    reason: str


def decide_recovery(seen: Evidence) -> RecoveryDecision:
    """Return the decision of the first matching rule."""
    if seen.transferring:
        return _decision(Decision.WAIT, "the device goes on copying without its session")
    if seen.to_null:
        # A speed test needs the device's own output, and repeating it leaves no file.
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
