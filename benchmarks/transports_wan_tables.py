"""The figures of `benchmarks.transports_wan` as tables, and whether they are what we want to hold."""

import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.report import about
from flashferry.lab.experiment.harness import missed_targets, targets_table

Part = dict[str, Any]
Target = tuple[str, str, bool]
"""What is wanted, what was found, whether it is met."""

NAMES = {
    "ours http": "**our HTTP server**",
    "nginx cubic": "nginx, CUBIC",
    "nginx bbr": "nginx, BBR, whole host",
    "ours scp": "**our SSH server**, SCP, XE 16 with `ip ssh window-size`",
    "ours scp 17": "**our SSH server**, SCP, XE 17 with `ip ssh bulk-mode`",
    "sshd cubic": "sshd, CUBIC, SCP, the same XE 16",
    "sshd bbr": "sshd, BBR, whole host",
    "ours scp untuned": "our SSH server, SCP untuned, XE 16",
    "sshd untuned": "sshd, CUBIC, SCP untuned, XE 16",
    "ours scp tcp only": "our SSH server, SCP, XE 17 with TCP's window only",
}
_LEAST_MB = {"ours http": 5.4, "ours scp": 5.0, "ours scp 17": 5.0}
_TIMES_CUBIC = (("ours http", "nginx cubic"), ("ours scp", "sshd cubic"))
_LEAST_TIMES = 5.0
_MUCH_LOSS = 0.001
_NEAR_MODEL = 0.10


def to_markdown(held: Part) -> str:
    """Return the tables."""
    rows = [row for row in held["rows"] if not row.get("error")]
    failed = len(held["rows"]) - len(rows)
    lines = [
        *(f"- {about(one)}; {', '.join(filter(None, one['versions'].values()))}" for one in held["sessions"]),
        *([f"{failed} runs failed."] if failed else []),
        "",
        "| server and device | random loss | runs | MB/s, median | least | most | windows allow |",
        f"|{'---|' * 7}",
        *_rows(rows),
        "",
        targets_table(targets(rows)),
    ]
    return "\n".join(lines) + "\n"


def for_document(held: Part) -> str:
    """Return the medians and the targets that are missed: what the page needs of `to_markdown`."""
    rows = [row for row in held["rows"] if not row.get("error")]
    sessions = held["sessions"]
    days = sorted({one["at"][:10] for one in sessions})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    versions = ", ".join(dict.fromkeys(found for one in sessions for found in one["versions"].values() if found))
    losses = sorted({row["loss_ratio"] for row in rows})
    lines = [
        f"{len(rows)} copies in {len(sessions)} sessions, {when}; {versions}.",
        "",
        f"| server and device, MB/s | {' | '.join(f'{loss:.2%} loss' for loss in losses)} | windows allow |",
        f"|---|{'---|' * len(losses)}---|",
        *_document_rows(rows, losses),
        "",
        missed_targets(targets(rows)),
    ]
    return "\n".join(lines) + "\n"


def _document_rows(rows: list[Part], losses: list[float]) -> Iterator[str]:
    for case in (name for name in NAMES if any(row["case"] == name for row in rows)):
        model = next(row.get("model_bytes_per_s") for row in rows if row["case"] == case)
        digits = 3 if model else 2
        medians = (statistics.median(rates) if (rates := _rates(rows, case, loss)) else None for loss in losses)
        figures = " | ".join("" if one is None else f"{one / 1e6:.{digits}f}" for one in medians)
        yield f"| {NAMES[case]} | {figures} | {f'{model / 1e6:.3f}' if model else ''} |"


def missed(held: Part) -> list[str]:
    """Return what was wanted and not found."""
    return [text for text, _, met in targets([row for row in held["rows"] if not row.get("error")]) if not met]


def targets(rows: list[Part]) -> Iterator[Target]:
    """Yield the targets of the cases that were measured."""
    for loss in sorted({row["loss_ratio"] for row in rows}):
        for case, least_mb in _LEAST_MB.items():
            rates = _rates(rows, case, loss)
            if rates:
                found = statistics.median(rates) / 1e6
                yield (
                    f"{_plain(case)} under {loss:.2%}: at least {least_mb} MB/s",
                    f"{found:.2f} MB/s",
                    found >= least_mb,
                )
    for ours, theirs in _TIMES_CUBIC:
        mine, cubic = _rates(rows, ours, _MUCH_LOSS), _rates(rows, theirs, _MUCH_LOSS)
        if mine and cubic:
            times = statistics.median(mine) / statistics.median(cubic)
            text = f"{_plain(ours)} under {_MUCH_LOSS:.1%}: at least {_LEAST_TIMES:g} times {_plain(theirs)}"
            yield text, f"{times:.1f} times", times >= _LEAST_TIMES
    for case in dict.fromkeys(row["case"] for row in rows if row.get("model_bytes_per_s")):
        own = [row for row in rows if row["case"] == case]
        shares = [row["rate_bytes_per_s"] / row["model_bytes_per_s"] for row in own]
        middle = statistics.median(shares)
        text = f"{_plain(case)}: within {_NEAR_MODEL:.0%} of what its windows allow"
        yield text, f"{middle:.2f} of it", abs(middle - 1) <= _NEAR_MODEL


def _rows(rows: list[Part]) -> Iterator[str]:
    for case in (name for name in NAMES if any(row["case"] == name for row in rows)):
        for loss in sorted({row["loss_ratio"] for row in rows if row["case"] == case}):
            rates = _rates(rows, case, loss)
            model = next(row.get("model_bytes_per_s") for row in rows if row["case"] == case)
            middle, least, most = statistics.median(rates), min(rates), max(rates)
            digits = 3 if model else 2
            figures = " | ".join(f"{rate / 1e6:.{digits}f}" for rate in (middle, least, most))
            yield f"| {NAMES[case]} | {loss:.2%} | {len(rates)} | {figures} | {f'{model / 1e6:.3f}' if model else ''} |"


def _rates(rows: list[Part], case: str, loss: float) -> list[float]:
    return [row["rate_bytes_per_s"] for row in rows if row["case"] == case and row["loss_ratio"] == loss]


def _plain(case: str) -> str:
    return NAMES[case].replace("*", "").replace("`", "")
