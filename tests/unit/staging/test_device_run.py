"""One device's steps against a scripted one: what is set at which copy, what is removed, how often is asked again."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from nornir.core.exceptions import NornirSubTaskError
from nornir.core.inventory import Defaults, Host

from staging import copy_run, device_run
from staging.context import DeviceOptions, RunContext
from staging.probe import ProbeRun, ProbeWish
from tasks.errors import DeviceOverloaded, DeviceUnreachable
from tasks.tune import apply_plan, reapply, without_scaling
from tasks.tuning import plan_tune, tcp_lines

IMAGE_BYTES = 1000
PATH = "ip ftp source-interface Loopback0"
WINDOW = "ip tcp window-size 2500000"
SACK = "ip tcp selective-ack"


class Router:
    """Holds configuration lines by keyword."""

    name = "r1"
    peer_address = "192.0.2.1"

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def configure(self, lines):
        for line in lines:
            words = line.split()
            if words[0] == "no":
                self.lines.pop(words[3], None)
            else:
                self.lines[words[2]] = line
        return "\n".join(f"{line}\nr1(config)#" for line in lines)

    def ask(self, command, *, limit_s=30.0):
        return "\n".join(self.lines.values())


class Journal:
    """Keeps what is on disk, and every state."""

    def __init__(self) -> None:
        self.changes: tuple[str, ...] = ()

    def replan(self, run_id, host, changes):
        self.changes = tuple(change.ours for change in changes)

    def move(self, run_id, host, state):
        pass

    def release(self, run_id, host, record=None):
        pass


class Server:
    """Answers with the account that it is given."""

    port = 2121

    def __init__(self) -> None:
        self.tickets = itertools.count(1)
        self.revoked: list[str] = []
        self.account = SimpleNamespace(record=None, state="waiting", bytes_acked=0)

    def image(self, name):
        return SimpleNamespace(name=name, size_bytes=IMAGE_BYTES)

    def issue_ticket(self, request):
        return SimpleNamespace(ticket_id=f"t{next(self.tickets)}", username="u" * 8, password="p" * 16)

    def progress(self, ticket_id):
        return self.account

    def wait(self, ticket_id, timeout_s):
        return self.account

    def revoke(self, ticket_id):
        self.revoked.append(ticket_id)


class Steps:
    """Stands for a Nornir task: runs a step's script, by the step's name."""

    def __init__(self, **scripts) -> None:
        self.host = Host(name="r1", hostname="192.0.2.1", platform="ios", defaults=Defaults())
        self.scripts = scripts
        self.done: list[str] = []

    def run(self, task, name, **arguments):
        self.done.append(name)
        try:
            return [SimpleNamespace(result=self.scripts[name](task, **arguments))]
        except Exception as error:  # noqa: BLE001 -- as Nornir wraps whatever a step raises
            raise NornirSubTaskError(task=task, result=[SimpleNamespace(exception=error)]) from None


@pytest.fixture(autouse=True)
def no_session(monkeypatch):
    for module in (copy_run, device_run):
        monkeypatch.setattr(module, "session_of", lambda task: Router())
    monkeypatch.setattr(copy_run, "own_addresses", lambda session: ("192.0.2.1",))


def context(**options) -> RunContext:
    return RunContext(
        run_id="run",
        image=Server().image("x.bin"),
        server=Server(),
        journal=Journal(),
        options=DeviceOptions(**options),
        emit=lambda event: None,
        interrupted=lambda: False,
        started_s=0.0,
    )


def checked(run):
    """Take a run to where its check is done."""
    run._update(check=SimpleNamespace(rtt_s=0.1, server_address="192.0.2.10", file_system="flash:"))
    return run


def tuning(router):
    """Return the scripts of the steps that set lines, on this router."""

    def tune(task, **given):
        if task.__name__ == "tune":
            return apply_plan(router, given["plan"], remember=given["remember"])
        if task.__name__ == "set_again":
            return reapply(router, given["changes"])
        return without_scaling(router, given["changes"], remember=given["remember"])

    return tune


class FirstCopyFails:
    """Notes the router's lines and the journal's at each copy; the first one ends with an error."""

    def __init__(self, router, error) -> None:
        self.router, self.error, self.seen = router, error, []

    def __call__(self, task, **given):
        self.seen.append(set(self.router.lines.values()))
        if len(self.seen) == 1:
            raise self.error
        return SimpleNamespace(device=SimpleNamespace(duration_s=1.0), wall_s=1.0)


def speed_test(error, found="copy again"):
    """Return a speed test of which the first copy, as it is, fails; its router and its copies."""
    router = Router()
    pull = FirstCopyFails(router, error)
    decision = copy_run.Decision(found)
    judgement = SimpleNamespace(decision=decision, reason="gone")
    steps = Steps(tune=tuning(router), pull=pull, reconcile=lambda task, case: judgement)
    run = ProbeRun(steps, context(to_null=True), ProbeWish(), files=SimpleNamespace())
    plan = plan_tune(tcp_lines(""), window_bytes=2_500_000, source_interface="Loopback0", may_back_off=True)
    return checked(run), router, pull, plan


def copies_of(run):
    """Have each arm be one copy, and keep the journal's lines at each."""
    on_disk = []

    def arm(name, target, *, expected_bytes_per_s):
        on_disk.append(run.context.journal.changes)
        run._pull(target)
        return SimpleNamespace(steady_bytes_per_s=1.0, rtt_s=0.1, verdict=SimpleNamespace(kind=""))

    run._arm = arm
    run._forecast = lambda arm: 1.0
    run._decide = lambda *, has_tuning: None
    return on_disk


def test_a_lost_session_leaves_the_copy_as_it_is_untuned():
    """The arm "as it is" is repeated as it is: lines that were planned and not sent are none to set again."""
    run, _, pull, plan = speed_test(DeviceUnreachable("lost"))
    on_disk = copies_of(run)
    run._feed(plan, "null:")
    assert pull.seen == [{PATH}, {PATH}, {PATH, WINDOW, SACK}]
    assert on_disk == [(PATH,), (WINDOW, SACK, PATH)]


def test_an_overloaded_device_is_not_given_a_window_in_the_arm_as_it_is():
    """No window of ours is in force, so a smaller one cannot help: the failure is told, and nothing was tuned."""
    run, router, pull, plan = speed_test(DeviceOverloaded("I/O error"))
    copies_of(run)
    with pytest.raises(DeviceOverloaded):
        run._feed(plan, "null:")
    assert pull.seen == [{PATH}]
    assert set(router.lines.values()) == {PATH}
    assert run.context.journal.changes == (PATH,)


def test_what_is_in_force_is_on_disk_after_stepping_down():
    """The tuned arm fails with our window: the smaller one, and no other, is in force and on disk."""
    run, router, pull, plan = speed_test(DeviceOverloaded("I/O error"))
    copies_of(run)
    run._wish = ProbeWish(as_is=False)
    run._feed(plan, "null:")
    assert pull.seen == [{PATH, WINDOW, SACK}, {PATH, SACK, "ip tcp window-size 65535"}]
    assert set(run.context.journal.changes) == set(router.lines.values())
