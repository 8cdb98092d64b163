"""Which device of a site serves which: one takes the image over the WAN, is proven, and serves a few; those serve on.

No I/O, no clock: what happened goes in, who takes it from where comes out. Everything that decides lives in this file.

* An edge leads only from a device that has proven the image in this run, or was found with it, to one of the same tree;
  a tree is of one site and one image.
* A device serves no more than a few others at a time (`degree`): its flash and processor are made for other work, and
  what it sends each of them crosses the same network of the site. One or two more where that saves a row of the tree
  (`degree_for`).
* As long as a device serves, or may soon, no other goes over the WAN. Where there is none, the first device in the
  inventory's order that is under way and can serve goes; where none can serve, all go.
* A device that its neighbour failed takes the WAN from then on. That neighbour gets no new children.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

LEAST_DEGREE = 3
"""Devices that one serves at a time where more would not be over sooner."""

MOST_DEGREE = 5
"""More than so many at a time no device serves: 12 MB/s where the flash of each child takes 2.5 MB/s, which one router
was seen to take; what a router gives was seen on none."""


def degree_for(devices: int) -> int:
    """Return how many others each device of a tree serves at a time: the least with which the tree has the fewest rows.

    Each row costs a copy and a hash run of minutes, and the next one waits for its proofs. Where what a device gives is
    what limits, a row takes longer by the degree; with that, too, one row less of up to three costs no more than it
    saves (4 at a time in two rows: 8, 3 at a time in three: 9).

    Args:
        devices: How many devices the tree has, the first one included.
    """
    return min(range(LEAST_DEGREE, MOST_DEGREE + 1), key=lambda degree: _rows(devices, degree))


def _rows(devices: int, degree: int) -> int:
    """Return in how many rows behind the first device all get the image, where each is proven at the same time."""
    rows, reached = 0, 1
    while reached < devices:
        rows, reached = rows + 1, reached * (degree + 1)
    return rows


class Stand(Enum):
    """Where a device of a site stands.

    *Entered*: under way, and looked at. *Waiting*: it may copy from now on. *Wan*: it takes the image over the WAN.
    *Child*: from a neighbour. *Serving*: it has proven the image, and may serve. *Out*: it takes no part any more.
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
        host: Inventory name.
        stand: Where it stands.
        can_serve: Whether it may serve others once it is proven, as far as that is known.
        parent: Who serves it, or None.
        is_fetching: Whether it was let in by its parent: it reports itself what becomes of that copy.
        is_let_down: Whether a neighbour failed it: it takes the WAN.
        has_image: Whether it is known to have the image, before it is proven anew.
        takes_no_children: Whether it gets no new children: it failed one, or could not serve.
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
    """The devices of one site that are to have one image.

    Attributes:
        order: Their names, in the order in which they are taken.
        degree: How many one serves at a time, >= 1.
        members: Those that ever came under way, by name.
        serving: Those that serve, in the order in which they were proven.
    """

    order: tuple[str, ...]
    degree: int = LEAST_DEGREE
    members: dict[str, Member] = field(default_factory=dict)
    serving: list[str] = field(default_factory=list)

    def enter(self, host: str, *, has_image: bool = False) -> None:
        """Note that a device is under way; one that was before is so again, and remembers that it was let down."""
        member = self.members.setdefault(host, Member(host=host))
        member.has_image = has_image
        member.stand, member.parent, member.is_fetching = Stand.ENTERED, None, False
        self._settle()

    def wait(self, host: str, *, can_serve: bool) -> None:
        """Note that a device may copy from now on."""
        member = self.members[host]
        member.stand, member.can_serve = Stand.WAITING, can_serve
        member.parent, member.is_fetching = None, False
        self._settle()

    def begin(self, host: str) -> None:
        """Note that a child was let in by its parent."""
        self.members[host].is_fetching = True

    def prove(self, host: str) -> None:
        """Note that a device has proven the image, and may serve where it can."""
        member = self.members[host]
        member.parent = None
        if not member.can_serve or member.takes_no_children:
            member.stand = Stand.OUT
        elif host not in self.serving:
            member.stand = Stand.SERVING
            self.serving.append(host)
        self._settle()

    def let_down(self, host: str) -> str | None:
        """Note that its neighbour failed a device, which takes the WAN from now on; return who that was."""
        member = self.members[host]
        parent, member.parent = member.parent, None
        member.stand, member.is_let_down = Stand.WAN, True
        if parent is not None:
            self.members[parent].takes_no_children = True
        self._settle()
        return parent

    def blame(self, host: str) -> None:
        """Note that what a device served was not the image, or may not have been: it gets no new children."""
        self.members[host].takes_no_children = True
        self._settle()

    def release(self, host: str) -> None:
        """Note that a device could not let its children in: those wait for another, and it gets no new children."""
        self.members[host].takes_no_children = True
        self._turn_away(host)
        self._settle()

    def close(self, host: str) -> None:
        """Note that a device serves no more; who was not let in by then waits for another."""
        if host in self.serving:
            self.serving.remove(host)
        self.members[host].stand = Stand.OUT
        self._turn_away(host)
        for child in self.children(host):
            self.members[child].parent = None
        self._settle()

    def _turn_away(self, host: str) -> None:
        """Have those of its children wait again that were not let in."""
        for member in (self.members[child] for child in self.children(host)):
            if not member.is_fetching:
                member.stand, member.parent = Stand.WAITING, None

    def leave(self, host: str) -> None:
        """Note that a device is through, well or not."""
        member = self.members[host]
        if host in self.serving:
            self.close(host)
        member.stand, member.parent = Stand.OUT, None
        self._settle()

    def children(self, host: str) -> tuple[str, ...]:
        """Return whom a device serves, or is to serve."""
        return tuple(one.host for one in self._in_order(Stand.CHILD) if one.parent == host)

    def next_with(self, proofs: int) -> tuple[str, ...]:
        """Return who of those that wait gets a place with so many proofs more: at who is proven, or where it was."""
        return tuple(one.host for one in self._in_order(Stand.WAITING))[: proofs * (self.degree + 1)]

    def is_needed(self, host: str) -> bool:
        """Return whether a device has a child, or soon may have."""
        if self.children(host):
            return True
        member = self.members[host]
        return not member.takes_no_children and any(not one.is_let_down for one in self._in_order(*_TO_COME))

    def _settle(self) -> None:
        """Give those that wait a place, until no more get one."""
        for member in self._in_order(Stand.WAITING):
            if member.is_let_down:
                member.stand = Stand.WAN
                continue
            parent = self._with_space()
            if parent is not None:
                member.stand, member.parent = Stand.CHILD, parent
        self._seed()

    def _with_space(self) -> str | None:
        """Return who serves the fewest and has room for one more; of several the one that was proven first."""
        able = [one for one in self.serving if not self.members[one].takes_no_children]
        found = min(able, key=lambda one: len(self.children(one)), default=None)
        return found if found is not None and len(self.children(found)) < self.degree else None

    def _seed(self) -> None:
        """Send one over the WAN where none serves or is about to."""
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
