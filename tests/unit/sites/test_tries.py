"""What follows the death of a run at a site: restored, then gone on with, and given up at an end."""

from __future__ import annotations

import pytest

from flashferry.sites.agent.tries import PAUSES_S, Try, TryKind, job_of_try, next_kind

DIED = Try(kind=TryKind.STAGE, is_dead=True)
DONE = Try(kind=TryKind.STAGE)
CUT = Try(kind=TryKind.STAGE, is_interrupted=True)
RESUME_DIED = Try(kind=TryKind.RESUME, is_dead=True)
RECOVER = Try(kind=TryKind.RECOVER)


@pytest.mark.parametrize(
    ("tries", "stands", "expected"),
    [
        ((), {}, TryKind.STAGE),
        ((DONE,), {"has_run": True}, None),
        ((DONE,), {}, None),
        ((DIED,), {}, TryKind.STAGE),
        ((DIED,), {"has_run": True, "holds": True}, TryKind.RECOVER),
        ((DIED,), {"has_run": True}, TryKind.RESUME),
        ((DIED, RECOVER), {"has_run": True}, TryKind.RESUME),
        ((DIED, RECOVER), {"has_run": True, "holds": True}, TryKind.RECOVER),
        ((DIED, *[RECOVER] * len(PAUSES_S)), {"has_run": True, "holds": True}, None),
        ((DIED, *[RECOVER] * len(PAUSES_S), RESUME_DIED), {"has_run": True, "holds": True}, TryKind.RECOVER),
        ((CUT,), {"has_run": True}, TryKind.RESUME),
        ((CUT,), {"has_run": True, "is_stopped": True}, None),
        ((DIED,), {"has_run": True, "holds": True, "is_stopped": True}, TryKind.RECOVER),
        ((DIED, RECOVER), {"has_run": True, "is_stopped": True}, None),
        ((DONE,), {"has_run": True, "holds": True}, TryKind.RECOVER),
        ((DONE, RECOVER), {"has_run": True}, None),
        ((DIED, RESUME_DIED, RESUME_DIED), {"has_run": True}, None),
    ],
)
def test_what_follows(tries, stands, expected) -> None:
    """Restoring goes before all else, also behind a stop; what was stopped or has ended is not gone on with."""
    usual = {"has_run": False, "holds": False, "is_stopped": False}
    assert next_kind(tries, **(usual | stands), resumes=2) is expected


def test_each_try_is_a_job_of_its_own() -> None:
    """Known from disk by its number."""
    assert [job_of_try("o1", number) for number in range(3)] == ["o1", "o1.1", "o1.2"]
