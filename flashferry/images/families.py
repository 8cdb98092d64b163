"""Which image files are for which models: what a file's name, a model and a `show version` have in common.

Facts
-----
* An image is called `PLATFORM-FEATURES[-MEMORY].RELEASE`: `c2900-universalk9-mz.SPA.157-3.M.bin`, or
  `PLATFORM_iosxe.RELEASE`: `cat9k_iosxe.17.09.04.SPA.bin` (Cisco IOS and NX-OS Software Release Reference Guide,
  "Software Image Naming").
* `show version` of IOS and of switches prints the platform in brackets, `(C2960X-UNIVERSALK9-M)`, `(CAT9K_IOSXE)`;
  that of IOS-XE routers prints the processor it was built for, `(X86_64_LINUX_IOSD-UNIVERSALK9-M)`: no platform.
* A router's ROM monitor refuses an image of another platform, and then the router does not boot.

Each line of the table is taken from where it is named; what is in none of them is not in it, however likely. Sources:
gp, `show version` captures of genieparser 366d83b9; ntc, those of ntc-templates d0bc5a48; sw, Cisco's own table of
products and images for DNA Center's image management (class `ProductFamily`, Jay Young, MIT); ct, the table of models
and images of the Cacti plugin ciscotools; cl, notes of upgrades and course material that show a model with its image.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Models that take images of the same platform.

    Attributes:
        name: What people call it.
        images: What file names of its images begin with, in lower case; a sign that is no letter and no digit follows.
        models: Shell patterns of its models, in capitals.
        source: Who says so.
        is_one_image: Whether all its models take all its images; else only what a device runs tells which.
    """

    name: str
    images: tuple[str, ...]
    models: tuple[str, ...]
    source: str
    is_one_image: bool = True


FAMILIES = (
    Family(name="1800 (fixed)", images=("c180x",), models=("1801",), source="ntc"),
    Family(name="1900", images=("c1900",), models=("CISCO1921*", "CISCO1941*"), source="gp, cl"),
    Family(name="2600", images=("c2600",), models=("2611XM", "2621"), source="gp"),
    Family(name="2800", images=("c2800nm",), models=("2811", "2851"), source="cl"),
    Family(name="2900", images=("c2900",), models=("CISCO2911*",), source="cl"),
    Family(name="2951", images=("c2951",), models=("CISCO2951*",), source="cl"),
    Family(name="3900", images=("c3900", "c3900e"), models=("CISCO39*",), source="gp, ct", is_one_image=False),
    Family(
        name="800",
        images=("c800", "c880data", "c890"),
        models=("C819*", "CISCO881*", "CISCO891*"),
        source="ct",
        is_one_image=False,
    ),
    Family(name="ASR 901", images=("asr901",), models=("A901-*",), source="gp"),
    Family(
        name="ASR 1000",
        images=(
            *("asr1000", "asr1000rp1", "asr1000rp2", "asr1000rpx86", "asr1001", "asr1001x"),
            "asr1002x",
        ),
        models=("ASR100*", "ASR1013*"),
        source="gp, ntc, sw, cl",
        is_one_image=False,
    ),
    Family(name="ISR 1000", images=("c1100",), models=("C1111-*",), source="cl"),
    Family(name="ISR 4200", images=("isr4200",), models=("ISR4221*",), source="sw"),
    Family(name="ISR 4300", images=("isr4300",), models=("ISR4321*", "ISR4331*", "ISR4351*"), source="sw, cl"),
    Family(name="ISR 4400", images=("isr4400",), models=("ISR4431*", "ISR4451*"), source="sw, gp"),
    Family(name="ISR 4461", images=("isr4400v2",), models=("ISR4461*",), source="sw"),
    Family(name="Catalyst 8200 and 8300", images=("c8000be",), models=("C8200-*", "C8300-*"), source="cl"),
    Family(name="Catalyst 8230", images=("c8k30be",), models=("C8230*",), source="gp"),
    Family(name="Catalyst 8500", images=("c8000aep", "c8000aes"), models=("C8500*",), source="cl", is_one_image=False),
    Family(name="IR1101", images=("ir1101",), models=("IR1101*",), source="ct"),
    Family(name="IE 3100", images=("ie31xx",), models=("IE-3105*",), source="gp"),
    Family(name="IE 3x00", images=("ie3x00",), models=("IE-3300*", "IE-3400*"), source="cl"),
    Family(name="IOSv", images=("vios", "vios_l2"), models=("IOSV",), source="gp, ntc", is_one_image=False),
    Family(name="CSR 1000V", images=("csr1000v",), models=("CSR1000V",), source="gp"),
    Family(name="ISRv", images=("isrv",), models=("ISRV",), source="cl"),
    Family(name="Catalyst 8000V", images=("c8000v",), models=("C8000V",), source="gp"),
    Family(name="C9800-CL", images=("c9800-cl",), models=("C9800-CL*",), source="gp"),
    Family(name="Catalyst 2960-S", images=("c2960s",), models=("WS-C2960S-*",), source="ct"),
    Family(name="Catalyst 2960-X", images=("c2960x",), models=("WS-C2960X-*",), source="gp, ct"),
    Family(name="Catalyst 3560-CG", images=("c3560c405ex",), models=("WS-C3560CG-*",), source="ct"),
    Family(name="Catalyst 3560-CX", images=("c3560cx",), models=("WS-C3560CX-*",), source="ct"),
    Family(name="Catalyst 3750-X", images=("c3750e",), models=("WS-C3750X-*",), source="gp"),
    Family(
        name="Catalyst 3650 and 3850", images=("cat3k_caa",), models=("WS-C3650-*", "WS-C3850-*"), source="gp, sw, ct"
    ),
    Family(
        name="Catalyst 4500",
        images=("cat4000", "cat4500e", "cat4500es8"),
        models=("WS-C4507R*", "WS-C4510R*", "WS-C-4500X*", "WS-C4500X*", "WS-C4948E*"),
        source="gp, ntc, ct",
        is_one_image=False,
    ),
    Family(
        name="Catalyst 6500 and 7600",
        images=("s72033",),
        models=("WS-C6503*", "WS-C6506*", "CISCO7606*"),
        source="gp",
        is_one_image=False,
    ),
    Family(name="Catalyst 9200L", images=("cat9k_lite_iosxe",), models=("C9200L-*",), source="sw, ct"),
    Family(
        name="Catalyst 9300 to 9600",
        images=("cat9k_iosxe",),
        models=("C9300*", "C9404R*", "C9407R*", "C9410R*", "C9500*", "C9606R*"),
        source="gp, sw, ct, cl",
    ),
    Family(name="Nexus", images=("nxos",), models=(), source="cl"),
)
"""No models: its images are known as none of any device here."""

UPGRADES = frozenset({("CSR 1000V", "Catalyst 8000V"), ("ISRv", "Catalyst 8000V")})
"""A router of the first family becomes one of the second by its image (Catalyst 8000V Edge Software Configuration
Guide, "Upgrading the Cisco IOS XE Software")."""


def family_of_image(name: str) -> Family | None:
    """Return the family that a file's name, or a platform as `show version` prints it, belongs to; None if unknown."""
    folded = name.casefold()
    found = [
        (len(prefix), number)
        for number, family in enumerate(FAMILIES)
        for prefix in family.images
        if _begins_with(folded, prefix)
    ]
    # `vios_l2-...` begins with `vios` too.
    return FAMILIES[max(found)[1]] if found else None


def family_of_model(model: str) -> Family | None:
    """Return the family of a model as the device tells it; None where it is not known."""
    folded = model.upper()
    return next((one for one in FAMILIES if any(fnmatchcase(folded, pattern) for pattern in one.models)), None)


def platform_word(name: str) -> str | None:
    """Return what a name that is built as those of images says of its platform, in lower case; None if it is not."""
    word, dash, rest = name.casefold().partition("-")
    features = rest.partition(".")[0]
    is_built_so = bool(dash and word and features) and any(letter.isdigit() for letter in word)
    return word if is_built_so and word.replace("_", "").isalnum() else None


def _begins_with(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and not name[len(prefix) : len(prefix) + 1].isalnum()
