"""A night as one HTML file: nothing else is loaded, no script is in it; for light, dark and print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from flashferry.core.outside import sanitize_record
from flashferry.core.safe_quote import counted
from flashferry.nightly.artefacts import words
from flashferry.nightly.artefacts.report import NightReport, SeriesReport, gravest_first
from flashferry.nightly.artefacts.trend_graph import DRAWN, trend_svg
from flashferry.nightly.night import Judgement, Night, NightCopy, Rating, StepOutcome
from flashferry.nightly.thresholds import figure
from flashferry.nightly.trend import LEAST_NIGHTS, NIGHTS
from flashferry.reports.pages import inlined, page_templates, style, whole
from flashferry.reports.words import duration

_OPENED_UP_TO = 8
"""Of so few routers all copies are opened, and printed."""

_NOTICED = frozenset({Rating.RED, Rating.AMBER, Rating.CHANGED_UP})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Router:
    """A router with what it did; `told` and `figures` are words."""

    label: str
    told: str
    figures: str
    copies: tuple[NightCopy, ...]


def night_html(report: NightReport) -> str:
    """Return a night's report as one HTML page."""
    report = sanitize_record(report)
    night = report.night
    page = night_templates().get_template("night.html.j2")
    return whole(
        page.render(
            **inlined(style("night.css")),
            report=report,
            night=night,
            started_at=night.started_at.isoformat(),
            ended_at=night.ended_at.isoformat(),
            backend=" ".join(filter(None, (night.backend, night.controller_version, night.controller))),
            banner=words.night_tone(night),
            headline=[_capital(words.night_result(night)) + ".", *words.night_lines(night)],
            tiles=tuple(_tiles(night)),
            failed=[step for step in night.steps if step.outcome is StepOutcome.FAILED],
            noticed=[one for one in gravest_first(night.judgements) if one.colour in _NOTICED],
            judged=night.judgements,
            drawn=tuple(_drawn(report)),
            routers=tuple(_routers(night)),
            opened_up_to=_OPENED_UP_TO,
        )
    )


@cache
def night_templates() -> Environment:
    """Return a maker of pages that knows a night's words."""
    made = page_templates()
    made.globals |= {
        "colour_tone": words.colour_tone,
        "colour_sign": words.colour_sign,
        "colour_word": words.colour_word,
        "step_tone": words.step_tone,
        "title_of": words.title_of,
        "figure_of": words.figure_of,
        "condition": words.condition_words,
        "rule": {"nights": NIGHTS, "least": LEAST_NIGHTS},
    }
    return made


def drawn_series(series: SeriesReport) -> Markup:
    """Return the graph of a series for a page."""
    return Markup(trend_svg(series, words.title_of(series.key)))  # noqa: S704 -- svg escapes what it is given


def _drawn(report: NightReport) -> Iterator[tuple[SeriesReport, Judgement, Markup]]:
    judged = {str(one.key): one for one in report.night.judgements}
    for one in report.series:
        if one.unit in DRAWN:
            yield one, judged[one.name], drawn_series(one)


def _tiles(night: Night) -> Iterator[tuple[str, str, bool]]:
    done = [step for step in night.steps if step.outcome is not StepOutcome.SKIPPED]
    passed = sum(step.outcome is StepOutcome.PASSED for step in done)
    yield f"{passed} of {len(done)}", "steps passed", passed < len(done)
    red = sum(one.colour is Rating.RED for one in night.judgements)
    fine = sum(one.colour not in _NOTICED for one in night.judgements)
    if night.judgements:
        yield f"{fine} of {len(night.judgements)}", "series with nothing to notice", bool(red)
    planned = sum(link.is_as_planned for link in night.links)
    if night.links:
        yield f"{planned} of {len(night.links)}", "links as planned", planned < len(night.links)
    if night.copies:
        yield (
            f"{len(night.copies)}",
            f"timed copies of {counted(len({one.node for one in night.copies}), 'router')}",
            False,
        )
    yield duration((night.ended_at - night.started_at).total_seconds()), "start to end", False


def _routers(night: Night) -> Iterator[_Router]:
    seen = {node.label: node for node in night.nodes}
    labels = dict.fromkeys([*(one.node for one in night.copies), *seen])
    for label in labels:
        copies = tuple(one for one in night.copies if one.node == label)
        figures = [one for one in night.figures if one.node == label]
        node = seen.get(label)
        words_of_node = [node.node_definition, node.image_definition, node.state.value, *node.addresses] if node else []
        yield _Router(
            label=label,
            told=", ".join(filter(None, words_of_node)),
            figures=", ".join(f"{one.what} {figure(one.key, one.value)}" for one in figures),
            copies=copies,
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
