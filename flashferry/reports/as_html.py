"""Write a report as one HTML page, and what all HTML pages share: templates, filters, style, content policy."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup
from msgspec.structs import replace

from flashferry.core.redaction import sanitize, sanitize_record
from flashferry.core.units import counted
from flashferry.model.states import RunState, label_of
from flashferry.reports import words
from flashferry.reports.graphs import GRAPH_STYLE, MOST_POINTS, Limit, recorded_limit, svg, transfer_graphs
from flashferry.reports.headline import configuration_line, headline, saved_line, state_line
from flashferry.reports.marks import Marks, mark, pair_bars, proof_tone, proof_word, step_bar, tone
from flashferry.reports.model import DeviceReport, Proof, Report, Severity, TransferReport
from flashferry.reports.words import unproven_sentence
from flashferry.store.transfer_row import PROBE_AS_IS, PROBE_TUNED
from flashferry.tcp.speed_test_size import PILOT_BYTES
from inventory.transport_policy import USUAL

_FOLDER = "templates.report"


@cache
def part(name: str) -> str:
    """Return a file of the page templates."""
    return files(_FOLDER).joinpath(name).read_text(encoding="utf-8")


def style(*more: str) -> str:
    """Return the common style and further style files."""
    return part("report.css") + GRAPH_STYLE + "".join(map(part, more))


def inlined(style: str, script: str = "") -> dict[str, object]:
    """Return a page's inline style and script, and a content policy that allows only these."""
    return {
        "style": Markup(style),  # noqa: S704 -- our own files, nothing of a device in them
        "script": Markup(script),  # noqa: S704 -- the same
        "style_hash": _hash(style),
        "script_hash": _hash(script),
    }


def whole(page: str) -> str:
    """Return a page with a line end."""
    return page if page.endswith("\n") else page + "\n"


def page_templates(load: Callable[[str], str] = part) -> Environment:
    """Return a Jinja environment with escaping and our filters; `load` returns a template by name."""
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(load),
    )
    made.filters["as_fields"] = lambda text: words.as_fields(text or "")
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
    """Return the content policy's source expression for exactly this text (CSP level 2)."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


OPEN_UP_TO = 12
"""Up to so many devices all sections are open, also in print."""

MOST_OPENED = 20

_LEAST_READINGS = 3

_MANY = 60

_POINTS_OF_MANY = 40
"""Points per line for many devices, to keep the page small; a transfer has at most 48 readings."""

MOST_GRAPHED = 600
"""With more devices only those that need attention have graphs, to limit the page to some megabytes."""

_LONGEST_REASON = 220

_SHARES = re.compile(r"^(\d+) of (\d+) shares of: (.+)$")

_DIGEST = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{16,}([0-9a-f]{4})\b")

_TITLES = {"stage": "Staging report", "probe": "Speed test report"}


def report_html(report: Report) -> str:
    """Return the report as one HTML page."""
    report = sanitize_record(report)
    ordered = _ordered(report)
    opened = _opened(ordered)
    page = _template("report.html.j2").render(
        report=report,
        title=_TITLES.get(report.verb, f"Report of a {report.verb} run"),
        **inlined(style(), part("report.js")),
        banner=_banner(report),
        headline=headline(report),
        state_line=state_line(report),
        configuration_line=configuration_line(report),
        saved_line=saved_line(report),
        fine_configurations=sum(one.restore.proof in {Proof.PROVEN, Proof.UNTOUCHED} for one in report.devices),
        has_before=any(one.as_is for one in report.devices),
        has_sites=any(site.name for site in report.sites),
        has_transports=any(one.transport != USUAL for one in report.devices),
        ordered=ordered,
        urgent=[(number, device) for number, device in ordered if device.needs_attention],
        opened=opened,
        waves={one.wave: one.wave for one in report.devices if one.wave is not None}
        if any(one.wave for one in report.devices)
        else {},
        print_note=_print_note(len(ordered), len(opened)),
        **_pictures(report),
    )
    return whole(page)


def device_section(report: Report, device: DeviceReport, waves: Mapping[int, str] = MappingProxyType({})) -> Markup:
    """Return the page's section about a device with its graphs, for pages of the service, which have its style.

    Args:
        report: The device's report, which may have only this device.
        device: The device.
        waves: What the waves of the run are called, by number; those that are missing are not shown.
    """
    device = replace(
        device, reason=words.as_fields(device.reason or "") or None, hint=words.as_fields(device.hint or "") or None
    )
    text = _template("report_device.html.j2").render(
        report=sanitize_record(report),
        device=sanitize_record(device),
        waves={number: sanitize(name) for number, name in waves.items()},
        **_pictures(report),
    )
    return Markup(text)  # noqa: S704 -- the template escapes all that it is given


def _pictures(report: Report) -> dict[str, object]:
    """Return the functions that draw bars (one scale for all devices) and graphs (limited to the page's size)."""
    speeds = [one.bytes_per_s for device in report.devices for one in (device.as_is, device.speed) if one is not None]
    largest = max(speeds, default=0.0)
    most = MOST_POINTS if len(report.devices) <= _MANY else _POINTS_OF_MANY

    def graphs(device: DeviceReport, transfer: TransferReport) -> list[Markup]:
        link = device.link_bytes_per_s
        # Without a cap a copy finds its own pace, which the kernel enforces in the same way.
        name = "cap" if transfer.cap_bytes_per_s else "pace found"
        found = (
            recorded_limit(name, transfer.samples, transfer.cap_bytes_per_s),
            Limit(label="link", bytes_per_s=link) if link else None,
        )
        limits = [limit for limit in found if limit is not None]
        made = transfer_graphs(transfer.samples, limits=limits, most_points=most)
        return [Markup(svg(graph)) for graph in made]  # noqa: S704 -- svg escapes what it is given

    return {
        "graphs": graphs,
        "no_graphs": lambda device, transfer: _no_graphs(device, transfer, len(report.devices)),
        "pair": lambda device: Markup(pair_bars(device, largest)),  # noqa: S704 -- figures only
        "steps": lambda device: Markup(step_bar(device.steps)),  # noqa: S704 -- escaped there
    }


def _no_graphs(device: DeviceReport, transfer: TransferReport, devices: int) -> str:
    """Return why a transfer has no graphs on the page; empty if it has."""
    if _is_pilot(transfer):
        return "This small copy only found the size of the one that follows; it is no measurement."
    if len(transfer.samples) < _LEAST_READINGS:
        return f"No graphs: {counted(len(transfer.samples), 'reading')} of this copy kept."
    if devices > MOST_GRAPHED and not device.needs_attention:
        return f"No graphs: of {devices:,} devices only those that need attention have them here; the JSON has all."
    if devices > _MANY and transfer is not device.transfers[-1]:
        return "No graphs: in a fleet of this size only a device's last copy has them here; the JSON has all."
    return ""


def _ordered(report: Report) -> list[tuple[int, DeviceReport]]:
    """Return the devices numbered from 1: those that need attention first, each group in the order of the inventory."""
    order = list(Severity)
    devices = sorted(report.devices, key=lambda one: (not one.needs_attention, order.index(one.standing)))
    return list(enumerate(devices, start=1))


def _opened(ordered: list[tuple[int, DeviceReport]]) -> frozenset[int]:
    if len(ordered) <= OPEN_UP_TO:
        return frozenset(number for number, _ in ordered)
    return frozenset([number for number, device in ordered if device.needs_attention][:MOST_OPENED])


def _print_note(devices: int, opened: int) -> str:
    if opened == devices:
        return ""
    return (
        f"Printed are the details that are open: at first the {opened} that need attention of {devices} devices. The "
        "table above has all."
    )


def _banner(report: Report) -> str:
    if report.standing is RunState.DIED or report.summary.needing_attention:
        return "bad"
    return "warn" if report.standing is RunState.ALIVE or report.summary.good < report.summary.devices else "good"


def _transfer_title(transfer: TransferReport, device: DeviceReport) -> str:
    """Return the title of a transfer, with its transport unless all transfers of the device used the default."""
    what = {"stage": "Copy", "probe as it is": "Speed test as it is", "probe tuned": "Speed test, tuned"}
    name = what.get(transfer.kind, transfer.kind)
    tuned = ", tuned" if transfer.kind == "stage" and transfer.is_tuned else ""
    where = f" to {transfer.target}" if transfer.target else ""
    small = f", the first {words.size(transfer.acked_bytes)}" if _is_pilot(transfer) else ""
    is_usual = all(one.transport == USUAL for one in device.transfers)
    by = "" if is_usual else f" by {transfer.transport.upper()}"
    return f"{name}{tuned}{where}{by}{small}, {words.moment(transfer.at)}"


def _capitalized(text: str) -> str:
    """Return a sentence with a capital first letter."""
    return text[:1].upper() + text[1:]


def _is_pilot(transfer: TransferReport) -> bool:
    """Return whether it is the pilot copy of a speed test."""
    return transfer.kind in {PROBE_AS_IS, PROBE_TUNED} and (transfer.acked_bytes or 0) <= PILOT_BYTES


def _cap_words(transfer: TransferReport) -> str:
    """Describe the cap; if it changed, its range and its value at the end."""
    at_end = transfer.cap_bytes_per_s
    if not at_end:
        return ", no cap"
    text = _SHARES.sub(r"\1 of \2 shares of the site's cap, \3", transfer.cap_source or "")
    source = f" ({text})" if text else ""
    found = recorded_limit("cap", transfer.samples, at_end)
    if found is None or not found.steps:
        return f", capped at {words.rate(at_end)}{source}"
    between = words.rates(found.least_bytes_per_s, found.most_bytes_per_s)
    return f", capped at {between} as it changed, in the end at {words.rate(at_end)}{source}"


def _shortened(text: str) -> str:
    """Shorten a reason for a table, digests in the middle; the device's section has the full text."""
    short = _DIGEST.sub(lambda found: f"{found[1]}…{found[2]}", text)
    return short if len(short) <= _LONGEST_REASON else f"{short[:_LONGEST_REASON].rsplit(' ', 1)[0]} …"


@cache
def _template(name: str) -> Template:
    made = page_templates()
    made.globals |= {
        "mark": mark,
        "tone": tone,
        "label_of": label_of,
        "proof_tone": proof_tone,
        "proof_word": proof_word,
        "shortened": _shortened,
        "transfer_title": _transfer_title,
        "is_pilot": _is_pilot,
        "unproven_sentence": unproven_sentence,
        "cap_words": _cap_words,
    }
    made.filters["capitalized"] = _capitalized
    return made.get_template(name)
