"""Flows whose cause is known because it was set: what the verdicts are held against, over links that lose and queue.

Facts
-----

- The cases are those of `tests/captures/flows.json`, played by the stand-in's FTP client; and slow readers with small
  windows behind a link of 16 Mbit/s, which a newcomer's router had taken for a full link.
- Each is judged twice from the same readings: with the link's rate, and by the readings alone. What only a rate
  shows is no mistake without one, so a case names what is right for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flashferry.lab.experiment.cell import Cell, LinkSetting, Measured, Receiver, Sender
from flashferry.lab.experiment.harness import markdown
from flashferry.lab.experiment.study import Plan
from flashferry.lab.experiment.tables import conditions
from flashferry.tcp.transfer_summary import LINK_IS_FULL
from flashferry.tcp.verdict_rules import VerdictKind

STUDY = "causes"
SECTION = "verdicts"
CONTROLS = ("cubic", "bbr")
_UNSCALED, _LARGE = 65_535, 1_250_000
_W, _S, _L, _B, _P, _C = (
    VerdictKind.WINDOW,
    VerdictKind.SLOW_RECEIVER,
    VerdictKind.RANDOM_LOSS,
    VerdictKind.BANDWIDTH,
    VerdictKind.POLICER,
    VerdictKind.CAP,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A flow and what limits it.

    Attributes:
        read_bytes_per_s: How fast the client reads; None as fast as it can.
        cap_share: Pacing cap as a share of the link's payload; None for none.
        right: What may be said under CUBIC, the link's rate being known.
        right_bbr: The same under BBR; None where it is no other.
        unstated: What may be said besides where the link's rate is unknown: what looks the same from here.
    """

    name: str
    link: LinkSetting
    window_bytes: int = _LARGE
    read_bytes_per_s: float | None = None
    cap_share: float | None = None
    right: frozenset[VerdictKind]
    right_bbr: frozenset[VerdictKind] | None = None
    unstated: frozenset[VerdictKind] = frozenset()

    def allowed(self, control: str, *, stated: bool) -> frozenset[VerdictKind]:
        """Return what may be said."""
        right = self.right_bbr if control == "bbr" and self.right_bbr is not None else self.right
        return right if stated else right | self.unstated


def _over(rate_mbps: float, rtt_ms: float, **more: float) -> LinkSetting:
    """Return a link without random loss, but for what is given."""
    return LinkSetting(**{"rate_bps": rate_mbps * 1e6, "rtt_s": rtt_ms / 1e3, "loss_ratio": 0.0, **more})  # type: ignore[arg-type]


_WAN, _LAN, _DSL = _over(50, 40), _over(50, 1), _over(16, 30, queue_packets=100)
_ONLY_W, _ONLY_S, _ONLY_L, _ONLY_B, _ONLY_P = (frozenset({kind}) for kind in (_W, _S, _L, _B, _P))

CASES = (
    Case(name="window 64 kB, 40 ms", link=_WAN, window_bytes=_UNSCALED, right=_ONLY_W),
    Case(name="LAN, reader of 100 kB/s", link=_LAN, window_bytes=_UNSCALED, read_bytes_per_s=1e5, right=_ONLY_S),
    Case(name="LAN, reader of 1 MB/s", link=_LAN, window_bytes=_UNSCALED, read_bytes_per_s=1e6, right=_ONLY_S),
    Case(name="LAN, reader of 4 MB/s", link=_LAN, window_bytes=_UNSCALED, read_bytes_per_s=4e6, right=_ONLY_S),
    Case(name="large window, reader of 500 kB/s", link=_WAN, read_bytes_per_s=5e5, right=_ONLY_S),
    # A reader that leaves the same part of its buffer unread all the time is a smaller window.
    Case(
        name="window 64 kB, reader of 500 kB/s",
        link=_WAN,
        window_bytes=_UNSCALED,
        read_bytes_per_s=5e5,
        right=frozenset({_S, _W}),
    ),
    # Random loss holds CUBIC, and BBR not: then it is the link.
    Case(name="loss 0.5 %", link=_over(50, 40, loss_ratio=0.005), right=_ONLY_L, right_bbr=_ONLY_B),
    Case(name="loss 0.05 %", link=_over(50, 40, loss_ratio=0.0005), right=_ONLY_L, right_bbr=_ONLY_B),
    Case(name="link full, queue of 100", link=_over(20, 40, queue_packets=100), right=_ONLY_B),
    # Drops in a burst behind a queue that hardly shows are those of a policer, too, unless the link's rate is known.
    Case(name="link full, queue of 20", link=_over(20, 40, queue_packets=20), right=_ONLY_B, unstated=_ONLY_P),
    # To CUBIC a queue of five packets is random loss, and its advice says so.
    Case(
        name="link, queue of 5", link=_over(20, 40, queue_packets=5), right=frozenset({_L, _P, _B}), right_bbr=_ONLY_B
    ),
    # Under BBR a policer below 6 % sent again looks like the link it stands for, unless a larger rate is known.
    *(
        Case(
            name=f"policer of 10 Mbit/s, burst {burst_kb} kB",
            link=_over(50, 40, policer_bps=10e6, policer_burst_bytes=burst_kb * 1000),
            # A burst that is short beside the flight drops so seldom that CUBIC sees random loss.
            right=frozenset({_P, _L}) if burst_kb < 20 else _ONLY_P,
            right_bbr=_ONLY_P,
            unstated=_ONLY_B,
        )
        for burst_kb in (15, 64, 200)
    ),
    Case(name="cap of 60 %", link=_over(20, 40), cap_share=0.6, right=frozenset({_C})),
)
"""The fifteen that are played under each control: thirty flows."""

SMALL_WINDOWS = (
    Case(
        name="16 Mbit/s, window 64 kB, 605 kB/s",
        link=_DSL,
        window_bytes=_UNSCALED,
        read_bytes_per_s=605e3,
        right=_ONLY_S,
    ),
    Case(
        name="16 Mbit/s, window 120 kB, 605 kB/s",
        link=_DSL,
        window_bytes=120_000,
        read_bytes_per_s=605e3,
        right=_ONLY_S,
    ),
    Case(
        name="16 Mbit/s, window 16 kB, 300 kB/s",
        link=_DSL,
        window_bytes=16_384,
        read_bytes_per_s=300e3,
        right=frozenset({_S, _W}),
    ),
)
"""Slow readers with small windows, which a full link had been taken for."""


def cells(seeds: Iterable[int], *, seconds: float) -> list[Cell]:
    """Return the cells of all cases under each control."""
    return [
        Cell(
            study=STUDY,
            arm=case.name,
            receiver=Receiver(
                kind="pull", window_bytes=case.window_bytes, sack=True, read_bytes_per_s=case.read_bytes_per_s
            ),
            sender=Sender(program="ours", control=control, cap_share=case.cap_share),
            link=case.link,
            size_bytes=int(case.link.payload_bytes_per_s * seconds * 1.25),
            seed=seed,
            seconds=seconds,
            keeps_samples=False,
        )
        for seed in seeds
        for case in (*CASES, *SMALL_WINDOWS)
        for control in CONTROLS
    ]


def claims_too_much(kind: str, rate_bytes_per_s: float, link: LinkSetting) -> bool:
    """Return whether a link is called full by a copy that had less than 80 % of what it carries."""
    return kind == VerdictKind.BANDWIDTH and rate_bytes_per_s < LINK_IS_FULL * link.payload_bytes_per_s


def _verdicts(case: Case, runs_of: Mapping[str, Sequence[Measured]]) -> list[str]:
    """Return what a flow was called under each control: with the link's rate stated, and by the readings alone."""
    found = []
    for control, runs in runs_of.items():
        stated = [run.judgement.kind if run.judgement else "" for run in runs]
        found.append(_counted(stated, case.allowed(control, stated=True)))
        found.append(_counted([run.kind_by_readings for run in runs], case.allowed(control, stated=False)))
    return found


def _counted(kinds: Sequence[str], allowed: frozenset[VerdictKind]) -> str:
    """Return the verdicts with their counts, and how many are right unless all are."""
    counts = ", ".join(f"{kind} {count}" for kind, count in Counter(kinds).most_common())
    right = sum(kind in allowed for kind in kinds)
    return counts if right == len(kinds) else f"{counts}: **{right} of {len(kinds)} right**"


def causes_text(runs: Sequence[Measured], plan: Plan) -> str:
    """Return what each flow was called, and how many copies call a link full that is not.

    A flow that was called one thing throughout, and rightly, is named in a line; each other one has a row.
    """
    good = [run for run in runs if not run.error]
    throughout: dict[str, list[str]] = {}
    rows: list[tuple[str, ...]] = []
    for case in (*CASES, *SMALL_WINDOWS):
        own = [run for run in good if run.cell.arm == case.name]
        cells = _verdicts(
            case, {control: [run for run in own if run.cell.sender.control == control] for control in CONTROLS}
        )
        kinds = {run.judgement.kind if run.judgement else "" for run in own} | {run.kind_by_readings for run in own}
        if len(kinds) == 1 and not any("**" in cell for cell in cells):
            throughout.setdefault(kinds.pop(), []).append(case.name)
        elif own:
            rows.append((case.name, *cells))
    columns = (
        "flow",
        *(f"{control.upper()}, {how}" for control in CONTROLS for how in ("rate stated", "readings only")),
    )
    shown = [run.judgement.kind if run.judgement else "" for run in good]
    wrong = sum(
        claims_too_much(kind, run.rate_bytes_per_s, run.cell.link) for kind, run in zip(shown, good, strict=True)
    )
    alone = sum(claims_too_much(run.kind_by_readings, run.rate_bytes_per_s, run.cell.link) for run in good)
    summary = (
        f"Of {len(good)} copies {wrong} call the link full below {LINK_IS_FULL:.0%} of its stated rate; by the "
        f"readings alone, no rate known, {alone} do."
    )
    lines = "\n".join(f"- throughout *{kind}*, rightly: {'; '.join(names)}" for kind, names in throughout.items())
    parts = (f"`{plan.command}`; {conditions(runs)}", summary, lines, markdown(columns, rows))
    return "\n\n".join(part for part in parts if part)
