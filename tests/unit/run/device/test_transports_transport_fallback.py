"""A transport by which no byte came gives copies to the next one, lines and record and journal with it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.devices.errors import (
    CopyFailed,
    CopyStopped,
    DeviceRefused,
    DeviceUnreachable,
    DialogueDisturbed,
    FileExists,
    OutputNotUnderstood,
    QuestionLeft,
    TransferStalled,
)
from flashferry.fileserver import TransferState
from flashferry.model.lost_copy_rules import Decision
from flashferry.model.states import Outcome, Restored
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.transports import first_plan, use_next_transport
from flashferry.run.device.workflow import transfer
from flashferry.tcp.ssh_channel_window import Limit
from tasks.fetch_check import Ceiling
from tasks.partial_file import FlashFile
from tasks.tcp_config import Change, TunePlan
from tests.unit.run.device.scripted import IMAGE_BYTES, Steps, account, context
from tests.unit.transports.some_transports import named

DONE = SimpleNamespace(device=SimpleNamespace(duration_s=1.0), wall_s=1.0)
LINE = Change(keyword="window-size", before=None, ours="ip tcp window-size 65535")


class Copies:
    """A device whose copies end as they are told to; what was planned, set, tried and told."""

    def __init__(self, monkeypatch, *ends, transports=("ftp", "http", "scp"), on_flash=None, **more) -> None:
        self.ends, self.events, self.offers, self.changed = list(ends), [], [], []
        self.context = replace(context(), emit=self.events.append, transports=named(*transports), **more)
        steps = Steps(pull=self.pull, tune=self.tune)
        self.run = DeviceRun(steps, self.context)
        self.run.update(
            check=SimpleNamespace(
                rtt_s=0.1,
                server_address="192.0.2.10",
                file_system="flash:",
                facts=None,
                version=SimpleNamespace(release="17.12.4"),
                overwrites_silently=False,
            )
        )
        self.refused_plans: dict[str, Exception] = {}
        monkeypatch.setattr("flashferry.run.device.transports.plan_now", lambda run, before: self.plan(before))
        file = FlashFile(path="flash:x.bin", size_bytes=on_flash)
        monkeypatch.setattr("flashferry.run.device.transports.file_at", lambda session, path: file)
        monkeypatch.setattr("flashferry.run.device.copy.refusal_before_copy", lambda *given, **named: None)

    def plan(self, before):
        name = self.run.transport.name
        if (error := self.refused_plans.get(name)) is not None:
            raise error
        return SimpleNamespace(target="flash:x.bin", window=None, tune=TunePlan(changes=(LINE,)))

    def tune(self, task, **given):
        self.changed.append((given["held"], given["plan"].changes, self.run.record.restored))
        given["remember"](given["plan"].changes)
        return SimpleNamespace(other_words=(), is_marked=True, channel_as_before=False)

    def pull(self, task, **given):
        self.offers.append(given["offer"].transport.name)
        end = self.ends.pop(0)
        self.context.server.account = end[1] if isinstance(end, tuple) else account(TransferState.FAILED, 0)
        error = end[0] if isinstance(end, tuple) else end
        if error is None:
            self.context.server.account = account()
            return DONE
        error.step = error.step or "pull"
        raise error

    def bring(self):
        plan = SimpleNamespace(target="flash:x.bin", tune=TunePlan(changes=()))
        transfer(self.run, plan, SimpleNamespace(running=None))
        return self.run.record


@pytest.mark.parametrize(
    "error",
    [
        TransferStalled("no byte was taken within 45 s: the device did not reach our port", hint="Check route"),
        CopyFailed("the device says: Timed out"),
        DeviceRefused("the device does not take the copy command: % Invalid input"),
        OutputNotUnderstood("it asked something unknown"),
    ],
)
def test_a_failure_before_a_byte_came_falls_to_the_next_transport(monkeypatch, error):
    """The record and the events say by what it was tried, and why no byte came."""
    copies = Copies(monkeypatch, error, None)
    record = copies.bring()
    assert copies.offers == ["ftp", "http"]
    assert record.transport == "http"
    assert [(one.transport, one.reason, one.hint) for one in record.transports_tried] == [
        ("ftp", error.message, error.hint)
    ]
    (told,) = [event for event in copies.events if event.step == "transport"]
    assert told.text == f"note: no byte came by ftp: {error.message}; trying http"
    assert len(copies.context.server.revoked) >= 1, "the ticket of the one that failed is worthless"


def test_what_it_fell_to_is_on_disk_at_once(monkeypatch):
    """A run that is killed from here on is gone on with by that one; nothing else is told before the device's end."""
    copies = Copies(monkeypatch, CopyFailed("no"), None)
    copies.bring()
    kept = copies.context.journal.kept
    assert kept["transport"] == "http"
    assert [one.transport for one in kept["transports_tried"]] == ["ftp"]
    assert set(kept) == {"transport", "transports_tried"}


def test_it_falls_as_often_as_there_is_one_left_and_then_fails_with_the_last_reason(monkeypatch):
    """All that were tried before it stand in the record."""
    copies = Copies(monkeypatch, *(CopyFailed(name) for name in ("a", "b", "c")))
    with pytest.raises(CopyFailed, match="c"):
        copies.bring()
    assert copies.offers == ["ftp", "http", "scp"]
    record = copies.run.record
    assert [(one.transport, one.reason) for one in record.transports_tried] == [("ftp", "a"), ("http", "b")]
    assert record.transport == "scp"


@pytest.mark.parametrize(
    "error",
    [
        DeviceUnreachable("lost"),
        CopyStopped("the operator interrupted the copy"),
        FileExists("flash:x.bin exists"),
        DialogueDisturbed("a log line"),
        QuestionLeft("a question"),
        CopyFailed("of another step", step="tune"),
    ],
)
def test_what_is_no_transport_s_fault_stays_a_failure(monkeypatch, error):
    """Another transport would meet the same; the usual retry decides."""
    copies = Copies(monkeypatch, error)
    if isinstance(error, DeviceUnreachable):
        found = SimpleNamespace(decision=Decision.GIVE_UP, reason="x")
        monkeypatch.setattr("flashferry.run.device.copy.clear_copy", lambda *given, **more: found)
    with pytest.raises(type(error)):
        copies.bring()
    assert (copies.offers, copies.run.record.transports_tried) == (["ftp"], ())


@pytest.mark.parametrize(
    ("acked", "on_flash"),
    [(1, None), (IMAGE_BYTES - 1, None), (0, 0), (0, 512)],
    ids=["a byte", "most", "file", "part"],
)
def test_after_a_byte_came_nothing_falls(monkeypatch, acked, on_flash):
    """By our server's account or by the device's flash: what is there is the leftover of a copy that began."""
    failed = (CopyFailed("the device says: I/O error"), account(TransferState.FAILED, acked))
    copies = Copies(monkeypatch, failed, on_flash=on_flash)
    with pytest.raises(CopyFailed):
        copies.bring()
    assert copies.offers == ["ftp"]


def test_one_transport_alone_is_as_it_was_before_there_was_a_choice(monkeypatch):
    """No look at the flash more, no event."""
    copies = Copies(monkeypatch, CopyFailed("no"), transports=("ftp",))
    monkeypatch.setattr("flashferry.run.device.transports.file_at", lambda *given: pytest.fail("looked at"))
    with pytest.raises(CopyFailed):
        copies.bring()
    assert not [event for event in copies.events if event.step == "transport"]


def test_a_run_that_is_to_stop_tries_nothing_more(monkeypatch):
    """Ctrl-C ends it here."""
    copies = Copies(monkeypatch, CopyFailed("no"), interrupted=lambda: True)
    with pytest.raises((CopyFailed, Exception)):
        copies.bring()
    assert copies.run.record.transports_tried == ()


def test_lines_are_changed_over_and_the_device_is_not_untouched_any_more(monkeypatch):
    """A device that FTP needed no line for gets those of the next one, and is restored behind it."""
    copies = Copies(monkeypatch, CopyFailed("no"), None)
    record = copies.bring()
    assert copies.changed == [((), (LINE,), Restored.INCOMPLETE)]
    assert (record.changes, copies.context.journal.changes) == ((LINE,), (LINE.ours,))


def test_a_transport_whose_command_cannot_be_given_is_passed_over(monkeypatch):
    """Nothing of it is sent; it stands among those that were tried."""
    copies = Copies(monkeypatch, CopyFailed("no"), None)
    copies.refused_plans = {"http": ConfigInvalid("the copy command would have 300 characters", hint="Shorter")}
    record = copies.bring()
    assert copies.offers == ["ftp", "scp"]
    assert [one.transport for one in record.transports_tried] == ["ftp", "http"]


def test_the_delivery_goes_on_behind_the_fall(monkeypatch):
    """What fell is staged like any other."""
    copies = Copies(monkeypatch, CopyFailed("no"), None)
    copies.run.update(outcome=Outcome.ERROR)
    copies.bring()
    assert copies.run.record.failure is None


def ceiling(transport, rate):
    return Ceiling(
        transport=transport,
        title=transport.upper(),
        bytes_per_s=rate,
        likely_bytes_per_s=rate,
        limit=Limit.SSH_WINDOW if transport == "scp" else Limit.LINK,
        tcp_window_bytes=1_000_000,
        channel_window_bytes=8192 if transport == "scp" else None,
        is_assumed=False,
        untuned_bytes_per_s=rate,
    )


@pytest.mark.parametrize(("transports", "is_told"), [(("ftp",), False), (("scp",), True), (("ftp", "scp"), True)])
def test_what_each_can_have_at_most_is_told_before_anything_is_set(monkeypatch, transports, is_told):
    """Not where FTP is no choice: then nothing is said that was not said before there was one."""
    copies = Copies(monkeypatch, transports=transports)
    plan = SimpleNamespace(ceilings=(ceiling("ftp", 5.9e6), ceiling("scp", 81_920.0)))
    monkeypatch.setattr("flashferry.run.device.transports.plan_now", lambda run, before: plan)
    assert first_plan(copies.run, None) is plan
    told = [event.text for event in copies.events if event.step == "transport"]
    assert bool(told) is is_told
    first = f"note: the copy goes by {transports[0].upper()}, here at most at "
    assert not told or (told[0].startswith(first) and "SSH window of 8192 bytes" in told[0])


@pytest.mark.parametrize(
    ("error", "is_again"), [(DeviceUnreachable("lost", step="pull"), True), (CopyFailed("Timed out"), False)]
)
def test_a_device_that_may_have_restarted_gets_its_applet_anew(monkeypatch, error, is_again):
    """A neighbour's copy goes on over the WAN behind a restart; an applet from before that counts no more."""
    copies, seen = Copies(monkeypatch), []
    monkeypatch.setattr(
        "flashferry.run.device.transports.switch_lines",
        lambda run, plan, before, *, may_have_restarted: seen.append(may_have_restarted),
    )
    use_next_transport(copies.run, error, SimpleNamespace(running=None))
    assert seen == [is_again]
