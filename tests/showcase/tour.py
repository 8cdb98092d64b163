"""Every page of the service, with where it is in a service that has been used, and what it answers.

`PAGES` has an entry for each page of the table of access; a page without one fails `test_every_page.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flashferry.service.access import ROUTES
from flashferry.service.pages.frame import link
from flashferry.service.principal import Role
from tests.browsing import cookie_of
from tests.showcase.service import Showcase

EVERYTHING, VIEWER, NOBODY = "rita", "wall-screen", ""
"""Who looks: somebody who has all roles, one who only looks, and nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """A page that is looked at.

    Attributes:
        name: Of its picture.
        route: Its path in the table of access.
        path: Its path in a showcase, with what is asked of it.
        answers: What it answers, in a sentence for people.
        status: What it is answered with.
        who: Who looks: somebody with all roles, a viewer (`wall-screen`), or nobody.
    """

    name: str
    route: str
    path: Callable[[Showcase], str]
    answers: str
    status: int = 200
    who: str = EVERYTHING


def _at(path: str) -> Callable[[Showcase], str]:
    return lambda _: path


PAGES = (
    Tour(
        name="sign-in",
        route="/login",
        path=_at("/login?next=/plans"),
        who=NOBODY,
        answers="Who are you? By password, or at your organisation's provider.",
    ),
    Tour(
        name="tonight",
        route="/tonight",
        path=_at("/tonight"),
        answers="The wall screen. Is anything changed and not restored, who must act, will it end in the window, is "
        "the screen alive?",
    ),
    Tour(
        name="plans",
        route="/plans",
        path=_at("/plans"),
        answers="Which plans exist, and what keeps each from starting? Offer or create one here.",
    ),
    Tour(
        name="plan",
        route="/plans/{digest}",
        path=lambda it: link("/plans", it.draft),
        answers="What will be done, where, when and with which lines? Approve, deny, rehearse or start it here.",
    ),
    Tour(
        name="plan-diff",
        route="/plans/{digest}/diff",
        path=lambda it: link("/plans", it.draft) + f"/diff?against={it.approved}",
        answers="What differs from the previous plan, or from any other?",
    ),
    Tour(name="runs", route="/runs", path=_at("/runs"), answers="Which runs were there, and how did each end?"),
    Tour(
        name="run",
        route="/runs/{run_id}",
        path=lambda it: link("/runs", it.runs.alive or it.runs.waiting),
        answers="How far is a run, by wave and device? Pause or stop it here.",
    ),
    Tour(
        name="run-waiting",
        route="/runs/{run_id}",
        path=lambda it: link("/runs", it.runs.waiting),
        answers="Which wave waits for an approval, and of which plan? Approve it here.",
    ),
    Tour(
        name="run-dead",
        route="/runs/{run_id}",
        path=lambda it: link("/runs", it.runs.dead),
        answers="What did a dead run leave? Restore and resume it here.",
    ),
    Tour(
        name="run-ended",
        route="/runs/{run_id}",
        path=lambda it: link("/runs", it.runs.mixed),
        answers="What was the result of a run, and where is its report?",
    ),
    Tour(
        name="run-device",
        route="/runs/{run_id}/devices/{host:path}",
        path=lambda it: link("/runs", it.runs.good, "devices", it.runs.device),
        answers="What was done to a device, what proves that it is restored, and what limited its copy?",
    ),
    Tour(name="jobs", route="/jobs", path=_at("/jobs"), answers="What was requested here, and what was the result?"),
    Tour(
        name="job",
        route="/jobs/{job_id}",
        path=lambda it: link("/jobs", it.job),
        answers="What did a check, a speed test, a rehearsal or another job find, and what went wrong?",
    ),
    Tour(
        name="devices",
        route="/devices",
        path=_at("/devices"),
        answers="What is the state of each device after its last run?",
    ),
    Tour(
        name="device",
        route="/devices/{name:path}",
        path=lambda it: link("/devices", it.runs.device),
        answers="What happened to a device over all runs, and how fast was it each time?",
    ),
    Tour(
        name="sites",
        route="/sites",
        path=_at("/sites"),
        answers="Which sites have agents, when did each last report, what have their depots proven, and how far are "
        "their runs?",
    ),
    Tour(
        name="images",
        route="/images",
        path=_at("/images"),
        answers="Which images are here and usable, and which is golden for which model? Upload them here.",
    ),
    Tour(
        name="image",
        route="/images/{name}",
        path=lambda it: link("/images", it.unknown),
        answers="What is known of an image, who approved it, and what names it?",
    ),
    Tour(
        name="schedules",
        route="/schedules",
        path=_at("/schedules"),
        answers="What starts by schedule, when, and for whom?",
    ),
    Tour(
        name="schedule",
        route="/schedules/{schedule_id}",
        path=lambda it: link("/schedules", it.schedule),
        answers="When is it due next, and what happened at earlier times?",
    ),
    Tour(
        name="trends",
        route="/trends",
        path=_at("/trends"),
        answers="Do copies become faster or slower, by day, by site and in the nights of the lab?",
    ),
    Tour(
        name="audit",
        route="/audit",
        path=_at("/audit"),
        answers="Who did what, when, from where, and what was refused?",
    ),
    Tour(name="audit-verify", route="/audit/verify", path=_at("/audit/verify"), answers="Is the audit intact?"),
    Tour(
        name="admin",
        route="/admin",
        path=_at("/admin"),
        answers="Who may sign in, with which roles, and which tokens are good?",
    ),
    Tour(
        name="person",
        route="/admin/people/{name}",
        path=lambda it: link("/admin/people", it.person),
        answers="What may a person do, and since when? Give roles and disable people here.",
    ),
    Tour(name="hooks", route="/admin/hooks", path=_at("/admin/hooks"), answers="Where do notices go?"),
    Tour(
        name="hook",
        route="/admin/hooks/{hook_id}",
        path=lambda it: link("/admin/hooks", it.hook),
        answers="What was sent to a hook, and what did its receiver not accept?",
    ),
    Tour(name="health", route="/admin/health", path=_at("/admin/health"), answers="Is the service itself healthy?"),
    Tour(name="me", route="/me", path=_at("/me"), answers="What may I do, which tokens and sessions are mine?"),
    Tour(
        name="refused",
        route="",
        path=_at("/admin"),
        status=403,
        who=VIEWER,
        answers="What does a person without the role see?",
    ),
    Tour(
        name="not-found",
        route="",
        path=_at("/runs/20200101-000000-0000"),
        status=404,
        answers="Any error: what was expected, what was found, and what to do.",
    ),
)

EMPTY = (
    "/tonight",
    "/plans",
    "/runs",
    "/jobs",
    "/devices",
    "/sites",
    "/images",
    "/schedules",
    "/trends",
    "/audit",
    "/admin",
    "/admin/hooks",
    "/admin/health",
    "/me",
)
"""What a fresh service's first admin sees."""

_NO_PAGES = frozenset({"/", "/healthz", "/readyz", "/assets/{name}", "/login/oidc", "/login/oidc/callback", "/metrics"})


def cookies_of(state: Path) -> dict[str, tuple[str, str]]:
    """Sign in who looks at pages; return name and value of the cookie of each."""
    return {
        EVERYTHING: cookie_of(state, *Role, name=EVERYTHING),
        VIEWER: cookie_of(state, name=VIEWER),
    }


def lacking() -> list[str]:
    """Return paths of pages that no entry of the tour has."""
    pages = {
        path for method, path in ROUTES if method == "GET" and not path.startswith("/api/") and path not in _NO_PAGES
    }
    return sorted(pages - {one.route for one in PAGES})
