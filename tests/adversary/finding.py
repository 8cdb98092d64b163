"""What was found in a case: values only, taken behind the router's back and from what the product said."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.adversary.router.device import DeviceSight


class Ending(StrEnum):
    """How a command ended."""

    ENDED = "ended"
    KILLED = "killed"
    HUNG = "hung"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A device that a journal holds; `identity` is `serial number/host name`, or empty."""

    host: str
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What became of one command of a controller.

    Attributes:
        controller: Whose.
        verb: `stage`, `resume`, `probe`, `check` or `recover`; `report` and `status` read the journal only.
        ending: How it ended.
        code: Its exit code, where it came to one.
        document: What it printed as JSON, or None.
        stdout, stderr: All that it printed.
        image: Name of its image.
        held: What this controller's journal holds behind it.
        held_before: What any controller's journal held in front of it; a copied one is not counted.
        copy_held_before: What its own journal held in front of it, where that is a copy.
        decides: What the operator said by name of the device, as an option; empty: nothing.
        before: The devices when it began.
        after: The devices when it had ended.
        is_alone: Whether no other controller was at work beside it.
    """

    controller: str
    verb: str
    ending: Ending
    code: int | None
    document: dict[str, Any] | None
    stdout: str = ""
    stderr: str = ""
    image: str
    held: tuple[Held, ...] = ()
    held_before: tuple[Held, ...] = ()
    copy_held_before: tuple[Held, ...] = ()
    decides: str = ""
    before: tuple[DeviceSight, ...]
    after: tuple[DeviceSight, ...]
    is_alone: bool = True

    @property
    def acts(self) -> bool:
        """Return whether it was to change something, and answers by its exit code for how it left it."""
        return self.verb in {"stage", "resume", "probe", "recover"}

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return what it said of each device."""
        document = self.document or {}
        devices = (document.get("run") or document).get("devices") or []
        return [one for one in devices if isinstance(one, dict)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found in a case.

    Attributes:
        said: Its commands, in the order of their ends.
        at_the_end: The devices, half a minute of their time behind the last command.
        held: What the journals hold then, all controllers together but for one with a copy.
        images: SHA-512 of each image, by name.
        leaks: Where a secret was found, and which.
        struck: The behaviours that came into play.
        is_calm: Whether the case has no behaviour at all.
        seconds: Wall time.
    """

    said: tuple[Said, ...]
    at_the_end: tuple[DeviceSight, ...]
    held: tuple[Held, ...]
    images: dict[str, str]
    leaks: tuple[str, ...] = ()
    struck: frozenset[str] = frozenset()
    is_calm: bool = False
    seconds: float = field(default=0.0, compare=False)
