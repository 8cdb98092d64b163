"""The page of a pilot: its steps, and what the router confirmed or refuted of the facts, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from flashferry.core.redaction import sanitize, sanitize_lines
from flashferry.core.value_description import counted
from flashferry.pilot.facts import Finding, Verdict

if TYPE_CHECKING:
    from flashferry.pilot.steps import StepResult

_HEADS = {
    Verdict.REFUTED: "Refuted: what this router does otherwise",
    Verdict.CONFIRMED: "Confirmed",
    Verdict.NOT_SEEN: "Not seen: still assumed",
}


def page(
    device: str, steps: Sequence[StepResult], findings: Sequence[Finding], anonymised: Callable[[str], str]
) -> str:
    """Return the page.

    Args:
        device: Model and release, as captures are called.
        steps: What became of each step.
        findings: What was shown of each fact.
        anonymised: Replaces what identifies the network in a text.
    """

    def ours(text: str) -> str:
        return text.replace("|", "\\|")

    def cell(text: str) -> str:
        return ours(sanitize_lines(anonymised(text))).replace("\n", "<br>")

    def quoted(text: str) -> str:
        lines = (cell(line).replace("`", "'").strip(" ") for line in text.split("\n"))
        return "<br>".join(f"`{line}`" for line in lines if line)

    parts = [
        f"# Pilot: {sanitize(device)}",
        "",
        _summary(findings),
        "",
        "| step | outcome | |",
        "|---|---|---|",
    ]
    parts += [f"| {one.step} | {one.status} | {cell(one.sentence)} |" for one in steps]
    for verdict, head in _HEADS.items():
        if not (rows := [one for one in findings if one.verdict is verdict]):
            continue
        parts += ["", f"## {head}", ""]
        if verdict is Verdict.NOT_SEEN:
            parts += ["| fact | statement | source | how it is judged |", "|---|---|---|---|"]
            parts += [
                f"| {one.fact.id} | {ours(one.fact.statement)} | {one.fact.source} | {one.fact.judged} |"
                for one in rows
            ]
            continue
        parts += ["| fact | statement | seen | how often | source | how it is judged |", "|---|---|---|---|---|---|"]
        parts += [
            f"| {one.fact.id} | {ours(one.fact.statement)} | {quoted(one.text)} | {one.times} | {one.fact.source} | "
            f"{one.fact.judged} |"
            for one in rows
        ]
    parts += [
        "",
        "A confirmed fact holds for this router and release, no other. Sources: R device text in a public capture, D",
        "Cisco's documentation, T reported by others, C calculated from captures, U unconfirmed.",
        "",
        "This page, `transcript/` and `captures/` are anonymised by rules. Read them before you hand them on.",
    ]
    return "\n".join(parts) + "\n"


def _summary(findings: Iterable[Finding]) -> str:
    found = tuple(findings)
    counts = {verdict: sum(one.verdict is verdict for one in found) for verdict in Verdict}
    return (
        f"Of {counted(len(found), 'fact')}, {counts[Verdict.CONFIRMED]} confirmed, {counts[Verdict.REFUTED]} refuted, "
        f"{counts[Verdict.NOT_SEEN]} not seen."
    )
