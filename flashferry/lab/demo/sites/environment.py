"""What the demo of sites stands on: routers at three sites, a centre with broker and source, and two sites' hosts."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from flashferry.cli.terminal.output import say
from flashferry.lab.demo.guard import guarded
from flashferry.lab.demo.programs import RESTORE_S, Programs, until
from flashferry.lab.demo.sites.places import SOURCE_PORT, Places, prepare
from flashferry.lab.demo.table import Before
from flashferry.transports import USUAL

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from flashferry.lab.broker import Broker
    from flashferry.lab.world import World, WorldSpec

WORLD = "sites-depots"
_AGENT = "agent"
READY_S = 90.0
"""As long as a busy machine may take to start a process of ours."""

SLOW_FLASH_BYTES_PER_S = 400_000
"""What flash takes at the site whose line is cut: its copies are to last for a while."""


@dataclass(kw_only=True)
class Environment:
    """A lab, a centre and agents that run.

    Attributes:
        world: The routers.
        places: Folders and settings of the centre and of each site.
        programs: What runs.
        before: The routers' configurations as they were, seen from behind their backs.
    """

    world: World
    places: Places
    broker: Broker
    programs: Programs
    before: Before

    @property
    def cut_site(self) -> str:
        """The site whose line is cut: the last that has a depot."""
        return list(self.places.sites)[-1]

    @property
    def lone_site(self) -> str:
        """The site without a host, whose routers serve each other."""
        return next(site.name for site in self.world.sites if site.depot is None)

    def start(self) -> None:
        """Slow one site's flash; start the centre's depot, and at each site its depot and its agent."""
        for device in next(one for one in self.world.sites if one.name == self.cut_site).devices:
            self.world.fault(device.name, slow_flash_bytes_per_s=SLOW_FLASH_BYTES_PER_S)
        centre, address = self.places.centre, self.world.server_address
        source = self.places.source
        words = ["depot", "--state-dir", str(centre.state), "--listen", address, "--transports", f"{USUAL.name},https"]
        words += ["--catalogue", str(centre.catalogue), "--plans", str(centre.plans)]
        words += ["--mirrors", str(centre.folder / "mirrors.toml"), "--https-port", str(SOURCE_PORT)]
        words += ["--certificate", str(source.certificate), "--key", str(source.key)]
        self.programs.start("depot of the centre", self.world.core_pid, words)
        for name, place in self.places.sites.items():
            pid = self.world.depots[name].pid
            self.programs.start(f"depot of {name}", pid, ("depot", "--state-dir", str(place.state)))
            agent = ("sites", "agent", "--config", str(place.settings), "--log-file", str(place.folder / "agent.log"))
            self.programs.start(f"{_AGENT} of {name}", pid, agent)

    def wait_until_ready(self) -> None:
        """Wait until all depots answer. Raises Broken: one of them does not come up, or all of it is to end."""
        from flashferry.depot.paths import is_socket, places

        for place in (self.places.centre, *self.places.sites.values()):
            at = next(iter(places(place.state)))
            until(partial(is_socket, at), self.programs, f"the depot of {place.name} to answer", READY_S)

    def end(self) -> None:
        """End the agents, which have their runs put every router back, then the depots that those fetch from."""
        self.programs.end([name for name in self.programs.running if name.startswith(_AGENT)], RESTORE_S)
        if self.programs.stop.is_set() and not self.programs.hurry.is_set():
            self._print_restored()
        self.programs.end(list(self.programs.running))

    def _print_restored(self) -> None:
        """Print whether all routers are restored, where the demo was interrupted."""
        changed = [name for name, found in self.before.compared(self.world).items() if found]
        say(f"not put back: {', '.join(changed)}" if changed else "all routers' configurations are what they were")


@contextmanager
def opened(spec: WorldSpec, stop: threading.Event, hurry: threading.Event) -> Iterator[Environment]:
    """Yield a lab with a centre and agents that are about to answer; all of it ends with the block.

    Args:
        spec: The routers.
        stop: Set when all of it is to end.
        hurry: Set when that is to be at once.

    Raises LabError: the lab or the broker cannot be had here.
    """
    from flashferry.lab.authority import Authority
    from flashferry.lab.broker import PORT, Broker, broker_tls, missing_broker, running_broker
    from flashferry.lab.errors import LabError
    from flashferry.lab.world import start_world

    if reason := missing_broker():
        raise LabError(reason)
    with ExitStack() as stack:
        world = stack.enter_context(start_world(spec))
        stack.enter_context(guarded(world.directory))
        folder, authority = world.directory, Authority("Demo CA")
        broker = Broker(
            folder=folder / "broker",
            address=world.server_address,
            port=PORT,
            namespace_pid=world.core_pid,
            tls=broker_tls(authority, folder / "broker-tls", world.server_address),
        )
        stack.enter_context(running_broker(broker))
        places = prepare(world, folder / "hosts", authority, broker)
        programs = Programs(logs=places.centre.folder, stop=stop, hurry=hurry)
        environment = Environment(world=world, places=places, broker=broker, programs=programs, before=Before.of(world))
        stack.callback(environment.end)
        environment.start()
        yield environment
