"""Decision whether an image is for the platform of a device, by file name, model and `show version`.

The table of families is `families.toml` beside this module, with a source in every row.

Facts
-----
* `show version` of IOS and of switches prints the platform in brackets, `(C2960X-UNIVERSALK9-M)`, `(CAT9K_IOSXE)`;
  that of IOS-XE routers prints the processor it was built for, `(X86_64_LINUX_IOSD-UNIVERSALK9-M)`: no platform.
* A router's ROM monitor refuses an image of another platform, and then the router does not boot.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files

from msgspec import Struct

from flashferry.images.file_name import read_file_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Models that take images of the same platform.

    Attributes:
        images: Platform words that the file names of its images start with, in lower case.
        models: Shell patterns of its models, in capitals.
        is_one_image: Whether all its models take all its images; otherwise the software that a device runs decides.
    """

    name: str
    images: tuple[str, ...]
    models: tuple[str, ...]
    source: str
    is_one_image: bool = True


_TABLE = tomllib.loads(files("flashferry.images").joinpath("families.toml").read_text(encoding="utf-8"))

FAMILIES = tuple(
    Family(
        name=row["name"],
        images=tuple(row["images"]),
        models=tuple(row["models"]),
        source=row["source"],
        is_one_image=not row.get("images_differ", False),
    )
    for row in _TABLE["family"]
)
"""All families. One without models only serves to recognise images that are for none of our devices."""

TAKES = frozenset((row["device"], row["image"]) for row in _TABLE["takes"])
"""Pairs of families: a device of the first takes images of the second."""

RENAMED = frozenset((row["from"], row["to"]) for row in _TABLE["renamed"])
"""Pairs of platform words: a device that runs an image of the first takes images of the second."""

_BY_WORD = {word: family for family in FAMILIES for word in family.images}


def family_of_image(name: str) -> Family | None:
    """Return the family of an image's file name, or of a platform as `show version` prints it; None if unknown."""
    word = read_file_name(name).platform
    return _BY_WORD.get(word or name.casefold().partition(".")[0].partition("-")[0])


@lru_cache(maxsize=256)
def family_of_model(model: str) -> Family | None:
    """Return the family of a model as the device shows it, or None."""
    folded = model.upper()
    return next((one for one in FAMILIES if any(fnmatchcase(folded, pattern) for pattern in one.models)), None)


ANY_IMAGE_OPTION = "--any-image"
"""Option that stages an image although it does not fit the device."""

_SOFTWARE = re.compile(
    r"(?mi)^(?:cisco )?(?:ios|internetwork operating system)\b.*\(([\w-]+)\), +(?:experimental )?version "
)


class Fits(StrEnum):
    """Whether an image is for the platform of a device."""

    YES = "of this platform"
    NO = "of another platform"
    UNKNOWN = "cannot be told"


class Platform(Struct, frozen=True, kw_only=True):
    """Platform of a device by its own output.

    Attributes:
        models: Its model, in all the forms that its commands print.
        software: The platform in brackets in `show version`, or None.
        running: Name of the image file that it runs, without folders, or None.
    """

    models: tuple[str, ...] = ()
    software: str | None = None
    running: str | None = None

    @property
    def model(self) -> str:
        """Return the first model name, or a phrase if there is none."""
        return next((one for one in self.models if one), "device of unknown model")

    @property
    def family(self) -> Family | None:
        """Return its family; None if no source shows it, or two sources disagree."""
        known = self._families
        return known[0] if len(known) == 1 else None

    @property
    def word(self) -> str | None:
        """Return the platform word of the software that it runs; None if unknown or contradictory."""
        words = {read_file_name(name).platform for name in (self.software, self.running) if name} - {None}
        return words.pop() if len(words) == 1 and len(self._families) < 2 else None

    @property
    def _families(self) -> list[Family]:
        found = [family_of_model(model) for model in self.models]
        found += [family_of_image(name) for name in (self.software, self.running) if name]
        return list({one.name: one for one in found if one is not None}.values())


class ImageFit(Struct, frozen=True, kw_only=True):
    """Whether an image is for a device.

    Attributes:
        reason: Why, in a sentence without a full stop.
        image_family: Family of the image; None if unknown.
    """

    fits: Fits
    reason: str
    image_family: str | None = None
    device_family: str | None = None


def platform_of(version: str, models: Iterable[str], running: str | None) -> Platform:
    """Return a device's platform.

    Args:
        version: Output of `show version`.
        models: Its model in all printed forms; empty ones are ignored.
        running: Path of the image that it runs, or None.
    """
    software = _SOFTWARE.search(version)
    name = running.rpartition("/")[2] if running else ""
    return Platform(
        models=tuple(dict.fromkeys(model for model in models if model)),
        software=software[1] if software else None,
        running=name or None,
    )


def image_fit(name: str, inside: str | None, platform: Platform) -> ImageFit:
    """Decide whether an image is for a device, by its file name and the image name embedded in it, if any."""
    named = _NamedImage.of(name, inside)
    mine, theirs = named.family, platform.family
    fits, reason = (
        _compared(named, theirs, platform) if mine is not None and theirs is not None else _by_words(named, platform)
    )
    return ImageFit(
        fits=fits,
        reason=reason,
        image_family=mine.name if mine else None,
        device_family=theirs.name if theirs else None,
    )


@dataclass(frozen=True, slots=True)
class _NamedImage:
    """Platform of an image by its names; the one embedded in the file has precedence."""

    name: str
    word: str | None
    family: Family | None
    source: str

    @classmethod
    def of(cls, name: str, inside: str | None) -> _NamedImage:
        for named, source in ((inside, f"by the name inside the file, {inside}"), (name, "by its name")):
            family = family_of_image(named) if named else None
            word = read_file_name(named).platform if named else None
            if family is not None or word is not None:
                return cls(name, word or (family.images[0] if family else None), family, source)
        return cls(name, None, None, "")

    @property
    def is_for(self) -> str:
        if self.family is not None:
            return f"{self.name} is for the family {self.family.name} ({self.source})"
        return f"{self.name} is for the platform {self.word} ({self.source})"


def _compared(image: _NamedImage, theirs: Family, platform: Platform) -> tuple[Fits, str]:
    """Compare two families that are known."""
    mine = image.family
    assert mine is not None
    if mine is not theirs and (theirs.name, mine.name) not in TAKES:
        return Fits.NO, f"{image.is_for}, this is a {platform.model} ({theirs.name}){_runs(platform)}"
    if mine is theirs and not mine.is_one_image:
        if platform.word is not None:
            return _by_words(image, platform)
        return Fits.UNKNOWN, f"{image.is_for}, as the {platform.model} is, but images of that family differ by model"
    return Fits.YES, f"{image.is_for}, as it takes them"


def _by_words(image: _NamedImage, platform: Platform) -> tuple[Fits, str]:
    """Compare the platform words of the image and of the device's software, if the family of one is unknown."""
    if image.word is None:
        return Fits.UNKNOWN, f"neither its name nor the file shows a platform known here: {image.name}"
    theirs = {platform.word} if platform.word else set(platform.family.images if platform.family else ())
    if not theirs:
        return Fits.UNKNOWN, f"{image.is_for}, and the platform of the {platform.model} is not known here"
    if image.word in theirs or any((one, image.word) in RENAMED for one in theirs):
        return Fits.YES, f"{image.name} is named like what the {platform.model} runs"
    takes = ", ".join(sorted(theirs))
    return Fits.NO, f"{image.is_for}, this is a {platform.model}, which takes {takes}{_runs(platform)}"


def _runs(platform: Platform) -> str:
    return f", which runs {platform.running}" if platform.running else ""
