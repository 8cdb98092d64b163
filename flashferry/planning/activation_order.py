"""The order of restarts in an activation: rounds, each of which must end well before the next starts. Pure.

The first device of each model goes first, then a few of each site at a time, so that a site keeps its other routers.
Devices through which others are reached go last, because their restart would cut off the others during theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from flashferry.model.waves import CANARY, Wave


class ActivationMember(Struct, frozen=True, kw_only=True):
    """What decides about a device's round.

    Attributes:
        site: Its site; None for none.
        model: Its model in the plan; None if unknown.
        image: Name of its image.
        is_upstream: Whether other devices of the plan are reached through it.
    """

    host: str
    site: str | None
    model: str | None
    image: str
    is_upstream: bool = False


def activation_rounds(
    members: Sequence[ActivationMember], *, per_site: int = 1, at_a_time: int = 10, canary: bool = True
) -> tuple[Wave, ...]:
    """Return the rounds; each device is in exactly one, none is empty.

    Args:
        members: The devices, in the order of the plan.
        per_site: Most devices of one site per round, >= 1.
        at_a_time: Most devices per round, >= 1.
        canary: Whether one device of each model goes first; of devices without a model, one per image.
    """
    ordinary = [one for one in members if not one.is_upstream]
    upstream = [one for one in members if one.is_upstream]
    first = _first_of_each(ordinary or upstream) if canary else []
    parts: list[tuple[str, list[ActivationMember], bool]] = []
    # Canaries obey the same limits: of upstream devices one per site at a time.
    parts += [(CANARY, part, True) for part in _parts(first, per_site if ordinary else 1, at_a_time)]
    for name, group in (("", ordinary), ("upstream", upstream)):
        left = [one for one in group if one not in first]
        parts += [(name, part, False) for part in _parts(left, 1 if name else per_site, at_a_time)]
    return tuple(
        Wave(
            number=number,
            name=name or f"round {number + 1}",
            hosts=tuple(one.host for one in part),
            is_canary=is_canary,
        )
        for number, (name, part, is_canary) in enumerate(parts)
    )


def _first_of_each(members: Sequence[ActivationMember]) -> list[ActivationMember]:
    found: dict[tuple[str, str], ActivationMember] = {}
    for one in members:
        found.setdefault(("model", one.model) if one.model is not None else ("image", one.image), one)
    return list(found.values())


def _parts(members: Sequence[ActivationMember], per_site: int, at_a_time: int) -> list[list[ActivationMember]]:
    """Divide members into rounds within both limits, each member as early as possible."""
    parts: list[list[ActivationMember]] = []
    for one in members:
        part = next((part for part in parts if len(part) < at_a_time and _may_join(one, part, per_site)), None)
        if part is None:
            parts.append([one])
        else:
            part.append(one)
    return parts


def _may_join(one: ActivationMember, part: Sequence[ActivationMember], per_site: int) -> bool:
    return one.site is None or sum(other.site == one.site for other in part) < per_site
