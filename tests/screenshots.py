"""Pictures of every page, to be looked at: `python -m tests.screenshots URL COOKIE FOLDER [PATH ...]`.

At 1400 and 400 pixels, light and dark, whole pages; COOKIE is `name=value` of somebody who is signed in, or `-` with
`--state STATE`, where somebody with all roles is entered into the service's tables and signed in for it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from flashferry.service.actor import Role
from tests.browsing import browsing, cookie_of, is_as_wide_as_its_window, signed_in

WIDTHS = (1400, 400)
SCHEMES = ("light", "dark")
PATHS = ("/tonight", "/plans", "/runs", "/devices", "/images", "/schedules", "/trends", "/audit", "/admin")


def main() -> None:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("cookie")
    parser.add_argument("folder", type=Path)
    parser.add_argument("paths", nargs="*", default=PATHS)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--wait", type=float, default=2.5, help="seconds on each page")
    parser.add_argument("--top", action="store_true", help="what a window shows, and not the whole page")
    given = parser.parse_args()
    name, _, value = given.cookie.partition("=")
    cookie = cookie_of(given.state, *Role) if given.state else (name, value)
    given.folder.mkdir(parents=True, exist_ok=True)
    with browsing() as browser:
        for width in WIDTHS:
            for scheme in SCHEMES:
                size = {"width": width, "height": 900}
                context = signed_in(browser, given.url, cookie, viewport=size, color_scheme=scheme)
                page = context.new_page()
                for path in given.paths:
                    answer = page.goto(path)
                    page.wait_for_timeout(1000 * given.wait)
                    word = path.split("?")[0].strip("/").replace("/", "-") or "first"
                    target = given.folder / f"{word}-{width}-{scheme}.png"
                    page.screenshot(path=target, full_page=not given.top)
                    status = answer.status if answer else 0
                    told = "" if is_as_wide_as_its_window(page) else ", WIDER THAN ITS WINDOW"
                    print(f"{target}: {status}{told}")  # noqa: T201 -- it is what the command is for
                context.close()


if __name__ == "__main__":
    main()
