"""The context of a device's run: image, server, journal, settings, and what earlier runs learned."""

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
from flashferry.store.probe_choices import SshPreference
from flashferry.transports import USUAL
from flashferry.transports.transport import Transport
from flashferry.transports.transport_selection import NotServed
from tasks.verify import VerifyReport

if TYPE_CHECKING:
    from flashferry.fileserver import ServerClient


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a device's run needs from outside; most values are shared by all devices, some are the device's own.

    Attributes:
        to_null: Whether the copy goes to `null:`, which writes no flash.
        server_address: Our address as devices reach it; None: the inventory's, else that of the SSH connection.
        interrupted: Whether the device's run must end: the operator stops the run, or the device's window closes.
        started_s: Start of the run, by the monotonic clock.
        hash_speeds: Hash speed in bytes per second by device, from earlier runs.
        dead_man_proven: Devices on which an earlier run proved that an applet can be set and removed.
        verb: `stage` or `probe`.
        copied: Called once the device has its copy, or will have none.
        closing: Returns why the device's time is over, or None.
        untuned_because: Why this device is not tuned although others are, or None.
        attempt: Number of this attempt, from 1.
        earlier: The failures of the attempts before.
        identity: Serial number and host name at the time of the plan, or None.
        leftover: Path and size of the partial file that this run left on the device before it was resumed, or None.
        guard: Checks that the same device answers at each login of the run; one for all attempts.
        owner: User who started the run, for the mark on the device.
        given: The images by the name that they carry inside, and the platforms that got them.
        transports: Transports to try, in order; at least one.
        fingerprints: Fingerprints of our SSH server's host keys, in all formats that devices show.
        certificate: Paths of our certificate for HTTPS and its key, or None.
        not_served: Transports that the host's depot does not serve, where one is used.
        neighbourhood: The distribution trees of sites whose devices serve each other, or None.
        board: The tree of the device's own site, or None if it takes no part in one.
        is_helper: Whether the device got the image in an earlier wave and only serves others now.
        proof: How a helper proved its image in this process, or None.
        ssh_preferences: Fastest SSH algorithms by model, from earlier sweeps; offered alone.
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
