"""What happens to a router while a run is at it: a colleague's work, accidents, and somebody else in its place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.adversary.router.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that happens at a moment.

    Attributes:
        at: The moment: `login`, `command:7`, `config:1`, `config:1:line`, `config:1:end`, `copy`, `copy:50`, `copied`,
            `verify`, `verified`; its first coming counts.
        after_s: How long behind it.
        name: The behaviour that it belongs to.
    """

    at: str
    after_s: float = 0.0
    name: str = ""

    def play(self, world: World) -> None:
        """Have it happen."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure(Act):
    """A colleague sets lines."""

    lines: tuple[str, ...]

    def play(self, world: World) -> None:
        """Have it happen."""
        world.device.configure_by_colleague(self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Save(Act):
    """A colleague saves."""

    def play(self, world: World) -> None:
        """Have it happen."""
        world.device.save()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveNow(Act):
    """A colleague, or the device's own schedule, puts the configuration into the archive."""

    def play(self, world: World) -> None:
        """Have it happen."""
        world.device.archive()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRevert(Act):
    """A colleague has armed `configure terminal revert timer`, and goes to lunch; it fires some seconds later."""

    fuse_s: float

    def play(self, world: World) -> None:
        """Have it happen."""
        from tests.adversary.router.device import Revert

        device = world.device
        device.revert = Revert(
            user="colleague",
            fires_at_s=world.now_s + self.fuse_s,
            armed=datetime.now(UTC) - timedelta(seconds=60 - self.fuse_s),
            minutes=1,
            running=device.running.copied(),
            shadow=device.shadow.copied(),
        )
        world.later(self.fuse_s, device.fire_revert)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock(Act):
    """A colleague holds the configuration lock, for a while or for good (0)."""

    for_s: float

    def play(self, world: World) -> None:
        """Have it happen."""
        device = world.device
        device.locked_by = "colleague"

        def leave() -> None:
            device.locked_by = ""

        if self.for_s:
            world.later(self.for_s, leave)


@dataclass(frozen=True, slots=True, kw_only=True)
class PutFile(Act):
    """A colleague's file appears at the target.

    Attributes:
        spelt: `same`, `upper` or `title`.
        holds: `another` image, the `right` one, or the right one with `a wrong byte`.
    """

    spelt: str
    holds: str = "another"

    def play(self, world: World) -> None:
        """Have it happen."""
        name = world.target_name
        spelt = {"upper": name.upper(), "title": name.title()}.get(self.spelt, name)
        content = b"a colleague's own image" * 400
        if self.holds != "another":
            content = world.images[name]
        if self.holds == "a wrong byte":
            content = content[:-1] + bytes([content[-1] ^ 1])
        world.device.put_file(spelt, content)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFile(Act):
    """What lies at the target is not what it was: shorter, or with another byte."""

    how: str

    def play(self, world: World) -> None:
        """Have it happen."""
        flash = world.device.flashes[world.device.active]
        file = flash.find(world.target_name)
        if file is None or not file.content:
            return
        if self.how == "shrinks":
            file.content = file.content[: len(file.content) // 3]
        else:
            file.content = file.content[:-1] + bytes([file.content[-1] ^ 1])
        world.device.guard_as_is(flash, file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Act):
    """The sessions end, so many bytes of output later: `abort`, `close`, or `eof` and never a close."""

    how: str
    after_bytes: int = 0

    def play(self, world: World) -> None:
        """Have it happen."""
        world.drop_sessions(self.how, self.after_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseLogins(Act):
    """New logins are refused for a while: `tcp` (all lines in use) or `password` (the AAA server is out)."""

    how: str
    for_s: float

    def play(self, world: World) -> None:
        """Have it happen."""
        world.refuse_logins(self.how, self.for_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload(Act):
    """The device starts anew from its startup configuration."""

    down_s: float

    def play(self, world: World) -> None:
        """Have it happen."""
        world.end_jobs()
        world.device.reload()
        world.drop_sessions("abort", 0)
        world.refuse_logins("tcp", self.down_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap(Act):
    """Sessions end, and another device answers from the next login on; it may be taken out again after some."""

    back_after_logins: int = 0

    def play(self, world: World) -> None:
        """Have it happen."""
        world.swap(back_after_logins=self.back_after_logins)
        world.drop_sessions("abort", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeTurns(Act):
    """From now on two devices answer in turns, as an HA pair behind one address; sessions end."""

    def play(self, world: World) -> None:
        """Have it happen."""
        world.take_turns()
        world.drop_sessions("abort", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchOver(Act):
    """Another member of the stack becomes the active one; sessions end, the configuration stays."""

    def play(self, world: World) -> None:
        """Have it happen."""
        device = world.device
        world.end_jobs()
        device.active = (device.active + 1) % len(device.flashes)
        world.drop_sessions("abort", 0)
        world.refuse_logins("tcp", 0.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast(Act):
    """A colleague sends a message to all lines."""

    text: str

    def play(self, world: World) -> None:
        """Have it happen."""
        world.disturb("broadcast", self.text)
