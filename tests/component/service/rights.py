"""Who may call each route, written out by hand: what `test_roles.py` holds the service to.

Nothing here is derived from `flashferry.service.access`: a right that is given there by mistake is a difference to this
table. A row that changes here is a decision about security.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashferry.service.principal import Role

_LETTERS = {
    "V": Role.VIEWER,
    "O": Role.OPERATOR,
    "P": Role.APPROVER,
    "U": Role.AUDITOR,
    "A": Role.ADMIN,
}

WITHOUT_SITE = frozenset({Role.AUDITOR, Role.ADMIN})
"""Roles that are given everywhere or not at all."""

_TABLE = """
public    GET    /healthz
public    GET    /readyz
public    GET    /assets/{name}
public    GET    /
public    GET    /login
public    POST   /login
public    GET    /login/oidc
public    GET    /login/oidc/callback
signed-in POST   /logout
signed-in GET    /me
signed-in POST   /me/tokens
signed-in POST   /me/tokens/{token_id}/revoke
signed-in POST   /me/password
signed-in POST   /me/time-zone
signed-in POST   /me/sessions/end
public    POST   /api/v1/login
signed-in POST   /api/v1/logout
signed-in GET    /api/v1/me
signed-in PUT    /api/v1/me/password
signed-in GET    /api/v1/tokens
signed-in POST   /api/v1/tokens
signed-in DELETE /api/v1/tokens/{token_id}
....A     GET    /admin
....A     POST   /admin/people
....A     GET    /admin/people/{name}
....A     POST   /admin/people/{name}/grants
....A     POST   /admin/people/{name}/password
....A     POST   /admin/people/{name}/disable
....A     POST   /admin/people/{name}/enable
....A     POST   /admin/tokens/{token_id}/revoke
....A     GET    /api/v1/users
....A     POST   /api/v1/users
....A     GET    /api/v1/users/{name}
....A     PUT    /api/v1/users/{name}/grants
....A     PUT    /api/v1/users/{name}/password
....A     POST   /api/v1/users/{name}/disable
....A     POST   /api/v1/users/{name}/enable
....A     GET    /admin/hooks
....A     POST   /admin/hooks
....A     GET    /admin/hooks/{hook_id}
....A     POST   /admin/hooks/{hook_id}
....A     POST   /admin/hooks/{hook_id}/test
....A     POST   /admin/hooks/{hook_id}/again
....A     POST   /admin/hooks/{hook_id}/pause
....A     POST   /admin/hooks/{hook_id}/continue
....A     POST   /admin/hooks/{hook_id}/remove
....A     GET    /admin/health
....A     GET    /api/v1/hooks
....A     POST   /api/v1/hooks
....A     GET    /api/v1/hooks/{hook_id}
....A     PUT    /api/v1/hooks/{hook_id}
....A     DELETE /api/v1/hooks/{hook_id}
....A     POST   /api/v1/hooks/{hook_id}/test
....A     POST   /api/v1/hooks/{hook_id}/again
...U.     GET    /audit
...U.     GET    /audit/verify
...U.     GET    /api/v1/audit
...U.     GET    /api/v1/audit/export
...U.     GET    /api/v1/audit/verify
signed-in GET    /api/v1/openapi.json
VOPUA     GET    /metrics
VOPUA     GET    /tonight
VOPUA     GET    /api/v1/plans
.O...     POST   /api/v1/plans                                per-site
.O...     POST   /api/v1/plans/make                           per-site
VOPUA     GET    /api/v1/plans/{digest}                       per-site
VOPUA     GET    /api/v1/plans/{digest}/file                  per-site
VOPUA     GET    /api/v1/plans/{digest}/diff                  per-site
..P..     POST   /api/v1/plans/{digest}/approve               per-site not-own
..P..     POST   /api/v1/plans/{digest}/deny                  per-site not-own
.OP..     POST   /api/v1/plans/{digest}/withdraw              per-site
..P..     POST   /api/v1/runs/{run_id}/waves/{wave}/approve   per-site not-own
..P..     POST   /runs/{run_id}/waves/{wave}/approve          per-site not-own
.O...     POST   /api/v1/checks                               per-site
.O...     POST   /api/v1/probes                               per-site
.O...     POST   /api/v1/dry-runs                             per-site
VOPUA     GET    /api/v1/jobs
VOPUA     GET    /api/v1/jobs/{job_id}                        per-site
VOPUA     GET    /api/v1/jobs/{job_id}/result                 per-site
.O...     POST   /api/v1/jobs/{job_id}/cancel                 per-site
VOPUA     GET    /jobs
VOPUA     GET    /jobs/{job_id}                               per-site
.O...     POST   /jobs/{job_id}/cancel                        per-site
.O...     POST   /api/v1/runs                                 per-site
VOPUA     GET    /api/v1/runs
VOPUA     GET    /api/v1/runs/{run_id}                        per-site
VOPUA     GET    /api/v1/runs/{run_id}/devices                per-site
VOPUA     GET    /api/v1/runs/{run_id}/report.{form}          per-site
.O...     POST   /api/v1/runs/{run_id}/pause                  per-site
.O...     POST   /api/v1/runs/{run_id}/continue               per-site
.O...     POST   /api/v1/runs/{run_id}/stop                   per-site
.O...     POST   /api/v1/runs/{run_id}/resume                 per-site
.O...     POST   /api/v1/runs/{run_id}/recover                per-site
VOPUA     GET    /api/v1/status
VOPUA     GET    /api/v1/history
VOPUA     GET    /api/v1/sites
VOPUA     GET    /plans
.O...     POST   /plans                                       per-site
.O...     POST   /plans/make                                  per-site
VOPUA     GET    /plans/{digest}                              per-site
VOPUA     GET    /plans/{digest}/diff                         per-site
..P..     POST   /plans/{digest}/approve                      per-site not-own
..P..     POST   /plans/{digest}/deny                         per-site not-own
.OP..     POST   /plans/{digest}/withdraw                     per-site
.O...     POST   /plans/{digest}/start                        per-site
.O...     POST   /plans/{digest}/rehearse                     per-site
VOPUA     GET    /api/v1/schedules
.O...     POST   /api/v1/schedules                            per-site
VOPUA     GET    /api/v1/schedules/{schedule_id}              per-site
.O...     POST   /api/v1/schedules/{schedule_id}/own          per-site
.O...     POST   /api/v1/schedules/{schedule_id}/hold         per-site
.O...     POST   /api/v1/schedules/{schedule_id}/release      per-site
.O...     DELETE /api/v1/schedules/{schedule_id}              per-site
VOPUA     GET    /schedules
.O...     POST   /schedules                                   per-site
VOPUA     GET    /schedules/{schedule_id}                     per-site
.O...     POST   /schedules/{schedule_id}/own                 per-site
.O...     POST   /schedules/{schedule_id}/hold                per-site
.O...     POST   /schedules/{schedule_id}/release             per-site
.O...     POST   /schedules/{schedule_id}/remove              per-site
VOPUA     GET    /runs
VOPUA     GET    /runs/{run_id}                               per-site
VOPUA     GET    /runs/{run_id}/devices/{host:path}           per-site
.O...     POST   /runs/{run_id}/pause                         per-site
.O...     POST   /runs/{run_id}/continue                      per-site
.O...     POST   /runs/{run_id}/stop                          per-site
.O...     POST   /runs/{run_id}/recover                       per-site
.O...     POST   /runs/{run_id}/resume                        per-site
..P..     POST   /runs/{run_id}/approve                       per-site not-own
VOPUA     GET    /devices
VOPUA     GET    /devices/{name:path}                         per-site
.O...     POST   /devices                                     per-site
.O...     POST   /devices/{name:path}                         per-site
VOPUA     GET    /sites
VOPUA     GET    /trends
VOPUA     GET    /api/v1/images
.O...     POST   /api/v1/images
VOPUA     GET    /api/v1/images/{name}
.O...     PATCH  /api/v1/images/{name}
.O..A     DELETE /api/v1/images/{name}
.O..A     POST   /api/v1/images/{name}/verify
....A     POST   /api/v1/images/{name}/vouch
....A     POST   /api/v1/images/{name}/restore
VOPUA     GET    /images
.O...     POST   /images
....A     POST   /images/golden
....A     POST   /images/published
....A     POST   /images/golden/remove
VOPUA     GET    /images/{name}
.O..A     POST   /images/{name}/verify
....A     POST   /images/{name}/vouch
.O..A     POST   /images/{name}/remove
....A     POST   /images/{name}/restore
....A     POST   /api/v1/published
VOPUA     GET    /api/v1/golden
VOPUA     GET    /api/v1/golden/{model:path}
....A     PUT    /api/v1/golden/{model:path}
....A     DELETE /api/v1/golden/{model:path}
VOPUA     GET    /api/v1/live
VOPUA     GET    /api/v1/runs/{run_id}/events                 per-site
"""
"""One row per route: the letters of the roles that may, a dot for each that may not; or `public` (no login) or
`signed-in` (any account). `per-site`: at the site of the object alone. `not-own`: not of what the caller made."""


@dataclass(frozen=True, kw_only=True)
class Right:
    """Who may call a route.

    Attributes:
        roles: One of these is needed; none: an account is enough.
        is_public: No account is needed.
        is_per_site: The role must be held at the object's site, or everywhere.
        not_own: The object's maker is refused.
    """

    roles: frozenset[Role]
    is_public: bool
    is_per_site: bool
    not_own: bool


def _right(who: str, marks: list[str]) -> Right:
    is_word = who in {"public", "signed-in"}
    return Right(
        roles=frozenset() if is_word else frozenset(_LETTERS[letter] for letter in who if letter != "."),
        is_public=who == "public",
        is_per_site="per-site" in marks,
        not_own="not-own" in marks,
    )


def _read() -> dict[tuple[str, str], Right]:
    found: dict[tuple[str, str], Right] = {}
    for row in _TABLE.strip().splitlines():
        who, method, path, *marks = row.split()
        assert (method, path) not in found, f"two rows for {method} {path}"
        assert set(marks) <= {"per-site", "not-own"}, row
        found[method, path] = _right(who, marks)
    return found


RIGHTS = _read()
"""Method and path of each route, to who may call it."""
