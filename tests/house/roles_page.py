"""docs/service-roles.md, made of the table of access: who may call what, and what he could do with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from flashferry.service.access import ROUTES, Access
from flashferry.service.principal import WHOLE_ROLES, Role

ROLES_PAGE = Path(__file__).resolve().parents[2] / "docs" / "service-roles.md"

_HEAD = """# Who may call what

Made by `python -m tests.house --update-docs` from the table that the service holds in front of every route
(`flashferry/service/access.py`); a test fails where it is stale. Each row is tried with every role, everywhere, at the
object's site and at another one, with nobody signed in, and without the form's token: `tests/component/service/`.

- **yes**: with the role, wherever it was given. **site**: with the role at each site of the object, or everywhere; what
  somebody may not see is not there for him (404).
- **not own**: whoever made it is refused, whatever roles he has.
- **anybody**: also who is not signed in. **signed in**: whoever is, also without any role; it is about himself alone.
- A role holds no other: an admin neither operates nor approves unless he was given that too, and the audit has by whom.
- {whole} are given for all sites or not at all: what they are about has none.
"""


def roles_page(routes: Mapping[tuple[str, str], Access] = ROUTES) -> str:
    """Return the page."""
    whole = " and ".join(sorted(role.value for role in WHOLE_ROLES)).capitalize()
    return _HEAD.format(whole=whole) + "\n".join(_lines(routes)) + "\n"


def _lines(routes: Mapping[tuple[str, str], Access]) -> Iterator[str]:
    calls = {route: row for route, row in routes.items() if route[1].startswith("/api/")}
    yield from _table("Calls of programs", calls)
    yield from _table("Pages, and what they send", {route: row for route, row in routes.items() if route not in calls})


def _table(title: str, routes: Mapping[tuple[str, str], Access]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield f"| call | {' | '.join(Role)} | besides |"
    yield f"|---|{'---|' * (len(Role) + 1)}"
    for (method, path), row in sorted(routes.items(), key=lambda one: (one[0][1], one[0][0])):
        yield f"| {method} `{path}` | {' | '.join(_cell(row, role) for role in Role)} | {_besides(row)} |"


def _cell(row: Access, role: Role) -> str:
    if role not in row.roles:
        return ""
    return "site" if row.is_per_site else "yes"


def _besides(row: Access) -> str:
    if row.is_public:
        return "anybody"
    if row.is_for_scrapers:
        return "anybody from `[metrics] networks`"
    return "not own" if row.not_own else "" if row.roles else "signed in"
