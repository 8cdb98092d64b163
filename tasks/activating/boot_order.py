"""What a device in bundle mode boots next: an image put in front of the `boot system` lines, and taken back exactly.

Pure but for typing and saving. The lines that were there stay, after the new one, in their order: IOS tries them one
after the other, so that a file that cannot be booted leaves the old image to be booted (Cisco IOS Configuration
Fundamentals, "Rebooting"). They take effect once they are saved.

Facts
-----
* A new `boot system` line goes after those that are there. To have one in front, all are taken out and put in again,
  in one session of configuration mode; until it is saved, a restart knows only the saved ones.
* There are five spellings (pyntc, `ios_device.py`): `boot system flash bootflash:X`, `boot system bootflash:X`,
  `boot system flash0:/X`, `boot system switch all flash:X`, `boot system flash X`. The one that stands in the
  configuration is followed; where none does, those of the platform's kind are tried, and a refused one changes nothing.
* `boot system switch all` is one line with `;` between its files.
* `write memory` after a change of software asks `Overwrite the previous NVRAM configuration?[confirm]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from flashferry.devices.dialogue import Dialogue, PromptWait, Question, WaitLimits
from flashferry.devices.errors import DeviceRefused
from flashferry.devices.platforms import PLATFORMS
from flashferry.devices.prompts import refusals
from flashferry.devices.session import DeviceSession
from tasks.read_config import Configured, Fingerprint, difference, read_running, read_startup

STEP = "boot order"
SAVE_LIMIT_S = 120.0
"""Longest time of `write memory`; a stack with a large configuration takes half a minute."""

COMMAND = "boot system"
_LINE = re.compile(rf"{COMMAND} [^\n?]{{1,200}}")
"""What may be typed: `?` asks for help, and IOS takes 254 characters in a line, `no` among them."""

_SWITCH = re.compile(r"boot system switch (?:all|\d+) ")
_SERVERS = "|".join(sorted({"mop", *(name for platform in PLATFORMS for name in platform.file_systems.network)}))
_SERVER = re.compile(rf"{COMMAND} (?:(?:{_SERVERS})\b|\S+://)")
_ONE_MEMBER = re.compile(r"boot system switch \d")
_LOGIN = re.compile(r"://[^/\s]*@")
_OVERWRITE = Question(
    name="nvram", pattern=re.compile(r"Overwrite the previous NVRAM configuration\? ?\[confirm\]"), answer="\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootOrder:
    """What the `boot system` lines were, and what they are to be.

    Attributes:
        before: The lines that were there, in their order.
        wanted: The lines that are to be there; the image first.
    """

    before: tuple[str, ...]
    wanted: tuple[str, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        """Return what makes the wanted lines of those before."""
        return _swapped(self.before, self.wanted)


def boot_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the `boot system` lines among a configuration's global lines, with single blanks, in their order."""
    found = (" ".join(line.split()) for line in lines)
    return tuple(line for line in found if line.startswith(f"{COMMAND} "))


def is_ours_to_type(order: BootOrder) -> bool:
    """Return whether an order has us type `boot system` lines only; one that does not is none of ours."""
    return all(_LINE.fullmatch(line) for line in (*order.before, *order.wanted))


def objection_to(before: tuple[str, ...], orders: tuple[BootOrder, ...], *, is_stack: bool) -> str | None:
    """Return why a person must put the lines in order, or None; it quotes no line that may hold a secret."""
    if is_stack and any(_ONE_MEMBER.match(line) for line in before):
        return "a line of its own for a member, so that the others would boot the old image"
    if any(_LOGIN.search(line) for line in before):
        return "a line with a user, and maybe a password, which is not kept in a journal"
    if not all(is_ours_to_type(order) for order in orders):
        return "a line that would be longer than 200 characters, or cannot be typed"
    return None


def boot_orders(before: tuple[str, ...], path: str) -> tuple[BootOrder, ...]:
    """Return how an image could be put in front of what a device boots, the likeliest spelling first."""
    file_system, _, name = path.partition(":")
    if not before or _SERVER.match(before[0]):
        return _in_both_spellings(before, file_system, name)
    first = before[0]
    if (switch := _SWITCH.match(first)) is not None:
        # One line for all members: the files that were there follow in it.
        line = f"{switch[0]}{path};{first[switch.end() :]}"
        return (BootOrder(before=before, wanted=(line, *before[1:])),)
    line = _spelled_as(first.split(), file_system, name)
    kept = tuple(one for one in before if one != line)
    return (BootOrder(before=before, wanted=(line, *kept)),)


def _in_both_spellings(before: tuple[str, ...], file_system: str, name: str) -> tuple[BootOrder, ...]:
    spellings = (f"{COMMAND} flash {file_system}:{name}", f"{COMMAND} {file_system}:{name}")
    kept = {line: tuple(one for one in before if one != line) for line in spellings}
    return tuple(BootOrder(before=before, wanted=(line, *kept[line])) for line in spellings)


def _spelled_as(words: list[str], file_system: str, name: str) -> str:
    """Return the line for an image in the spelling of another line, given its words."""
    if len(words) > 3 and ":" not in words[-1]:
        # `boot system flash X`, of the device's own flash
        return f"{COMMAND} {words[2] if words[2] == 'flash' else file_system} {name}"
    keyword = f"{words[2]} " if len(words) > 3 else ""
    slash = "/" if ":/" in words[-1] else ""
    return f"{COMMAND} {keyword}{file_system}:{slash}{name}"


def set_boot_order(session: DeviceSession, order: BootOrder) -> None:
    """Type the wanted lines and read them back; nothing is saved.

    Raises:
        DeviceRefused: The device refuses a line or shows others; the lines before are put back then, as far as it
            takes them.
        DeviceUnreachable: The session was lost; running lines may be half of it, saved ones are as they were.
    """
    refused = refusals(session.configure(order.commands), order.commands)
    shown = boot_lines(read_running(session).lines)
    if not refused and shown == order.wanted:
        return
    undo_boot_order(session, order)
    why = "; ".join(f"'{line}': {text}" for line, text in refused.items()) or f"it shows {', '.join(shown) or 'none'}"
    raise _refusal(session, f"expected the boot order {', '.join(order.wanted)}; {why}", _PUT_BACK)


def undo_boot_order(session: DeviceSession, order: BootOrder) -> None:
    """Put the `boot system` lines back as they were; nothing is saved.

    Raises:
        DeviceRefused: The device shows others afterwards.
    """
    present = boot_lines(read_running(session).lines)
    if present == order.before:
        return
    foreign = [line for line in present if line not in (*order.before, *order.wanted)]
    if not foreign:
        session.configure(_swapped(present, order.before))
        present = boot_lines(read_running(session).lines)
    if present != order.before:
        was, found = ", ".join(order.before) or "without a line", ", ".join(present) or "no line"
        changed = ": it was changed meanwhile" if foreign else ""
        raise _refusal(session, f"expected the boot order {was} as it was, found {found}{changed}", _BY_HAND)


_PUT_BACK = "Look at its 'boot system' lines; they were put back as they were, and nothing was saved"
_BY_HAND = "Put the 'boot system' lines right by hand, save them, then run 'flashferry recover'"


def _refusal(session: DeviceSession, reason: str, hint: str) -> DeviceRefused:
    return DeviceRefused(reason, host=session.name, step=STEP, hint=hint)


def differs_only_by(order: BootOrder, fingerprint: Fingerprint, salt: str, running: Configured) -> bool:
    """Return whether a running configuration is what it was, but for the boot order that we set."""
    if boot_lines(running.lines) != order.wanted:
        return False
    lines = running.text.splitlines()
    places = [at for at, line in enumerate(lines) if " ".join(line.split()).startswith(f"{COMMAND} ")]
    others = [line for at, line in enumerate(lines) if at not in places]
    text = "\n".join((*others[: places[0]], *order.before, *others[places[0] :]))
    return not difference(fingerprint, text, salt=salt)


def save(session: DeviceSession, *, expected: tuple[str, ...]) -> None:
    """Save the running configuration, and read back that the startup configuration has the boot order.

    The caller has made sure that only our lines are unsaved.

    Raises:
        DeviceRefused: The startup configuration has others.
        OutputNotUnderstood: The device asks something else, or a limit was reached.
        DeviceUnreachable: The session was lost; the startup configuration shows whether it was saved.
    """
    command = session.platform.commands.save
    dialogue = Dialogue(prompt_pattern=session.prompt_pattern, questions=(_OVERWRITE,))
    hint = "Check the device: its configuration may not be saved"
    wait = PromptWait(dialogue, command, WaitLimits(total_s=SAVE_LIMIT_S), host=session.name, step=STEP, hint=hint)
    session.converse(command, dialogue, wait.check)
    found = boot_lines(read_startup(session).lines)
    if found != expected:
        said, shown = " ".join(dialogue.text.split())[-120:], ", ".join(found) or "no line"
        raise _refusal(
            session,
            f"expected the boot order {', '.join(expected) or 'without a line'} in the startup configuration behind "
            f"'{command}', found {shown}; the device said: {said}",
            "Look at its startup configuration before it restarts",
        )


def _swapped(present: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines that take out what is there and put in the new ones, in their order."""
    if present == new:
        return ()
    return (*(f"no {line}" for line in present), *new)
