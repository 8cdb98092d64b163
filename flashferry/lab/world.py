"""A world: devices at sites, each site behind a WAN link of its own, reached from the core namespace.

Two helper processes carry a site: its stand-ins, in the site's namespace, and its link, in the core's; a depot host has
a third, in a namespace of its own. They end with the process that started the world, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashferry.lab.capability_levels import Rung, addressing_of, best_rung, check_rung
from flashferry.lab.errors import LabError
from flashferry.lab.link import LinkProfile
from flashferry.lab.namespaces import LAN, in_namespace, traffic
from flashferry.lab.standin.device import check_lines
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.standin.recording import load_recording
from flashferry.lab.state import LabState, ask, started_ticks
from flashferry.lab.world_spec import DepotHost, DepotSpec, DeviceAccess, DeviceSpec, Site, SiteSpec, WorldSpec, settle
from flashferry.lab.world_start import WorldBase, WorldPids, control_socket, start_helpers

__all__ = [
    "DepotHost", "DepotSpec", "DeviceAccess", "DeviceSpec", "FlashFile", "LanTraffic", "Rung", "Site", "SiteSpec",
    "World", "WorldSpec", "best_rung", "in_core", "in_depot", "start_world",
]  # fmt: skip

_DIRECTORY_PREFIX = "flashferry-lab-"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashFile:
    """A file on a device's flash; ``path`` is where the host keeps it."""

    name: str
    size_bytes: int
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LanTraffic:
    """What a site's LAN carried, headers included: none of it was on the WAN link.

    `from_depot_bytes`: From the depot to the devices; 0 without a depot. `to_depot_bytes`: From the devices to the
    depot.
    """

    between_devices_bytes: int
    from_depot_bytes: int = 0
    to_depot_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A running world.

    Attributes:
        rung: What is emulated, in words; figures from a lower rung must be labelled with it.
        server_address: The core's address, where a server for the devices listens.
        sites: The sites, each with its link's profile at the start and its devices.
        core_pid: A live process in the core namespace.
        site_pids: For each site a live process in its namespace.
        depots: The depot hosts, by the name of their site.
        directory: Private to the world, and gone with it.
    """

    rung: Rung
    server_address: str
    sites: tuple[Site, ...]
    core_pid: int
    site_pids: tuple[int, ...]
    depots: Mapping[str, DepotHost]
    directory: Path

    @property
    def profile(self) -> LinkProfile:
        """Profile of the first site's link at the start."""
        return self.sites[0].profile

    @property
    def devices(self) -> tuple[DeviceAccess, ...]:
        """How to reach the devices of all sites."""
        return tuple(device for site in self.sites for device in site.devices)

    def running_config(self, name: str) -> str:
        """Return a device's running configuration, from the stamp to ``end``, behind SSH's back."""
        return str(self._device("running", name)["text"])

    def startup_config(self, name: str) -> str:
        """Return a device's startup configuration."""
        return str(self._device("startup", name)["text"])

    def files(self, name: str) -> tuple[FlashFile, ...]:
        """Return the files on a device's flash."""
        rows = self._device("files", name)["files"]
        return tuple(FlashFile(name=row[0], size_bytes=row[1], path=Path(row[2])) for row in rows)

    def flashes(self, name: str) -> dict[str, Path]:
        """Return where the host keeps each file system of a device, by its name with the colon; the device's first."""
        return {prefix: Path(path) for prefix, path in self._device("flashes", name)["flashes"]}

    def packages(self, name: str) -> dict[str, str]:
        """Return the packages of a device in install mode: the letter of each one's state, by its version."""
        return dict(self._device("packages", name)["packages"])

    def guesses(self, name: str) -> dict[str, int]:
        """Return which texts a device printed that were never seen on a real one, and how often."""
        return dict(self._device("guesses", name)["guesses"])

    def happened(self, name: str) -> tuple[str, ...]:
        """Return what happened to a device, in its order; see `flashferry.lab.standin.device.Device`."""
        return tuple(self._device("happened", name)["happened"])

    def runs(self, name: str) -> str:
        """Return what a device runs, or ran last: the version of its package, or its image's file."""
        return str(self._device("happened", name)["runs"])

    def fault(self, name: str, **switches: Any) -> None:
        """Switch faults of a device; see `flashferry.lab.standin.faults.Faults`.

        Raises LabError: there is no such device or fault.
        """
        self._device("fault", name, switches=switches)

    def link_counters(self, site: str | None = None) -> dict[str, Any]:
        """Return a link's counters in each direction, and its present profile; of the first site unless named.

        Raises LabError: there is no such site, or this rung has no link.
        """
        return self._link({"do": "counters"}, site or self.sites[0].name)

    def set_link(self, site: str | None = None, **changes: Any) -> None:
        """Change a link while it runs, for example ``loss_ratio=0.001`` or ``to_site={"delay_s": 0.1}``.

        `site`: Whose link; that of every site unless named. Raises LabError: there is no such setting, its value is not
        allowed, or this rung has no link.
        """
        for name in [each.name for each in self.sites] if site is None else [site]:
            self._link({"do": "set", "changes": changes}, name)

    def renew_link(self, site: str, seed: int | str, **changes: Any) -> None:
        """Change a link and begin its counters and its random losses anew: the same seed loses the same packets.

        Packets under way are lost with what they were part of, so do it between copies.

        Raises LabError: as `set_link`.
        """
        self._link({"do": "renew", "seed": seed, "changes": changes}, site)

    def cut(self, site: str) -> None:
        """Cut a site's WAN link: both ways packets are lost, those under way too, until it is mended.

        There is no notice: TCP keeps its connections and tries again. Counters go on and count what is lost.

        Raises LabError: there is no such site, or this rung has no link.
        """
        self._link({"do": "cut"}, site)

    def mend(self, site: str) -> None:
        """Have a site's WAN link carry packets again, as it did before it was cut. Raises LabError: as `cut`."""
        self._link({"do": "mend"}, site)

    def lan_traffic(self, site: str) -> LanTraffic:
        """Return what a site's LAN has carried since the world began; of device to device what they sent each other.

        Raises LabError: there is no such site, or it shares this machine's loopback.
        """
        if self.rung is Rung.LOOPBACK:
            raise LabError(f"There is no LAN to meter: the lab runs on {self.rung}.")
        found = traffic(self.site_pids[self._number(site)])
        lan = found.get(LAN)
        return LanTraffic(
            between_devices_bytes=found["lo"].sent_bytes,
            from_depot_bytes=lan.received_bytes if lan else 0,
            to_depot_bytes=lan.sent_bytes if lan else 0,
        )

    def state(self) -> LabState:
        """Return what `flashferry.lab.state.write_state` records of this world."""
        return LabState(
            pid=os.getpid(),
            started_ticks=started_ticks(os.getpid()) or 0,
            core_pid=self.core_pid,
            server_address=self.server_address,
            profile=self.profile.name,
            rung=self.rung,
            devices=self.devices,
            depots=tuple(self.depots.values()),
            links=self._links(),
        )

    def _number(self, site: str) -> int:
        names = [each.name for each in self.sites]
        if site not in names:
            raise LabError(f"There is no site {site!r}; there are {', '.join(names)}.")
        return names.index(site)

    def _links(self) -> dict[str, str]:
        if self.rung is not Rung.FULL:
            return {}
        return {each.name: str(control_socket(self.directory, "link", i)) for i, each in enumerate(self.sites)}

    def _link(self, request: dict[str, Any], site: str) -> dict[str, Any]:
        number = self._number(site)
        if self.rung is not Rung.FULL:
            raise LabError(f"There is no WAN link to ask or change: the lab runs on {self.rung}.")
        return ask(control_socket(self.directory, "link", number), request)

    def _device(self, do: str, name: str, **more: Any) -> dict[str, Any]:
        places = {device.name: i for i, site in enumerate(self.sites) for device in site.devices}
        if name not in places:
            raise LabError(f"There is no device {name!r}; there are {', '.join(places)}.")
        return ask(control_socket(self.directory, "devices", places[name]), {"do": do, "name": name, **more})


@contextlib.contextmanager
def start_world(spec: WorldSpec | None = None, *, rung: Rung = Rung.FULL) -> Iterator[World]:
    """Start a world, and end it with the with block.

    `spec`: What it is made of; one router behind the published WAN unless given. `rung`: What to emulate; never stepped
    down by itself, for figures would lie. `best_rung` finds what is possible. Raises LabError: it cannot be built here;
    the sentence says why.
    """
    spec = spec or WorldSpec()
    with contextlib.ExitStack() as stack:
        settle(spec)  # says what is wrong in the words of the specification, before anything is claimed
        check_rung(rung)
        addressing = stack.enter_context(addressing_of(rung))
        sites = settle(spec, addressing)
        check_devices(device for site in spec.all_sites for device in site.devices)
        sweep_leftovers()
        directory = Path(tempfile.mkdtemp(prefix=f"{_DIRECTORY_PREFIX}{os.getpid()}-{started_ticks(os.getpid())}-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        base = WorldBase(spec=spec, sites=sites, rung=rung, addressing=addressing, directory=directory)
        places = start_helpers(stack, base)
        yield World(
            rung=rung,
            server_address=addressing.server_address,
            sites=sites,
            core_pid=places.core_pid,
            site_pids=places.site_pids,
            depots=_depots(sites, places),
            directory=directory,
        )


def _depots(sites: tuple[Site, ...], places: WorldPids) -> dict[str, DepotHost]:
    """Return the depot hosts by the name of their site; on loopback they are where everything is."""
    return {
        site.name: DepotHost(
            name=site.depot.name, site=site.name, address=site.depot.address, pid=pid or places.core_pid
        )
        for site, pid in zip(sites, places.depot_pids, strict=True)
        if site.depot is not None
    }


def check_devices(devices: Iterable[DeviceSpec]) -> None:
    """Refuse what a device could not start with, before any process is started.

    Raises LabError: a platform or a configuration line is not known, or a recording cannot be read; it is named.
    """
    devices = tuple(devices)
    for recording in {spec.recording for spec in devices if spec.recording is not None}:
        load_recording(Path(recording))
    for platform in {spec.platform for spec in devices}:
        load_platform(platform)
    for spec in devices:
        check_lines(spec.name, spec.config_lines)


@contextlib.contextmanager
def in_core(world: World) -> Iterator[None]:
    """Put the calling thread, and threads it starts, into the world's core namespace for a with block."""
    with in_namespace(world.core_pid):
        yield


@contextlib.contextmanager
def in_depot(world: World, site: str) -> Iterator[None]:
    """Put the calling thread, and threads it starts, into the namespace of a site's depot host for a with block.

    Raises LabError: the site has no depot, or there is no such site.
    """
    if site not in world.depots:
        raise LabError(f"There is no depot at {site!r}; there are depots at {', '.join(world.depots) or 'no site'}.")
    with in_namespace(world.depots[site].pid):
        yield


def sweep_leftovers() -> None:
    """Remove directories of worlds whose owner is gone and whose helpers could not tidy up."""
    for path in Path(tempfile.gettempdir()).glob(f"{_DIRECTORY_PREFIX}*"):
        words = path.name.removeprefix(_DIRECTORY_PREFIX).split("-")
        if len(words) >= 2 and words[0].isdecimal() and str(started_ticks(int(words[0]))) != words[1]:
            shutil.rmtree(path, ignore_errors=True)
