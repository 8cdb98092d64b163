"""The keys of a night's description about what it does: the product's steps, thresholds, limits, what is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import described
from flashferry.model.file_keys import (
    Key,
    Place,
    choice,
    choices,
    file_path,
    list_of,
    number,
    present_file,
    read_section,
    text,
    whole,
)
from flashferry.nightly.description.values import MOST_BANDWIDTH_KBPS, ArtefactRules
from flashferry.nightly.settings import PRODUCT_STEPS, NightLimits, NightWork
from flashferry.nightly.thresholds import judges
from flashferry.reports.thresholds import THRESHOLDS, Threshold
from inventory.entry_checks import DATA_KEYS
from inventory.keys import READERS
from inventory.transport_policy import AUTO, NAMES

__all__ = ["WORK_SECTIONS", "artefacts", "inventory_data", "limits", "night", "thresholds"]

_MINUTE_S = 60.0
_LONGEST_MINUTES = 24 * 60
_OWN_DATA = ("site", "link_rate_bps", "image", "enable_secret", "known_hosts", "host_keys")
"""What the night itself decides, or what is a secret."""


def _md5(place: Place) -> str:
    found = str(place.value).lower()
    if len(found) == 32 and not set(found) - set("0123456789abcdef"):
        return found
    raise place.problem(
        f"expected an MD5 of 32 hexadecimal digits, found {described(place.value)}", "Put it in quotes, as published"
    )


_NIGHTS_OWN = (
    *("--inventory", "--host", "--group", "--filter", "--image", "--image-mb", "--md5", "--plan", "--resume"),
    *("--dry-run", "--reach", "--seconds", "--as-is", "--tuned", "--tune", "--no-tune", "--transport"),
    *("--state-dir", "--events", "--json", "--help"),
)
_NIGHTS_OWN_SHORT = ("-i", "-H", "-g", "-h")
"""Options that the night gives itself, or that make another command of it: of two the last one counts, and a night that
is given another inventory tunes routers at work."""


def _options(place: Place) -> tuple[str, ...]:
    found: tuple[str, ...] = list_of(text)(place)
    for position, one in enumerate(found):
        name = one[:2] if one.startswith(_NIGHTS_OWN_SHORT) else one.partition("=")[0]
        if name in (*_NIGHTS_OWN, *_NIGHTS_OWN_SHORT):
            raise place.below(position).problem(
                f"expected options that the night does not give itself, found {name}",
                "Which routers, which image and where it is written down, the night decides alone",
            )
    return found


_NIGHT: tuple[Key, ...] = (
    Key(name="image", read=present_file, is_required=True, values="a file", says="the image that is staged"),
    Key(name="md5", read=_md5, values="32 digits", says="its published MD5"),
    Key(
        name="does",
        read=choices(PRODUCT_STEPS),
        default=PRODUCT_STEPS,
        shown_default="all",
        values=", ".join(f"`{one}`" for one in PRODUCT_STEPS),
        says="which of the product's steps are done, in this order",
    ),
    Key(name="copies", read=whole(1, 100), default=5, values="1 to 100", says="timed copies of a router, each way"),
    Key(
        name="probe_seconds",
        read=number(2, 60, "seconds"),
        default=5.0,
        shown_default="5",
        values="2 to 60",
        says="what a timed copy should take; its size follows",
    ),
    Key(
        name="transport",
        read=choice((*NAMES, AUTO)),
        shown_default="the product's own choice",
        values=", ".join(f"`{one}`" for one in (*NAMES, AUTO)),
        says="by which routers copy",
    ),
    Key(
        name="options",
        read=_options,
        default=(),
        shown_default="none",
        values="a list",
        says="further options for the product's verbs that serve, a word each",
    ),
    Key(
        name="needs_kbps",
        read=whole(1, MOST_BANDWIDTH_KBPS, "kbit/s"),
        shown_default="what its link carries",
        values="kbit/s",
        says="what a router's licence must let through, or its copies are not judged",
    ),
    Key(name="capture_node", read=text, values="a router", says="whose tuned copy is captured as packets"),
)


def night(place: Place) -> NightWork:
    """Return what a night does."""
    found = read_section(place, _NIGHT)
    needed_kbps = found.pop("needs_kbps")
    return NightWork(
        **found | {"does": tuple(step for step in PRODUCT_STEPS if step in found["does"])},
        target_bps=None if needed_kbps is None else needed_kbps * 1000,
    )


_EXAMPLES = {"tuned_share_of_link": 0.7, "tuned_share_of_cap": 0.8}
_THRESHOLDS: tuple[Key, ...] = tuple(
    Key(
        name=name,
        read=number(0, 1 if kind.is_share else math.inf, is_above=True),
        shown_default="not held",
        values="above 0, at most 1" if kind.is_share else "above 0",
        says=f"for example {_EXAMPLES.get(name, 2):g}: {kind.wants(_EXAMPLES.get(name, 2))}",
    )
    for name, kind in THRESHOLDS.items()
    if judges(name)
)


def thresholds(place: Place) -> tuple[Threshold, ...]:
    """Return what a night is held against."""
    for given in place.mapping():
        if given in THRESHOLDS and not judges(given):
            known = ", ".join(key.name for key in _THRESHOLDS)
            raise place.below(given).problem(
                f"expected one of {known}, found one that no copy of a night measures",
                "Leave it out: a run's own report is held against it; 'limits' end what takes too long",
            )
    found = read_section(place, _THRESHOLDS)
    return tuple(Threshold(name=name, limit=limit) for name, limit in found.items() if limit is not None)


def _minutes(name: str, says: str) -> Key:
    default: float = getattr(NightLimits(), name) / _MINUTE_S
    return Key(
        name=name.replace("_s", "_minutes"),
        read=number(0, _LONGEST_MINUTES, "minutes", is_above=True),
        default=default,
        shown_default=f"{default:g}",
        values="minutes",
        says=says,
    )


_LIMITS: tuple[Key, ...] = (
    _minutes("whole_s", "the night without its clean-up"),
    _minutes("import_s", "importing and starting the lab"),
    _minutes("start_s", "until all nodes have booted"),
    _minutes("reach_s", "until SSH answers on all routers"),
    _minutes("condition_s", "setting all links and measuring through them"),
    _minutes("product_s", "each step of the product: one check, one probe, one stage"),
    _minutes("clean_s", "the clean-up, on a clock of its own"),
)


def limits(place: Place) -> NightLimits:
    """Return how long all may take."""
    found = read_section(place, _LIMITS)
    whole_minutes = found["whole_minutes"]
    for name, minutes in found.items():
        if name in {"whole_minutes", "clean_minutes"} or minutes <= whole_minutes:
            continue
        if place.below(name).is_given:
            raise place.below(name).problem(
                f"expected at most the {whole_minutes:g} min of the whole night (whole_minutes), found {minutes:g}",
                "A step cannot take longer than the night",
            )
        found[name] = whole_minutes
    return NightLimits(**{name.replace("_minutes", "_s"): minutes * _MINUTE_S for name, minutes in found.items()})


_ARTEFACTS: tuple[Key, ...] = (
    Key(name="folder", read=file_path, is_required=True, values="a folder", says="each night's folder is below it"),
    Key(name="keep_nights", read=whole(1, 10_000), default=60, values="1 to 10000", says="folders that are kept"),
)


def artefacts(place: Place) -> ArtefactRules:
    """Return what is kept of nights."""
    return ArtefactRules(**read_section(place, _ARTEFACTS))


def _inventory_value(place: Place) -> object:
    try:
        READERS[str(place.keys[-1])](place.value)
    except ConfigInvalid as error:
        raise place.problem(error.message, error.hint or "All keys are in docs/inventory.md") from None
    return place.value


_INVENTORY: tuple[Key, ...] = tuple(
    Key(name=name, read=_inventory_value, values="as there", says=f"`{name}` of [inventory.md](inventory.md)")
    for name in DATA_KEYS
    if name not in _OWN_DATA
)


def inventory_data(place: Place) -> dict[str, object]:
    """Return data of the inventory, checked as the inventory would."""
    found = dict(read_section(place, _INVENTORY))
    return {name: value for name, value in found.items() if value is not None}


WORK_SECTIONS: Mapping[str, tuple[Key, ...]] = {
    "night": _NIGHT,
    "thresholds": _THRESHOLDS,
    "limits": _LIMITS,
    "artefacts": _ARTEFACTS,
    "inventory": _INVENTORY,
}
"""The sections of this module."""
