"""Notices are put out with what they tell of, for whoever is sent their kind, without secrets."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from flashferry.core.redaction import forget_secrets, keep_secret
from flashferry.service.notices import Notice, NoticeKind, announce
from flashferry.store.service.hooks import HookRow, add_hook, due, hooks


@pytest.fixture
def hooked(service):
    """Hooks of several kinds."""
    kinds = {"runs": ("run.began", "run.ended"), "all": tuple(NoticeKind), "paused": tuple(NoticeKind), "none": ()}
    with service.database.writing() as database:
        for name, wanted in kinds.items():
            add_hook(
                database,
                HookRow(
                    hook_id=name,
                    name=name,
                    form="webhook",
                    target="http://127.0.0.1/",
                    secret_name=None,
                    kinds=wanted,
                    is_paused=name == "paused",
                ),
            )
    return service


def waiting(service):
    with service.database.reading() as database:
        return due(database, "9999", latest="9999", most=100)


def test_each_hook_is_sent_its_kinds(hooked):
    """One row for each hook that wants the kind and is not paused; the notice is the same."""
    with hooked.database.writing() as database:
        assert announce(hooked, database, NoticeKind.RUN_BEGAN, "run:1", "began", {"devices": 3}, path="/runs/1") == 2
    found = waiting(hooked)
    assert {row.hook_id for row in found} == {"runs", "all"}
    assert len({row.notice_id for row in found}) == 2
    assert len({row.body for row in found}) == 1
    document = json.loads(found[0].body)
    assert document["schema"] == "flashferry.notice/1"
    assert (document["kind"], document["object"], document["facts"]) == ("run.began", "run:1", {"devices": 3})
    assert document["link"] == "http://127.0.0.1:8020/runs/1"


def test_what_is_undone_is_not_told(hooked):
    """A notice belongs to the transaction of what it tells of."""
    with suppress(ZeroDivisionError), hooked.database.writing() as database:
        announce(hooked, database, NoticeKind.RUN_ENDED, "run:1", "ended")
        raise ZeroDivisionError
    assert waiting(hooked) == ()


def test_no_secret_goes_out(hooked):
    """Secrets known here are masked before a notice is on disk."""
    keep_secret("Gr0ssesGeheimnis")
    try:
        with hooked.database.writing() as database:
            announce(hooked, database, NoticeKind.RUN_DEAD, "run:1", "by Gr0ssesGeheimnis", {"a": ["Gr0ssesGeheimnis"]})
    finally:
        forget_secrets()
    assert all("Gr0ssesGeheimnis" not in row.body for row in waiting(hooked))


def test_a_notice_is_read_as_it_was_written(hooked):
    """There and back."""
    notice = Notice(
        notice_id="n", kind=NoticeKind.TEST, at="2026-11-22T00:00:00.000Z", about="x", sentence="s", facts={"n": 1}
    )
    assert Notice.from_json(notice.to_json()) == notice


def test_every_kind_has_its_meaning():
    """Who adds a kind says in words what it tells of."""
    assert all(kind.meaning for kind in NoticeKind)


def test_hooks_are_read_as_they_were_written(hooked):
    """By name, with their kinds and whether they are paused."""
    with hooked.database.reading() as database:
        found = {hook.name: hook for hook in hooks(database)}
    assert list(found) == ["all", "none", "paused", "runs"]
    assert found["runs"].kinds == ("run.began", "run.ended")
    assert [name for name, hook in found.items() if hook.is_paused] == ["paused"]
