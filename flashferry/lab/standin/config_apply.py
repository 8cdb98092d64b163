"""Apply a matched configuration command to a configuration, as IOS does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.lab.standin.config_rules import RULES, ConfigAction

if TYPE_CHECKING:
    from flashferry.lab.standin.configuration import Configuration
    from flashferry.lab.standin.grammar import Matched


def apply(
    configuration: Configuration, matched: Matched[ConfigAction], *, mode: str = "config", section: str = ""
) -> None:
    """Change the configuration.

    Args:
        configuration: What is changed.
        matched: The command.
        mode: The configuration mode it was typed in.
        section: The line that opened that mode; empty for the global mode.
    """
    action = matched.action
    rule, key = action.rule, action.key(matched)
    if rule.is_fixed:
        return
    place = _Section(configuration, section, mode) if section else _Global(configuration)
    text = action.line(matched)
    if action.form == "set":
        place.remove(f"no {key}")
        if text == rule.default:
            place.remove(key)
        else:
            place.put(text, key)
        return
    shown = rule.shows_no and not (action.form == "default" and rule.default is not None)
    while place.remove(key) and (rule.no_takes_all or rule.no_takes_list):
        pass
    if shown:
        place.put(f"no {key}", f"no {key}")
    else:
        place.remove(f"no {key}")


class _Global:
    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def put(self, text: str, key: str) -> None:
        self._configuration.put(text, key=key)

    def remove(self, key: str) -> bool:
        return self._configuration.remove(key)


class _Section:
    def __init__(self, configuration: Configuration, section: str, mode: str) -> None:
        self._configuration = configuration
        self._section = section
        rules = RULES[mode]
        self._order = tuple(r.key(tuple(r.specification.split())) for r in rules if not r.is_free)

    def put(self, text: str, key: str) -> None:
        self._configuration.put_child(self._section, text, key=key, order=self._order)

    def remove(self, key: str) -> bool:
        return self._configuration.remove_child(self._section, key)
