"""Which entries of the audit are wanted, as people write it: times of day or whole days, names, kinds."""

from __future__ import annotations

from datetime import UTC, datetime

from flashferry.core.errors import ConfigInvalid
from flashferry.store.service.audit import AuditFilter
from flashferry.store.service.database import moment

OUTCOMES = ("asked", "done", "refused", "failed")


def audit_filter(
    *, since: str = "", until: str = "", actor: str = "", action: str = "", object_: str = "", outcome: str = ""
) -> AuditFilter:
    """Return a filter; what is empty leaves all.

    Args:
        since: From this time on, ISO 8601; without an offset it is UTC.
        until: Before this time, likewise; a day alone is meant whole.
        actor: Of whom.
        action: Which action, or its subject: `plan` is every `plan.…`.
        object_: Of which object, or its kind: `run` is every `run:…`.
        outcome: `asked`, `done`, `refused` or `failed`.

    Raises:
        ConfigInvalid: A time or the outcome is none.
    """
    if outcome and outcome not in OUTCOMES:
        raise ConfigInvalid(
            f"outcome: expected {', '.join(OUTCOMES)}, found {outcome[:20]!r}", hint="Choose one of them"
        )
    return AuditFilter(
        since=_moment(since, "since"),
        until=_moment(until, "until", is_end=True),
        actor=actor,
        action=action,
        object=object_,
        outcome=outcome,
    )


def _moment(text: str, what: str, *, is_end: bool = False) -> str:
    """Return a time as the tables keep it; empty where none is given."""
    if not text:
        return ""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigInvalid(
            f"{what}: expected a time such as 2026-11-22 or 2026-11-22T02:00Z, found {text[:40]!r}",
            hint="Write year, month and day, and the time behind a T",
        ) from None
    if is_end and "T" not in text and " " not in text:
        found = found.replace(hour=23, minute=59, second=59, microsecond=999_999)
    return moment(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
