"""Configuration lines that do more than stand there: what they change besides, what is printed, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin.config_apply import apply
from flashferry.lab.standin.config_rules import SECTION_TREES
from flashferry.lab.standin.grammar import Invalid, Matched, match
from flashferry.lab.standin.interfaces import address_of, vrf_of
from flashferry.lab.standin.routing import GLOBAL_TABLE, vrf_names

if TYPE_CHECKING:
    from flashferry.lab.standin.config_rules import ConfigAction
    from flashferry.lab.standin.configuration import Configuration

_SSH_WINDOW_NOTE = (
    "\n%% Warning: This cli may have impact on CPU. So,use only for SCP\n"
    "Please configure ip tcp window-size<> with same value,for this CLI to work\n\n"
)


def note_on_global(found: Matched[ConfigAction]) -> str:
    """Return what is printed behind a global line (capture of `ip ssh window-size`)."""
    return _SSH_WINDOW_NOTE if found.words[:3] == ("ip", "ssh", "window-size") else ""


def beyond_window(found: Matched[ConfigAction], line: str, largest_bytes: int | None) -> Invalid | None:
    """Refuse a window above the largest that a device takes: out of range is a caret under the number."""
    if largest_bytes is None or found.words[:3] != ("ip", "tcp", "window-size"):
        return None
    return Invalid(offset=line.index(found.arguments[0])) if int(found.arguments[0]) > largest_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a line of a section brings: text that is printed, and whether the line is taken."""

    text: str = ""
    is_taken: bool = True


def on_interface(target: Configuration, found: Matched[ConfigAction], section: str) -> Note:
    """Do what a change of an interface's VRF does first: its address goes, and the VRF has to be there.

    Both sentences are those of public logs; that for an unknown VRF is of older releases.
    """
    is_set = found.words[:2] == ("vrf", "forwarding")
    line = target.find(section)
    if line is None or not (is_set or found.words[:3] == ("no", "vrf", "forwarding")):
        return Note()
    now, requested = vrf_of(line), found.arguments[0] if is_set else GLOBAL_TABLE
    if is_set and requested not in vrf_names(target):
        return Note(text=f"% VRF {requested} not configured.\n", is_taken=False)
    if now == requested:
        return Note()
    why = f"enabling VRF {requested}" if is_set else f"disabling VRF {now}"
    return Note(text=_without_address(target, section, why))


def _without_address(target: Configuration, section: str, why: str) -> str:
    line = target.find(section)
    found = match(SECTION_TREES["config-if"], "no ip address")
    if line is None or address_of(line) is None or not isinstance(found, Matched):
        return ""
    apply(target, found, mode="config-if", section=section)
    name = section.removeprefix("interface ")
    return f"% Interface {name} IPv4 disabled and address(es) removed due to {why}\n"
