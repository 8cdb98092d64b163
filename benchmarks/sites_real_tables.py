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
        blocks += [_done(name, part) for name, part in runs if part["hardships"]]
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


def _done(name: str, part: Part) -> str:
    head = f"What was done in *{name}*, from the start of `stage`:"
    return "\n".join([head, "", *(f"- {one}" for one in part["hardships"])])


def _deaths(part: Part) -> str:
    """Tell of agents that died for good."""
    size, rounds = part["size"], part["rounds"]
    head = (
        f"**dead for good**: `{part['command']}`, {part['at']} UTC, {part['took_s']} s, load {part['load_average']} "
        f"before: {size['routers']:,} routers, {size['sites']} sites, {size['agents']} real agents."
    )
    names = ("seed", "agent", "killed after", "its routers then", "tuned then", "recover", "changed behind it")
    rows = [
        _row(
            (
                str(one["seed"]),
                one["agent"],
                f"{one['waited_s']:.0f} s",
                ", ".join(f"{count} {state}" for state, count in sorted(one["states"].items())),
                str(one["tuned"]),
                f"{one['recover_s']:.0f} s, exit code {one['exit_code']}",
                str(len(one["changed"]) + len(one["changed_elsewhere"])),
            )
        )
        for one in rounds
    ]
    return "\n".join([head, "", _row(names), f"|{'---|' * len(names)}", *rows])
