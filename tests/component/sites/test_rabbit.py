"""Sites by RabbitMQ: an agent as a process, orders and words, the broker's death and return; skipped without it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from flashferry.core.values import replace
from flashferry.sites.broker import ORDER_TASK, Broker, BrokerSettings, BrokerUnreachable, site_queue
from flashferry.sites.centre.ordering import ListeningBroker
from flashferry.sites.wire import OrderJob, WordKind
from tests.component.sites.test_agent import Ground, stage
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.soak

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class Rabbit:
    """A RabbitMQ of the test's own on loopback; killed and started again it has what it had.

    Args:
        folder: Where its files go.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self.port, self._mesh, self._names = (_free_port() for _ in range(3))
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def settings(self) -> BrokerSettings:
        """Return how it is reached."""
        return BrokerSettings(url=f"amqp://127.0.0.1:{self.port}//")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        place = {
            "RABBITMQ_NODENAME": f"flashferry{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._mesh),
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_PID_FILE": str(self._folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(self._folder / "none"),
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            # Else it does not end while it takes a node that was killed for a living one.
            "ERL_EPMD_RELAXED_COMMAND_CHECK": "true",
            "HOME": str(self._folder),
        }
        with (self._folder / "out").open("ab") as out:
            self.process = subprocess.Popen(
                [PROGRAM], stdout=out, stderr=out, env=os.environ | place, start_new_session=True
            )
        until(self._answers, (self._folder / "out").read_text() or "rabbitmq answers")

    def kill(self) -> None:
        """Kill it, as a power cut does."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Kill it, and its keeper of names, which would stay."""
        self.kill()
        names = os.environ | {"ERL_EPMD_PORT": str(self._names), "ERL_EPMD_ADDRESS": "127.0.0.1"}
        subprocess.run(["epmd", "-kill"], env=names, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as asked:
            asked.sendall(b"AMQP\x00\x00\x09\x01")
            return bool(asked.recv(16))
        return False


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rabbit]:
    if not PROGRAM.exists() or shutil.which("epmd") is None:
        pytest.skip("rabbitmq-server is not installed")
    with closing(Rabbit(tmp_path_factory.mktemp("rabbit"))) as made:
        yield made


def test_orders_and_words_go_by_it_and_a_site_works(rabbit: Rabbit, tmp_path: Path) -> None:
    """A look and a part with its run; at its end the agent gives back what it holds."""
    with ExitStack() as stack:
        ground = Ground(tmp_path, stack, rabbit)
        with ground.agents.started() as agent:
            until(lambda: ground.centre.beats, "the agent beats")
            order = ground.centre.order(OrderJob.CHECK, "")
            assert ground.asked(order).kind is WordKind.ENDED
            assert ground.centre.about(order.id, WordKind.DEPOT)
            told = ground.asked(stage(ground, "part-1", devices=("r1", "r2")))
            assert (told.kind, told.data["exit_code"], told.data["outcomes"]) == (WordKind.ENDED, 3, {"failed": 2})
            until(lambda: ground.centre.beats[-1].data["spooled"] == 0, "the spool is empty")
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(PATIENCE_S) == 0


def test_what_a_handler_cannot_keep_comes_again(rabbit: Rabbit) -> None:
    """A full disk loses no order."""
    seen: list[str] = []

    def handle(envelope: str) -> None:
        seen.append(envelope)
        if len(seen) == 1:
            raise OSError(28, "No space left on device")

    with (
        closing(Broker(rabbit.settings, owner="centre")) as centre,
        closing(Broker(rabbit.settings, owner="agent-ams")) as agent,
        agent.worker([site_queue("ams")], ORDER_TASK, handle),
    ):
        centre.send_order("ams", "once more")
        until(lambda: len(seen) == 2, "it comes again")
    assert seen == ["once more"] * 2


def test_a_wrong_password_is_told_as_a_broker_that_does_not_take_us(rabbit: Rabbit, tmp_path: Path) -> None:
    """In a sentence, without the password; the agent goes on trying."""
    secret = tmp_path / "password"
    secret.write_text("guessed")
    secret.chmod(0o600)
    settings = replace(rabbit.settings, user="ams", password_file=secret)
    with closing(Broker(settings, owner="agent-ams")) as broker:
        with pytest.raises(BrokerUnreachable, match="Login was refused") as caught:
            broker.send_word("x")
        assert "guessed" not in str(caught.value)


def test_a_broker_that_dies_is_told_and_found_again(rabbit: Rabbit) -> None:
    """What waits there is there behind its restart; who sends meanwhile hears of it, and keeps what he has."""
    seen: list[str] = []
    with closing(Broker(rabbit.settings, owner="centre")) as centre:
        centre.send_order("rtm", "before")
        rabbit.kill()
        with pytest.raises(BrokerUnreachable, match="expected it to answer"):
            centre.send_order("rtm", "lost")
        with (
            closing(Broker(rabbit.settings, owner="agent-rtm")) as agent,
            agent.worker([site_queue("rtm")], ORDER_TASK, seen.append),
        ):
            rabbit.start()
            until(lambda: "before" in seen, "what waited is read")
            centre.send_order("rtm", "behind")
            until(lambda: "behind" in seen, "what comes then is read")


def test_the_centres_ear_hears_what_waited_and_goes_on_behind_a_restart(rabbit: Rabbit) -> None:
    """Words come in many at once; the agent's end tells when nobody takes them."""
    heard: list[str] = []
    with closing(Broker(rabbit.settings, owner="agent-ams")) as agent:
        for number in range(50):
            agent.send_word(f"word {number}")
        with (
            closing(ListeningBroker(rabbit.settings, owner="centre")) as centre,
            centre.listening(heard.extend),
        ):
            until(lambda: len(heard) == 50, "what waited is heard")
            rabbit.kill()
            rabbit.start()
            until(lambda: _is_sent(agent, "behind"), "it takes words again")
            until(lambda: "behind" in heard, "and they are heard")


def _is_sent(broker: Broker, envelope: str) -> bool:
    with suppress(BrokerUnreachable):
        broker.send_word(envelope)
        return True
    return False
