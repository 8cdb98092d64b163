"""Which image a device is to have: its own, else that of the first rule that fits what it is."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from flashferry.core.described import described_image, is_image_name
from flashferry.core.errors import ConfigInvalid
from inventory.conditions import VersionCondition
from inventory.values import at_home

PLATFORMS = ("ios", "ios-xe")
"""What `show version` tells a device to be; the inventory's `platform` is NAPALM's, and `ios` for both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a device was seen to be.

    Attributes:
        platform: One of `PLATFORMS`.
        model: As `show version` has it, such as `ISR4331/K9`.
        version: Its release, such as `17.9.4a` or `15.8(3)M2`.
    """

    platform: str
    model: str
    version: str

    def __str__(self) -> str:
        """Return it for a sentence: `ISR4331/K9 with ios-xe 17.9.4a`."""
        return f"{self.model or 'an unknown model'} with {self.platform} {self.version or 'of an unknown version'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChoice:
    """The image chosen for a device.

    Attributes:
        image: File name or path, as written.
        reason: Why this one, in words: `explicit for the host`, `rule 2: model ISR4*`.
        path: Where the file is to be, for an image that was written with a folder; None for a bare name.
    """

    image: str
    reason: str
    path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; a condition that is None fits everything.

    Attributes:
        number: Its place in the file, from 1.
        image: The image as written, or None: the device stays as it is.
        platform: One of `PLATFORMS`.
        model: Shell pattern over the model, whatever its case.
        version: Condition on the present release.
    """

    number: int
    image: str | None
    platform: str | None = None
    model: str | None = None
    version: VersionCondition | None = None

    def fits(self, traits: Traits) -> bool:
        """Return whether it is about such a device.

        Raises:
            ConfigInvalid: The device's release cannot be compared with the rule's.
        """
        if self.platform not in (None, traits.platform):
            return False
        if self.model is not None and not fnmatchcase(traits.model.upper(), self.model.upper()):
            return False
        return self.version is None or self.version.holds(traits.version)

    def covers(self, other: Rule) -> bool:
        """Return whether it surely fits wherever the other fits; False where that cannot be told."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRules:
    """The rules of a fleet.

    Attributes:
        rules: In order; the first that fits decides.
        source: The file they were read from; its folder is where images written with a relative folder are looked for.
            None where there is no file: then only explicit images count.
    """

    rules: tuple[Rule, ...] = ()
    source: Path | None = None

    def choose(self, traits: Traits, *, explicit: str | None = None) -> ImageChoice:
        """Return the image for a device.

        Args:
            traits: What it was seen to be.
            explicit: The image that its inventory names, which goes before all rules.

        Raises:
            ConfigInvalid: No rule fits, a rule says that the device stays as it is, its release cannot be compared
                with a rule's, or the folder of the explicit image does not exist.
        """
        if explicit is not None:
            return self._choice(explicit, "explicit for the host")
        rule = next((rule for rule in self.rules if self._fits(rule, traits)), None)
        if rule is None:
            seen = f"no rule of {self.source} fits" if self.source else "there are no image rules for"
            raise ConfigInvalid(f"{seen} {traits}", hint="Add a rule, or give the device a data key 'image'")
        if rule.image is None:
            raise ConfigInvalid(f"{traits} stays as it is, by {rule} in {self.source}")
        return self._choice(rule.image, str(rule))

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
        image: As written.
        source: The file that a relative path starts from, or None: from the current folder.

    Raises:
        ConfigInvalid: Its folder does not exist.
    """
    if "/" not in image:
        return None
    path = (source.parent if source else Path()) / at_home(image)
    if not path.parent.is_dir():
        folder = f"a folder {path.parent}" if is_image_name(image) else "its folder to be there"
        raise ConfigInvalid(f"image {described_image(image)}: expected {folder}, found none")
    return path


def _covers(pattern: str, other: str | None) -> bool:
    """Return whether everything that fits the other pattern fits this one, as far as that is plain.

    A `*` of ours takes whatever the other has there, wildcards included; `?` and `[...]` are not followed.
    """
    if other is None:
        return pattern.strip("*") == "" and pattern != ""
    ours, theirs = pattern.upper(), other.upper()
    if ours == theirs:
        return True
    return not set("?[") & set(ours) and "[" not in theirs and fnmatchcase(theirs, ours)
