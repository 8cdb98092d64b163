"""Every page of the service, with where it is in a service that has been used, and what it answers.

`PAGES` has an entry for each page of the table of access; a page without one fails `test_every_page.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flashferry.service.access import ROUTES
from flashferry.service.actor import Role
from flashferry.service.pages.frame import link
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
        answers="Which plans are there, and what keeps each from being begun? Here one is offered, or made.",
    ),
    Tour(
        name="plan",
        route="/plans/{digest}",
        path=lambda it: link("/plans", it.draft),
        answers="What is to be done, where, when and with which lines? Here it is approved, denied, rehearsed, begun.",
    ),
    Tour(
        name="plan-diff",
        route="/plans/{digest}/diff",
        path=lambda it: link("/plans", it.draft) + f"/diff?against={it.approved}",
        answers="What differs from the plan before it, or from any other?",
    ),
    Tour(name="runs", route="/runs", path=_at("/runs"), answers="Which runs were there, and how did each end?"),
    Tour(
        name="run",
        route="/runs/{run_id}",
        path=lambda it: link("/runs", it.runs.alive or it.runs.waiting),
        answers="Where does a run stand, wave by wave and device by device? Here it is paused and stopped.",
    ),
    Tour(
        name="run-waiting",
        route="/runs/{run_id}",
        path=lambda it: link("/runs", it.runs.waiting),
        answers="Which wave waits for somebody, and for which plan? Here it is approved.",
    ),
    Tour(
        name="run-dead",
        route="/runs/{run_id}",
        path=lambda it: link("/runs", it.runs.dead),
        answers="What did a run leave that died? Here it is restored, and gone on with.",
    ),
    Tour(
        name="run-ended",
        route="/runs/{run_id}",
        path=lambda it: link("/runs", it.runs.mixed),
        answers="What came of a run, and where is its report?",
    ),
    Tour(
        name="run-device",
        route="/runs/{run_id}/devices/{host:path}",
        path=lambda it: link("/runs", it.runs.good, "devices", it.runs.device),
        answers="What was done to a device, what proves that it is as it was, and what held its copy back?",
    ),
    Tour(
        name="devices",
        route="/devices",
        path=_at("/devices"),
        answers="Where does each device stand after its last run?",
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
        answers="Which sites work for themselves, are their agents heard, what have their depots proven, and where do "
        "their runs stand?",
    ),
    Tour(
        name="images",
        route="/images",
        path=_at("/images"),
        answers="Which images are here and may be used, which one is golden for which model? Here they are sent.",
    ),
    Tour(
        name="image",
        route="/images/{name}",
        path=lambda it: link("/images", it.unknown),
        answers="What is known of an image, who stands for it, and what names it?",
    ),
    Tour(
        name="schedules",
        route="/schedules",
        path=_at("/schedules"),
        answers="What is begun by itself, when, and for whom?",
    ),
    Tour(
        name="schedule",
        route="/schedules/{schedule_id}",
        path=lambda it: link("/schedules", it.schedule),
        answers="When is it due next, and what became of the times before?",
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
    Tour(name="audit-verify", route="/audit/verify", path=_at("/audit/verify"), answers="Is the audit whole?"),
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
        answers="What may somebody do, and since when? Here roles are given, and people are disabled.",
    ),
    Tour(name="hooks", route="/admin/hooks", path=_at("/admin/hooks"), answers="Where do notices go?"),
    Tour(
        name="hook",
        route="/admin/hooks/{hook_id}",
        path=lambda it: link("/admin/hooks", it.hook),
        answers="What was one sent, and what did its receiver not take?",
    ),
    Tour(name="health", route="/admin/health", path=_at("/admin/health"), answers="Is the service itself well?"),
    Tour(name="me", route="/me", path=_at("/me"), answers="What may I do, which tokens and sessions are mine?"),
    Tour(
        name="refused",
        route="",
        path=_at("/admin"),
        status=403,
        who=VIEWER,
        answers="What does somebody see who may not?",
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
