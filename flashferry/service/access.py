"""Access table: which roles may call each route. A route without a row is not served.

Roles at the sites of an object are checked where the object is read (`Actor.may`). The database also enforces that a
plan's maker cannot approve it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fastapi import APIRouter
from msgspec import Struct

from flashferry.service.principal import ANY_ROLE, Role

MOST_BODY_BYTES = 2**20
"""For all routes except plans and files; a thousand device names are 20 kB."""
MOST_PLAN_BYTES = 16 * 2**20
"""A plan of ten thousand devices has some 12 MB."""
_FORM_BYTES = 2**16
"""What a form has besides a plan."""


class Access(Struct, frozen=True, kw_only=True):
    """Who may call a route.

    Attributes:
        roles: The caller needs one of these; empty: any signed-in user.
        is_per_site: The roles are also checked at the sites of the object.
        not_own: The object's maker is refused.
        most_bytes: Limit of the request body, bytes; the body is kept in memory.
        is_large: The body is a file streamed to disk; the route limits its size.
        is_for_scrapers: Callers from the networks of `[metrics]` need no credentials.
    """

    roles: frozenset[Role] = frozenset()
    is_public: bool = False
    is_per_site: bool = False
    not_own: bool = False
    most_bytes: int = MOST_BODY_BYTES
    is_large: bool = False
    is_for_scrapers: bool = False


PUBLIC = Access(is_public=True)
SELF = Access()
VIEWS = Access(roles=ANY_ROLE)
VIEWS_SITE = Access(roles=ANY_ROLE, is_per_site=True)
OPERATES = Access(roles=frozenset({Role.OPERATOR}))
OPERATES_SITE = Access(roles=frozenset({Role.OPERATOR}), is_per_site=True)
OFFERS = Access(roles=frozenset({Role.OPERATOR}), is_per_site=True, most_bytes=MOST_PLAN_BYTES + _FORM_BYTES)
APPROVES = Access(roles=frozenset({Role.APPROVER}), is_per_site=True, not_own=True)
WITHDRAWS = Access(roles=frozenset({Role.OPERATOR, Role.APPROVER}), is_per_site=True)
SENDS = Access(roles=frozenset({Role.OPERATOR, Role.ADMIN}))
UPLOADS = Access(roles=frozenset({Role.OPERATOR}), is_large=True)
IMPORTS = Access(roles=frozenset({Role.ADMIN}), is_large=True)
AUDITS = Access(roles=frozenset({Role.AUDITOR}))
ADMINISTERS = Access(roles=frozenset({Role.ADMIN}))
SCRAPES = Access(roles=ANY_ROLE, is_for_scrapers=True)

ROUTES: Mapping[tuple[str, str], Access] = {
    # Public routes.
    ("GET", "/healthz"): PUBLIC,
    ("GET", "/readyz"): PUBLIC,
    ("GET", "/assets/{name}"): PUBLIC,
    ("GET", "/"): PUBLIC,
    # Sign-in, sign-out, and the caller's own account.
    ("GET", "/login"): PUBLIC,
    ("POST", "/login"): PUBLIC,
    ("GET", "/login/oidc"): PUBLIC,
    ("GET", "/login/oidc/callback"): PUBLIC,
    ("POST", "/logout"): SELF,
    ("GET", "/me"): SELF,
    ("POST", "/me/tokens"): SELF,
    ("POST", "/me/tokens/{token_id}/revoke"): SELF,
    ("POST", "/me/password"): SELF,
    ("POST", "/me/time-zone"): SELF,
    ("POST", "/me/sessions/end"): SELF,
    ("POST", "/api/v1/login"): PUBLIC,
    ("POST", "/api/v1/logout"): SELF,
    ("GET", "/api/v1/me"): SELF,
    ("PUT", "/api/v1/me/password"): SELF,
    ("GET", "/api/v1/tokens"): SELF,
    ("POST", "/api/v1/tokens"): SELF,
    ("DELETE", "/api/v1/tokens/{token_id}"): SELF,
    # Users.
    ("GET", "/admin"): ADMINISTERS,
    ("POST", "/admin/people"): ADMINISTERS,
    ("GET", "/admin/people/{name}"): ADMINISTERS,
    ("POST", "/admin/people/{name}/grants"): ADMINISTERS,
    ("POST", "/admin/people/{name}/password"): ADMINISTERS,
    ("POST", "/admin/people/{name}/disable"): ADMINISTERS,
    ("POST", "/admin/people/{name}/enable"): ADMINISTERS,
    ("POST", "/admin/tokens/{token_id}/revoke"): ADMINISTERS,
    ("GET", "/api/v1/users"): ADMINISTERS,
    ("POST", "/api/v1/users"): ADMINISTERS,
    ("GET", "/api/v1/users/{name}"): ADMINISTERS,
    ("PUT", "/api/v1/users/{name}/grants"): ADMINISTERS,
    ("PUT", "/api/v1/users/{name}/password"): ADMINISTERS,
    ("POST", "/api/v1/users/{name}/disable"): ADMINISTERS,
    ("POST", "/api/v1/users/{name}/enable"): ADMINISTERS,
    # Hooks and the service's health.
    ("GET", "/admin/hooks"): ADMINISTERS,
    ("POST", "/admin/hooks"): ADMINISTERS,
    ("GET", "/admin/hooks/{hook_id}"): ADMINISTERS,
    ("POST", "/admin/hooks/{hook_id}"): ADMINISTERS,
    ("POST", "/admin/hooks/{hook_id}/test"): ADMINISTERS,
    ("POST", "/admin/hooks/{hook_id}/again"): ADMINISTERS,
    ("POST", "/admin/hooks/{hook_id}/pause"): ADMINISTERS,
    ("POST", "/admin/hooks/{hook_id}/continue"): ADMINISTERS,
    ("POST", "/admin/hooks/{hook_id}/remove"): ADMINISTERS,
    ("GET", "/admin/health"): ADMINISTERS,
    ("GET", "/api/v1/hooks"): ADMINISTERS,
    ("POST", "/api/v1/hooks"): ADMINISTERS,
    ("GET", "/api/v1/hooks/{hook_id}"): ADMINISTERS,
    ("PUT", "/api/v1/hooks/{hook_id}"): ADMINISTERS,
    ("DELETE", "/api/v1/hooks/{hook_id}"): ADMINISTERS,
    ("POST", "/api/v1/hooks/{hook_id}/test"): ADMINISTERS,
    ("POST", "/api/v1/hooks/{hook_id}/again"): ADMINISTERS,
    # The audit.
    ("GET", "/audit"): AUDITS,
    ("GET", "/audit/verify"): AUDITS,
    ("GET", "/api/v1/audit"): AUDITS,
    ("GET", "/api/v1/audit/export"): AUDITS,
    ("GET", "/api/v1/audit/verify"): AUDITS,
    ("GET", "/api/v1/openapi.json"): SELF,
    # Live state; metrics cover all sites and so need a role at all of them.
    ("GET", "/metrics"): SCRAPES,
    ("GET", "/tonight"): VIEWS,
    # Plans; the maker can withdraw one too.
    ("GET", "/api/v1/plans"): VIEWS,
    ("POST", "/api/v1/plans"): OFFERS,
    ("POST", "/api/v1/plans/make"): OPERATES_SITE,
    ("GET", "/api/v1/plans/{digest}"): VIEWS_SITE,
    ("GET", "/api/v1/plans/{digest}/file"): VIEWS_SITE,
    ("GET", "/api/v1/plans/{digest}/diff"): VIEWS_SITE,
    ("POST", "/api/v1/plans/{digest}/approve"): APPROVES,
    ("POST", "/api/v1/plans/{digest}/deny"): APPROVES,
    ("POST", "/api/v1/plans/{digest}/withdraw"): WITHDRAWS,
    ("POST", "/api/v1/runs/{run_id}/waves/{wave}/approve"): APPROVES,
    ("POST", "/runs/{run_id}/waves/{wave}/approve"): APPROVES,
    # Jobs and runs. Their sites, named or from the plan or run, must be the operator's.
    ("POST", "/api/v1/checks"): OPERATES_SITE,
    ("POST", "/api/v1/probes"): OPERATES_SITE,
    ("POST", "/api/v1/dry-runs"): OPERATES_SITE,
    ("GET", "/api/v1/jobs"): VIEWS,
    ("GET", "/api/v1/jobs/{job_id}"): VIEWS_SITE,
    ("GET", "/api/v1/jobs/{job_id}/result"): VIEWS_SITE,
    ("POST", "/api/v1/jobs/{job_id}/cancel"): OPERATES_SITE,
    ("GET", "/jobs"): VIEWS,
    ("GET", "/jobs/{job_id}"): VIEWS_SITE,
    ("POST", "/jobs/{job_id}/cancel"): OPERATES_SITE,
    ("POST", "/api/v1/runs"): OPERATES_SITE,
    ("GET", "/api/v1/runs"): VIEWS,
    ("GET", "/api/v1/runs/{run_id}"): VIEWS_SITE,
    ("GET", "/api/v1/runs/{run_id}/devices"): VIEWS_SITE,
    ("GET", "/api/v1/runs/{run_id}/report.{form}"): VIEWS_SITE,
    ("POST", "/api/v1/runs/{run_id}/pause"): OPERATES_SITE,
    ("POST", "/api/v1/runs/{run_id}/continue"): OPERATES_SITE,
    ("POST", "/api/v1/runs/{run_id}/stop"): OPERATES_SITE,
    ("POST", "/api/v1/runs/{run_id}/resume"): OPERATES_SITE,
    ("POST", "/api/v1/runs/{run_id}/recover"): OPERATES_SITE,
    ("GET", "/api/v1/status"): VIEWS,
    ("GET", "/api/v1/history"): VIEWS,
    ("GET", "/api/v1/sites"): VIEWS,
    ("GET", "/plans"): VIEWS,
    ("POST", "/plans"): OFFERS,
    ("POST", "/plans/make"): OPERATES_SITE,
    ("GET", "/plans/{digest}"): VIEWS_SITE,
    ("GET", "/plans/{digest}/diff"): VIEWS_SITE,
    ("POST", "/plans/{digest}/approve"): APPROVES,
    ("POST", "/plans/{digest}/deny"): APPROVES,
    ("POST", "/plans/{digest}/withdraw"): WITHDRAWS,
    ("POST", "/plans/{digest}/start"): OPERATES_SITE,
    ("POST", "/plans/{digest}/rehearse"): OPERATES_SITE,
    # Schedules.
    ("GET", "/api/v1/schedules"): VIEWS,
    ("POST", "/api/v1/schedules"): OPERATES_SITE,
    ("GET", "/api/v1/schedules/{schedule_id}"): VIEWS_SITE,
    ("POST", "/api/v1/schedules/{schedule_id}/own"): OPERATES_SITE,
    ("POST", "/api/v1/schedules/{schedule_id}/hold"): OPERATES_SITE,
    ("POST", "/api/v1/schedules/{schedule_id}/release"): OPERATES_SITE,
    ("DELETE", "/api/v1/schedules/{schedule_id}"): OPERATES_SITE,
    ("GET", "/schedules"): VIEWS,
    ("POST", "/schedules"): OPERATES_SITE,
    ("GET", "/schedules/{schedule_id}"): VIEWS_SITE,
    ("POST", "/schedules/{schedule_id}/own"): OPERATES_SITE,
    ("POST", "/schedules/{schedule_id}/hold"): OPERATES_SITE,
    ("POST", "/schedules/{schedule_id}/release"): OPERATES_SITE,
    ("POST", "/schedules/{schedule_id}/remove"): OPERATES_SITE,
    ("GET", "/runs"): VIEWS,
    ("GET", "/runs/{run_id}"): VIEWS_SITE,
    ("GET", "/runs/{run_id}/devices/{host:path}"): VIEWS_SITE,
    ("POST", "/runs/{run_id}/pause"): OPERATES_SITE,
    ("POST", "/runs/{run_id}/continue"): OPERATES_SITE,
    ("POST", "/runs/{run_id}/stop"): OPERATES_SITE,
    ("POST", "/runs/{run_id}/recover"): OPERATES_SITE,
    ("POST", "/runs/{run_id}/resume"): OPERATES_SITE,
    ("POST", "/runs/{run_id}/approve"): APPROVES,
    ("GET", "/devices"): VIEWS,
    ("GET", "/devices/{name:path}"): VIEWS_SITE,
    ("POST", "/devices"): OPERATES_SITE,
    ("POST", "/devices/{name:path}"): OPERATES_SITE,
    ("GET", "/sites"): VIEWS,
    ("GET", "/trends"): VIEWS,
    # Images, which have no site; operators can delete uploads, only admins can remove complete images.
    ("GET", "/api/v1/images"): VIEWS,
    ("POST", "/api/v1/images"): OPERATES,
    ("GET", "/api/v1/images/{name}"): VIEWS,
    ("PATCH", "/api/v1/images/{name}"): UPLOADS,
    ("DELETE", "/api/v1/images/{name}"): SENDS,
    ("POST", "/api/v1/images/{name}/verify"): SENDS,
    ("POST", "/api/v1/images/{name}/vouch"): ADMINISTERS,
    ("POST", "/api/v1/images/{name}/restore"): ADMINISTERS,
    ("GET", "/images"): VIEWS,
    ("POST", "/images"): UPLOADS,
    ("POST", "/images/golden"): ADMINISTERS,
    ("POST", "/images/published"): IMPORTS,
    ("POST", "/images/golden/remove"): ADMINISTERS,
    ("GET", "/images/{name}"): VIEWS,
    ("POST", "/images/{name}/verify"): SENDS,
    ("POST", "/images/{name}/vouch"): ADMINISTERS,
    ("POST", "/images/{name}/remove"): SENDS,
    ("POST", "/images/{name}/restore"): ADMINISTERS,
    ("POST", "/api/v1/published"): IMPORTS,
    ("GET", "/api/v1/golden"): VIEWS,
    ("GET", "/api/v1/golden/{model:path}"): VIEWS,
    ("PUT", "/api/v1/golden/{model:path}"): ADMINISTERS,
    ("DELETE", "/api/v1/golden/{model:path}"): ADMINISTERS,
    ("GET", "/api/v1/live"): VIEWS,
    ("GET", "/api/v1/runs/{run_id}/events"): VIEWS_SITE,
}
"""Method and path, as the route has it, to who may call it."""


def routes_in(routers: Iterable[APIRouter]) -> frozenset[tuple[str, str]]:
    """Return method and path of all routes of some routers, which an application that includes them does not list."""
    return frozenset(
        (method, getattr(route, "path", ""))
        for router in routers
        for route in router.routes
        for method in getattr(route, "methods", None) or ()
        if method != "HEAD"
    )
