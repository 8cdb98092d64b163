"""What tests of sites share: a real Redis of the distribution, a centre of a few lines, an agent as a process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flashferry.lab.broker import missing_broker
from flashferry.sites.broker import CENTRE_QUEUE, WORD_TASK, Broker, BrokerSettings
from flashferry.sites.keys import PrivateKey, PublicKey
from flashferry.sites.wire import (
    CONTROL_JOBS,
    Order,
    OrderJob,
    Word,
    WordKind,
    moment_text,
    opened_word,
    sealed_order,
)
from tests.needs import lacking
from tests.patience import PATIENCE_S, until


class Redis:
    """A Redis of the test's own on loopback, with its log on disk; killed and started again it has what it had.

    Args:
        folder: Where its files go.
    """

    def __init__(self, folder: Path) -> None:
        if reason := missing_broker():
            lacking(reason)
        folder.mkdir(exist_ok=True)
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def settings(self) -> BrokerSettings:
        """Return how it is reached."""
        return BrokerSettings(url=f"redis://127.0.0.1:{self.port}/0")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ("--appendonly", "yes", "--appendfsync", "always", "--save", "", "--loglevel", "warning")
        place = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder))
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(["redis-server", *place, *words], stdout=log, stderr=log)
        until(self._answers, "redis answers")

    def kill(self) -> None:
        """Kill it, as a power cut does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as asked:
            asked.sendall(b"PING\r\n")
            return asked.recv(16).startswith(b"+PONG")
        return False


@contextmanager
def redis_in(folder: Path) -> Iterator[Redis]:
    """Run a Redis for the time of a block."""
    made = Redis(folder)
    try:
        yield made
    finally:
        made.kill()


class Line:
    """A line to a broker that can be cut so that nobody hears of it: what is sent is taken, and nothing comes back.

    Args:
        port: The broker's, on loopback.

    Attributes:
        has_dropped: Set once something was sent over the cut line.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self.has_dropped = threading.Event()
        self._door = socket.create_server(("127.0.0.1", 0))
        self._cut, self._ends = threading.Event(), list[socket.socket]()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def settings(self) -> BrokerSettings:
        """Return how the broker is reached by this line."""
        return BrokerSettings(url=f"redis://127.0.0.1:{self._door.getsockname()[1]}/0")

    def cut(self) -> None:
        """Drop whatever comes from now on; who connects is taken, and never answered."""
        self._cut.set()

    def close(self) -> None:
        """End it."""
        self._cut.set()
        for one in (self._door, *self._ends):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._thread.join()

    def _serve(self) -> None:
        with ThreadPoolExecutor(32) as pool, suppress(OSError):
            while True:
                near = self._door.accept()[0]
                self._ends.append(near)
                if not self._cut.is_set():
                    far = socket.create_connection(("127.0.0.1", self._to))
                    self._ends.append(far)
                    pool.submit(self._carry, near, far)
                    pool.submit(self._carry, far, near)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                if self._cut.is_set():
                    self.has_dropped.set()
                else:
                    target.sendall(content)
        if not self._cut.is_set():
            with suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)


class Centre:
    """A centre: sends orders, keeps words by (agent, run, offset), and says what it has heard.

    Args:
        broker: How the broker is reached.
        hears: Whether it says so.
    """

    def __init__(self, broker: BrokerSettings, *, hears: bool = True) -> None:
        self.key = PrivateKey.make()
        self.known: list[PublicKey] = []
        self.words: dict[tuple[str, str, int], Word] = {}
        self.repeats = 0
        self.beats: list[Word] = []
        self.hears = hears
        self._broker = Broker(broker, owner="centre")
        self._lock = threading.Lock()
        self._count = 0

    @contextmanager
    def listening(self) -> Iterator[Centre]:
        """Take words for the time of a block."""
        with self._broker.worker([CENTRE_QUEUE], WORD_TASK, self._take):
            yield self
        self._broker.close()

    def order(self, job: OrderJob, run: str, **values: Any) -> Order:
        """Return an order that is valid now."""
        self._count += 1
        now = datetime.now(UTC)
        usual = {
            "id": f"{job.value}-{self._count}",
            "site": "ams",
            "agent_key": self.known[0].key_id,
            "valid_from": moment_text(now - timedelta(seconds=1)),
            "valid_until": moment_text(now + timedelta(hours=1)),
            "release": version("flashferry"),
        }
        return Order(job=job, run=run, **(usual | values))

    def send(self, order: Order, key: PrivateKey | None = None) -> str:
        """Send an order; return its name."""
        envelope = sealed_order(order, key or self.key)
        self._broker.send_order("ams", envelope, is_control=order.job in CONTROL_JOBS)
        return order.id

    def about(self, order_id: str, *kinds: WordKind) -> list[Word]:
        """Return what was told about an order, by offset."""
        with self._lock:
            found = [one for one in self.words.values() if one.data.get("order") == order_id]
        return sorted((one for one in found if not kinds or one.kind in kinds), key=lambda one: one.offset)

    def answer(self, order_id: str) -> Word:
        """Return how an order ended, waiting for that."""
        until(lambda: self.about(order_id, WordKind.ENDED, WordKind.REFUSED), f"{order_id} is answered")
        return self.about(order_id, WordKind.ENDED, WordKind.REFUSED)[0]

    def offsets(self, run: str) -> list[int]:
        """Return the offsets of a run that were heard."""
        with self._lock:
            return sorted(offset for _, one, offset in self.words if one == run)

    def _take(self, envelope: str) -> None:
        word = opened_word(envelope, self.known)
        with self._lock:
            if word.kind is WordKind.BEAT:
                self.beats.append(word)
                return
            key = (word.agent, word.run, word.offset)
            self.repeats += key in self.words
            self.words[key] = word
            upto = word.offset if self.hears else 0
            has_all = all((word.agent, word.run, number) in self.words for number in range(1, upto + 1))
        if upto and has_all:
            self.send(self.order(OrderJob.ACKNOWLEDGE, word.run, offset=upto))


class Agents:
    """The agents of a test: settings on disk, started as processes, killed and started again.

    Args:
        folder: Where key, settings and state go.
        redis: The broker, or a line to it.
        centre: Whose orders are taken.
        inventory: The site's inventory.
    """

    def __init__(self, folder: Path, redis: Redis | Line, centre: Centre, inventory: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.state, self.catalogue = folder, folder / "state", folder / "catalogue"
        self.catalogue.mkdir(exist_ok=True)
        key = PrivateKey.make()
        key.save(folder / "agent.key")
        centre.known.append(key.public)
        self.config = folder / "agent.toml"
        self.config.write_text(
            f'site = "ams"\nstate = "state"\nkey = "agent.key"\n[centre]\nkeys = ["{centre.key.public.line}"]\n'
            f'[broker]\nurl = "{redis.settings.url}"\n[runs]\ninventory = "{inventory}"\n'
            f'options = ["--retries", "0"]\nrecover_options = []\n[depot]\ncatalogue = "catalogue"\n'
            "[words]\nbeat_seconds = 1\nprogress_seconds = 1\n"
        )

    @contextmanager
    def started(self, enter: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
        """Start an agent; what is left of it at the end is killed."""
        words = [*enter, sys.executable, "-P", "-m", "flashferry", "sites", "agent", "--config", str(self.config)]
        with ExitStack() as stack:
            said = stack.enter_context((self.folder / "said.txt").open("ab"))
            process = stack.enter_context(
                subprocess.Popen(
                    [*words, "--log-file", str(self.folder / "agent.log")],
                    stdout=said,
                    stderr=said,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    env={name: value for name, value in os.environ.items() if not name.startswith("FLASHFERRY_")},
                )
            )
            stack.callback(self._end, process)
            yield process

    def cloned(self, folder: Path) -> Agents:
        """Return the agents of a copy of this folder, made as it is now, as a clone of the machine has it."""
        shutil.copytree(self.folder, folder)
        (folder / "said.txt").write_text("")
        clone = copy(self)
        clone.folder, clone.state, clone.catalogue = folder, folder / "state", folder / "catalogue"
        clone.config = folder / "agent.toml"
        return clone

    @property
    def said(self) -> str:
        """Return all that agents printed so far."""
        return (self.folder / "said.txt").read_text()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
