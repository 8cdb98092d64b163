"""What HTML pages of ours have in common: words for figures, their looks, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from flashferry.reports import words
from flashferry.reports.marks import Marks
from flashferry.reports.svg import GRAPH_STYLE

_FOLDER = "templates.report"


@cache
def part(name: str) -> str:
    """Return a file of the pages' templates: a template, a style, a script."""
    return files(_FOLDER).joinpath(name).read_text(encoding="utf-8")


def style(*more: str) -> str:
    """Return the style that all pages have, and what further files of the templates add to it."""
    return part("report.css") + GRAPH_STYLE + "".join(map(part, more))


def inlined(style: str, script: str = "") -> dict[str, object]:
    """Return what a page needs to have its style and script inside, and no others."""
    return {
        "style": Markup(style),  # noqa: S704 -- our own files, nothing of a device in them
        "script": Markup(script),  # noqa: S704 -- the same
        "style_hash": _hash(style),
        "script_hash": _hash(script),
    }


def whole(page: str) -> str:
    """Return a page with a line end behind it."""
    return page if page.endswith("\n") else page + "\n"


def page_templates(load: Callable[[str], str] = part) -> Environment:
    """Return a maker of pages: it escapes all that it is given, and knows our words for figures.

    Args:
        load: Returns the template of a name.
    """
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(load),
    )
    made.globals |= {
        "rate": words.rate,
        "size": words.size,
        "duration": words.duration,
        "share": words.share,
        "milliseconds": words.milliseconds,
        "gain": words.gain,
        "moment": words.moment,
        "devices": words.devices,
        "dash": words.DASH,
        "tick": Marks.GOOD.value,
        "cross": Marks.BAD.value,
    }
    return made


def _hash(text: str) -> str:
    """Return the source expression by which a content policy allows exactly this text (CSP level 2)."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
