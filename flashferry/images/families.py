"""Which image files are for which models: what a file's name, a model and a `show version` have in common.

The table is data, `families.toml` beside this module, with a source in every row.

Facts
-----
* `show version` of IOS and of switches prints the platform in brackets, `(C2960X-UNIVERSALK9-M)`, `(CAT9K_IOSXE)`;
  that of IOS-XE routers prints the processor it was built for, `(X86_64_LINUX_IOSD-UNIVERSALK9-M)`: no platform.
* A router's ROM monitor refuses an image of another platform, and then the router does not boot.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files

from flashferry.images.file_name import read_file_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Models that take images of the same platform.

    Attributes:
        images: Platform words, as file names of its images start with them, in lower case.
        models: Shell patterns of its models, in capitals.
        is_one_image: Whether all its models take all its images; else only what a device runs decides.
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
"""No models: its images are known as none of any device here."""

TAKES = frozenset((row["device"], row["image"]) for row in _TABLE["takes"])
"""A device of the first family takes images of the second."""

RENAMED = frozenset((row["from"], row["to"]) for row in _TABLE["renamed"])
"""A device that runs an image of the first word takes those of the second."""

_BY_WORD = {word: family for family in FAMILIES for word in family.images}


def family_of_image(name: str) -> Family | None:
    """Return the family that a file's name, or a platform as `show version` prints it, belongs to; None if unknown."""
    word = read_file_name(name).platform
    return _BY_WORD.get(word or name.casefold().partition(".")[0].partition("-")[0])


def family_of_model(model: str) -> Family | None:
    """Return the family of a model as the device shows it, or None."""
    folded = model.upper()
    return next((one for one in FAMILIES if any(fnmatchcase(folded, pattern) for pattern in one.models)), None)
