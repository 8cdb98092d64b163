"""Pictures of every page, to be looked at: `python -m tests.screenshots FOLDER [NAME ...]`, of a made-up service.

At 1400 and 400 pixels, light and dark, on paper, and as a fresh service has them. `--update-docs` puts them into
`docs/screenshots` instead, as WebP by the browser itself, and the page map beside them into `docs/service-pages.md`.
With `--url` and `--cookie` it is another service that is looked at, and names are paths: `/tonight /runs`.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import print_progress
from benchmarks.subjects import free_port
from flashferry.core.values import replace
from flashferry.service.principal import Role
from tests.browsing import browsing, context_of, cookie_of, is_as_wide_as_its_window, serving, signed_in
from tests.showcase.service import Showcase, showcase
from tests.showcase.tour import EMPTY, NOBODY, PAGES, cookies_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DOCS = Path(__file__).parents[1] / "docs"
MAP = DOCS / "service-pages.md"
WIDTHS = (1400, 400)
SCHEMES = ("light", "dark")
WALL = {"width": 1400, "height": 900}
PAPER = {"width": 703, "height": 1000}
_QUALITY = 42
_TALLEST = {1400: 1100, 400: 1200}
"""So much of a page is in a picture: what is below repeats itself."""


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture that is to be taken.

    Attributes:
        name: Of its file, without its end.
        path: The page.
        who: Whose cookie is sent.
        width: Of the window, in pixels.
        scheme: `light`, `dark` or `print`.
    """

    name: str
    path: str
    who: str
    width: int
    scheme: str


def shots_of(shown: Showcase, names: list[str]) -> list[Shot]:
    """Return the pictures of a service that was used; of some pages only where names are given."""
    chosen = [one for one in PAGES if not names or one.name in names]
    screens = [(width, scheme) for width in WIDTHS for scheme in SCHEMES]
    found = [
        Shot(f"{one.name}-{width}-{scheme}", one.path(shown), one.who, width, scheme)
        for width, scheme in screens
        for one in chosen
    ]
    on_paper = ("plan", "run-ended", "run-device", "audit")
    return found + [
        Shot(f"{one.name}-print", one.path(shown), one.who, PAPER["width"], "print")
        for one in chosen
        if one.name in on_paper
    ]


def take(browser: Browser, url: str, cookies: dict[str, tuple[str, str]], shots: list[Shot], folder: Path) -> None:
    """Take pictures into a folder, and tell which pages have to be scrolled to sideways."""
    folder.mkdir(parents=True, exist_ok=True)
    pages: dict[tuple[str, int, str], Page] = {}
    for shot in shots:
        key = (shot.who, shot.width, shot.scheme)
        if key not in pages:
            size = {"width": shot.width, "height": 900}
            scheme = "light" if shot.scheme == "print" else shot.scheme
            cookie = cookies.get(shot.who)
            context = (
                context_of(browser, base_url=url, viewport=size, color_scheme=scheme)
                if cookie is None
                else signed_in(browser, url, cookie, viewport=size, color_scheme=scheme)
            )
            pages[key] = context.new_page()
        page = pages[key]
        page.emulate_media(media="print" if shot.scheme == "print" else None)
        answer = page.goto(shot.path)
        page.wait_for_timeout(1300)
        _write(page, shot, folder / f"{shot.name}.webp")
        told = "" if is_as_wide_as_its_window(page) else ", WIDER THAN ITS WINDOW"
        print_progress(f"{shot.name}: {answer.status if answer else 0}{told}")
    for page in pages.values():
        page.context.close()


def _write(page: Page, shot: Shot, path: Path) -> None:
    height = page.evaluate("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": shot.width, "height": min(height, _TALLEST.get(shot.width, PAPER["height"]))}
    given = {"format": "webp", "quality": _QUALITY, "captureBeyondViewport": True, "clip": clip | {"scale": 1}}
    taken = page.context.new_cdp_session(page).send("Page.captureScreenshot", given)
    path.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def under_way(state: Path) -> Iterator[str]:
    """Have a run under way for the time of a block: a process of its own makes one up; yield its identifier."""
    command = [sys.executable, "-m", "benchmarks.service_night", str(state), "--devices", "64", "--skip", "260"]
    with subprocess.Popen([*command, "--waves", "3"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["run_id"]
        finally:
            process.kill()


def take_all(folder: Path, names: list[str]) -> None:
    """Take the pictures of a made-up service, and of a fresh one."""
    with tempfile.TemporaryDirectory() as used, tempfile.TemporaryDirectory() as fresh, browsing() as browser:
        with showcase(Path(used)) as shown, under_way(Path(used)) as alive, serving(Path(used), free_port()) as served:
            runs = replace(shown.runs, alive=alive)
            shots = shots_of(replace(shown, runs=runs), names)
            take(browser, served.url, cookies_of(Path(used)), shots, folder)
        if names:
            return
        with serving(Path(fresh), free_port()) as served:
            root = {"root": cookie_of(Path(fresh), Role.ADMIN, Role.AUDITOR, name="root")}
            wanted = ("/tonight", "/admin") if folder.is_relative_to(DOCS) else EMPTY
            take(
                browser,
                served.url,
                root,
                [Shot(f"fresh-{_word(one)}", one, "root", 1400, "light") for one in wanted],
                folder,
            )


def _word(path: str) -> str:
    return path.partition("?")[0].strip("/").replace("/", "-") or "first"


def page_map(folder: Path) -> str:
    """Return the page map as the document has it: each page with what it answers, and its pictures."""
    where = folder.relative_to(DOCS).as_posix()
    lines = [
        "# The pages of the staging service",
        "",
        "Each page of `flashferry service`, with a picture, wide and light, and the question that it answers.",
        f"Beside it in [{where}]({where}) are `-1400-dark`, `-400-light` and `-400-dark` (as on a phone), of some",
        "`-print`. Names and figures are made up; `python -m tests.screenshots --update-docs` takes the pictures",
        "and writes this page.",
        "A test checks all pages with hostile names: labels of controls, contrast (WCAG 2.2, AA), headings and",
        "order of the Tab key, no sideways scrolling.",
        "",
        "| page | answers |",
        "|---|---|",
    ]
    lines += [f"| [`{one.route or one.name}`]({where}/{one.name}-1400-light.webp) | {one.answers} |" for one in PAGES]
    fresh = " and ".join(f"[{path}]({where}/fresh-{_word(path)}.webp)" for path in ("/tonight", "/admin"))
    lines += ["", f"What the first admin of a fresh service sees: {fresh}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("names", nargs="*", help="names of pages; with --url their paths")
    parser.add_argument("--update-docs", action="store_true")
    parser.add_argument("--url", help="another service")
    parser.add_argument("--cookie", default="", help="NAME=VALUE of somebody who is signed in there")
    given = parser.parse_args()
    if given.update_docs:
        folder = DOCS / "screenshots"
        for old in folder.glob("*.webp"):
            old.unlink()
        take_all(folder, [])
        MAP.write_text(page_map(folder))
    elif given.folder is None:
        parser.error("expected a folder, or --update-docs")
    elif given.url is None:
        take_all(given.folder, given.names)
    else:
        name, _, value = given.cookie.partition("=")
        who = "given" if name else NOBODY
        shots = [
            Shot(f"{_word(path)}-{width}-{scheme}", path, who, width, scheme)
            for path in given.names
            for width in WIDTHS
            for scheme in SCHEMES
        ]
        with browsing() as browser:
            take(browser, given.url, {"given": (name, value)} if name else {}, shots, given.folder)


if __name__ == "__main__":
    main()
