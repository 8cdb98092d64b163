"""The boot order of a device in bundle mode: put an image in front of its `boot system` lines, and undo that exactly.

The lines that were there stay after the new one, in their order: IOS tries them one after the other, so that the old
image is booted if the new file cannot be (Cisco IOS Configuration Fundamentals, "Rebooting"). They take effect once
they are saved.

Facts
-----

* A new `boot system` line goes after the existing ones. To have one in front, all are removed and entered again in one
  configuration session; until it is saved, a restart uses the saved lines.
* There are five spellings (pyntc, `ios_device.py`): `boot system flash bootflash:X`, `boot system bootflash:X`, `boot
  system flash0:/X`, `boot system switch all flash:X`, `boot system flash X`. The one in the configuration is followed;
  without one, those of the platform's kind are tried, and a refused one changes nothing.
* `boot system switch all` is one line with `;` between its files.
* `write memory` after a change of software asks `Overwrite the previous NVRAM configuration?[confirm]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from flashferry.devices.dialogue import Dialogue, PromptWait, Question, WaitLimits
from flashferry.devices.errors import DeviceRefused
from flashferry.devices.platforms import PLATFORMS
from flashferry.devices.prompts import refusals
from flashferry.devices.session import DeviceSession
from tasks.read_config import Configured, Fingerprint, difference, read_running, read_startup

STEP = "boot order"
SAVE_LIMIT_S = 120.0
"""Longest duration of `write memory`; a stack with a large configuration takes half a minute."""

COMMAND = "boot system"
_LINE = re.compile(rf"{COMMAND} [^\n?]{{1,200}}")
"""What may be sent: `?` asks for help, and IOS takes 254 characters per line, including `no`."""

_SWITCH = re.compile(r"boot system switch (?:all|\d+) ")
_SERVERS = "|".join(sorted({"mop", *(name for platform in PLATFORMS for name in platform.file_systems.network)}))
_SERVER = re.compile(rf"{COMMAND} (?:(?:{_SERVERS})\b|\S+://)")
_ONE_MEMBER = re.compile(r"boot system switch \d")
_LOGIN = re.compile(r"://[^/\s]*@")
_OVERWRITE = Question(
    name="nvram", pattern=re.compile(r"Overwrite the previous NVRAM configuration\? ?\[confirm\]"), answer="\n"
)


class BootOrder(Struct, frozen=True, kw_only=True):
    """The `boot system` lines before, and those to set.

    Attributes:
        before: The lines that were there, in order.
        wanted: The lines to set, in order; the image first.
    """

    before: tuple[str, ...]
    wanted: tuple[str, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the configuration lines that change the old order into the new one."""
        return _swapped(self.before, self.wanted)


def boot_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the `boot system` lines of a configuration's global lines, with single spaces, in order."""
    found = (" ".join(line.split()) for line in lines)
    return tuple(line for line in found if line.startswith(f"{COMMAND} "))


def is_ours_to_type(order: BootOrder) -> bool:
    """Return whether an order sends only `boot system` lines; any other in a journal was not written by us."""
    return all(_LINE.fullmatch(line) for line in (*order.before, *order.wanted))


def objection_to(before: tuple[str, ...], orders: tuple[BootOrder, ...], *, is_stack: bool) -> str | None:
    """Return why a person must set the boot order, or None. The text quotes no line that may hold a secret."""
    if is_stack and any(_ONE_MEMBER.match(line) for line in before):
        return "a line of its own for a member, so that the others would boot the old image"
    if any(_LOGIN.search(line) for line in before):
        return "a line with a user, and maybe a password, which is not kept in a journal"
    if not all(is_ours_to_type(order) for order in orders):
        return "a line that would be longer than 200 characters, or cannot be typed"
    return None


def boot_orders(before: tuple[str, ...], path: str) -> tuple[BootOrder, ...]:
    """Return the possible boot orders with an image in front, the likeliest spelling first."""
    file_system, _, name = path.partition(":")
    if not before or _SERVER.match(before[0]):
        return _in_both_spellings(before, file_system, name)
    first = before[0]
    if (switch := _SWITCH.match(first)) is not None:
        # One line for all members: the earlier files follow in it.
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
    """Set the new lines and read them back; nothing is saved.

    Raises:
        DeviceRefused: The device refuses a line or shows others; the old lines are then restored as far as it accepts
            them.
        DeviceUnreachable: The session was lost; running lines may be incomplete, saved ones are unchanged.
    """
    refused = refusals(session.configure(order.commands), order.commands)
    shown = boot_lines(read_running(session).lines)
    if not refused and shown == order.wanted:
        return
    undo_boot_order(session, order)
    why = "; ".join(f"'{line}': {text}" for line, text in refused.items()) or f"it shows {', '.join(shown) or 'none'}"
    raise _refusal(session, f"expected the boot order {', '.join(order.wanted)}; {why}", _PUT_BACK)


def undo_boot_order(session: DeviceSession, order: BootOrder) -> None:
    """Restore the old `boot system` lines; nothing is saved.

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
    """Return whether a running configuration differs from its fingerprint only by our boot order."""
    if boot_lines(running.lines) != order.wanted:
        return False
    lines = running.text.splitlines()
    places = [at for at, line in enumerate(lines) if " ".join(line.split()).startswith(f"{COMMAND} ")]
    others = [line for at, line in enumerate(lines) if at not in places]
    text = "\n".join((*others[: places[0]], *order.before, *others[places[0] :]))
    return not difference(fingerprint, text, salt=salt)


def save(session: DeviceSession, *, expected: tuple[str, ...]) -> None:
    """Save the running configuration, and check the boot order in the startup configuration.

    The caller has checked that only our lines are unsaved.

    Raises:
        DeviceRefused: The startup configuration has another order.
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
    """Return the lines that remove the present lines and set the new ones, in order."""
    if present == new:
        return ()
    return (*(f"no {line}" for line in present), *new)
