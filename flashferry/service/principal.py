"""The caller of the service, with roles per site."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

EVERYWHERE = "*"
"""Instead of a site: all of them, future ones too, and what has none."""


class Role(StrEnum):
    """A role. Every role allows reading; no role includes another."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    AUDITOR = "auditor"
    ADMIN = "admin"


WHOLE_ROLES = frozenset({Role.AUDITOR, Role.ADMIN})
"""Roles without sites, given everywhere or not at all."""
ANY_ROLE = frozenset(Role)
"""All roles: each allows reading."""


class Via(StrEnum):
    """How a caller was authenticated."""

    SESSION = "session"
    TOKEN = "token"  # noqa: S105 -- a word, not one
    HEADER = "header"
    SYSTEM = "system"
    COMMAND_LINE = "command-line"
    NONE = "none"


class Grant(Struct, frozen=True, kw_only=True):
    """A role at a site; `*`: at all sites."""

    role: Role
    site: str = EVERYWHERE

    def within(self, other: Grant) -> Grant | None:
        """Return the intersection with another grant; None if it is empty."""
        if self.role is not other.role or (self.site != other.site and EVERYWHERE not in (self.site, other.site)):
            return None
        return other if self.site == EVERYWHERE else self


class Actor(Struct, frozen=True, kw_only=True):
    """A caller; `address` is empty if unknown."""

    name: str
    via: Via
    address: str = ""
    grants: frozenset[Grant] = frozenset()

    def has(self, roles: Iterable[Role]) -> bool:
        """Return whether the caller has one of the roles at any site."""
        requested = frozenset(roles)
        return any(grant.role in requested for grant in self.grants)

    def may(self, roles: Iterable[Role], sites: Iterable[str]) -> bool:
        """Return whether the caller has one of the roles at each of the sites; no sites: at all sites."""
        requested = frozenset(roles)
        his = {grant.site for grant in self.grants if grant.role in requested}
        return EVERYWHERE in his or (bool(names := set(sites)) and names <= his)


ANONYMOUS = "anonymous"
"""Name of unidentified callers in the audit; no account has it."""
SYSTEM = Actor(name="system", via=Via.SYSTEM)
"""The service itself, as it is named in the audit."""
