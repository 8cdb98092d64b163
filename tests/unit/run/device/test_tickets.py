"""A device's tickets, and the server's account of its copies."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.values import replace
from flashferry.fileserver import SshOffer, TransferState
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.tickets import issue_ticket, last_server_error, open_push, take_account
from flashferry.store.probe_choices import SshPreference
from flashferry.store.transfer_row import PROBE_TUNED, STAGE
from flashferry.tcp.verdict import Verdict
from flashferry.tcp.verdict_rules import VerdictKind
from tasks.tcp_config import Change
from tests.unit.run.device.scripted import Steps, account, checked, context, order
from tests.unit.store.conftest import TRANSFER
from tests.unit.transports.some_transports import named


@pytest.mark.parametrize(("data", "link"), [({"link_rate_bps": 16_000_000}, 1_946_666), ({}, None)])
def test_the_server_is_told_what_the_link_carries(data, link):
    """A verdict is held against the whole link, of which the cap is a share; nobody's guess where nothing is known."""
    steps = Steps()
    steps.host.data.update(data)
    run = DeviceRun(steps, context())
    issue_ticket(run, run.context.image)
    (request,) = run.context.server.requests
    assert request.link_bytes_per_s == link
    assert request.cap_bytes_per_s == (None if link is None else 1_557_333)


def test_a_new_ticket_makes_the_one_before_worthless():
    """And from then on the device may be writing: nothing is removed before that is known to be over."""
    run = DeviceRun(Steps(), context())
    for _ in range(2):
        issue_ticket(run, run.context.image)
    assert run.context.server.revoked == ["t1"]
    assert (run.traces.ticket.ticket_id, run.traces.may_be_writing) == ("t2", True)


def test_a_copy_that_began_once_began_for_good():
    """What an earlier ticket's copy left is ours, too, also where the next one never came to a transfer."""
    run = DeviceRun(Steps(), context())
    seen = [TransferState.WAITING, TransferState.TRANSFERRING, TransferState.WAITING]
    began = []
    for state in seen:
        take_account(run, account(state, 0))
        began.append(run.traces.began)
    assert began == [False, True, True]


@pytest.mark.parametrize(
    ("transport", "release", "profile"),
    [
        ("ftp", "15.2(4)M", None),
        ("https", "16.11.1", None),
        ("scp", "16.11.1", "legacy"),
        ("sftp", "15.8(3)M2", "legacy"),
        ("scp", "interim", "legacy"),
        ("scp", "17.12.04a", None),
    ],
)
def test_a_ticket_is_for_one_transport_and_offers_old_algorithms_where_they_are_needed(transport, release, profile):
    """To that device's addresses alone, and for as long as the ticket is good."""
    run = DeviceRun(Steps(), replace(context(), transports=named(transport)))
    run.update(check=SimpleNamespace(version=SimpleNamespace(release=release)))
    issue_ticket(run, run.context.image)
    (request,) = run.context.server.requests
    assert request.transports == (transport,)
    assert (request.ssh.profile if request.ssh else None) == profile


def seen_by_server(*, model="C8300", **more):
    """Return a device whose copy is under way, the events of its run, and what it is."""
    events = []
    run = checked(Steps(), replace(context(), emit=events.append))
    facts = SimpleNamespace(model=model, serial_number="FDO1", hostname="r1")
    run.update(check=SimpleNamespace(facts=facts, version=SimpleNamespace(release="17.12.04a")))
    run.traces.order = replace(order(run.context), **more)
    return run, events


def test_the_account_of_a_copy_is_kept_at_once_and_once():
    """The next plan predicts from it, also where the copy fails; the same account again is no second transfer."""
    run, events = seen_by_server()
    for _ in range(2):
        take_account(run, account(record=TRANSFER))
    (entry,) = run.context.journal.transfers
    assert (entry.identity, entry.kind, entry.tuned, entry.target) == ("FDO1/r1", STAGE, False, "flash:x.bin")
    assert (entry.image, entry.record) == ("x.bin", TRANSFER)
    assert run.record.transfer == TRANSFER
    assert [(event.step, event.status) for event in events] == [("transfer", "done")]
    assert events[0].transfer.is_delivered


def test_an_account_that_grew_is_another_one():
    """A copy that failed and went on again has two, and the first was no delivery."""
    run, events = seen_by_server()
    take_account(run, account(record=replace(TRANSFER, outcome="cut off")))
    take_account(run, account(record=TRANSFER))
    assert [entry.record.outcome for entry in run.context.journal.transfers] == ["cut off", "delivered"]
    assert [(event.status, event.transfer.is_delivered) for event in events] == [("failed", False), ("done", True)]


def test_a_tuned_copy_is_history_of_its_own_kind():
    """What our lines made of a speed test is no measure of a copy as the device is."""
    run, _ = seen_by_server(kind_tuned=PROBE_TUNED)
    run.in_force = (Change(keyword="window-size", before=None, ours="ip tcp window-size 2500000"),)
    take_account(run, account(record=TRANSFER))
    (entry,) = run.context.journal.transfers
    assert (entry.kind, entry.tuned) == (PROBE_TUNED, True)


def test_a_cipher_that_is_tried_out_makes_no_history():
    """It is reported and in the record; the next copy is not predicted from it."""
    run, events = seen_by_server(is_history=False)
    take_account(run, account(record=TRANSFER))
    assert (run.context.journal.transfers, run.record.transfer, len(events)) == ([], TRANSFER, 1)


def test_the_most_that_any_copy_sent_is_what_may_be_ours():
    """A later copy that sent less does not make the larger file of the first one another's."""
    run, _ = seen_by_server()
    for sent in (500, 700, 100):
        take_account(run, account(record=replace(TRANSFER, bytes_sent=sent)))
    assert run.traces.sent_bytes == 700


def test_a_policer_of_the_device_itself_has_its_name():
    """The server knows no models; the run does, and nothing else of the account changes."""
    run, _ = seen_by_server(model="C9300-48P")
    policed = Verdict(kind=VerdictKind.POLICER, share=0.9, sentence="A policer.", evidence=(), advice="")
    sent = replace(TRANSFER, verdict=policed, mss_bytes=1460, rate_bytes_per_s=1000 * 1460.0)
    take_account(run, account(record=sent))
    found = run.record.transfer
    assert "the C9300-48P's own control plane, class 'system-cpp-police-forus'" in found.verdict.sentence
    assert replace(found, verdict=policed) == sent
    assert run.context.journal.transfers[0].record == found


def test_the_ticket_of_a_push_holds_no_login():
    """Those before it are worthless, the device may be writing from then on, and the sender's end is passed on."""
    run = DeviceRun(Steps(), context())
    issue_ticket(run, run.context.image)
    ended = []
    push = open_push(run, run.context.image, lambda: ended.append(True))
    push.close()
    assert (run.context.server.revoked, ended) == (["t1"], [True])
    ticket = run.traces.ticket
    assert (ticket.ticket_id, ticket.username, ticket.password) == (push.ticket_id, "", "")
    assert run.traces.may_be_writing


def test_a_ticket_is_good_for_one_try_from_the_device_s_own_addresses():
    """For a day, for one image; at a site the site's cap holds, not one of its own."""
    steps = Steps()
    steps.host.data.update({"link_rate_bps": 16_000_000, "site": "AMS"})
    run = DeviceRun(steps, context())
    issue_ticket(run, run.context.image)
    (request,) = run.context.server.requests
    assert (request.image_name, request.source_addresses) == ("x.bin", ("192.0.2.1",))
    assert (request.tries, request.lifetime_s) == (1, 24 * 3600)
    assert (request.site, request.cap_bytes_per_s) == ("AMS", None)


def test_what_a_sweep_found_is_offered_alone():
    """The device picks by its own order; the copy of a sweep is offered what that one is to try."""
    preferred = SshPreference(
        model="C8300", cipher="aes128-gcm@openssh.com", mac="", rate_bytes_per_s=1.0, host="r1", run_id="run"
    )
    given = replace(context(), transports=named("scp"), ssh_preferences={"C8300": preferred})
    run = DeviceRun(Steps(), given)
    for model in ("C8300", "C9300"):
        check = SimpleNamespace(version=SimpleNamespace(release="17.12.04a"), facts=SimpleNamespace(model=model))
        run.update(check=check)
        issue_ticket(run, run.context.image)
    tried = SshOffer(encryption=("aes256-ctr",))
    run.traces.order = replace(order(given), ssh=tried)
    issue_ticket(run, run.context.image)
    offers = [request.ssh for request in given.server.requests]
    assert [offer.encryption if offer else () for offer in offers] == [
        ("aes128-gcm@openssh.com",),
        (),
        ("aes256-ctr",),
    ]


def test_what_went_wrong_is_the_server_s_last_word():
    """Of the last ticket; before there is one, nothing went wrong."""
    run = DeviceRun(Steps(), context())
    assert last_server_error(run) == ""
    issue_ticket(run, run.context.image)
    run.context.server.account = SimpleNamespace(last_error="wrong password")
    assert last_server_error(run) == "wrong password"
