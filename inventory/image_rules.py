"""Read the image rules of a fleet from a YAML file, by convention `images.yaml` in the inventory's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flashferry.core.described import PLATFORM_WORDS, described, unknown_key
from flashferry.core.errors import ConfigInvalid
from inventory.conditions import VersionCondition, read_condition
from inventory.image_choice import PLATFORMS, ImageChoice, ImageRules, Rule, Traits, image_path
from inventory.values import read_image
from inventory.yaml_file import line_of, read_mapping

__all__ = ["RULES_FILE", "ImageChoice", "ImageRules", "Traits", "load_image_rules", "rules_beside"]

RULES_FILE = "images.yaml"
"""The conventional name."""

_KEYS = ("platform", "model", "version", "image", "stay")


def load_image_rules(path: Path) -> ImageRules:
    """Return the rules in a file.

    Raises:
        ConfigInvalid: The file is missing or unreadable, a key or a value is wrong, a rule can never be reached, or the
            folder of an image does not exist.
    """
    if not path.is_file():
        raise ConfigInvalid(f"no image rules at {path}: expected a YAML file with the key 'rules'")
    content = read_mapping(path)
    for key in content:
        if key != "rules":
            raise ConfigInvalid(f"{path}: {unknown_key(key, ('rules',))}{line_of(path, key)}")
    entries = content.get("rules")
    if not isinstance(entries, list) or not entries:
        found = described(entries)
        raise ConfigInvalid(f"{path}: key 'rules': expected a list with at least one rule, found {found}")
    try:
        rules = [_rule(number, entry, path) for number, entry in enumerate(entries, start=1)]
        _check_reached(rules)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{path}: {error.message}", hint=error.hint) from None
    return ImageRules(rules=tuple(rules), source=path)


def rules_beside(inventory: Path) -> ImageRules:
    """Return the rules in `images.yaml` beside an inventory's files; where there is none, only explicit images count.

    Args:
        inventory: The inventory's folder, or a Nornir configuration file: then the folder that it is in.

    Raises:
        ConfigInvalid: As `load_image_rules`.
    """
    path = (inventory if inventory.is_dir() else inventory.parent) / RULES_FILE
    return load_image_rules(path) if path.is_file() else ImageRules()


def _rule(number: int, entry: object, path: Path) -> Rule:
    """Return one rule; `number` counts from 1 and stands in every complaint."""
    try:
        if not isinstance(entry, dict):
            raise ConfigInvalid(f"expected a mapping, found {described(entry)}")
        _check_keys(entry)
        image = read_image(entry.get("image"))
        if image is not None:
            image_path(image, path)
        return Rule(
            number=number,
            image=image,
            platform=_platform(entry.get("platform")),
            model=_text("model", entry.get("model"), "a pattern such as ISR4*"),
            version=_version(entry.get("version")),
        )
    except ConfigInvalid as error:
        raise ConfigInvalid(f"rule {number}: {error.message}", hint=error.hint) from None


def _check_keys(entry: dict[Any, Any]) -> None:
    for key in entry:
        if key not in _KEYS:
            raise ConfigInvalid(unknown_key(key, _KEYS))
    stay = entry.get("stay", False)
    if not isinstance(stay, bool):
        raise ConfigInvalid(f"stay: expected true or false, found {described(stay)}")
    if stay == (entry.get("image") not in (None, "")):
        found = "both" if stay else "neither"
        raise ConfigInvalid(f"expected either an 'image' or 'stay: true', found {found}")


def _platform(value: object) -> str | None:
    if value is None or value in PLATFORMS:
        return None if value is None else str(value)
    raise ConfigInvalid(f"platform: expected {' or '.join(PLATFORMS)}, found {described(value, PLATFORM_WORDS)}")


def _version(value: object) -> VersionCondition | None:
    text = _text("version", value, "text such as '< 17.9.4' or '17.9.*'")
    return None if text is None else read_condition(text)


def _text(key: str, value: object, expected: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value.strip():
        return value.strip()
    # 17.9 without quotes is a number, and 17.10 would lose its zero.
    hint = "Put it in quotes" if isinstance(value, int | float) else None
    raise ConfigInvalid(f"{key}: expected {expected}, found {described(value)}", hint=hint)


def _check_reached(rules: Sequence[Rule]) -> None:
    for place, rule in enumerate(rules):
        for earlier in rules[:place]:
            if earlier.covers(rule):
                raise ConfigInvalid(
                    f"{rule}: can never be reached, for {earlier} fits whatever it fits",
                    hint="Put it before that one, or leave it out",
                )
