"""Divide devices into waves, and decide when a run must stop. Pure.

A canary wave has one device of each model, because images, flash and boot loaders differ by model; of devices of
unknown model, as in a first run without a plan, it has one per image.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Literal, Protocol

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.json_access import Node
from flashferry.core.units import counted
from flashferry.model.setting import AtService, Subject, setting

CANARY = "canary"
ALL = "all"

Grouping = Literal["site", "group"]


class WaveBy(StrEnum):
    """How the waves after the canaries are formed."""

    SITE = "site"
    GROUP = "group"
    ALL = ALL


def parse_failures(text: str) -> int | float:
    """Parse the number of tolerated failures: `3` is a count, `10%` a share.

    Raises:
        ConfigInvalid: It is neither.
    """
    if re.fullmatch(r"\d{1,5}", text):
        return int(text)
    found = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%", text)
    if found is None or float(found[1]) > 100:
        raise ConfigInvalid(
            f"--max-failures {text!r}: expected a count such as 3 or a share up to 100% such as 10%",
            hint="A count stops the run at so many failed devices, a share at such a part of those started",
        )
    # A share of 0 is a count of 0.
    return float(found[1]) / 100 or 0


_wave = partial(setting, subject=Subject.WAVES)


@dataclass(frozen=True, slots=True, kw_only=True)
class WavePolicy:
    """How waves are formed, and when a run stops.

    Attributes:
        canary: Whether one device of each model (or of each image, if models are unknown) goes first.
        by: How later waves are formed; None puts all devices in one.
        size: Most devices in a wave, >= 1; larger waves are split; None for no limit.
        max_failures: Tolerated failures: a count (int, >= 0), or a share of the started devices (float in (0, 1]). One
            more stops the run: devices in progress continue, nothing new starts.
        canary_failures: The same for the canary wave, a count.
        approve: Whether the operator must approve each wave after the first.
    """

    canary: bool = _wave(
        True,
        option="--canary/--no-canary",
        help="One device of each model first, the others once it is done; of each image where no model is known yet",
        usual="yes",
        label="canaries first",
    )
    by: Grouping | None = setting(
        "site",
        subject=Subject.WAVES,
        name="wave_by",
        help="What the waves after the canaries follow",
        usual="site",
        none="all in one",
        label="waves by",
        choices=WaveBy,
        read=lambda word: None if word == ALL else str(word),
    )
    size: int | None = _wave(
        None,
        name="wave_size",
        metavar="N",
        least=1,
        help="Split waves of more devices than this",
        label="most devices in a wave",
    )
    max_failures: int | float = _wave(
        1.0,
        metavar="N|N%",
        help="Start nothing new once more devices failed than this count, or share of those started; a failed canary "
        "always stops the run",
        usual="100%",
        label="failures allowed",
        read=parse_failures,
    )
    canary_failures: int = 0
    approve: bool = _wave(
        False,
        option="--approve/--no-approve",
        help="Ask for a yes between waves",
        usual="no",
        label="each wave after the first waits for a yes",
        at_service=AtService.PLAN,
    )

    def __post_init__(self) -> None:
        if self.by not in {"site", "group", None}:
            raise ConfigInvalid(
                f"waves: expected site or group to make them by, found {self.by!r}",
                hint="Give one of them with --wave-by, or leave it out for one wave of all",
            )
        if self.size is not None and self.size < 1:
            raise ConfigInvalid(
                f"wave size: expected a whole number of 1 or more, found {self.size!r}",
                hint="Give another number with --wave-size, or leave it out",
            )
        good = self.max_failures >= 0 if isinstance(self.max_failures, int) else 0 < self.max_failures <= 1
        if not good or self.canary_failures < 0:
            raise ConfigInvalid(
                f"failures allowed: expected a count of 0 or more, or a share above 0 and up to 1 (100%), found "
                f"{self.max_failures!r}, of canaries {self.canary_failures!r}",
                hint="Give --max-failures 3 for three devices, or 10% for a tenth of them",
            )


class WaveMember(Protocol):
    """What decides about a device's wave; None if unknown."""

    @property
    def host(self) -> str:
        """Return its inventory name."""
        ...

    @property
    def site(self) -> str | None:
        """Return its site."""
        ...

    @property
    def group(self) -> str | None:
        """Return its first group."""
        ...

    @property
    def model(self) -> str | None:
        """Return its model."""
        ...

    @property
    def image(self) -> str | None:
        """Return the name of its image."""
        ...


class WaveDevice(Struct, frozen=True, kw_only=True):
    """A device of a run without a plan; see `WaveMember`."""

    host: str
    site: str | None = None
    group: str | None = None
    model: str | None = None
    image: str | None = None


class Wave(Struct, frozen=True, kw_only=True):
    """A wave.

    Attributes:
        number: From 0.
        name: Display name: `canary`, `site a`, `site a, part 2 of 3`, `all`.
        hosts: Inventory names in the order of the inventory; at least one.
    """

    number: int
    name: str
    hosts: tuple[str, ...]
    is_canary: bool = False

    @property
    def label(self) -> str:
        """Return number and name; see `wave_label`."""
        return wave_label(self.number, self.name)


def wave_label(number: int, name: str = "") -> str:
    """Return how a wave is called everywhere, after the word "wave" or below it: `0 (canary)`; without a name `0`."""
    return f"{number} ({name})" if name else str(number)


def wave_names(request: Mapping[str, object]) -> dict[int, str]:
    """Return the names of waves by number, from the stored request of a run; empty if it has none."""
    found = ((one.whole("number"), one.text("name")) for one in Node(request).list("waves"))
    return {number: name for number, name in found if number is not None and name is not None}


def waves(devices: Sequence[WaveMember], policy: WavePolicy) -> tuple[Wave, ...]:
    """Return the waves of a run; each device is in exactly one, none is empty.

    Args:
        devices: The devices to stage, in the order of the inventory.
        policy: How waves are formed.
    """
    canaries = _canaries(devices) if policy.canary else ()
    parts = [(CANARY, part, True) for part in [canaries] if part]
    later: dict[str, list[str]] = {}
    for device in devices:
        if device.host not in canaries:
            later.setdefault(_name(device, policy.by), []).append(device.host)
    for name, hosts in later.items():
        parts.extend((part_name, part, False) for part_name, part in _split(name, hosts, policy.size))
    return tuple(
        Wave(number=number, name=name, hosts=hosts, is_canary=is_canary)
        for number, (name, hosts, is_canary) in enumerate(parts)
    )


def may_go_on(policy: WavePolicy, started: int, failed: int, *, canaries_failed: int = 0) -> str | None:
    """Return why a run must not start further devices; None if it can.

    Refused devices are no failures.

    Args:
        policy: Tolerated failures.
        started: Number of started devices, those in progress included.
        failed: Number of those that failed or ended with an error, canaries included.
        canaries_failed: Number of those that were canaries.
    """
    if canaries_failed > policy.canary_failures:
        borne = f"{policy.canary_failures} may" if policy.canary_failures else "none may"
        return f"{canaries_failed} of the first devices (canaries) failed, {borne}"
    allowed = policy.max_failures
    if isinstance(allowed, int):
        return f"{counted(failed, 'device')} failed, {allowed} may" if failed > allowed else None
    # Rounded, so that 3 of 10 are not more than 30 %.
    if started and round(failed / started, 9) > allowed:
        share = f"{failed / started:.0%}"
        return f"{failed} of {counted(started, 'device')} started failed, which is {share}; {allowed:.0%} may"
    return None


def _canaries(devices: Sequence[WaveMember]) -> tuple[str, ...]:
    """Return the first device of each model, and of those without a model the first per image."""
    first: dict[tuple[str, str | None], str] = {}
    for device in devices:
        kind = ("model", device.model) if device.model is not None else ("image", device.image)
        first.setdefault(kind, device.host)
    return tuple(first.values())


def _name(device: WaveMember, by: Grouping | None) -> str:
    if by is None:
        return ALL
    value = device.site if by == "site" else device.group
    return f"{by} {value}" if value is not None else f"without a {by}"


def _split(name: str, hosts: list[str], size: int | None) -> list[tuple[str, tuple[str, ...]]]:
    if size is None or len(hosts) <= size:
        return [(name, tuple(hosts))]
    parts = [tuple(hosts[start : start + size]) for start in range(0, len(hosts), size)]
    return [(f"{name}, part {number} of {len(parts)}", part) for number, part in enumerate(parts, 1)]
