"""Who asks the service for something, and what he may: roles, per site."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

EVERYWHERE = "*"
"""In place of a site: all of them, also those to come, and what belongs to none."""


class Role(StrEnum):
    """What people are given. An operator and an auditor may look as a viewer does; no other role holds another."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    AUDITOR = "auditor"
    ADMIN = "admin"


WHOLE_ROLES = frozenset({Role.AUDITOR, Role.ADMIN})
"""What these are about has no site, so that they are given everywhere or not at all."""

LOOKS = frozenset(Role)
"""Whoever has any role may look."""


class Via(StrEnum):
    """How an actor showed who he is."""

    SESSION = "session"
    TOKEN = "token"  # noqa: S105 -- a word, not one
    HEADER = "header"
    SYSTEM = "system"
    COMMAND_LINE = "command-line"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A role, and where.

    Attributes:
        role: The role.
        site: The site, or `*`.
    """

    role: Role
    site: str = EVERYWHERE

    def within(self, other: Grant) -> Grant | None:
        """Return what is in both this grant and another one; None where nothing is."""
        if self.role is not other.role or (self.site != other.site and EVERYWHERE not in (self.site, other.site)):
            return None
        return other if self.site == EVERYWHERE else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who asks.

    Attributes:
        name: His name among the service's people.
        via: How he showed it.
        address: From where he asks; empty where that is not known.
        grants: What he was given.
    """

    name: str
    via: Via
    address: str = ""
    grants: frozenset[Grant] = frozenset()

    def has(self, roles: Iterable[Role]) -> bool:
        """Return whether he has one of some roles, wherever."""
        wanted = frozenset(roles)
        return any(grant.role in wanted for grant in self.grants)

    def may(self, roles: Iterable[Role], sites: Iterable[str]) -> bool:
        """Return whether he has one of some roles at each of some sites; what has no site takes it everywhere."""
        wanted = frozenset(roles)
        his = {grant.site for grant in self.grants if grant.role in wanted}
        return EVERYWHERE in his or (bool(names := set(sites)) and names <= his)


ANONYMOUS = "anonymous"
"""The name that the audit has for whoever did not say who he is; no account has it, nor that of the system."""

SYSTEM = Actor(name="system", via=Via.SYSTEM)
"""The service itself: what it does without being asked stands in the audit under this name."""
