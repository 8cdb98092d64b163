"""Format figures and sentences about a device, identical in every output for users. Pure.

A missing figure is shown as missing, never as 0. Sentences have no full stop, so that others can follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo

from flashferry.core import units
from flashferry.core.units import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.policy import settings, with_the_plan
from inventory.transport_policy import USUAL

NOT_MEASURED = "not measured"
DASH = "-"
"""Replaces NOT_MEASURED in narrow cells; explained in the legend."""

_TCP = "ip tcp"
_FAMILY = re.compile(r"\bip \w+")


def rate(bytes_per_s: float | None, missing: str = NOT_MEASURED) -> str:
    """Format a payload rate, always in MB/s so that rates can be compared: `5.43 MB/s`, `0.083 MB/s`."""
    return missing if bytes_per_s is None else units.rate(bytes_per_s, finest=4)


def rates(least_bytes_per_s: float, most_bytes_per_s: float) -> str:
    """Format a range of rates; one value if both read alike: `2.43 to 4.87 MB/s`."""
    least, most = rate(least_bytes_per_s), rate(most_bytes_per_s)
    return most if least == most else f"{least.removesuffix(' MB/s')} to {most}"


def size(count_bytes: float | None, missing: str = NOT_MEASURED) -> str:
    """Format an amount of bytes: `25.0 MB`, `1.20 GB`."""
    return missing if count_bytes is None else units.size(count_bytes)


def duration(seconds: float | None, missing: str = NOT_MEASURED) -> str:
    """Format a duration: `13.6 s`, `5 min 10 s`, `2 h 05 min`."""
    return missing if seconds is None else units.duration(seconds)


def share(part: float | None, missing: str = NOT_MEASURED) -> str:
    """Format a share as percent; a small one with decimals."""
    if part is None:
        return missing
    return f"{part:.2%}" if 0 < part < 0.01 else f"{part:.0%}"


def milliseconds(seconds: float | None, missing: str = NOT_MEASURED) -> str:
    """Format a round-trip time: `99.4 ms`."""
    return missing if seconds is None else units.exact_milliseconds(seconds)


def gain(factor: float | None, missing: str = NOT_MEASURED) -> str:
    """Format a factor: `14.6 times`."""
    if factor is None:
        return missing
    return f"{factor:.0f} times" if factor >= 99.5 else f"{factor:.1f} times"


def moment(stamp: str | None, missing: str = NOT_MEASURED, zone: tzinfo = UTC) -> str:
    """Return a time of the journal for people, to the second, with its time zone: `2026-11-21 23:29:54 UTC`."""
    if not stamp:
        return missing
    try:
        found = datetime.fromisoformat(stamp)
    except ValueError:
        return stamp
    local = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(zone)
    return f"{local:%Y-%m-%d %H:%M:%S} {zone_word(local)}"


def zone_word(local: datetime) -> str:
    """Return the short name of a time's zone, or its offset where the zone has no name: `CET`, `UTC+04`."""
    name = f"{local:%Z}"
    return f"UTC{name}" if name[:1] in ("+", "-") else name


def devices(count: int) -> str:
    """Return `1 device` or `12 devices`."""
    return counted(count, "device")


def line_families(lines: Iterable[str]) -> str:
    """Return the kinds of lines by which a startup configuration was compared: `ip tcp`, or `ip tcp and ip ssh`.

    Args:
        lines: Lines or commands of ours.
    """
    found = dict.fromkeys(name for line in lines for name in _FAMILY.findall(line))
    others = [name for name in found if name not in (_TCP, f"ip {USUAL}")]
    return " and ".join((_TCP, *others))


def failure_sentence(step: str | None, reason: str, hint: str | None = None) -> str:
    """Return why a device failed, with step and hint if known."""
    return _advised(f"{step}: {reason}" if step else reason, hint)


def transport_tried_sentence(transport: str, reason: str, hint: str | None = None) -> str:
    """Return why a transport was given up."""
    return _advised(f"no byte came by {transport}: {reason}", hint)


def lost_copy_sentence(reason: str, decision: str | None = None) -> str:
    """Return what was found and decided after a copy's session was lost."""
    lost = f"session lost in mid-copy: {reason}"
    return f"{lost}; {decision}" if decision else lost


def refused_window_sentence(line: str) -> str:
    """Return that the device refused a window line."""
    return f"refused, so a smaller window was tried: {line}"


def partial_file_sentence(path: str, advice: str | None = None, *, is_removed: bool = False) -> str:
    """Return which partial file is on the device, and what to do about it."""
    return f"what the copy left, {path}, was removed" if is_removed else _advised(f"left on the device: {path}", advice)


def running_sentence(difference: str) -> str:
    """Return how the running configuration compares with the start; an empty difference means equal."""
    return f"running configuration {f'differs: {difference}' if difference else 'equal to the start, line by line'}"


def startup_sentence(families: str, *, is_equal: bool) -> str:
    """Return how the startup configuration's lines compare with the start.

    Args:
        families: Kinds of lines, from `line_families`.
        is_equal: Whether they are unchanged.
    """
    if is_equal:
        return f"startup configuration's {families} lines equal to the start"
    return (
        f"the startup configuration's {families} lines changed while the device was tuned. "
        "Look at them and, if they are ours, save again: copy running-config startup-config"
    )


def unproven_sentence(verb: str) -> str:
    """Return what to assume about a device whose configuration is not proven restored, and what to do.

    Args:
        verb: Of the run: after an activation the boot order is in doubt.
    """
    what = "what it runs and will boot is not proven" if verb == "activate" else "still tuned as far as we know"
    return f"{what}: run 'flashferry recover'"


def _advised(sentence: str, advice: str | None) -> str:
    return f"{sentence}. {advice}" if advice else sentence


_QUOTED = r"""(?<!\w)(?:'[^']*'|"[^"]*")(?!\w)"""
_OPTION = re.compile(
    rf"(?P<quoted>{_QUOTED})|(?<![\w-])(?P<option>--[a-z][a-z0-9-]*[a-z0-9])(?: (?P<value>[0-9]+|[a-z]+))?"
)
_FIELDS = {
    **dict.fromkeys(("--until", "--window"), '"Window"'),
    **dict.fromkeys(("--image", "--image-dir", "--image-rules"), '"Image"'),
    **dict.fromkeys(("--host", "--group", "--filter"), "the choice of devices"),
    "--resume": '"Restore and resume"',
}
"""Fields and buttons of pages, by options that are no setting of a form."""


_ON_PAGES = {
    ExitCode.OK.meaning_for(
        "plan"
    ): "all devices are in the plan, or need nothing; the plan's page shows whether it fits its window",
    ExitCode.UNFINISHED.meaning_for("stage"): (
        "some devices were interrupted or not started, none failed; "
        '"Restore and resume" on the page of the run stages them'
    ),
    ExitCode.RESTORE_INCOMPLETE.meaning_for("recover"): (
        'some devices are not proven to be what they were; "Restore devices" on the page of the run tries again'
    ),
}
"""Meanings of exit codes that name a key of the JSON or a command, as pages show them."""


def as_fields(text: str) -> str:
    """Return a text with the fields of the forms of the service in place of command-line options.

    Readers of a page have no command line. A setting that no form has is called by its label; an admin sets it.
    What is in quotes stays: whole commands, by which what has no page is done, and values that a person entered.
    """
    return _ON_PAGES.get(text) or _OPTION.sub(_as_field, text)


def _as_field(found: re.Match[str]) -> str:
    option, value = found["option"], found["value"]
    if option is None:
        return found[0]
    known = next((one for one in settings().values() if option in (one.on, one.off)), None)
    rest = f" {value}" if value else ""
    if option in _FIELDS or known is None:
        return _FIELDS.get(option, option) + rest
    name = known.label or known.name.replace("_", " ")
    words = f'"{name[:1].upper()}{name[1:]}"'
    if known.is_flag:
        words += "" if option == known.on else ": no"
    elif value and (value.isdigit() or value in set(known.choices or ())):
        words, rest = f"{words}: {value}", ""
    is_on_form = any(one.name == known.name for one in with_the_plan())
    return ("" if is_on_form else "the admin's setting ") + words + rest
