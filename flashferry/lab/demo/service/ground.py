"""What the demo of the service stands on, and its end: stand-in routers, a depot and the service, all as in real life.

Facts
-----

- The routers are reached from the core of the lab alone, a network namespace that no browser of this host is in. A
  socket stays in the namespace in which it was made (network_namespaces(7)): one that is bound here and handed down to
  the service makes it answer here, while it and its runs work in the core.
- A run is a process of its own, in a session of its own, and outlives the service that began it. Here all of them have
  to end; told by SIGINT they put every router back before.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.cli.terminal.output import say
from flashferry.core.apart.folder import JobFolder
from flashferry.core.apart.processes import ProcessMark, claim, read_mark
from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import make_private_directory

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from flashferry.lab.world import World, WorldSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUpImage:
    """An image of random bytes, named as the vendor names those of a model.

    Attributes:
        name: The file's name.
        model: Which models get it, as the inventory's image rules have it.
        size_bytes: Its size.
    """

    name: str
    model: str
    size_bytes: int


IMAGES = (
    MadeUpImage(name="csr1000v-universalk9.17.03.08a.SPA.bin", model="CSR1000V", size_bytes=4_000_000),
    MadeUpImage(name="c8000v-universalk9.17.15.04.SPA.bin", model="C8000V", size_bytes=4_000_000),
    MadeUpImage(name="isr4300-universalk9.17.09.05a.SPA.bin", model="ISR4321*", size_bytes=4_000_000),
    MadeUpImage(name="c2800nm-adventerprisek9-mz.151-4.M12a.bin", model="2811", size_bytes=2_000_000),
)
WORLD = "team"
SITE_NAMES = {"AMS": "Amsterdam", "OSL": "Oslo", "LIM": "Lima"}
USUAL_PORT = 8020
READY_S = 60.0
"""As long as a busy machine may take to start a process of ours."""

RESTORE_S = 120.0
"""What is under way gets so long to put its routers back."""

_END_S = 15.0
_ASK_S = 1.0
_LOOK_S = 0.05
_OURS = "FLASHFERRY_"
_BACKLOG = 64

_SETTINGS = """\
# The service of a demo: what 'flashferry service init' writes has all keys, with comments.
[runs]
inventory = "{inventory}"

[images]
reserve_gigabytes = 0.1

[sites]
{sites}
"""


class Broken(Exception):
    """Something of the ground is not there, or has gone; the sentence says what."""


@dataclass(kw_only=True)
class Ground:
    """A lab, a depot and a service that run.

    Attributes:
        world: The routers.
        state: The state folder of service, depot and runs.
        url: Where the service answers, on this host.
        moved_from: The usual port, where that was in use.
        stop: Set when somebody wants all of it to end.
        hurry: Set when he wants that at once.
        processes: Depot and service by name, as they were started.
    """

    world: World
    state: Path
    url: str
    moved_from: int | None
    stop: threading.Event
    hurry: threading.Event
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def trouble(self) -> str:
        """Return what has become of depot or service, if one of them has ended; else nothing."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                return f"the {name} has ended, exit code {process.returncode}: {self._last_words(name)}"
        return ""

    def check(self) -> None:
        """Check that depot and service still run.

        Raises:
            Broken: One does not.
        """
        if trouble := self.trouble():
            raise Broken(trouble)

    def start(self, name: str, *words: str, keep: tuple[int, ...] = ()) -> None:
        """Start a command of ours in the core, told to end when we do.

        Args:
            name: What it is called.
            words: Its command line, behind `flashferry`.
            keep: Descriptors that are handed down.
        """
        from flashferry.lab.helper import end_with_owner

        inside = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(self.world.core_pid), "--"]
        command = [*inside, sys.executable, "-P", "-m", "flashferry", *words, "--state-dir", str(self.state)]
        # What the operator's own shell says of his depot, inventory or logins is nothing for the demo.
        environment = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
        with self._log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # The terminal's Ctrl-C is for us.
                start_new_session=True,
                pass_fds=keep,
                env=environment,
                preexec_fn=end_with_owner,  # noqa: PLW1509 -- one call of the kernel
            )

    def wait_until_ready(self) -> None:
        """Wait until depot and service answer, or somebody wants all to end.

        Raises:
            Broken: One of them does not come up.
        """
        from flashferry.depot.places import is_socket, places

        until_s = time.monotonic() + READY_S
        depot = next(iter(places(self.state)))
        while not (is_socket(depot) and self._answers()):
            self.check()
            if time.monotonic() > until_s:
                raise Broken(f"depot and service were not ready within {READY_S:g} s")
            if self.stop.wait(_LOOK_S):
                return

    def end(self) -> None:
        """End the service, then what it began, then the depot that those fetch from."""
        self._end("service")
        _end_jobs(_jobs_begun(self.state), self.hurry)
        self._end("depot")

    def _end(self, name: str) -> None:
        process = self.processes.pop(name, None)
        if process is None:
            return
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        # What it started is of its session; of the service that is nothing, since jobs have sessions of their own.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _answers(self) -> bool:
        from urllib.error import URLError
        from urllib.request import ProxyHandler, build_opener

        try:
            with build_opener(ProxyHandler({})).open(f"{self.url}/healthz", timeout=_ASK_S) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def _log(self, name: str) -> Path:
        return self.state / f"{name}.log"

    def _last_words(self, name: str) -> str:
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "it gave no reason")


@contextmanager
def opened(spec: WorldSpec, folder: Path | None, stop: threading.Event, hurry: threading.Event) -> Iterator[Ground]:
    """Yield a lab, with depot and service that are about to answer; all of it ends with the block.

    Args:
        spec: The routers.
        folder: A new folder for the state; None: it is gone with the lab.
        stop: Set when somebody wants all of it to end.
        hurry: Set when he wants that at once.

    Raises:
        ConfigInvalid: The folder cannot be had.
        LabError: The lab cannot be built here.
    """
    from flashferry.lab.world import start_world
    from flashferry.lab.world_inventory import write_inventory

    if folder is not None:
        _check_new(folder)
    with ExitStack() as stack:
        world = stack.enter_context(start_world(spec))
        state = world.directory / "state" if folder is None else folder.absolute()
        make_private_directory(state)
        inventory = write_inventory(world, world.directory / "inventory")
        _write_image_rules(inventory)
        listener, moved_from = listening()
        stack.enter_context(listener)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        sites = "\n".join(f'{name} = "{text}"' for name, text in SITE_NAMES.items())
        (state / "service.toml").write_text(_SETTINGS.format(inventory=inventory, sites=sites), encoding="utf-8")
        ground = Ground(world=world, state=state, url=url, moved_from=moved_from, stop=stop, hurry=hurry)
        stack.callback(ground.end)
        ground.start("depot", "depot")
        ground.start("service", "service", "--listen", f"fd:{listener.fileno()}", keep=(listener.fileno(),))
        # Its own copy is enough: with the service gone nobody is to wait for an answer.
        listener.close()
        yield ground


def _write_image_rules(inventory: Path) -> None:
    """Write which model gets which image beside the inventory."""
    lines = [f'  - {{model: "{one.model}", image: "{one.name}"}}' for one in IMAGES]
    (inventory / "images.yaml").write_text("\n".join(["rules:", *lines, ""]), encoding="utf-8")


def _check_new(folder: Path) -> None:
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ConfigInvalid(
            f"--folder {folder}: expected a new folder, found something there",
            hint="Name one that is not there yet; the routers and people of each demo are new",
        )


def listening(port: int = USUAL_PORT) -> tuple[socket.socket, int | None]:
    """Return a socket that is listened on, at a port or, where that is in use, another one; and that port, or None."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    moved_from = None
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        listener.close()
        listener, moved_from = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG), port
    return listener, moved_from


def _jobs_begun(state: Path) -> list[ProcessMark]:
    """Return the processes that have taken jobs; one that has not yet finds its job taken, by us, and ends."""
    folders = [JobFolder(path=path) for path in state.glob("jobs/*")]
    return [mark for one in folders if not claim(one.begun) and (mark := read_mark(one.begun)) is not None]


def _end_jobs(marks: list[ProcessMark], hurry: threading.Event) -> None:
    """End what the service began: told to, each puts its routers back; killed where that takes too long."""
    alive = [mark for mark in marks if mark.is_alive()]
    if alive:
        say("ending what is under way; routers that were changed are put back")
    for mark in alive:
        with suppress(ProcessLookupError):
            os.kill(mark.pid, signal.SIGINT)
    until_s = time.monotonic() + RESTORE_S
    while any(mark.is_alive() for mark in alive) and time.monotonic() < until_s and not hurry.wait(_LOOK_S):
        pass
    for mark in alive:
        if mark.is_alive():
            with suppress(ProcessLookupError):
                os.killpg(mark.pid, signal.SIGKILL)
