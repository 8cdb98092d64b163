"""The service demo's environment: stand-in routers, a depot and the service.

A socket belongs to the network namespace that it was made in (network_namespaces(7)): one that is bound on the host
and inherited by the service lets it answer there, while it and its jobs work in the lab's core. Jobs outlive the
service; SIGINT has them restore every router.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import httpx

from flashferry.cli.service.serve import opened
from flashferry.cli.terminal.output import say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.jobs import JobFolder, ProcessMark, claim, read_mark
from flashferry.core.state_folder import make_private_directory
from flashferry.depot.paths import is_socket, places
from flashferry.lab.demo.harness import RESTORE_S, Broken, MadeUpImage, Programs, until, write_image_rules
from flashferry.lab.world import World, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory
from flashferry.service.people.accounts import NewPerson, add_person
from flashferry.service.people.provisioning import grant_of
from flashferry.service.people.sign_in import Passwords

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

_ASK_S = 1.0
_POLL_S = 0.05
_BACKLOG = 64


@dataclass(kw_only=True)
class Environment:
    """A running lab with depot and service; `moved_from` is the usual port where that was in use."""

    world: World
    state: Path
    url: str
    moved_from: int | None
    programs: Programs

    def start(self, name: str, *words: str, keep: tuple[int, ...] = ()) -> None:
        """Start a command of ours in the core; arguments as those of `Programs.start`."""
        self.programs.start(name, self.world.core_pid, (*words, "--state-dir", str(self.state)), keep)

    def wait_until_ready(self) -> None:
        """Wait until depot and service answer. Raises Broken: one of them does not come up, or all of it is to end."""
        depot = next(iter(places(self.state)))
        until(lambda: is_socket(depot) and self._answers(), self.programs, "depot and service to answer", READY_S)

    def end(self) -> None:
        """End the service, then what it began, then the depot that those fetch from."""
        if "service" in self.programs.running:
            self.programs.end(["service"])
        _end_jobs(_started_jobs(self.state), self.programs.hurry)
        self.programs.end(list(self.programs.running))

    def _answers(self) -> bool:
        try:
            with build_opener(ProxyHandler({})).open(f"{self.url}/healthz", timeout=_ASK_S) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


@contextmanager
def opened_environment(
    spec: WorldSpec, folder: Path | None, stop: threading.Event, hurry: threading.Event
) -> Iterator[Environment]:
    """Yield a lab with depot and service; all of it ends with the block.

    `folder` holds the state, None for one that goes with the lab; `stop` and `hurry` end it. Raises ConfigInvalid: the
    folder cannot be used; LabError: the lab cannot be built here.
    """
    if folder is not None:
        _check_new(folder)
    with ExitStack() as stack:
        world = stack.enter_context(start_world(spec))
        state = world.directory / "state" if folder is None else folder.absolute()
        make_private_directory(state)
        inventory = write_inventory(world, world.directory / "inventory")
        write_image_rules(inventory, IMAGES)
        listener, moved_from = listening()
        stack.enter_context(listener)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        sites = "\n".join(f'{name} = "{text}"' for name, text in SITE_NAMES.items())
        settings = Path(__file__).with_name("service.toml").read_text(encoding="utf-8")
        (state / "service.toml").write_text(settings.format(inventory=inventory, sites=sites), encoding="utf-8")
        programs = Programs(logs=state, stop=stop, hurry=hurry)
        environment = Environment(world=world, state=state, url=url, moved_from=moved_from, programs=programs)
        stack.callback(environment.end)
        environment.start("depot", "depot")
        environment.start("service", "service", "--listen", f"fd:{listener.fileno()}", keep=(listener.fileno(),))
        # Its own copy is enough: with the service gone no client is to wait for an answer.
        listener.close()
        yield environment


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


def _started_jobs(state: Path) -> list[ProcessMark]:
    """Return the processes that have taken jobs; one that has not yet finds its job taken, by us, and ends."""
    folders = [JobFolder(path=path) for path in state.glob("jobs/*")]
    return [mark for one in folders if not claim(one.mark_file) and (mark := read_mark(one.mark_file)) is not None]


def _end_jobs(marks: list[ProcessMark], hurry: threading.Event) -> None:
    """End what the service started: by SIGINT each restores its routers; it is killed where that takes too long."""
    alive = [mark for mark in marks if mark.is_alive()]
    if alive:
        say("stopping; routers that were changed are restored first")
    for mark in alive:
        with suppress(ProcessLookupError):
            os.kill(mark.pid, signal.SIGINT)
    until_s = time.monotonic() + RESTORE_S
    while any(mark.is_alive() for mark in alive) and time.monotonic() < until_s and not hurry.wait(_POLL_S):
        pass
    for mark in alive:
        if mark.is_alive():
            with suppress(ProcessLookupError):
                os.killpg(mark.pid, signal.SIGKILL)


PATIENCE_S = 60.0
"""As long as an answer may take on a busy machine."""

_API = "/api/v1"
_PASSWORD_BYTES = 9
_PIECE_BYTES = 2_000_000


class Refused(Broken):
    """The service refused something, in its own sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A local account with roles at every site, and a password made for this demo."""

    name: str
    roles: tuple[str, ...]
    display: str
    # Letters, digits, `-` and `_`: to be copied by a click.
    password: str = field(default_factory=lambda: secrets.token_urlsafe(_PASSWORD_BYTES), repr=False)


def enter(state: Path, accounts: tuple[Account, ...]) -> None:
    """Enter people into the tables of a service, as `flashferry service user add` does."""
    with opened(None, state, is_beginning=True) as (service, actor):
        passwords = Passwords(service.settings.people)
        for one in accounts:
            grants = tuple(grant_of(role) for role in one.roles)
            new = NewPerson(name=one.name, display=one.display, password=one.password, grants=grants)
            add_person(service, actor, new, passwords)


class Person:
    """A person who is signed in over HTTP."""

    def __init__(self, url: str, account: Account) -> None:
        self.name = account.name
        # What this host's variables say of proxies is nothing for loopback.
        self._client = httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False)
        session = self.post("/login", {"name": account.name, "password": account.password})
        self._client.headers.update({"Origin": url, "X-CSRF-Token": session["csrf"]})

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def get(self, path: str) -> dict[str, Any]:
        """Return an answer of the API. Raises Broken: the service refuses, or does not answer."""
        return self._asked("GET", path)

    def post(self, path: str, values: dict[str, Any]) -> dict[str, Any]:
        """Have the API do something and return its answer. Raises Broken: the service refuses or does not answer."""
        return self._asked("POST", path, json=values)

    def text(self, path: str) -> str:
        """Return a file of the API. Raises Broken: the service refuses, or does not answer."""
        return self._answer("GET", path).text

    def send_image(self, name: str, content: bytes) -> dict[str, Any]:
        """Upload an image in pieces with its SHA-512; return its entry. Raises Broken: as `post`."""
        digest = hashlib.sha512(content).hexdigest()
        held = self.post("/images", {"name": name, "size_bytes": len(content), "sha512": digest})
        for offset in range(0, len(content), _PIECE_BYTES):
            headers = {"Upload-Offset": str(offset)}
            piece = content[offset : offset + _PIECE_BYTES]
            held = self._asked("PATCH", f"/images/{name}", content=piece, headers=headers)
        return held

    def _asked(self, method: str, path: str, **sent: Any) -> dict[str, Any]:
        answer = self._answer(method, path, **sent).json()
        assert isinstance(answer, dict)
        return answer

    def _answer(self, method: str, path: str, **sent: Any) -> httpx.Response:
        try:
            answer = self._client.request(method, _API + path, **sent)
        except httpx.HTTPError as error:
            raise Broken(f"the service gave no answer to {method} {path}: {error}") from None
        if not answer.is_success:
            raise Refused(_sentence(answer))
        return answer


def _sentence(answer: httpx.Response) -> str:
    """Return what a refusal says, as people read it."""
    try:
        values = answer.json()
        return f"{values['detail']} ({answer.status_code})"
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"
