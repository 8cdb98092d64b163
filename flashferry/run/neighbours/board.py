"""The distribution tree of a site and an image, shared by the threads of the site's devices. Thread-safe.

A waiting device costs a sleeping thread. A device that serves waits here too, logged out after a while: its lines work
without its session.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from msgspec import Struct
from nornir.core.inventory import Host

from flashferry.devices.errors import Interrupted
from flashferry.fileserver import ImageFile
from flashferry.planning.neighbour_tree import SiteTree, Stand, degree_for
from flashferry.run.concurrency import EXPECT_S
from inventory.host_view import HostView, view

POLL_S = 1.0
"""Interval at which a waiting device checks whether the run stops; a change wakes it at once."""

AT_ONCE = 32
"""Devices of a site that may be under way before their copy: in a tree they do not wait for the WAN's slots. With those
checked ahead, this is the last row of a site of 36, which five at a time supply in two rows."""

IDLE_S = 120.0
"""A device that serves none for so long stops serving: it carries our lines meanwhile."""


class ServedBy(Struct, frozen=True, kw_only=True):
    """The neighbour that serves the image to a device: its inventory name, and its address as the device reaches it."""

    host: str
    address: str


class SiteBoard:
    """The distribution tree of one site and one image.

    `order` has the site's devices as they are served; `degree` is how many devices one serves at a time, None: by the
    size of the site.
    """

    def __init__(
        self, order: tuple[str, ...], *, degree: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tree = SiteTree(order, degree_for(len(order)) if degree is None else degree)
        self._clock = clock
        self._changed = threading.Condition()
        self._addresses: dict[str, str] = {}
        self._needed_at: dict[str, float] = {}
        self._wan_s: float | None = None
        # Start of each running hash by device; duration of the last one.
        self._proving_at: dict[str, float] = {}
        self._proof_s = 0.0
        self._stamps: dict[str, str] = {}

    @property
    def wan_s(self) -> float | None:
        """Return the duration of the last copy over the WAN in seconds; None before there was one."""
        return self._wan_s

    def enter(self, host: str, *, has_image: bool = False) -> None:
        """Add a device that is under way; others wait for one that has the image."""
        with self._changed:
            self._tree.enter(host, has_image=has_image)
            self._changed.notify_all()

    def leave(self, host: str) -> None:
        """Remove a device that has ended; one that is not under way is ignored."""
        with self._changed:
            if host in self._tree.members:
                self._tree.leave(host)
            self._proving_at.pop(host, None)
            self._changed.notify_all()

    def source_for(
        self,
        host: str,
        *,
        address: str | None,
        can_serve: bool,
        interrupted: Callable[[], bool],
        patience_s: float,
        on_wait: Callable[[str], None],
        on_patience: Callable[[], None],
        on_soon: Callable[[], None] = lambda: None,
    ) -> ServedBy | None:
        """Wait until it is decided from which neighbour a device copies; None: from us, over the WAN.

        Args:
            host: The device.
            address: Source address of its copy, for the neighbour's access list; None if unknown.
            can_serve: Whether it may serve others later.
            interrupted: Whether the run stops.
            patience_s: Seconds after which `on_patience` is called, once.
            on_wait: Called with the reason for the wait.
            on_patience: Frees what must not be held for long.
            on_soon: Called once when its turn is near, to prepare again. An exception from it ends the wait.

        Raises:
            Interrupted: The run stops.
        """
        self._wait(host, address, can_serve=can_serve)
        waiting = _Waiting(since_s=self._clock(), patience_s=patience_s, on_patience=on_patience, on_soon=on_soon)
        was_called = False
        while (found := self._source(host)) is _NOT_YET:
            if interrupted():
                raise Interrupted("stopped while it waited for a neighbour to have the image", step="queue")
            if not was_called:
                was_called = True
                on_wait("waits for a neighbour of its site to have the image, or for its turn on the WAN")
            waiting.update(self._clock(), is_soon=self._is_soon(host))
            self._sleep(lambda: self._source(host) is not _NOT_YET)
        assert found is None or isinstance(found, ServedBy)
        return found

    def _wait(self, host: str, address: str | None, *, can_serve: bool) -> None:
        with self._changed:
            if address is None:
                self._tree.members[host].is_let_down = True
            else:
                self._addresses[host] = address
            self._tree.wait(host, can_serve=can_serve)
            self._changed.notify_all()

    def _source(self, host: str) -> ServedBy | object | None:
        with self._changed:
            member = self._tree.members[host]
            if member.stand is Stand.WAN:
                return None
            if member.stand is Stand.CHILD and member.is_fetching:
                if member.parent is not None:
                    return ServedBy(host=member.parent, address=self._addresses[member.parent])
                # It was admitted, but its parent ended before this thread saw that: it waits for another parent.
                self._tree.wait(host, can_serve=member.can_serve)
                self._changed.notify_all()
            return _NOT_YET

    def _sleep(self, is_news: Callable[[], bool]) -> None:
        with self._changed:
            if not is_news():
                self._changed.wait(POLL_S)

    def proving(self, host: str) -> None:
        """Record that a device hashes its copy: the devices that it will serve log in again meanwhile."""
        with self._changed:
            self._proving_at[host] = self._clock()
            self._changed.notify_all()

    def _is_soon(self, host: str) -> bool:
        """Return whether a waiting device has its place in the tree, or gets it when the current hashes end."""
        with self._changed:
            until_s = self._clock() + EXPECT_S - self._proof_s
            near = sum(at_s <= until_s for at_s in self._proving_at.values())
            return self._tree.members[host].stand is Stand.CHILD or host in self._tree.next_with(near)

    def keep_stamp(self, host: str, stamp: str) -> None:
        """Store the time stamp of a proven file: while it is unchanged, the file need not be hashed again."""
        with self._changed:
            self._stamps[host] = stamp

    def stamp_of(self, host: str) -> str:
        """Return the time stamp of a device's proven file; empty if it was not read."""
        with self._changed:
            return self._stamps.get(host, "")

    def prove(self, host: str, address: str, *, wan_s: float | None = None) -> None:
        """Record that a device has proven the image, and its address for others.

        `wan_s` is the duration of its copy over the WAN; None if the image came from elsewhere.
        """
        with self._changed:
            self._wan_s = self._wan_s if wan_s is None else wan_s
            self._addresses[host] = address
            self._needed_at[host] = self._clock()
            if (since_s := self._proving_at.pop(host, None)) is not None:
                self._proof_s = self._clock() - since_s
            self._tree.prove(host)
            self._changed.notify_all()

    def let_down(self, host: str) -> None:
        """Record that the neighbour of a device failed."""
        with self._changed:
            self._tree.let_down(host)
            self._changed.notify_all()

    def blame(self, host: str) -> None:
        """Record that the file that a device served was not the image."""
        with self._changed:
            if host in self._tree.members:
                self._tree.blame(host)
            self._changed.notify_all()

    def to_admit(self, host: str) -> dict[str, str]:
        """Return the addresses of the devices to admit, by name. Waits a little if there is none."""
        with self._changed:
            if not (found := self._not_admitted(host)):
                self._changed.wait(POLL_S)
                found = self._not_admitted(host)
            return found

    def _not_admitted(self, host: str) -> dict[str, str]:
        waiting = [one for one in self._tree.children(host) if not self._tree.members[one].is_fetching]
        return {one: self._addresses[one] for one in waiting}

    def admitted(self, host: str, children: Mapping[str, str]) -> None:
        """Record that a serving device admitted some; devices that left or changed their address are skipped."""
        with self._changed:
            for child in set(children) & set(self._tree.children(host)):
                # Only by the address in the access list: a device that returned meanwhile may have another.
                if self._addresses[child] == children[child]:
                    self._tree.begin(child)
            self._changed.notify_all()

    def helpers(self, proven: Collection[str], devices: int) -> tuple[str, ...]:
        """Return the devices that serve the image to others, in the order of the tree.

        Args:
            proven: Devices whose image was verified.
            devices: Number of devices that still need it; each helper serves as many as the tree's degree.
        """
        with self._changed:
            members = ((host, self._tree.members.get(host)) for host in self._tree.order if host in proven)
            able = tuple(host for host, one in members if one is None or (one.can_serve and not one.takes_no_children))
            return able[: -(-devices // self._tree.degree)]

    def cannot_serve(self, host: str) -> None:
        """Record that a device could not admit its children."""
        with self._changed:
            self._tree.release(host)
            self._changed.notify_all()

    def is_serving(self, host: str) -> bool:
        """Return whether a device may serve."""
        with self._changed:
            return host in self._tree.serving

    def is_needed(self, host: str) -> bool:
        """Return whether a serving device continues: it has children, or had some recently and may get more."""
        with self._changed:
            if self._tree.children(host):
                self._needed_at[host] = self._clock()
            return self._tree.is_needed(host) and self._clock() - self._needed_at[host] < IDLE_S

    def end(self, host: str) -> None:
        """Record that a device serves no more."""
        with self._changed:
            self._tree.close(host)
            self._changed.notify_all()


_NOT_YET = object()


@dataclass(slots=True, kw_only=True)
class _Waiting:
    """The state of a wait: calls `on_patience` when it is long, `on_soon` when the turn is near."""

    since_s: float
    patience_s: float
    on_patience: Callable[[], None]
    on_soon: Callable[[], None]
    _was_patient: bool = True
    _was_ready: bool = False

    def update(self, now_s: float, *, is_soon: bool) -> None:
        if is_soon and not self._was_ready:
            self._was_ready = self._was_patient = True
            self.on_soon()
            self.since_s = now_s
        elif self._was_patient and now_s - self.since_s >= self.patience_s:
            self._was_patient = False
            self.on_patience()


class Neighbourhood:
    """The distribution trees of a run: one for each site that allows it and each image there.

    Attributes:
        sites: Names of the sites that have a tree.
    """

    def __init__(self, views: Mapping[str, HostView], images: Mapping[str, ImageFile]) -> None:
        self._board_of: dict[str, SiteBoard] = {}
        self.sites = frozenset(one.site for one in views.values() if one.site is not None and not objection(one))
        members: dict[tuple[str | None, str], list[str]] = {}
        for name, one in views.items():
            if name in images and not objection(one):
                members.setdefault((one.site, images[name].sha512), []).append(name)
        for names in members.values():
            board = SiteBoard(tuple(names))
            self._board_of |= dict.fromkeys(names, board)

    def board_of(self, host: str) -> SiteBoard | None:
        """Return the tree of a device; None if it takes no part in one."""
        return self._board_of.get(host)


def objection(device: HostView) -> str:
    """Return why a device takes no part in its site's tree; empty if it does."""
    if not device.neighbours or device.site is None:
        return "its site's inventory does not say 'neighbours: true'"
    if device.clear_text is False:
        return "the inventory forbids clear text, which a copy from a neighbour is"
    if device.vrf is not None:
        return f"it reaches us by VRF '{device.vrf}', and whether a neighbour answers in one was not seen"
    return ""


def may_serve(done: Iterable[str], left: Iterable[str], inventory: Mapping[str, Host]) -> tuple[str, ...]:
    """Return the devices with the image whose site has devices without it (`left`), if both take part in a tree."""

    def place(host: str) -> str | None:
        found = view(inventory[host])
        return found.site if not objection(found) else None

    sites = {place(host) for host in left} - {None}
    return tuple(host for host in done if host in inventory and place(host) in sites)
