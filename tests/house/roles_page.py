"""docs/service-roles.md, made of the table of access: who may call what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from flashferry.service.access import ROUTES, Access
from flashferry.service.principal import WHOLE_ROLES, Role

ROLES_PAGE = Path(__file__).resolve().parents[2] / "docs" / "service-roles.md"

_API = "/api/v1"

_HEAD = """# Who may call what

Made by `python -m tests.house --update-docs` from the table of access (`flashferry/service/access.py`). Each call is
tested with every role, everywhere, at the object's site and at another one, without a sign-in, and without the form's
token (`tests/component/service/`).

- **(site)**: with the role at each site of the object, or everywhere; objects that the caller may not see are
  answered by 404. Else a role at any site will do.
- **not own**: the maker of the object is refused, whatever the roles.
- **anyone**: without a sign-in. **signed in**: any signed-in user, also without a role, for their own data.
- No role includes another: an admin can neither operate nor approve without that role, and the audit shows who gave it.
- {whole} are given for all sites or not at all: what they cover has no site.
"""


def roles_page(routes: Mapping[tuple[str, str], Access] = ROUTES) -> str:
    """Return the page."""
    whole = " and ".join(sorted(role.value for role in WHOLE_ROLES)).capitalize()
    return _HEAD.format(whole=whole) + "\n".join(_lines(routes)) + "\n"


def _lines(routes: Mapping[tuple[str, str], Access]) -> Iterator[str]:
    calls = {(method, path): row for (method, path), row in routes.items() if path.startswith(_API)}
    pages = {route: row for route, row in routes.items() if route not in calls}
    shortened = {(method, path.removeprefix(_API)): row for (method, path), row in calls.items()}
    yield from _table(f"Calls of programs, below `{_API}`", shortened)
    yield from _table("Pages, and what they send", pages)


def _table(title: str, routes: Mapping[tuple[str, str], Access]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield "| who | calls |"
    yield "|---|---|"
    calls: dict[str, dict[str, list[str]]] = {}
    for (method, path), row in sorted(routes.items(), key=lambda one: (one[0][1], one[0][0])):
        calls.setdefault(_who(row), {}).setdefault(method, []).append(f"`{path}`")
    for who, by_method in calls.items():
        named = "; ".join(f"{method} {', '.join(paths)}" for method, paths in sorted(by_method.items()))
        yield f"| {who} | {named} |"


def _who(row: Access) -> str:
    """Return who may call a route: the roles, then what counts besides."""
    here = [role.value for role in Role if role in row.roles]
    roles = f"{', '.join(here)}{' (site)' if row.is_per_site else ''}" if here else ""
    return "; ".join(part for part in (roles, _besides(row)) if part)


def _besides(row: Access) -> str:
    if row.is_public:
        return "anyone"
    if row.is_for_scrapers:
        return "anyone from `[metrics] networks`"
    return "not own" if row.not_own else "" if row.roles else "signed in"
