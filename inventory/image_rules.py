"""Choice of a device's image: the one that its inventory names, else that of the first matching rule.

The rules of a fleet are in a YAML file, by convention `images.yaml` in the inventory's folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import PLATFORM_WORDS, described, described_image, is_image_name, unknown_key
from inventory.releases import VersionCondition, read_condition
from inventory.value_readers import at_home, read_image
from inventory.yaml_file import line_of, read_mapping


class Traits(Struct, frozen=True, kw_only=True):
    """Properties of a device by its output.

    Attributes:
        platform: Platform by `show version`, `ios` or `ios-xe`; the inventory's `platform` is NAPALM's `ios` for both.
        model: Model by `show version`, such as `ISR4331/K9`.
        version: Its release, such as `17.9.4a` or `15.8(3)M2`.
    """

    platform: str
    model: str
    version: str

    def __str__(self) -> str:
        """Return the properties as part of a sentence: `ISR4331/K9 with ios-xe 17.9.4a`."""
        return f"{self.model or 'an unknown model'} with {self.platform} {self.version or 'of an unknown version'}"


class ImageChoice(Struct, frozen=True, kw_only=True):
    """The image chosen for a device.

    Attributes:
        image: File name or path, as written.
        reason: Why this one: `explicit for the host`, `rule 2: model ISR4*`.
        path: Path of the file if the image was written with a folder; None for a bare name.
        adds: Whether devices in install mode add the image (`install add`) after their configuration was restored.
    """

    image: str
    reason: str
    path: Path | None = None
    adds: bool = False


class Rule(Struct, frozen=True, kw_only=True):
    """One rule; a condition that is None matches every device.

    Attributes:
        number: Its position in the file, from 1.
        image: The image as written; None if matching devices keep their software.
        platform: As in `Traits`.
        model: Shell pattern for the model, case-insensitive.
        version: Condition on the present release.
        adds: Whether devices in install mode also add the image.
    """

    number: int
    image: str | None
    platform: str | None = None
    model: str | None = None
    version: VersionCondition | None = None
    adds: bool = False

    def fits(self, traits: Traits) -> bool:
        """Return whether the rule matches a device.

        Raises:
            ConfigInvalid: The device's release cannot be compared with the rule's.
        """
        if self.platform not in (None, traits.platform):
            return False
        if self.model is not None and not fnmatchcase(traits.model.upper(), self.model.upper()):
            return False
        return self.version is None or self.version.holds(traits.version)

    def covers(self, other: Rule) -> bool:
        """Return whether the rule certainly matches every device that the other matches; False if uncertain."""
        if self.platform not in (None, other.platform):
            return False
        if self.model is not None and not _covers(self.model, other.model):
            return False
        return self.version is None or (other.version is not None and self.version.covers(other.version))

    def __str__(self) -> str:
        """Return number and conditions: `rule 2: model ISR4*, version < 17.9.4`."""
        parts = [("platform", self.platform), ("model", self.model), ("version", self.version)]
        said = ", ".join(f"{key} {value}" for key, value in parts if value is not None)
        return f"rule {self.number}: {said or 'any device'}"


class ImageRules(Struct, frozen=True, kw_only=True):
    """The rules of a fleet.

    Attributes:
        rules: In order; the first match decides.
        source: Their file, to whose folder relative image paths refer; None if there is none, and so no rules.
    """

    rules: tuple[Rule, ...] = ()
    source: Path | None = None

    def choose(self, traits: Traits, *, explicit: str | None = None) -> ImageChoice:
        """Return the image for a device.

        Args:
            traits: Its properties.
            explicit: The image that its inventory names, which has precedence over all rules.

        Raises:
            ConfigInvalid: No rule matches, the matching rule has `stay`, the release cannot be compared with a rule's,
                or the folder of the explicit image does not exist.
        """
        if explicit is not None:
            return self._choice(explicit, "explicit for the host")
        rule = next((rule for rule in self.rules if self._fits(rule, traits)), None)
        if rule is None:
            seen = f"no rule of {self.source} fits" if self.source else "there are no image rules for"
            raise ConfigInvalid(f"{seen} {traits}", hint="Add a rule, or give the device a data key 'image'")
        if rule.image is None:
            raise ConfigInvalid(
                f"{traits} stays as it is, by {rule} in {self.source}",
                hint="To give it an image, put a rule for it before that one, or name one in its data key 'image'",
            )
        return replace(self._choice(rule.image, str(rule)), adds=rule.adds)

    def _fits(self, rule: Rule, traits: Traits) -> bool:
        try:
            return rule.fits(traits)
        except ConfigInvalid as error:
            raise ConfigInvalid(f"{self.source}: {rule}: {error.message}", hint=error.hint) from None

    def _choice(self, image: str, reason: str) -> ImageChoice:
        return ImageChoice(image=image, reason=reason, path=image_path(image, self.source))


def image_path(image: str, source: Path | None) -> Path | None:
    """Return the path of an image that was written with a folder, None for a bare name.

    Args:
        image: The image as written.
        source: File to whose folder a relative path refers; None for the current folder.

    Raises:
        ConfigInvalid: Its folder does not exist.
    """
    if "/" not in image:
        return None
    path = (source.parent if source else Path()) / at_home(image)
    if not path.parent.is_dir():
        folder = f"a folder {path.parent}" if is_image_name(image) else "its folder to be there"
        raise ConfigInvalid(
            f"image {described_image(image)}: expected {folder}, found none",
            hint="Make the folder, or correct the path; a relative one starts at the file that it stands in",
        )
    return path


def _covers(pattern: str, other: str | None) -> bool:
    """Return whether a pattern certainly matches everything that the other one matches.

    A `*` covers any text and wildcards of the other; `?` and `[...]` are not evaluated, so the answer may be False.
    """
    if other is None:
        return pattern.strip("*") == "" and pattern != ""
    ours, theirs = pattern.upper(), other.upper()
    if ours == theirs:
        return True
    return not set("?[") & set(ours) and "[" not in theirs and fnmatchcase(theirs, ours)


__all__ = ["RULES_FILE", "ImageChoice", "ImageRules", "Traits", "load_image_rules", "rules_beside"]

RULES_FILE = "images.yaml"
"""Conventional name of the file."""

_KEYS = ("platform", "model", "version", "image", "stay", "add")


def load_image_rules(path: Path, platforms: Sequence[str]) -> ImageRules:
    """Return the rules in a file.

    Args:
        path: The file.
        platforms: The platforms that a rule may name.

    Raises:
        ConfigInvalid: The file is missing or unreadable, a key or value is wrong, an earlier rule covers a rule, or the
            folder of an image does not exist.
    """
    if not path.is_file():
        raise ConfigInvalid(
            f"no image rules at {path}: expected a YAML file with the key 'rules'",
            hint="Give the file with --image-rules, or put it there with one rule for each kind of device",
        )
    content = read_mapping(path)
    for key in content:
        if key != "rules":
            raise ConfigInvalid(
                f"{path}: {unknown_key(key, ('rules',))}{line_of(path, key)}",
                hint="All rules stand in the list below 'rules'",
            )
    entries = content.get("rules")
    if not isinstance(entries, list) or not entries:
        found = described(entries)
        raise ConfigInvalid(
            f"{path}: key 'rules': expected a list with at least one rule, found {found}",
            hint="Begin each rule with a dash, as in '- {model: ISR4*, image: isr4300.bin}'",
        )
    try:
        rules = [_rule(number, entry, path, platforms) for number, entry in enumerate(entries, start=1)]
        _check_reached(rules)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{path}: {error.message}", hint=error.hint) from None
    return ImageRules(rules=tuple(rules), source=path)


def rules_beside(inventory: Path, platforms: Sequence[str]) -> ImageRules:
    """Return the rules in `images.yaml` in an inventory's folder; none if the file does not exist.

    Args:
        inventory: The inventory's folder, or a Nornir configuration file in it.
        platforms: The platforms that a rule may name.

    Raises:
        ConfigInvalid: As `load_image_rules`.
    """
    path = (inventory if inventory.is_dir() else inventory.parent) / RULES_FILE
    return load_image_rules(path, platforms) if path.is_file() else ImageRules()


def _rule(number: int, entry: object, path: Path, platforms: Sequence[str]) -> Rule:
    """Read one rule; `number`, from 1, is its number in error messages."""
    try:
        if not isinstance(entry, dict):
            raise ConfigInvalid(
                f"expected a mapping, found {described(entry)}",
                hint="Write it as '- {model: ISR4*, image: isr4300.bin}'",
            )
        _check_keys(entry)
        image = read_image(entry.get("image"))
        if image is not None:
            image_path(image, path)
        return Rule(
            number=number,
            image=image,
            platform=_platform(entry.get("platform"), platforms),
            model=_text("model", entry.get("model"), "a pattern such as ISR4*"),
            version=_version(entry.get("version")),
            adds=entry.get("add", False),
        )
    except ConfigInvalid as error:
        raise ConfigInvalid(f"rule {number}: {error.message}", hint=error.hint) from None


def _check_keys(entry: dict[Any, Any]) -> None:
    for key in entry:
        if key not in _KEYS:
            raise ConfigInvalid(unknown_key(key, _KEYS), hint="Correct the key, or leave it out")
    stay = entry.get("stay", False)
    if not isinstance(stay, bool):
        raise ConfigInvalid(
            f"stay: expected true or false, found {described(stay)}",
            hint="Write 'stay: true' for devices that keep what they have, without quotes",
        )
    _check_add(entry.get("add", False), stay=stay)
    if stay == (entry.get("image") not in (None, "")):
        found = "both" if stay else "neither"
        raise ConfigInvalid(
            f"expected either an 'image' or 'stay: true', found {found}",
            hint="Give one of the two: the image that these devices are to have, or that they stay as they are",
        )


def _check_add(add: object, *, stay: bool) -> None:
    if not isinstance(add, bool) or (add and stay):
        found = "'stay: true' beside it" if add is True else described(add)
        raise ConfigInvalid(
            f"add: expected true or false, with an image, found {found}",
            hint="Write 'add: true' beside an image that devices in install mode are to add, without quotes",
        )


def _platform(value: object, platforms: Sequence[str]) -> str | None:
    if value is None or value in platforms:
        return None if value is None else str(value)
    raise ConfigInvalid(
        f"platform: expected {' or '.join(platforms)}, found {described(value, PLATFORM_WORDS)}",
        hint="Name the platform of the devices that the rule is for, or leave the key out for all of them",
    )


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
