"""Where it happens: an SSH server on a loopback address, the devices that answer there, and what befalls them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import asyncssh

from tests.adversary.router.shell import Shell
from tests.adversary.router.terminal import HungUp, Terminal, Transcript
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.adversary.router.acts import Act
    from tests.adversary.router.device import Device, DeviceSight
    from tests.adversary.router.knobs import Surprise

SSH_PORT = 2222
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a controller logs in."""

    address: str
    username: str
    password: str = field(repr=False)
    enable_secret: str = field(repr=False)
    is_privileged: bool


class World:
    """The devices of a case behind one address, with one host key.

    Args:
        access: How they are logged in to.
        devices: The one that is meant, then those that may answer in its place.
        acts: What happens at which moment.
        images: What a controller may copy, by name: the adversary knows the right digests, to lie by.
        key: The host key that all of them show.
    """

    def __init__(
        self,
        *,
        access: Access,
        devices: Sequence[Device],
        acts: Sequence[Act],
        images: dict[str, bytes],
        key: asyncssh.SSHKey,
        struck: set[str],
    ) -> None:
        self.access = access
        self.devices = list(devices)
        self.images = images
        self.transcript = Transcript()
        self.tickets: set[tuple[str, str]] = set()
        self.jobs: set[asyncio.Future[None]] = set()
        self.listeners: list[Callable[[str], None]] = []
        self.struck = struck
        self.logins = 0
        self._acts = list(acts)
        self._key = key
        self._at = 0
        self._is_in_turns = False
        self._swap_back_at: int | None = None
        self._surprises: Counter[Surprise] = Counter()
        self._seen: set[str] = set()
        self._commands = 0
        self._sessions: dict[int, Session] = {}
        self._refusals: dict[str, float] = {}
        self._server: asyncssh.SSHAcceptor | None = None
        self._timers: list[asyncio.TimerHandle] = []

    # Looking on.

    @property
    def device(self) -> Device:
        """Return the device that answers now."""
        return self.devices[self._at]

    @property
    def address(self) -> str:
        """Return the address of the devices."""
        return self.access.address

    @property
    def now_s(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    @property
    def target_name(self) -> str:
        """Return the name of the image that the first controller copies."""
        return next(iter(self.images))

    def digest_asked_for(self, algorithm: str) -> str:
        """Return the right digest of that image."""
        return hashlib.new(algorithm, self.images[self.target_name], usedforsecurity=False).hexdigest()

    def sight(self) -> tuple[DeviceSight, ...]:
        """Return what the judge sees of all devices."""
        shared = Counter(device.serials for device in self.devices)
        return tuple(device.sight(shares_serial=shared[device.serials] > 1) for device in self.devices)

    # Moments.

    def moment(self, name: str) -> None:
        """Note that a moment has come; what was to happen at its first coming happens."""
        if name in self._seen:
            return
        self._seen.add(name)
        self.transcript.note(0, "moment", name)
        for listener in self.listeners:
            listener(name)
        for act in self._acts:
            if act.at == name and act.after_s:
                self.later(act.after_s, partial(self._play, act))
            elif act.at == name:
                self._play(act)

    def command(self, line: str) -> None:
        """Note a command."""
        self._commands += 1
        self.moment(f"command:{self._commands}")

    def _play(self, act: Act) -> None:
        self.transcript.note(0, "act", act.name or type(act).__name__)
        self.struck.add(act.name)
        act.play(self)

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Have something happen later."""
        self._timers.append(asyncio.get_running_loop().call_later(seconds, what))

    def fast_forward(self) -> None:
        """Have half a minute of the devices' time pass: every armed timer fires, every copy has ended."""
        for timer in self._timers:
            timer.cancel()
        for device in self.devices:
            device.fire_revert()

    def may_surprise(self, surprise: Surprise) -> bool:
        """Tell whether a question is still to be asked, and count it."""
        self._surprises[surprise] += 1
        return self._surprises[surprise] <= surprise.times

    # Who answers, and whether.

    def swap(self, *, back_after_logins: int = 0) -> None:
        """Have the next device answer from now on."""
        self._at = (self._at + 1) % len(self.devices)
        if back_after_logins:
            self._swap_back_at = self.logins + back_after_logins

    def take_turns(self) -> None:
        """Have the devices answer in turns."""
        self._is_in_turns = True

    def come_back(self) -> None:
        """Have the device that is meant answer again, and everybody be let in."""
        self._at, self._is_in_turns, self._swap_back_at = 0, False, None
        self._refusals.clear()

    def refuse_logins(self, how: str, for_s: float) -> None:
        """Let nobody in for a while."""
        self._refusals[how] = self.now_s + for_s

    def refuses(self, how: str) -> bool:
        """Tell whether nobody is let in now."""
        return self.now_s < self._refusals.get(how, 0.0)

    def next_login(self) -> Device:
        """Return the device that a login leads to."""
        self.logins += 1
        if self._is_in_turns and self.logins > 1:
            self._at = (self._at + 1) % len(self.devices)
        if self._swap_back_at is not None and self.logins > self._swap_back_at:
            self._at, self._swap_back_at = 0, None
        return self.device

    def drop_sessions(self, how: str, after_bytes: int) -> None:
        """End all sessions, so many bytes of output later."""
        for session in tuple(self._sessions.values()):
            session.drop_after(how, after_bytes)

    def disturb(self, how: str, text: str) -> None:
        """Put a message on all lines."""
        for session in tuple(self._sessions.values()):
            with contextlib.suppress(HungUp):
                session.terminal.disturb(how, text)

    def keep(self, job: asyncio.Future[None]) -> None:
        """Keep a copy under way; how it ends may be nobody's to hear."""
        self.jobs.add(job)

        def ended(job: asyncio.Future[None]) -> None:
            self.jobs.discard(job)
            if not job.cancelled():
                job.exception()

        job.add_done_callback(ended)

    def end_jobs(self) -> None:
        """End every copy."""
        for job in tuple(self.jobs):
            job.cancel()

    # SSH.

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncssh.create_server(
            lambda: Server(self),
            self.access.address,
            SSH_PORT,
            server_host_keys=[self._key],
            kex_algs=["curve25519-sha256", "ecdh-sha2-nistp256"],
            keepalive_interval=0,
        )

    async def stop(self) -> None:
        """Hang up and go."""
        for timer in self._timers:
            timer.cancel()
        self.end_jobs()
        for session in tuple(self._sessions.values()):
            session.drop("abort")
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._server.wait_closed(), PATIENCE_S)

    def began(self, session: Session) -> int:
        """Take a new session; return its number."""
        number = self.logins
        self._sessions[number] = session
        self.transcript.note(number, "began", self.device.name)
        return number

    def ended(self, number: int) -> None:
        """Let go of a session."""
        if self._sessions.pop(number, None) is not None:
            self.transcript.note(number, "ended", "")


class Server(asyncssh.SSHServer):
    """Lets one user in."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Hang up at once where all lines are in use."""
        self._connection = conn
        if self._world.refuses("tcp"):
            conn.abort()

    def begin_auth(self, username: str) -> bool:
        """Ask for a password."""
        return True

    def password_auth_supported(self) -> bool:
        """Take passwords."""
        return True

    def validate_password(self, username: str, password: str) -> bool:
        """Compare."""
        access = self._world.access
        return (username, password) == (access.username, access.password) and not self._world.refuses("password")

    def session_requested(self) -> tuple[asyncssh.SSHServerChannel[bytes], Session]:
        """Open a line to the device that answers now."""
        assert self._connection is not None
        session = Session(self._world, self._connection)
        return self._connection.create_server_channel(encoding=None), session


class Session(asyncssh.SSHServerSession[bytes]):
    """An SSH channel as a vty line."""

    terminal: Terminal

    def __init__(self, world: World, connection: asyncssh.SSHServerConnection) -> None:
        self._world = world
        self._connection = connection
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._number = 0
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        """Take the channel."""
        self._channel = chan

    def pty_requested(self, term_type: str, term_size: object, term_modes: object) -> bool:
        """Be a terminal."""
        return True

    def shell_requested(self) -> bool:
        """Offer the CLI, and nothing else."""
        return True

    def session_started(self) -> None:
        """Greet."""
        world = self._world
        device = world.next_login()
        self._number = world.began(self)
        self.terminal = Terminal(
            self,
            device.knobs,
            number=self._number,
            transcript=world.transcript,
            on_asked=device.asked.append,
            strike=device.strike,
        )
        shell = Shell(
            world, device, self.terminal, user=world.access.username, is_privileged=world.access.is_privileged
        )
        self._task = asyncio.ensure_future(self._run(shell))

    async def _run(self, shell: Shell) -> None:
        await shell.run()
        if not self.terminal.is_gone:
            self.drop("close")

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Take keys."""
        if self._task is not None:
            self.terminal.feed(data)

    def eof_received(self) -> bool:
        """Stay."""
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """End the session."""
        if self._task is not None:
            self.terminal.hang_up()
        self._world.ended(self._number)

    # What the terminal needs of it.

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self._channel is not None:
            with contextlib.suppress(OSError, asyncssh.Error):
                self._channel.write(data)

    def close(self) -> None:
        """Hang up."""
        self.drop("close")

    def drop_after(self, how: str, after_bytes: int) -> None:
        """End so many bytes of output later."""
        with contextlib.suppress(HungUp):
            self.terminal.drop_after(after_bytes, lambda: self.drop(how))

    def drop(self, how: str) -> None:
        """End: `abort`, `close`, or `eof` without a close."""
        if self._task is not None:
            self.terminal.hang_up()
        self._world.ended(self._number)
        with contextlib.suppress(OSError, asyncssh.Error):
            if how == "abort":
                self._connection.abort()
            elif how == "eof" and self._channel is not None:
                self._channel.write_eof()
            elif self._channel is not None:
                self._channel.exit(0)
                self._connection.close()


class Loop:
    """An event loop in a thread of its own: the routers of all cases live in it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="routers", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the loop do something and return what comes of it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def call(self, function: Callable[[], T]) -> T:
        """Have the loop call a function and return its result."""

        async def called() -> T:
            return function()

        return self.run(called())

    def close(self) -> None:
        """End the thread."""

        async def settle() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.run(settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()
