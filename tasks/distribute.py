"""Step `distribute`: copy a proven image inside the device, to the other stack members or the other supervisor.

A device in bundle mode boots each member from its own file; one in install mode distributes packages when the image is
added. The image crosses the WAN once: these copies are the device's own, each proven by its hash on its member.

Facts
-----

* `copy flash:X flash-2:X` asks `Destination filename [X]?` and prints a `C` per 64 KB (captures of a local copy).
* A member may leave, join or be of another release meanwhile: `show switch` after the copies is compared with the one
  before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.dialogue import Dialogue, PromptWait, WaitLimits
from flashferry.devices.errors import (
    CopyFailed,
    DeviceRefused,
    FileExists,
    ImageCorrupt,
    Interrupted,
)
from flashferry.devices.platforms.platform import CopyQuestion, Offered, Platform, file_name
from flashferry.devices.session import DeviceSession
from flashferry.images.image import Image
from tasks.file_system import Place, file_named, free_bytes, may_have_members, needed_bytes, other_places
from tasks.partial_file import file_at, remove_file
from tasks.software_state import ASK_LIMIT_S, Mode, read_software
from tasks.step import MEASURABLE_S, Step
from tasks.verify import verify_image
from templates.rows import CopyError, CopyResult, last, rows

STEP = "distribute"
DISTRIBUTE = Step(
    word=STEP,
    label="the image is copied to the other members or the standby",
    doing="distributing",
    record_field="distribution",
)

SILENCE_LIMIT_S = 180.0
"""A copy inside the device prints a mark every 64 KB; without one for this long it counts as hung."""


class MemberCopy(Struct, frozen=True, kw_only=True):
    """The image on another member, proven there.

    Attributes:
        place: The member's number, or `standby`.
        digest: The digest that the device computed there.
        duration_s: Duration of the copy in seconds; 0 if the file was there already.
    """

    place: str
    path: str
    digest: str
    duration_s: float = 0.0
    was_there: bool = False


class DistributionReport(Struct, frozen=True, kw_only=True):
    """The result of distributing an image.

    Attributes:
        mode: How the device boots: `install` or `bundle`.
        copies: The image on each other member; empty in install mode.
        bytes_per_s: Speed of the copies; None if nothing was copied or it was too short to measure.
    """

    mode: str
    copies: tuple[MemberCopy, ...] = ()
    bytes_per_s: float | None = None


def distribute(task: Task, **given: Any) -> Result:
    """Nornir task: return a DistributionReport, or None for a device without members. See `copy_to_members`."""
    return Result(host=task.host, result=copy_to_members(session_of(task), **given))


def copy_to_members(
    session: DeviceSession,
    path: str,
    image: Image,
    *,
    remove_partial: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
    notify: Callable[[str], None] = lambda _: None,
) -> DistributionReport | None:
    """Copy the proven image to every other member and prove it there; None for a device without members.

    Args:
        session: An open session.
        path: The proven image on the active member.
        image: Its name, size and digests.
        remove_partial: Whether a shorter file of the image's name on a member is removed.
        interrupted: Whether the operator stops; asked before each member, and while it copies.
        notify: Receives a sentence for each step done.

    Raises:
        DeviceRefused: A member does not take part, has no space, or joined or left meanwhile.
        FileExists: A member holds another file of that name.
        CopyFailed: The device did not copy.
        ImageCorrupt: A member's file has another size or hash.
        OutputNotUnderstood: The device asked or printed something unknown.
    """
    active = _system_of(path)
    listing, state = listed_file_systems(session), read_software(session)
    places = other_places(state, listing, active)
    if not places or state.mode is Mode.INSTALL:
        return DistributionReport(mode=state.mode.value) if places else None
    for place in places:
        _check(session, place)
    work = _Work(session, path, image, remove_partial, interrupted, notify)
    copies = tuple(work.copy_to_member(place) for place in places)
    _check_same(session.name, places, other_places(read_software(session), listing, active))
    return DistributionReport(mode=state.mode.value, copies=copies, bytes_per_s=_speed(copies, image.size_bytes))


def has_members(session: DeviceSession, path: str) -> bool:
    """Return whether a device lists file systems that may be other members'. Costs one command."""
    return may_have_members(listed_file_systems(session), _system_of(path), session.platform.file_systems)


def _speed(copies: tuple[MemberCopy, ...], size_bytes: int) -> float | None:
    """Return the speed of the copies that were made, in bytes per second."""
    made = [one.duration_s for one in copies if not one.was_there]
    return len(made) * size_bytes / sum(made) if sum(made) >= MEASURABLE_S else None


def _system_of(path: str) -> str:
    return f"{path.partition(':')[0]}:"


def listed_file_systems(session: DeviceSession) -> str:
    """Return the output of `show file systems`.

    Raises:
        DeviceRefused: The user may not list them.
    """
    return session.ask(session.platform.commands.file_systems, limit_s=ASK_LIMIT_S)


def _check(session: DeviceSession, place: Place) -> None:
    if place.takes_part and place.file_system:
        return
    seen = place.state or "nothing of it" if not place.takes_part else "no file system of its own"
    raise DeviceRefused(
        f"expected {place} to be there and ready, the device shows {seen!r}",
        host=session.name,
        step=STEP,
        hint="The active member has the image. Check that member, then stage again: what is there is not copied again",
    )


def _check_same(host: str, before: tuple[Place, ...], after: tuple[Place, ...]) -> None:
    """Refuse a device whose members are no longer those that got the image."""
    gone = [place for place in before if place.place not in {one.place for one in after if one.takes_part}]
    came = [place for place in after if place.place not in {one.place for one in before}]
    if gone or came:
        words = [f"{place} left or is not ready any more" for place in gone] + [f"{place} joined" for place in came]
        raise DeviceRefused(
            f"the members changed while the image was handed on: {'; '.join(words)}",
            host=host,
            step=STEP,
            hint="Check the members, then stage again: what is there is not copied again",
        )


@dataclass(frozen=True, slots=True)
class _Work:
    """Copies one image to members, one after the other."""

    session: DeviceSession
    source: str
    image: Image
    remove_partial: bool
    interrupted: Callable[[], bool]
    notify: Callable[[str], None]

    def copy_to_member(self, place: Place) -> MemberCopy:
        """Copy the image to one member and prove it there."""
        if self.interrupted():
            raise Interrupted("stopped by the operator before this member", host=self.session.name, step=STEP)
        path = f"{place.file_system}{self.image.name}"
        was_there = self._is_there(place, path)
        duration_s = 0.0
        if not was_there:
            self._check_space(place)
            self.notify(f"{place}: copying inside the box to {path}")
            duration_s = self._copy(path)
            self._check_size(place, path)
        report = verify_image(
            self.session, path, self.image.digests, size_bytes=self.image.size_bytes, interrupted=self.interrupted
        )
        self.notify(f"{place}: {path} is proven by its {report.algorithm}")
        return MemberCopy(
            place=place.place, path=path, digest=report.digest, duration_s=round(duration_s, 3), was_there=was_there
        )

    def _check_size(self, place: Place, path: str) -> None:
        """Raise unless the file on a member has the image's size."""
        found = file_at(self.session, path).size_bytes
        if found != self.image.size_bytes:
            seen = "no such file" if found is None else f"{found:,} bytes"
            raise ImageCorrupt(
                f"{place}: the device reports the copy to {path} complete, expected {self.image.size_bytes:,} bytes "
                f"there, found {seen}",
                host=self.session.name,
                step=STEP,
                hint=f"Look at that member and its flash, delete {path}, then stage again",
            )

    def _is_there(self, place: Place, path: str) -> bool:
        """Return whether a file of the image's name and size is there; another one is refused."""
        found = file_at(self.session, path).size_bytes
        if found is None or found == self.image.size_bytes:
            return found is not None
        if found < self.image.size_bytes and self.remove_partial:
            remove_file(self.session, path, no_larger_than_bytes=self.image.size_bytes)
            self.notify(f"{place}: removed {path}, which had {found:,} bytes of {self.image.size_bytes:,}")
            return False
        raise FileExists(
            f"{path} has {found:,} bytes, the image {self.image.size_bytes:,}: another file, or a broken copy",
            host=self.session.name,
            step=STEP,
            hint="Delete it by hand if it is not needed; a shorter one is removed with --remove-partial",
        )

    def _check_space(self, place: Place) -> None:
        """Refuse a member without space, or whose listing does not prove that the file is absent."""
        listing = self.session.ask(self.session.platform.list_command(place.file_system), limit_s=ASK_LIMIT_S)
        self._check_absent(place, listing)
        free = free_bytes(listing)
        if free is None or free < needed_bytes(self.image.size_bytes):
            seen = "a listing without that figure" if free is None else f"{free:,}"
            raise DeviceRefused(
                f"{place.file_system}: expected {needed_bytes(self.image.size_bytes):,} bytes free, found {seen}",
                host=self.session.name,
                step=STEP,
                hint="Free some space there, then stage again: what is there is not copied again",
            )

    def _check_absent(self, place: Place, listing: str) -> None:
        try:
            found, seen = file_named(listing, self.image.name), ""
        except ValueError as error:
            found, seen = None, str(error)
        if found is not None:
            seen = f"it lists {found.name} with {found.size_bytes:,} bytes"
        if seen:
            raise FileExists(
                f"listing of {place.file_system}: expected no {self.image.name}, {seen}",
                host=self.session.name,
                step=STEP,
                hint="Look at 'dir' by hand; nothing is overwritten there",
            )

    def _copy(self, target: str) -> float:
        """Copy to a member and return the duration in seconds."""
        platform = self.session.platform
        command = platform.copy_command(self.source, target)
        dialogue = _LocalCopy(self.session.prompt_pattern, platform, self.image.name)
        total_s = 60 + self.image.size_bytes / platform.defaults.flash_bytes_per_s
        wait = PromptWait(
            dialogue,
            command,
            WaitLimits(silence_s=SILENCE_LIMIT_S, total_s=total_s, sign="mark"),
            host=self.session.name,
            step=STEP,
            hint=f"{target} may be there in part",
            interrupted=self.interrupted,
        )
        self.session.converse(command, dialogue, wait.check)
        if (reason := dialogue.failure(self.image.size_bytes)) is not None:
            raise CopyFailed(f"'{command}': {reason}", host=self.session.name, step=STEP, hint=f"Look at {target}")
        return dialogue.elapsed_s


class _LocalCopy(Dialogue):
    """A copy inside the device: the name of the target is confirmed if it is ours; nothing is overwritten."""

    def __init__(self, prompt_pattern: str, platform: Platform, name: str) -> None:
        super().__init__(prompt_pattern=prompt_pattern, questions=platform.copying.questions)
        self._name = name

    @property
    def objection(self) -> str | None:
        """Return why the name that the device offers must not be confirmed, or None."""
        question = self._asked()
        if not isinstance(question, CopyQuestion) or question.offers is None:
            return None
        offered = str(question.pattern.findall(self.text)[-1])
        is_ours = question.offers is Offered.TARGET and file_name(offered) == self._name
        return None if is_ours else f"expected the name {self._name!r}, which the command gave"

    def failure(self, size_bytes: int) -> str | None:
        """Return why the file was not copied, or None: only the line that counts its bytes means success."""
        result = last(CopyResult, self.text)
        if result is not None and result.size_bytes == size_bytes:
            return None
        errors = [row.reason for row in rows(CopyError, self.text)]
        refused = next((one.name for one in self.answered if isinstance(one, CopyQuestion) and one.ends_copy), None)
        counted = f"{result.size_bytes:,} bytes of {size_bytes:,} were copied" if result is not None else None
        return errors[-1] if errors else refused or counted or "the device does not say that it copied"
