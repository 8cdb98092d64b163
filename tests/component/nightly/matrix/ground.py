"""A stand-in controller with others' labs on it, nights that are quick, and routers that know how the lab is."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from socket import gethostname

from flashferry.devices.errors import DeviceUnreachable
from flashferry.lab.cml.controller import Access, User
from flashferry.lab.cml.elements import Lab, plan_of
from flashferry.lab.cml.runtime import BootTimes, ClockRuntime, Condition
from flashferry.lab.cml.standin import STRANGER, USERNAME, RunningController, standin_controller
from flashferry.nightly.lab_notes import LabNotes, new_title
from flashferry.nightly.product import ProductRun
from flashferry.nightly.routers import Pings
from tests.component.nightly.cml.standing import TEXT, FleetingClock
from tests.component.nightly.matrix.faults import ROUTER
from tests.unit.nightly.fakes import FakeProduct, FakeRouters, failed_device

NOBODY = 2**22 + 1
"""A process id above the highest that Linux deals out (/proc/sys/kernel/pid_max, 2^22)."""

HOSTS = (ROUTER, "wan50-csr1000v-2")
_BOOTS = BootTimes(queued_s=3.0, started_s=20.0, stagger_s=1.0)


class KnownConditions(ClockRuntime):
    """Nodes that are a clock; what was put on a link last is known."""

    last: Condition | None = None

    def set_condition(self, lab_id: str, link_id: str, condition: Condition | None) -> Condition | None:
        self.last = condition
        return super().set_condition(lab_id, link_id, condition)


class TellingAccess(Access):
    """Remembers what it dealt out, so that it can be searched for."""

    def __init__(self, *given: object, **more: object) -> None:
        super().__init__(*given, **more)
        self.tokens: list[str] = []

    def token(self, username: object, password: object) -> str:
        self.tokens.append(found := super().token(username, password))
        return found


@dataclass
class Ground:
    """Where nights are played.

    Attributes:
        standin: The controller.
        clock: Everybody's.
        runtime: Its nodes.
        password: The administrator's.
        node_passwords: Those of the routers of all nights so far.
        strangers: The id of a stranger's lab, which runs.
        dead: The id of a lab that a dead night left.
        running: The id of a lab of a night that runs elsewhere on this host, once it began.
    """

    standin: RunningController
    clock: FleetingClock
    runtime: KnownConditions
    access: TellingAccess
    password: str
    node_passwords: list[str] = field(default_factory=list)
    strangers: str = ""
    dead: str = ""
    running: str = ""

    def begin(self) -> None:
        """Have no lab there but a stranger's and a dead night's."""
        self.standin.faults.clear()
        self.running = ""
        with self.standin.controller.lock:
            for lab in self.standin.controller.labs():
                lab.stops.clear()
                self.runtime.stop(lab.lab_id)
                self.runtime.wipe(lab.lab_id)
                self.standin.controller.delete(lab)
        self.strangers = self._started("a stranger's own", "keep it", STRANGER)
        title = new_title(datetime.now(UTC))
        self.dead = self._started(title, _notes(title, NOBODY))

    def begin_another(self) -> None:
        """Have another night of this host begin, which runs on."""
        title = new_title(datetime.now(UTC))
        self.running = self._started(title, _notes(title, os.getpid()))

    def labs(self) -> dict[str, tuple[str, str]]:
        """Return title and state of each lab that is there, by its id."""
        controller = self.standin.controller
        with controller.lock:
            return {lab.lab_id: (lab.title, controller.life.lab_state(lab)) for lab in controller.labs()}

    def _started(self, title: str, notes: str, username: str = USERNAME) -> str:
        controller = self.standin.controller
        user = next(one for one in self.access.users if one.username == username)
        with controller.lock:
            lab: Lab = controller.take(TEXT, user, title=title)
            lab.notes = notes
            controller.runtime.start(plan_of(lab))
        return lab.lab_id

    @property
    def secrets(self) -> tuple[str, ...]:
        """Everything that must not be found anywhere."""
        return (self.password, *self.node_passwords, *self.access.tokens)


def _notes(title: str, pid: int) -> str:
    expires = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    return LabNotes(run=title, host=gethostname(), pid=pid, expires=expires).text()


@contextmanager
def open_ground() -> Iterator[Ground]:
    """Have a controller with a password that nobody has by chance."""
    clock, password = FleetingClock(), f"Pw{secrets.token_hex(8)}"
    runtime = KnownConditions(_BOOTS, clock=clock.monotonic_s)
    with standin_controller(runtime=runtime, clock=clock.monotonic_s) as standin:
        controller = standin.controller
        access = TellingAccess(
            [
                User(username=USERNAME, password=password),
                User(username=STRANGER, password=password, is_admin=False),
            ],
            clock=clock.monotonic_s,
            lifetime_s=lambda: float(controller.switches.value("token_lifetime_s")),
        )
        controller.access = access
        yield Ground(standin=standin, clock=clock, runtime=runtime, access=access, password=password)


@dataclass
class LabRouters(FakeRouters):
    """Routers that answer unless their node is gone, through the link as it really is."""

    ground: Ground | None = None

    def read_state(self, node, address):
        self._check(node.label)
        return super().read_state(node, address)

    def configurations(self, node, address):
        self._check(node.label)
        return super().configurations(node, address)

    def ping(self, node, address, planned):
        if self._is_gone(node.label):
            return Pings(answers_s=(), sent=20)
        on_link = self.ground.runtime.last
        return Pings(answers_s=(2e-3 * on_link.latency_ms + 3e-4,) * 20, sent=20)

    def _is_gone(self, label: str) -> bool:
        return label in self.ground.standin.faults.value("disconnected")

    def _check(self, label: str) -> None:
        if self._is_gone(label):
            raise DeviceUnreachable("no SSH session: no route to host", host=label, hint="Look")


@dataclass
class LabProduct(FakeProduct):
    """A product that fails with the routers."""

    ground: Ground | None = None

    def run(self, name, verb, options, *, deadline):
        return self._failed(verb) or super().run(name, verb, options, deadline=deadline)

    def killed(self, name, verb, options, *, deadline):
        return self._failed(verb) or super().killed(name, verb, options, deadline=deadline)

    def _failed(self, verb: str) -> ProductRun | None:
        if not self.ground.standin.faults.value("disconnected"):
            return None
        return ProductRun(verb=verb, exit_code=3, document={"run": {"devices": [failed_device(ROUTER)]}})
