"""The figures of `benchmarks.sites_real` as tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Part = Mapping[str, Any]

_COLUMNS = (
    "", "run", "copying", "most at once", "centre, of a core", "worst 30 s", "centre's memory", "Redis", "an agent",
    "busy processors", "words", "records", "left out, twice, changed",
)  # fmt: skip


def to_markdown(kept: Part) -> str:
    """Return a table of the runs that were played, and one of the deaths."""
    runs = [(name, kept[name]) for name in ("calm", "hardships") if name in kept]
    blocks = []
    if runs:
        lines = [text for name, part in runs for text in (f"**{name}**: {_about(part)}", "")]
        lines += [_row(_COLUMNS), f"|{'---|' * len(_COLUMNS)}", *(_row(_cells(*one)) for one in runs)]
        blocks.append("\n".join(lines))
        blocks += [
            f"In *{name}*: {len(part['hardships'])} hardships: a line cut; agent, runs, broker killed -9."
            for name, part in runs
            if part["hardships"]
        ]
    if "deaths" in kept:
        blocks.append(_deaths(kept["deaths"]))
    return "\n\n".join(blocks) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _about(part: Part) -> str:
    what = ", ".join(f"{part[key]:,} {key}" for key in ("routers", "sites", "agents"))
    return (
        f"`{part['command']}`, {part['at']} UTC, {part['took_s']} s, Linux {part['kernel']}, {part['cpus']} CPUs, "
        f"Python {part['python']}, load {part['load_average']} before: {what}, agents {part['agents_are']}, "
        f"an image of {part['image_bytes']:,} bytes."
    )


def _cells(name: str, part: Part) -> tuple[str, ...]:
    told, seen = part["told"], part["seen"]
    return (
        name,
        f"{part['run_s']:.0f} s",
        f"{part['copying_s']:.0f} s",
        f"{part['most_copying']:,}",
        f"{part['centre_share']:.1%}",
        f"{part['centre_most_share']:.1%}",
        f"{part['centre_rss_bytes'] / 1e6:.0f} MB",
        f"{part['redis_share']:.1%}",
        f"{part['agent_share']:.1%}",
        f"{part['busy_cores']:.2f}",
        f"{told['words']:,}",
        f"{told['devices'] - len(told['bad']):,} of {part['routers']:,}",
        ", ".join(str(len(seen[key])) for key in ("left_out", "twice", "changed")),
    )


def _deaths(part: Part) -> str:
    """Return what became of the routers of agents that died for good."""
    size, rounds = part["size"], part["rounds"]
    changed = sum(len(one["changed"]) + len(one["changed_elsewhere"]) for one in rounds)
    took = sorted(one["recover_s"] for one in rounds)
    codes = ", ".join(sorted({str(one["exit_code"]) for one in rounds}))
    return (
        f"**dead for good**: `{part['command']}`, {part['at']} UTC, load {part['load_average']} before: "
        f"{size['routers']:,} routers, {size['sites']} sites, {size['agents']} real agents. {len(rounds)} agents "
        f"killed with their runs, {sum(one['tuned'] for one in rounds)} routers tuned at that moment; "
        f"`flashferry recover` took {took[0]:.0f} to {took[-1]:.0f} s (exit code {codes}), "
        f"and {changed} configurations differ afterwards."
    )
