"""By what a look has a device fetch, and when a device counts as out of reach."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.errors import Kind
from flashferry.core.values import replace
from flashferry.model.policy import StagePolicy
from flashferry.model.probe_result import Connectivity
from flashferry.model.record import Failure
from flashferry.model.states import Outcome
from flashferry.planning.inspection import CheckRecord
from flashferry.run import server as module
from flashferry.run.connectivity import try_each, with_other_transports
from flashferry.run.request import RunOptions
from flashferry.run.server import transports_to_reach
from flashferry.transports import transport_selection
from inventory.transport_policy import ORDER
from tasks.connectivity import ConnectivityReport
from tests.unit.run.test_device_plan import HOST
from tests.unit.transports.some_transports import named


@pytest.mark.parametrize(
    ("device", "asked", "tried"),
    [
        (HOST, "usual", ["ftp"]),
        (HOST, "auto", ["ftp", "http", "scp", "sftp"]),
        (HOST, "scp,http", ["scp", "http"]),
        (replace(HOST, transports=("http", "scp")), "usual", ["http", "scp"]),
        (replace(HOST, clear_text=False), "usual", ["scp", "sftp"]),
        (replace(HOST, transports=("http", "scp")), "scp", ["scp"]),
    ],
)
def test_a_look_tries_what_the_inventory_names(monkeypatch, device, asked, tried):
    """Of a device of which it says nothing the usual one; what is asked for goes before."""
    for one in (transport_selection, module):
        monkeypatch.setattr(one, "TRANSPORTS", named(*ORDER))
    found = transports_to_reach([device], RunOptions(policy=StagePolicy(transport=asked)))
    assert [one.name for one in found["r1"]] == tried


def visited(asked, **found):
    """Return the record of a device of which each transport reaches us, or fails."""

    def reach(transport):
        kind = found[transport.name]
        failure = (
            None if kind is None else Failure(step="reach", reason=f"not by {transport.name}", hint="Look", kind=kind)
        )
        copied = SimpleNamespace(size_bytes=1, duration_s=1.0) if kind is None else None
        told = ConnectivityReport(copied=copied, hindrance=None, sentence="", hint=None, came_from=None)
        return Connectivity(report=told, syn=None, rtt_s=None, mode=None, transport=transport.name), failure

    record = CheckRecord(host="r1", outcome=Outcome.DONE, check=None, failure=None)
    return try_each(record, named(*found), reach, any_will_do=asked == "auto")


BLOCKED = Kind.NO_CLIENT


def test_a_device_is_out_of_reach_where_that_fails_which_a_run_would_take():
    """With the way out where another one works."""
    record = visited("usual", ftp=BLOCKED, http=None)
    assert (record.outcome, record.failure.reason) == (Outcome.FAILED, "not by ftp")
    assert record.failure.hint == "Look. By http it reaches us: stage with --transport http or auto"
    assert [(one.transport, one.is_reached) for one in record.reaches] == [("ftp", False), ("http", True)]
    assert record.reach.transport == "ftp"


def test_what_is_behind_the_one_that_works_may_fail():
    """It is told, and no failure."""
    record = visited("usual", http=None, scp=BLOCKED)
    assert (record.outcome, record.failure) == (Outcome.DONE, None)
    assert [one.is_reached for one in record.reaches] == [True, False]


@pytest.mark.parametrize(("last", "outcome"), [(None, Outcome.DONE), (BLOCKED, Outcome.FAILED)])
def test_with_auto_any_will_do(last, outcome):
    """A run would fall to it."""
    assert visited("auto", ftp=BLOCKED, http=last).outcome is outcome


def test_behind_a_lost_session_nothing_else_is_tried():
    """There is nobody to ask."""
    record = visited("auto", ftp=Kind.DEVICE_UNREACHABLE, http=None)
    assert (record.outcome, len(record.reaches)) == (Outcome.FAILED, 1)


def looked_at(device, *tried, asked="usual", kind=Kind.NO_CLIENT):
    failure = None if kind is None else Failure(step="reach", reason="nobody came", hint="Check", kind=kind)
    record = CheckRecord(host="r1", outcome=Outcome.FAILED, check=None, failure=failure)
    return with_other_transports(record, device, RunOptions(policy=StagePolicy(transport=asked)), named(*tried))


@pytest.mark.parametrize("kind", [Kind.NO_CLIENT, Kind.NO_LOGIN, Kind.NO_DATA])
def test_where_the_one_way_is_blocked_another_is_suggested(kind):
    """With the commands that try it, where the inventory allows another one."""
    found = looked_at(HOST, "ftp", kind=kind).failure.hint
    assert found.startswith("Check. Or another transport may get through (HTTP, SCP, HTTPS, SFTP): ")
    assert "'flashferry check --reach --transport auto'" in found
    assert "'flashferry stage --transport auto'" in found
    assert looked_at(replace(HOST, transports=("ftp",)), "ftp", kind=kind).failure.hint == "Check"


@pytest.mark.parametrize(("kind", "tried"), [(Kind.WRONG_SOURCE, ("ftp",)), (Kind.NO_CLIENT, ("ftp", "http"))])
def test_where_another_would_be_no_help_none_is_suggested(kind, tried):
    """It comes from a wrong address by each of them; or the others were tried."""
    assert looked_at(HOST, *tried, kind=kind).failure.hint == "Check"


def test_who_asked_for_a_transport_by_name_is_told_of_no_other():
    """They know that there are others, and what its own hint says is about this one."""
    assert looked_at(HOST, "scp", asked="scp").failure.hint == "Check"


def test_what_is_left_out_for_want_of_a_certificate_is_told():
    """Where several are tried; where the usual one alone is, nothing is told of others."""
    stated = replace(HOST, transports=("ftp", "https"))
    (told,) = looked_at(stated, "ftp", kind=None).not_tried
    assert told.startswith(
        "not tried by https: expected a certificate of our server that the devices trust, found none"
    )
    assert "--certificate and --key" in told
    assert looked_at(HOST, "ftp", "http", asked="auto", kind=None).not_tried == (told,)
    assert looked_at(HOST, "ftp", kind=None).not_tried == ()
    assert looked_at(stated, "ftp", asked="ftp", kind=None).not_tried == ()
