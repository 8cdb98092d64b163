"""From many figures to few: medians with their spread, memory per session, and the targets of the project."""

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.measures import Figure

_OURS = "flashferry"
_OURS_WITH_PARENT = "flashferry and its parent"
_MOST_PER_SESSION_BYTES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A median with what it stands for."""

    median: float
    least: float
    most: float
    repeats: int

    def show(self, scale: float = 1.0, digits: int = 0) -> str:
        """Return it as text, divided by a scale."""
        median, least, most = (f"{value / scale:,.{digits}f}" for value in (self.median, self.least, self.most))
        return median if self.repeats == 1 else f"{median} ({least}-{most})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One thing we want to hold, and whether it does; `met` is None where it could not be measured."""

    text: str
    found: str
    met: bool | None


class Summary:
    """The figures of a session, looked up by server, measure and point."""

    def __init__(self, figures: "Iterable[Figure]") -> None:
        self._values: dict[tuple[str, str, int], dict[int, float]] = defaultdict(dict)
        for figure in figures:
            self._values[figure.subject, figure.measure, figure.point][figure.repeat] = figure.value

    def spread(self, subject: str, measure: str, point: int) -> Spread | None:
        """Return median, least and most of a measure; None if it was not taken."""
        return _spread(list(self._values.get((subject, measure, point), {}).values()))

    def per_session(self, subject: str, kind: str, count: int, *, held: bool = False) -> Spread | None:
        """Return anonymous memory per session: what `count` sessions take beyond an empty server, by `count`."""
        base = self._values.get((subject, f"pss_anonymous_{kind}_bytes", 0), {})
        measure = f"pss_anonymous_{kind}{'_held' if held else ''}_bytes"
        crowd = self._values.get((subject, measure, count), {})
        return _spread([(crowd[repeat] - base[repeat]) / count for repeat in crowd if repeat in base])

    def ratio(self, measure: str, point: int, other: str, ours_name: str = _OURS) -> float | None:
        """Return our median divided by another server's."""
        ours, theirs = self.spread(ours_name, measure, point), self.spread(other, measure, point)
        return ours.median / theirs.median if ours and theirs and theirs.median else None

    def targets(self) -> list[Target]:
        """Return what we want to hold at the load it is stated for."""
        result = [
            self._at_least("throughput_bytes_per_s", "throughput", "pyftpdlib", 0.95),
            self._at_least("throughput_bytes_per_s", "throughput", "vsftpd", 1.0),
        ]
        cpu = self.ratio("cpu_s_per_gb", 4, "pyftpdlib")
        result.append(
            Target(
                text="processor time per GB at 4 clients at most 1.1 of pyftpdlib, sampling on",
                found="not measured" if cpu is None else f"{cpu:.2f}",
                met=None if cpu is None else cpu <= 1.1,
            )
        )
        result += [self._processor_time_with_parent(clients) for clients in (4, 32)]
        full = self.spread(_OURS, "pss_transferring_bytes", 1000)
        begun = self.spread(_OURS, "pss_transferring_bytes", 0)
        result.append(
            Target(
                text="1,000 transferring sessions in one process, from one address, none refused",
                found="all accepted" if full else "not reached" if begun else "not measured",
                met=full is not None if begun else None,
            )
        )
        return [*result, *(self._session_memory(held=held) for held in (False, True))]

    def _processor_time_with_parent(self, clients: int) -> Target:
        ratio = self.ratio("cpu_s_per_gb", clients, "vsftpd", _OURS_WITH_PARENT)
        return Target(
            text=f"processor time per GB at {clients} clients at most 1.3 of vsftpd, the parent counted too",
            found="not measured" if ratio is None else f"{ratio:.2f}",
            met=None if ratio is None else ratio <= 1.3,
        )

    def _at_least(self, measure: str, word: str, other: str, least: float) -> Target:
        ratio = self.ratio(measure, 4, other)
        return Target(
            text=f"{word} at 4 clients at least {least:g} of {other}",
            found="not measured" if ratio is None else f"{ratio:.2f}",
            met=None if ratio is None else ratio >= least,
        )

    def _session_memory(self, *, held: bool) -> Target:
        memory = self.per_session(_OURS, "transferring", 1000, held=held)
        when = "after 50 readings each" if held else "just begun"
        return Target(
            text=f"at most {_MOST_PER_SESSION_BYTES / 1000:g} kB per transferring session at 1,000, {when}",
            found="not measured" if memory is None else f"{memory.median / 1000:.1f} kB",
            met=None if memory is None else memory.median <= _MOST_PER_SESSION_BYTES,
        )


def _spread(values: list[float]) -> Spread | None:
    if not values:
        return None
    return Spread(median=statistics.median(values), least=min(values), most=max(values), repeats=len(values))
