"""What a behaviour is: a small value that a seed draws and combines with others. Pure; the kinds are in `kinds.py`.

A kind has a name, the point of the trial that it came from, and a way to be drawn; what is drawn turns knobs of the
router, has acts played at moments, or puts something into the configuration that was there before anybody came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from flashferry.core.values import replace
from tests.adversary.router.acts import Act

ARCHIVE = "archive"
SOURCE_INTERFACE = "source interface"
NEEDS_ENABLE = "enable"
TWIN = "a second device"
REMOVES = "remove partial"
COPIED_JOURNAL = "a copied journal"

Stock = tuple[tuple[str, tuple[str, ...]], ...]
"""Entries of a configuration: a line and what stands below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """A behaviour as it was drawn.

    Attributes:
        name: Its kind.
        says: With what particulars.
        knobs: What it turns.
        acts: What happens when.
        stock: What stands in the configuration already.
        needs: What the case must have.
    """

    name: str
    says: str = ""
    knobs: tuple[tuple[str, Any], ...] = ()
    acts: tuple[Act, ...] = ()
    stock: Stock = ()
    needs: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return name and particulars."""
        return f"{self.name} ({self.says})" if self.says else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of behaviour.

    Attributes:
        name: Short and unique; what the router tells when it comes into play.
        point: The point of the trial, or `+` for a case beyond it.
        says: What it is, for the table.
        draw: Returns one of it.
        platforms: Where it makes sense; empty: everywhere.
        weight: How often it is drawn, against 2 of the others.
    """

    name: str
    point: str
    says: str
    draw: Callable[[Random], Behaviour]
    platforms: frozenset[str] = frozenset()
    weight: int = 2


def made(
    says: str = "",
    *,
    acts: tuple[Act, ...] = (),
    stock: Stock = (),
    needs: str = "",
    knobs: Mapping[str, Any] | None = None,
    **turned: Any,
) -> Behaviour:
    """Return a behaviour that is not named yet.

    Args:
        says: Its particulars.
        acts: What happens when.
        stock: What stands in the configuration already.
        needs: What the case must have; empty: nothing.
        knobs: What it turns,
        turned: and what else.
    """
    return Behaviour(
        name="",
        says=says,
        knobs=tuple(sorted({**(knobs or {}), **turned}.items())),
        acts=acts,
        stock=stock,
        needs=frozenset({needs} if needs else ()),
    )


def drawn(kind: Kind, dice: Random) -> Behaviour:
    """Return a behaviour of a kind, with its name on everything that it has happen."""
    behaviour = kind.draw(dice)
    return replace(behaviour, name=kind.name, acts=tuple(replace(act, name=kind.name) for act in behaviour.acts))


def fits(behaviour: Behaviour, others: tuple[Behaviour, ...]) -> bool:
    """Tell whether a behaviour can be had beside others.

    No knob is turned twice. And a colleague who switches off, in the moment of our undoing, what is on by default does
    what our undoing does there: nobody could tell the two apart.
    """
    both = (*others, behaviour)
    if any("on_by_default" in dict(one.knobs) for one in both) and any(
        "no ip tcp selective-ack" in one.says and one.says.endswith("config:2:end") for one in both
    ):
        return False
    turned = {name for other in others for name, _ in other.knobs} - {"keeps_part"}
    has_stock = any(other.stock for other in others)
    return not turned & {name for name, _ in behaviour.knobs} and not (has_stock and behaviour.stock)
