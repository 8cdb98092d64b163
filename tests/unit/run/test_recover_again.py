"""What recovery restores a second time: what the device made of the lines that put back is nobody else's doing."""

from __future__ import annotations

import pytest

from flashferry.model.states import State
from flashferry.run.recover import recover
from flashferry.store.journal import Journal
from inventory.nornir_loader import open_inventory
from tests.unit.run.test_recover import Answering, left_by_a_dead_run


class Noting(Answering):
    """Notes whether a restore knows that there was one before."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.again = []

    def restore(self, session, *, is_again, **given):
        self.again.append(is_again)
        return super().restore(session, is_again=is_again, **given)


@pytest.mark.parametrize(("state", "is_again"), [(State.FAILED, True), (None, False)])
def test_a_restore_that_failed_is_told_from_one_that_never_was(tmp_path, monkeypatch, state, is_again):
    """The run tried it and failed, or died before it came to that."""
    (tmp_path / "hosts.yaml").write_text("r1: {hostname: 192.0.2.1, platform: ios}")
    (tmp_path / "defaults.yaml").write_text("{}")
    with Journal(tmp_path / "state") as journal:
        run_id = left_by_a_dead_run(journal, "r1", "192.0.2.1", "FGL1/r1")
        if state is not None:
            journal.move(run_id, "r1", state)
        answering = Noting("FGL1/r1", monkeypatch)
        recover(open_inventory(tmp_path), journal)
    assert answering.again == [is_again]
