"""Which device of a site serves which: one copies over the WAN, is verified, serves a few, and those serve others.

No I/O, no clock: events go in, assignments come out.

* A device only serves after it has verified the image in this run, or was found with it; only within its tree, which
  has one site and one image.
* A device serves few others at a time (`degree`): its flash and CPU have other work, and all copies share the site's
  network. One or two more if that saves a level of the tree (`degree_for`).
* While a device serves or soon may, no other copies over the WAN. If there is none, the first device of the inventory
  that is in progress and can serve does; if none can serve, all do.
* A device whose neighbour failed copies over the WAN; that neighbour gets no new children.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

LEAST_DEGREE = 3
"""Children per device if more would not be faster."""

MOST_DEGREE = 5
"""More than so many at a time no device serves: 12 MB/s where the flash of each child takes 2.5 MB/s, which one router
was seen to take; what a router gives was seen on none."""


def degree_for(devices: int) -> int:
    """Return how many others each device of a tree serves at a time: the least number with the fewest levels.

    Each level costs a copy and a hash of minutes. Even if the serving device is the limit, so that a level takes longer
    by the degree, one of up to three levels less costs no more than it saves (4 at a time in two levels: 8, 3 in three:
    9).

    Args:
        devices: Number of devices of the tree, the first included.
    """
    return min(range(LEAST_DEGREE, MOST_DEGREE + 1), key=lambda degree: _rows(devices, degree))


def _rows(devices: int, degree: int) -> int:
    """Return the number of levels below the first device until all have the image."""
    rows, reached = 0, 1
    while reached < devices:
        rows, reached = rows + 1, reached * (degree + 1)
    return rows


class Stand(Enum):
    """State of a device of a site.

    *Entered*: in progress, being checked. *Waiting*: it can copy. *Wan*: copies over the WAN. *Child*: copies from a
    neighbour. *Serving*: verified, can serve. *Out*: ended.
    """

    ENTERED = auto()
    WAITING = auto()
    WAN = auto()
    CHILD = auto()
    SERVING = auto()
    OUT = auto()


@dataclass(slots=True, kw_only=True)
class Member:
    """A device of a tree.

    Attributes:
        can_serve: Whether it can serve once it is verified, as far as known.
        parent: The device that serves it; None for none.
        is_fetching: Whether its parent has opened access for it; it then reports the result of its copy itself.
        is_let_down: Whether a neighbour failed, so that it uses the WAN.
        has_image: Whether it already has the image, not yet verified again.
        takes_no_children: Whether it gets no new children, because it failed to serve.
    """

    host: str
    stand: Stand = Stand.ENTERED
    can_serve: bool = True
    parent: str | None = None
    is_fetching: bool = False
    is_let_down: bool = False
    has_image: bool = False
    takes_no_children: bool = False


@dataclass(slots=True)
class SiteTree:
    """The devices of one site for one image.

    Attributes:
        order: Their names, in order of preference.
        degree: How many a device serves at a time, >= 1.
        members: Devices that were ever in progress, by name.
        serving: Serving devices, in the order of their verification.
    """

    order: tuple[str, ...]
    degree: int = LEAST_DEGREE
    members: dict[str, Member] = field(default_factory=dict)
    serving: list[str] = field(default_factory=list)

    def enter(self, host: str, *, has_image: bool = False) -> None:
        """Add a device in progress; one that was there before remembers that its neighbour failed."""
        member = self.members.setdefault(host, Member(host=host))
        member.has_image = has_image
        member.stand, member.parent, member.is_fetching = Stand.ENTERED, None, False
        self._settle()

    def wait(self, host: str, *, can_serve: bool) -> None:
        """Record that a device can copy."""
        member = self.members[host]
        member.stand, member.can_serve = Stand.WAITING, can_serve
        member.parent, member.is_fetching = None, False
        self._settle()

    def begin(self, host: str) -> None:
        """Record that a child's parent has opened access for it."""
        self.members[host].is_fetching = True

    def prove(self, host: str) -> None:
        """Record that a device has verified the image, so that it may serve."""
        member = self.members[host]
        member.parent = None
        if not member.can_serve or member.takes_no_children:
            member.stand = Stand.OUT
        elif host not in self.serving:
            member.stand = Stand.SERVING
            self.serving.append(host)
        self._settle()

    def let_down(self, host: str) -> str | None:
        """Record that a device's neighbour failed, so that it uses the WAN; return that neighbour."""
        member = self.members[host]
        parent, member.parent = member.parent, None
        member.stand, member.is_let_down = Stand.WAN, True
        if parent is not None:
            self.members[parent].takes_no_children = True
        self._settle()
        return parent

    def blame(self, host: str) -> None:
        """Give a device no new children, because what it served was not, or may not have been, the image."""
        self.members[host].takes_no_children = True
        self._settle()

    def release(self, host: str) -> None:
        """Reassign the children of a device that could not open access for them, and give it no new ones."""
        self.members[host].takes_no_children = True
        self._turn_away(host)
        self._settle()

    def close(self, host: str) -> None:
        """Record that a device stops serving; children without access are reassigned."""
        if host in self.serving:
            self.serving.remove(host)
        self.members[host].stand = Stand.OUT
        self._turn_away(host)
        for child in self.children(host):
            self.members[child].parent = None
        self._settle()

    def _turn_away(self, host: str) -> None:
        """Reassign the children without access."""
        for member in (self.members[child] for child in self.children(host)):
            if not member.is_fetching:
                member.stand, member.parent = Stand.WAITING, None

    def leave(self, host: str) -> None:
        """Record that a device has ended."""
        member = self.members[host]
        if host in self.serving:
            self.close(host)
        member.stand, member.parent = Stand.OUT, None
        self._settle()

    def children(self, host: str) -> tuple[str, ...]:
        """Return the devices that a device serves or is to serve."""
        return tuple(one.host for one in self._in_order(Stand.CHILD) if one.parent == host)

    def next_with(self, proofs: int) -> tuple[str, ...]:
        """Return which waiting devices would get a place if so many more devices were verified."""
        return tuple(one.host for one in self._in_order(Stand.WAITING))[: proofs * (self.degree + 1)]

    def is_needed(self, host: str) -> bool:
        """Return whether a device has a child, or soon may have one."""
        if self.children(host):
            return True
        member = self.members[host]
        return not member.takes_no_children and any(not one.is_let_down for one in self._in_order(*_TO_COME))

    def _settle(self) -> None:
        """Assign places to waiting devices until no more can be assigned."""
        for member in self._in_order(Stand.WAITING):
            if member.is_let_down:
                member.stand = Stand.WAN
                continue
            parent = self._with_space()
            if parent is not None:
                member.stand, member.parent = Stand.CHILD, parent
        self._seed()

    def _with_space(self) -> str | None:
        """Return the serving device with the fewest children and a free place; of several the first verified."""
        able = [one for one in self.serving if not self.members[one].takes_no_children]
        found = min(able, key=lambda one: len(self.children(one)), default=None)
        return found if found is not None and len(self.children(found)) < self.degree else None

    def _seed(self) -> None:
        """Let one device copy over the WAN if none serves or is about to."""
        if any(not self.members[one].takes_no_children for one in self.serving) or self._may_serve_soon():
            return
        able = [one for one in self._in_order(*_TO_COME) if one.can_serve and not one.takes_no_children]
        waiting = list(self._in_order(Stand.WAITING))
        if able:
            waiting = [one for one in able[:1] if one.stand is Stand.WAITING]
        for member in waiting:
            member.stand = Stand.WAN

    def _may_serve_soon(self) -> bool:
        copying = [*self._in_order(Stand.WAN, Stand.CHILD), *self._in_order(Stand.ENTERED)]
        return any(
            one.can_serve and not one.takes_no_children and (one.stand is not Stand.ENTERED or one.has_image)
            for one in copying
        )

    def _in_order(self, *stands: Stand) -> Iterable[Member]:
        found = (self.members[host] for host in self.order if host in self.members)
        return [one for one in found if one.stand in stands]


_TO_COME = (Stand.ENTERED, Stand.WAITING)
