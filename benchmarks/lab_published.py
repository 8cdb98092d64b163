"""The published experiment with both receiver profiles: `python -m benchmarks.lab_published`; needs root and TUN.

    python -m benchmarks.lab_published --runs 3 --docs docs/evidence.md

plays the five arms of https://zenn.dev/win_beauty/articles/4b9738dc658c9f (2021-03-20) from the article's server and
from ours, with the receivers as published and with the optimistic ones, and prints rate, window and rate on the wire
beside the article's. Copies in `--output` are not run again; a busy machine shows in the load of the heading.
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from flashferry.lab.experiment.cell import Measured
from flashferry.lab.experiment.harness import markdown, put
from flashferry.lab.experiment.published import ARMS, BASELINE, SENDERS, Arm, cells, in_profile
from flashferry.lab.experiment.study import Plan, run_missing
from flashferry.lab.experiment.tables import conditions, in_words, mb
from flashferry.lab.standin.receiver import OPTIMISTIC, PUBLISHED

PROFILES = (PUBLISHED, OPTIMISTIC)
AUTO = SENDERS[-1]
_STEADY_S = 5.0
"""The tuned IOS of the article has its steady window after about five seconds."""

_FRAME_SHARE = 1514 / 1460
"""Bytes of an Ethernet frame per byte of payload: the article's rates are those of frames."""


def steady_window_bytes(run: Measured) -> float | None:
    """Return the median window that the server saw after the first seconds; None for a copy that was not seen."""
    seen = [each.snd_wnd_bytes for each in run.samples if each.at_s >= _STEADY_S and each.snd_wnd_bytes is not None]
    return statistics.median(seen) if seen else None


def steady_bps(run: Measured) -> float | None:
    """Return the rate of frames after the first seconds, in bits per second; None for a copy that was not seen."""
    steady = [each for each in run.samples if each.at_s >= _STEADY_S]
    if len(steady) < 2:
        return None
    first, last = steady[0], steady[-1]
    return (last.bytes_acked - first.bytes_acked) / (last.at_s - first.at_s) * 8 * _FRAME_SHARE


def off(found: float | None, low: float, high: float) -> str:
    """Return by how much a figure is outside of what was read from a graph; 0 % within it."""
    if found is None:
        return ""
    return f"{found / min(max(found, low), high) - 1:+.0%}"


def _of(runs: Sequence[Measured], arm: Arm, profile: str, sender: object) -> list[Measured]:
    return [
        run
        for run in runs
        if not run.error and (run.cell.arm, run.cell.receiver.profile, run.cell.sender) == (arm.name, profile, sender)
    ]


def _rate(runs: Sequence[Measured]) -> float | None:
    return statistics.median(run.rate_bytes_per_s for run in runs) if runs else None


def _median(found: Sequence[float | None]) -> float | None:
    known = [each for each in found if each is not None]
    return statistics.median(known) if known else None


def _ratio(found: float | None, arm: Arm) -> str:
    return "" if found is None else f"{found / arm.published_bytes_per_s:.2f}"


def rates_table(runs: Sequence[Measured]) -> str:
    """Return a row per arm: the article's rate beside that of each profile from the article's server."""
    columns = ["arm", "article"]
    for profile in PROFILES:
        columns += [f"{profile}: MB/s", "least to most", "to the article"]
    columns.append("flashferry, published")
    rows = []
    for arm in ARMS:
        row = [arm.name, mb(arm.published_bytes_per_s)]
        for profile in PROFILES:
            found = _of(runs, arm, profile, BASELINE)
            rates = sorted(run.rate_bytes_per_s for run in found)
            row += [mb(_rate(found)), f"{mb(rates[0])} to {mb(rates[-1])}" if rates else "", _ratio(_rate(found), arm)]
        row.append(mb(_rate(_of(runs, arm, PUBLISHED, AUTO))))
        rows.append(row)
    return markdown(columns, rows)


def traces_table(runs: Sequence[Measured]) -> str:
    """Return a row per arm: window and rate of the article's graphs beside those of each profile."""
    columns = ["arm", "window in the graph", *(f"{profile} (off by)" for profile in PROFILES), "Mbit/s in the graph"]
    columns += [f"{profile} (off by)" for profile in PROFILES]
    return markdown(columns, (_trace_row(runs, arm) for arm in ARMS))


def _trace_row(runs: Sequence[Measured], arm: Arm) -> list[str]:
    window, bps = arm.trace_window_bytes, arm.trace_bps
    row = [arm.name, "not given" if window is None else _range(f"{window[0]:,}", f"{window[1]:,}")]
    found = {profile: _of(runs, arm, profile, BASELINE) for profile in PROFILES}
    for profile in PROFILES:
        seen = _median([steady_window_bytes(run) for run in found[profile]])
        row.append("" if seen is None else f"{seen:,.0f}" + (f" ({off(seen, *window)})" if window else ""))
    row.append(_range(f"{bps[0] / 1e6:g}", f"{bps[1] / 1e6:g}"))
    for profile in PROFILES:
        rate = _median([steady_bps(run) for run in found[profile]])
        row.append("" if rate is None else f"{rate / 1e6:.2f} ({off(rate, *bps)})")
    return row


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def gains_table(runs: Sequence[Measured]) -> str:
    """Return a row per router: what tuning gains in the article, and with each profile and server."""
    columns = ["router", "article"]
    pairs = [(profile, sender) for profile in PROFILES for sender in (BASELINE, AUTO)]
    columns += [f"{profile}, {sender.name}" for profile, sender in pairs]
    rows = []
    for router in ("IOS-XE", "IOS"):
        untuned, tuned = (next(arm for arm in ARMS if arm.name == f"{router} {word}") for word in ("default", "tuned"))
        row = [router, in_words(tuned.published_bytes_per_s / untuned.published_bytes_per_s)]
        for profile, sender in pairs:
            slow, fast = (_rate(_of(runs, arm, profile, sender)) for arm in (untuned, tuned))
            row.append(in_words(fast / slow) if slow and fast else "")
        rows.append(row)
    return markdown(columns, rows)


def section(runs: Sequence[Measured], command: str) -> str:
    """Return the section of a document."""
    return "\n\n".join(
        (
            f"`{command}`; {conditions(runs)}",
            "Rates in 10^6 bytes per second, medians from the article's server; the last column from ours (`auto`):",
            rates_table(runs),
            f"Windows in bytes and rates of frames from {_STEADY_S:g} s on, medians as the server saw them:",
            traces_table(runs),
            "What tuning gains:",
            gains_table(runs),
        )
    )


def main() -> None:
    """Print the section, or put it into a document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="copies per arm, profile and server")
    parser.add_argument("--links", type=int, default=3, help="how many at once")
    parser.add_argument("--profile", choices=PROFILES, action="append", help="only this receiver profile")
    parser.add_argument("--output", type=Path, default=Path("lab-published"), help="where copies are kept")
    parser.add_argument("--docs", type=Path, help="put the section into this document, between its markers")
    options = parser.parse_args()
    plain = cells(range(1, options.runs + 1), senders=(BASELINE, AUTO))
    requested = [in_profile(cell, profile) for profile in options.profile or PROFILES for cell in plain]
    command = f"python -m benchmarks.lab_published --runs {options.runs} --links {options.links}"
    plan = Plan(folder=options.output, links=options.links, minutes=None, command=command)
    runs = run_missing(requested, plan, log=print, interrupted=lambda: False)
    text = section(runs, command)
    print(text)
    if options.docs is not None:
        put(options.docs, "receivers", text)


if __name__ == "__main__":
    main()
