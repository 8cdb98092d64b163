"""What all devices of a run share: the image, the server, the journal, and what is known of links and images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.devices.identity import LoginGuard
from flashferry.fileserver import ImageFile
from flashferry.model.limits import Limits
from flashferry.model.link_rates import LinkRates
from flashferry.model.policy import StagePolicy
from flashferry.model.record import Failure
from flashferry.monitor.events import Emit
from flashferry.planning.image_platforms import GivenImages
from flashferry.run.concurrency import SlotPools
from flashferry.run.neighbours.board import Neighbourhood, SiteBoard
from flashferry.store.journal import Journal
from flashferry.store.ssh_preferences import SshPreference
from flashferry.transports import USUAL
from flashferry.transports.transport import Transport
from flashferry.transports.transport_selection import NotServed
from tasks.verify import VerifyReport

if TYPE_CHECKING:
    from flashferry.fileserver import ServerClient


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The context of a device's run: most of it is shared by all devices of the run, some is the device's own.

    Attributes:
        run_id: The run.
        image: The device's image.
        server: Who offers it.
        journal: Where what the device was is kept.
        policy: How the device is to be treated.
        to_null: Whether it copies to `null:`, which writes no flash.
        server_address: Our address as devices reach it, or None: the inventory's, else the SSH connection's.
        emit: Takes events.
        interrupted: Whether the device's way is to end: the operator stops the run, or the device's time is over.
        started_s: When the run began, by the monotonic clock.
        links: What the links carry.
        hash_speeds: Bytes per second by device, as learned in earlier runs.
        dead_man_proven: Devices that an earlier run has shown to take an applet and to be rid of it.
        verb: `stage` or `probe`.
        slots: Where devices wait for a slot.
        copied: Called once the device has its copy, or will have none.
        closing: Returns why the device's time is over, or None while it is not.
        untuned_because: Why the device is not tuned although others are, or None.
        wave: Number of its wave.
        attempt: Number of this attempt, from 1.
        earlier: Why the attempts before it failed.
        identity: What the device called itself when the run was planned, or None.
        leftover: Path and size of what a broken copy of this run left on the device before it was resumed, or None.
        guard: Knows who answered at the device's first login of the run; one for all its attempts.
        owner: Who began the run, for the mark that it leaves on devices while they are tuned.
        given: What the images are by what they carry inside, and which platforms got them.
        transports: By what the device's copy is tried, the first one first; at least one.
        fingerprints: Of our SSH server's host keys, in all ways in which devices show them.
        certificate: Files of our certificate for HTTPS and of its key, or None: there is none.
        not_served: What the host's depot does not serve, where it is used.
        neighbourhood: The trees of sites whose devices serve each other, or None: no device does in this run.
        board: The tree of the device's own site, or None where it takes no part in one.
        is_helper: Whether the device has the image by an earlier wave of the run, and is only to serve others.
        proof: How such a device proved the image in this process, or None where it did not.
        ssh_preferences: What devices are offered alone by SSH, by their model, as sweeps found it.
    """

    run_id: str
    image: ImageFile
    server: ServerClient
    journal: Journal
    policy: StagePolicy
    emit: Emit
    interrupted: Callable[[], bool]
    started_s: float
    to_null: bool = False
    server_address: str | None = None
    links: LinkRates = field(default_factory=LinkRates)
    hash_speeds: Mapping[str, float] = field(default_factory=dict)
    dead_man_proven: frozenset[str] = frozenset()
    verb: str = "stage"
    slots: SlotPools = field(default_factory=lambda: SlotPools(Limits()))
    copied: Callable[[], None] = lambda: None
    closing: Callable[[], str | None] = lambda: None
    untuned_because: str | None = None
    wave: int | None = None
    attempt: int = 1
    earlier: tuple[Failure, ...] = ()
    identity: str | None = None
    leftover: str | None = None
    guard: LoginGuard = field(default_factory=LoginGuard)
    owner: str = ""
    given: GivenImages = field(default_factory=GivenImages)
    transports: tuple[Transport, ...] = (USUAL,)
    fingerprints: tuple[str, ...] = ()
    certificate: tuple[Path, Path] | None = None
    not_served: NotServed | None = None
    ssh_preferences: Mapping[str, SshPreference] = field(default_factory=dict)
    neighbourhood: Neighbourhood | None = None
    board: SiteBoard | None = None
    is_helper: bool = False
    proof: VerifyReport | None = None
