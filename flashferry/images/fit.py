"""Whether an image is for the platform of a device, by what both say of themselves. Pure.

Three answers, for a wrong "yes" costs a boot and a wrong "no" a night: it is, it is not, or it is not known. It is not
where the table of `flashferry.images.families` knows both and they differ, or where both print a platform's word and
the words differ: `c800m` is none of `c2900`, whether the table has either or not. What is unknown is staged, with a
note: nothing is activated by a copy, so it costs its own time and space, while a refusal of every name that says
nothing would teach everybody to insist, always.

The name inside an image counts before the name of its file. IOS images and IOS-XE packages have a block `CW_BEGIN` ...
`CW_END` with `CW_IMAGE$C870-ADVIPSERVICESK9-M$`, in packages `CW_IMAGE=$cat9k_iosxe.16.05.01a.SPA.bin$` (D. Stevens,
"Identifying IOS", 2012; Cisco's boot loader prints it of the package that it loads). A device is known by its model, by
the platform in its `show version`, and by the name of the file that it runs; where those disagree, nothing is
concluded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from flashferry.images.families import RENAMED, TAKES, Family, family_of_image, family_of_model
from flashferry.images.file_name import read_file_name

INSIST = "--any-image"
"""The option that has an image staged all the same."""

_SOFTWARE = re.compile(
    r"(?mi)^(?:cisco )?(?:ios|internetwork operating system)\b.*\(([\w-]+)\), +(?:experimental )?version "
)


class Fits(StrEnum):
    """Whether an image is for the platform of a device."""

    YES = "of this platform"
    NO = "of another platform"
    UNKNOWN = "cannot be told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What a device says of its platform.

    Attributes:
        models: Its model, in all the forms in which it is printed.
        software: The platform in brackets in `show version`, or None.
        running: Name of the file that it runs, without folders, or None.
    """

    models: tuple[str, ...] = ()
    software: str | None = None
    running: str | None = None

    @property
    def model(self) -> str:
        """Return the model for people."""
        return next((one for one in self.models if one), "device of unknown model")

    @property
    def family(self) -> Family | None:
        """Return its family; None where nothing shows it, or two sources disagree."""
        known = self._families
        return known[0] if len(known) == 1 else None

    @property
    def word(self) -> str | None:
        """Return the platform's word by the software that it runs; None where it is not shown, or contradicted."""
        words = {read_file_name(name).platform for name in (self.software, self.running) if name} - {None}
        return words.pop() if len(words) == 1 and len(self._families) < 2 else None

    @property
    def _families(self) -> list[Family]:
        found = [family_of_model(model) for model in self.models]
        found += [family_of_image(name) for name in (self.software, self.running) if name]
        return list({one.name: one for one in found if one is not None}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFit:
    """What is known of an image and a device together.

    Attributes:
        reason: Why, in a sentence without a full stop.
        image_family: Family of the image, or None where it is not known.
    """

    fits: Fits
    reason: str
    image_family: str | None = None
    device_family: str | None = None


def platform_of(version: str, models: Iterable[str], running: str | None) -> Platform:
    """Return what a device says of its platform."""
    software = _SOFTWARE.search(version)
    name = running.rpartition("/")[2] if running else ""
    return Platform(
        models=tuple(dict.fromkeys(model for model in models if model)),
        software=software[1] if software else None,
        running=name or None,
    )


def image_fit(name: str, inside: str | None, platform: Platform) -> ImageFit:
    """Return whether an image is for a device, by its file's name and the name inside the file, if any."""
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
    """An image by its names; the one inside the file counts first."""

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
    """Compare the names of the image and of the device's software, where the table lacks one of them."""
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
