"""Configuration mode: from typed lines to the running configuration, for a vty, a file or another user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flashferry.lab.standin.config_apply import apply
from flashferry.lab.standin.config_notes import Note, beyond_window, note_on_global, on_interface
from flashferry.lab.standin.config_rules import SECTION_TREES, ConfigAction, global_tree
from flashferry.lab.standin.config_text import banner_line, banner_start
from flashferry.lab.standin.grammar import Ambiguous, Incomplete, Invalid, Matched, Node, match
from flashferry.lab.standin.interfaces import canonical_interface
from flashferry.lab.standin.levels import is_denied
from flashferry.lab.standin.refusals import AUTHORIZATION_FAILED

if TYPE_CHECKING:
    from flashferry.lab.standin.configuration import Configuration
    from flashferry.lab.standin.device import Device

Refusal = Invalid | Incomplete | Ambiguous


class ConfigSession:
    """One user's way through the configuration modes.

    Args:
        device: Whose configuration; its faults decide what is refused or does not take.
        target: What is changed; None for the running configuration.
        denied: Commands that this user may not use, as `flashferry.lab.standin.levels.is_denied` takes them.
    """

    def __init__(
        self, device: Device, target: Configuration | None = None, denied: tuple[str, ...] = ()
    ) -> None:  # fmt: skip
        self.mode = "config"
        self.section = ""
        self._device = device
        self._target = target
        self._denied = denied
        self._global_tree = global_tree(device.platform.ssh_client.unknown_lines)
        self._banner: tuple[str, str, list[str]] | None = None

    @property
    def in_banner(self) -> bool:
        """Whether the next line is text of a banner."""
        return self._banner is not None

    @property
    def target(self) -> Configuration:
        """What is changed."""
        return self._device.running if self._target is None else self._target

    @property
    def tree(self) -> Node[ConfigAction]:
        """The commands of the present mode, for help."""
        return SECTION_TREES.get(self.mode, self._global_tree)

    def leave_section(self) -> bool:
        """Go up one mode; False when that leaves configuration mode."""
        was_in_section = bool(self.section)
        self._enter("config", "")
        return was_in_section

    def take(self, line: str) -> str | Refusal:
        """Act on a line that is no ``exit``, ``end`` or ``do``; return what is printed, or how it is refused."""
        if self._banner is not None:
            return self._banner_row(line)
        start = banner_start(line)
        if start is not None:
            self._banner = (start[0], start[1], [])
            self._banner_row(start[2])
            return self._prompt_for_text() if self.in_banner else ""
        faults = self._device.faults
        if faults.refuse_config_pattern and re.search(faults.refuse_config_pattern, line):
            self._device.happened.append(f"refused: {line}")
            return AUTHORIZATION_FAILED
        if faults.ignore_config_pattern and re.search(faults.ignore_config_pattern, line):
            return ""
        return self._match(line)

    def _match(self, line: str) -> str | Refusal:
        tree = SECTION_TREES.get(self.mode)
        found: Matched[ConfigAction] | Refusal = match(tree, line) if tree is not None else Invalid(offset=0)
        in_global = match(self._global_tree, line)
        if isinstance(found, Matched):
            # Sections whose lines are taken as they come would swallow the global command that leaves them.
            if found.action.rule.is_free and isinstance(in_global, Matched):
                return self._globally(in_global, line)
            return self._within_section(found)
        # A line that fits no command of the section leaves it, if it is a global command.
        if not isinstance(in_global, Matched):
            return in_global if tree is None or not isinstance(in_global, Invalid) else found
        return self._globally(in_global, line)

    def _within_section(self, found: Matched[ConfigAction]) -> str:
        if is_denied(found.text, self._denied):
            return AUTHORIZATION_FAILED
        note = on_interface(self.target, found, self.section) if self.mode == "config-if" else Note()
        if note.is_taken:
            apply(self.target, found, mode=self.mode, section=self.section)
        return note.text

    def _globally(self, found: Matched[ConfigAction], line: str) -> str | Refusal:
        if is_denied(found.text, self._denied):
            return AUTHORIZATION_FAILED
        beyond = beyond_window(found, line, self._device.faults.largest_window_bytes)
        if beyond is not None:
            return beyond
        if found.action.rule.specification == "interface WORD":
            name = canonical_interface("".join(found.arguments), self.target)
            if name is None:
                return Invalid(offset=line.index(found.arguments[0]))
            words = (*found.words[: found.words.index("interface") + 1], name)
            found = Matched(action=found.action, arguments=(name,), words=words)
        section = found.action.rule.section if found.action.form == "set" else None
        key = found.action.key(found)
        if section is None or self.target.find(key) is None:
            apply(self.target, found)
        self._enter(section or "config", key if section else "")
        return note_on_global(found)

    def _enter(self, mode: str, section: str) -> None:
        """Go to a mode; an applet counts from the moment in which its own is left."""
        was, self.mode, self.section = self.mode, mode, section
        if was == "config-applet" or mode == "config-applet":
            self._device.applets.settle(besides=section)

    def _prompt_for_text(self) -> str:
        assert self._banner is not None
        return f"Enter TEXT message.  End with the character '{self._banner[1]}'.\n"

    def _banner_row(self, row: str) -> str:
        """Take a row of a banner; the delimiter ends it."""
        assert self._banner is not None
        key, delimiter, rows = self._banner
        text, found, _ = row.partition(delimiter)
        rows.append(text)
        if found:
            self._banner = None
            self.target.put(banner_line(key, "\n".join(rows)), key=key)
        return ""
