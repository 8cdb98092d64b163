"""The sites demo's environment: folder, keys, certificates and settings of the centre and of each site.

They share nothing but what goes over the wire.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from flashferry.cli.terminal.output import say
from flashferry.core.state_folder import make_private_directory
from flashferry.depot.paths import is_socket, places
from flashferry.lab.authority import Authority, ServerCertificate
from flashferry.lab.broker import PORT, Broker, broker_tls, missing_broker, running_broker
from flashferry.lab.demo.guard import guarded
from flashferry.lab.demo.harness import RESTORE_S, MadeUpImage, Programs, until, write_image_rules
from flashferry.lab.demo.main_job import Before
from flashferry.lab.errors import LabError
from flashferry.lab.world import Site, World, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory
from flashferry.sites.keys import PrivateKey
from flashferry.transports import USUAL

CENTRE = "centre"
SOURCE_PORT = 8443
SILENT_AFTER_S = 10.0
"""An agent without a message for so long counts as silent; by itself the centre waits for two minutes."""

BEAT_S = 4.0
_FILE_MODE = 0o600

IMAGES = {
    "csr1000v": MadeUpImage(name="csr1000v-universalk9.17.03.08a.SPA.bin", model="CSR1000V", size_bytes=8_000_000),
    "isr4321": MadeUpImage(name="isr4300-universalk9.17.09.05a.SPA.bin", model="ISR4321*", size_bytes=8_000_000),
    "c8000v": MadeUpImage(name="c8000v-universalk9.17.15.04.SPA.bin", model="C8000V", size_bytes=8_000_000),
}
"""Images, by how the lab's platforms of their models begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A host's folder; `name` is `centre` or the site."""

    name: str
    folder: Path

    @property
    def state(self) -> Path:
        """Its state folder."""
        return self.folder / "state"

    @property
    def inventory(self) -> Path:
        """Its inventory."""
        return self.folder / "inventory"

    @property
    def catalogue(self) -> Path:
        """Its depot's folder of images."""
        return self.folder / "catalogue"

    @property
    def settings(self) -> Path:
        """Settings of the centre, or of the site's agent."""
        return self.folder / ("sites.toml" if self.name == CENTRE else "agent.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """All hosts' folders, SHA-512 of the images by name, and the certificate of the centre's depot."""

    centre: Place
    sites: dict[str, Place]
    digests: dict[str, str]
    source: ServerCertificate


def prepare(world: World, folder: Path, authority: Authority, broker: Broker) -> Places:
    """Write all files that the programs need before the first one starts."""
    make_private_directory(folder)
    centre = _made(folder, CENTRE)
    with_depot = [site for site in world.sites if site.depot is not None]
    sites = {site.name: _made(folder, site.name) for site in with_depot}
    key = PrivateKey.make()
    key.save(centre.folder / "centre.key")
    keys = {
        site.name: _write_agent(sites[site.name], world, site, authority, broker, key.public.line)
        for site in with_depot
    }
    digests = {}
    for image in IMAGES.values():
        content = os.urandom(image.size_bytes)
        (centre.catalogue / image.name).write_bytes(content)
        digests[image.name] = hashlib.sha512(content).hexdigest()
    _write_centre(centre, world, authority, broker, keys)
    _write_mirrors(centre, world, sites)
    source = authority.issue(centre.folder, (world.server_address,))
    return Places(centre=centre, sites=sites, digests=digests, source=source)


def _made(folder: Path, name: str) -> Place:
    place = Place(name=name, folder=folder / name)
    for path in (place.folder, place.state, place.catalogue):
        make_private_directory(path)
    return place


def _write_agent(
    place: Place, world: World, site: Site, authority: Authority, broker: Broker, centre_key: str
) -> str:  # fmt: skip
    """Write the settings of a site's agent; return its public key."""
    assert site.lan is not None
    key = PrivateKey.make()
    key.save(place.folder / "agent.key")
    authority.issue_client(place.folder, f"agent-{place.name}")
    (place.folder / "ca.pem").write_text(authority.pem, encoding="ascii")
    _write(place.folder / "broker.password", broker.password)
    _write(place.folder / "source.password", secrets.token_urlsafe(18))
    # From where its depot is, its devices are behind the LAN.
    own = replace(world, sites=(replace(site, profile=site.lan, depot=None, lan=None),))
    write_inventory(own, place.inventory)
    values = {"site": place.name, "centre_key": centre_key, "broker": _address(broker), "beat_s": BEAT_S}
    source = f"https://{world.server_address}:{SOURCE_PORT}"
    _write(place.settings, _template("agent.toml").format(**values, source=source))
    return key.public.line


def _write_centre(
    place: Place, world: World, authority: Authority, broker: Broker, keys: dict[str, str]
) -> None:  # fmt: skip
    (place.folder / "plans").mkdir(mode=0o700)
    client = authority.issue_client(place.folder, "centre-tls")
    client.certificate.rename(place.folder / "centre.pem")
    client.key.rename(place.folder / "centre.key.pem")
    (place.folder / "ca.pem").write_text(authority.pem, encoding="ascii")
    _write(place.folder / "broker.password", broker.password)
    agents = "".join(f'\n[sites.{name}]\nagent_key = "{key}"\n' for name, key in keys.items())
    values = _template("sites.toml").format(broker=_address(broker), silent_after_s=SILENT_AFTER_S)
    _write(place.settings, values + agents)
    write_inventory(world, place.inventory)
    groups = place.inventory / "groups.yaml"
    text = groups.read_text(encoding="utf-8")
    for site in world.sites:
        if site.depot is None:  # its devices serve each other
            text = text.replace(f'    site: "{site.name}"\n', f'    site: "{site.name}"\n    neighbours: true\n')
    groups.write_text(text, encoding="utf-8")
    write_image_rules(place.inventory, IMAGES.values())


def _write_mirrors(centre: Place, world: World, sites: dict[str, Place]) -> None:
    """Write which sites' depots may fetch from the centre's: login, address and link of each."""
    lines = []
    for site in world.sites:
        if site.depot is not None:
            lines += [
                f"[sites.{site.name}]",
                f'user = "{site.name}"',
                f'password_file = "{sites[site.name].folder / "source.password"}"',
                f'allow = ["{site.depot.address}"]',
                f"link_mbps = {site.profile.rate_bps / 1e6:g}",
            ]
    _write(centre.folder / "mirrors.toml", "\n".join([*lines, ""]))


def _template(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _address(broker: Broker) -> str:
    return f"rediss://{broker.address}:{broker.port}/0"


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "w", encoding="utf-8") as file:
        file.write(text)


WORLD = "sites-depots"
_AGENT = "agent"
READY_S = 90.0
"""As long as a busy machine may take to start a process of ours."""

SLOW_FLASH_BYTES_PER_S = 400_000
"""What flash takes at the site whose line is cut: its copies are to last for a while."""


@dataclass(kw_only=True)
class Environment:
    """A running lab with centre and agents; `before` has the routers' configurations at the start."""

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
        words += ["--catalogue", str(centre.catalogue), "--plans", str(centre.folder / "plans")]
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
        say(f"not restored: {', '.join(changed)}" if changed else "all routers' configurations are what they were")


@contextmanager
def opened(spec: WorldSpec, stop: threading.Event, hurry: threading.Event) -> Iterator[Environment]:
    """Yield a lab with centre and agents; all of it ends with the block, or by `stop` and `hurry`.

    Raises LabError: the lab or the broker cannot be started here.
    """
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
