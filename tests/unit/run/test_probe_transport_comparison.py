"""A speed test over several transports: one copy by each, one login, the fastest marked, the lines changed over."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.devices.errors import CopyFailed, DeviceUnreachable, QuestionLeft, TransferStalled
from flashferry.devices.session import CpuUse
from flashferry.model.states import Outcome
from flashferry.run import probe
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.probe import SpeedTestOptions, TransportComparison
from flashferry.store.history import History
from flashferry.tcp.verdict_rules import VerdictKind
from tasks.tcp_config import Change, TunePlan
from tests.unit.run.device.scripted import Steps, context
from tests.unit.transports.some_transports import named


def line(name):
    return Change(keyword="window-size", before=None, ours=f"ip tcp window-size 6553{len(name)}")


class Compared:
    """A device on which each transport has a rate, or an error."""

    def __init__(self, monkeypatch, **rates) -> None:
        self.rates, self.events, self.set = rates, [], []
        self.capped: set[str] = set()
        given = replace(context(to_null=True), emit=self.events.append, transports=named(*rates))
        self.run = DeviceRun(Steps(tune=self.tune), given)
        self.run.update(check=SimpleNamespace(facts=SimpleNamespace(model=None), rtt_s=0.1))
        self.run.session = lambda: None
        monkeypatch.setattr(probe, "plan_now", lambda run, before: self.plan(before))
        monkeypatch.setattr(probe, "cpu_use", lambda session: CpuUse(five_seconds=9, one_minute=5))
        self.test = TransportComparison(self.run, SpeedTestOptions(), SimpleNamespace(), History(()))
        self.test.time_arm = self.arm
        self.refused: dict[str, Exception] = {}

    @property
    def by(self):
        return self.run.transport.name

    def plan(self, before):
        if (error := self.refused.get(self.by)) is not None:
            raise error
        return SimpleNamespace(target="null:", tune=TunePlan(changes=(line(self.by),)))

    def tune(self, task, **given):
        self.set.append((tuple(one.ours for one in given["held"]), tuple(given["plan"].commands)))
        given["remember"](given["plan"].changes)
        return SimpleNamespace(other_words=(), is_marked=True, channel_as_before=False)

    def arm(self, name, target, *, expected_bytes_per_s):
        found = self.rates[self.by]
        if isinstance(found, Exception):
            raise found
        seen = SimpleNamespace(max_window_bytes=1_000_000, channel_window_bytes=None, min_rtt_s=0.1)
        if self.by == "scp":
            seen.channel_window_bytes = 8192
        self.run.update(transfer=seen)
        verdict = SimpleNamespace(kind=VerdictKind.CAP if self.by in self.capped else VerdictKind.BANDWIDTH)
        return SimpleNamespace(steady_bytes_per_s=found, measured_bytes_per_s=found, rtt_s=0.1, verdict=verdict)

    def compare(self):
        self.test.deliver(self.plan(None), SimpleNamespace(running=None))
        return self.run.record


@pytest.mark.parametrize(("capped", "best"), [({"ftp", "scp"}, "ftp"), ({"http"}, "scp"), ({"scp"}, "scp")])
def test_a_share_of_our_cap_marks_no_transport_as_the_fastest(monkeypatch, capped, best):
    """Neighbours decide what a share is: of those that it held back the preferred one is marked."""
    compared = Compared(monkeypatch, ftp=1e6, http=1.1e6, scp=1.5e6)
    compared.capped = capped
    assert compared.compare().transport == best


def test_each_is_timed_and_the_fastest_marked(monkeypatch):
    """With what its windows let through, the channel's included, and the device's processor."""
    record = Compared(monkeypatch, ftp=4e6, http=5e6, scp=0.08e6).compare()
    rows = record.probe.by_transport
    assert [(row.transport, row.is_best) for row in rows] == [("ftp", False), ("http", True), ("scp", False)]
    assert [round(row.ceiling_bytes_per_s / 1e3) for row in rows] == [10_000, 10_000, 82]
    assert {str(row.cpu) for row in rows} == {"9 % in five seconds, 5 % in a minute"}
    assert rows[1].image_s < rows[0].image_s < rows[2].image_s
    assert (record.transport, record.outcome) == ("http", Outcome.DONE)


def test_the_lines_of_each_are_changed_over_to_those_of_the_next(monkeypatch):
    """What is in force is what the one under way needs."""
    tested = Compared(monkeypatch, ftp=1e6, https=1e6)
    tested.compare()
    first, second = line("ftp").ours, line("https").ours
    assert tested.set == [((), (first,)), ((first,), (second,))]


@pytest.mark.parametrize("error", [CopyFailed("I/O error"), TransferStalled("nobody came")])
def test_one_that_fails_has_a_row_with_the_reason_and_the_others_go_on(monkeypatch, error):
    """It is never the best."""
    record = Compared(monkeypatch, ftp=error, http=1e6).compare()
    assert [(row.transport, row.reason, row.is_best) for row in record.probe.by_transport] == [
        ("ftp", error.message, False),
        ("http", "", True),
    ]
    assert record.failure is None


def test_one_that_cannot_be_planned_has_a_row_too(monkeypatch):
    """For its client takes no VRF, say."""
    tested = Compared(monkeypatch, ftp=1e6, http=1e6, scp=2e6)
    tested.refused = {"http": ConfigInvalid("VRF 'x': its client takes none", hint="Name one")}
    rows = tested.compare().probe.by_transport
    assert [(row.transport, bool(row.reason)) for row in rows] == [("ftp", False), ("http", True), ("scp", False)]


def test_what_the_inventory_allows_and_our_side_cannot_serve_is_told(monkeypatch):
    """In a line of the report, where all are compared; with a certificate, or names that were given, there is none."""
    tested = Compared(monkeypatch, ftp=1e6, http=1e6)
    policy = replace(tested.run.context.policy, transport="auto")
    tested.run.context = replace(tested.run.context, policy=policy)
    tested.run.host = replace(tested.run.host, transports=("ftp", "http", "https"))
    (told,) = tested.compare().notes
    assert told.startswith("not tried by https: expected a certificate of our server that the devices trust")
    named_ones = Compared(monkeypatch, ftp=1e6, http=1e6)
    named_ones.run.host = tested.run.host
    assert named_ones.compare().notes == ()


def test_where_all_fail_the_device_fails_with_the_last_reason(monkeypatch):
    """The rows are kept."""
    tested = Compared(monkeypatch, ftp=CopyFailed("a"), http=CopyFailed("b"))
    with pytest.raises(CopyFailed, match="b"):
        tested.compare()
    assert [row.reason for row in tested.run.record.probe.by_transport] == ["a", "b"]


@pytest.mark.parametrize("error", [DeviceUnreachable("lost"), QuestionLeft("a prompt behind a question")])
def test_what_is_the_device_s_own_trouble_ends_the_test(monkeypatch, error):
    """No other transport is tried on a session that is lost, or not to be trusted."""
    tested = Compared(monkeypatch, ftp=error, http=1e6)
    with pytest.raises(type(error)):
        tested.compare()
    assert tested.by == "ftp"
