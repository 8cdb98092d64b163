"""What a copy costs the machine, and which copies may run together: arithmetic, no processes.

Most cells of the sweep are held by their window or by loss and take little of the processor. So as many run at once as
together cost what a given number of full links do. A link takes its turns however little flows: sixteen slow copies at
once filled two cores that four full links do not, and copies without any loss were stopped by timeouts.
"""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from flashferry.lab.errors import LabError
from flashferry.lab.experiment.bench import image_name
from flashferry.lab.experiment.cell import Cell, Measured, measured_from_json
from flashferry.lab.experiment.harness import JsonChild
from flashferry.tcp.models import cubic_bytes_per_s, window_limited_bytes_per_s

_MSS_BYTES = 1460
_COST_OF_TURNS = 0.25
"""What a link costs when next to nothing flows, of what a full one does."""

_ROUNDING = 1e-9


def expected_share(cell: Cell) -> float:
    """Return the share of its link that a copy is expected to take, above 0 and up to 1.

    Only of a copy that lasts a given time and has a known window; any other counts as a full link, as it decides for
    itself how long it takes. CUBIC is held by loss; `auto` may end up with BBR, which is not.
    """
    window = cell.receiver.window_bytes
    if cell.seconds is None or cell.beside or window is None:
        return 1.0
    link = cell.link
    ceilings = [link.payload_bytes_per_s, window_limited_bytes_per_s(window, link.rtt_s)]
    if cell.receiver.read_bytes_per_s is not None:
        ceilings.append(cell.receiver.read_bytes_per_s)
    if link.policer_bps is not None:
        ceilings.append(link.policer_bps / 8)
    if cell.sender.control == "cubic":
        ceilings.append(cubic_bytes_per_s(link.loss_ratio, link.rtt_s, _MSS_BYTES))
    return min(ceilings) / link.payload_bytes_per_s


def expected_cost(cell: Cell) -> float:
    """Return what a copy is expected to cost the processor, 1 being a full link."""
    return _COST_OF_TURNS + (1 - _COST_OF_TURNS) * expected_share(cell)


def most_at_once(cells: Sequence[Cell], links: int) -> int:
    """Return how many of the cells can be under way together at most."""
    total, count = 0.0, 0
    for cost in sorted(expected_cost(cell) for cell in cells):
        total += cost
        if total > links + _ROUNDING:
            break
        count += 1
    return count


class Turns:
    """Hands out cells so that those under way cost no more than `links` full links.

    A cell that does not fit yet is overtaken by smaller ones of its own seed.
    """

    def __init__(self, cells: Sequence[Cell], links: int) -> None:
        self._left = list(cells)
        self._links = links
        self._busy = 0.0
        self._running = 0

    @property
    def is_over(self) -> bool:
        """Whether every cell has been handed out."""
        return not self._left

    def begin(self) -> Cell | None:
        """Return the next cell that fits, which is under way from now on; None if none fits at the moment."""
        for number, cell in enumerate(self._left):
            if cell.seed != self._left[0].seed:
                break
            cost = expected_cost(cell)
            if not self._running or self._busy + cost <= self._links + _ROUNDING:
                self._busy += cost
                self._running += 1
                return self._left.pop(number)
        return None

    def end(self, cell: Cell) -> None:
        """Take note that a cell is under way no more."""
        self._busy -= expected_cost(cell)
        self._running -= 1


_CHUNK_BYTES = 1 << 20
_POLL_S = 0.2
_STOP_S = 10.0


def interleaved(cells: Sequence[Cell]) -> list[Cell]:
    """Return cells so that every seed goes round all arms, in an order of its own each time.

    What changes on the machine in the meantime then touches all arms alike.
    """
    order = random.Random(1)  # noqa: S311 - an order, no secret
    rounds: list[Cell] = []
    for number in sorted({cell.seed for cell in cells}):
        one = [cell for cell in cells if cell.seed == number]
        order.shuffle(one)
        rounds += one
    return rounds


@contextlib.contextmanager
def images(cells: Sequence[Cell]) -> Iterator[Path]:
    """Make a folder with a file of random bytes for each size; nothing on the way can shrink it."""
    with tempfile.TemporaryDirectory(prefix="flashferry-experiment-") as name:
        Path(name).chmod(0o755)  # vsftpd reads as another user
        folder = Path(name) / "images"
        folder.mkdir(mode=0o755)
        content = random.Random(1)  # noqa: S311 - the same bytes every time
        for size_bytes in sorted({cell.size_bytes for cell in cells}):
            with (folder / image_name(size_bytes)).open("wb") as file:
                for start in range(0, size_bytes, _CHUNK_BYTES):
                    file.write(content.randbytes(min(_CHUNK_BYTES, size_bytes - start)))
        yield folder


class _Interrupted(Exception):
    """The operator wants to stop."""


class _Worker(JsonChild):
    """A worker process with a bench of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-P", "-m", "flashferry.lab.experiment.worker", str(folder)]
        super().__init__("A worker of the experiment", command)

    def play(self, cell: Cell) -> Measured:
        """Run a cell on its bench."""
        self.send(asdict(cell))
        return measured_from_json(self.receive())


def play_all(
    cells: Sequence[Cell],
    *,
    links: int,
    on_run: Callable[[Measured], None],
    until_s: float | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> None:
    """Run cells side by side, in worlds of their own.

    `links`: Most full links' worth at a time. `on_run`: Called with each result, from one thread at a time. `until_s`:
    Monotonic time after which none starts; None for no limit. `interrupted`: Returns whether to start no more. Raises
    LabError: the lab cannot be built here; earlier results were reported.
    """
    turns, changed, failures = Turns(cells, links), threading.Condition(), list[Exception]()

    def goes_on() -> bool:
        in_time = until_s is None or time.monotonic() < until_s
        return in_time and not (failures or interrupted())

    def serve(worker: _Worker) -> None:
        try:
            while (cell := _next(turns, changed, goes_on)) is not None:
                run = worker.play(cell)
                with changed:
                    on_run(run)
                    turns.end(cell)
                    changed.notify_all()
        except (LabError, OSError) as error:
            failures.append(error)

    with images(cells) as folder:
        workers = [_Worker(folder) for _ in range(most_at_once(cells, links))]
        threads = [threading.Thread(target=serve, args=(worker,)) for worker in workers]
        try:
            # To build a world takes the processor for itself: no copy is measured meanwhile.
            for worker in workers:
                worker.receive()
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(_POLL_S / len(threads))
                if interrupted():
                    # What is under way is lost and run again next time.
                    failures.append(_Interrupted())
                    for worker in workers:
                        worker.process.terminate()
        finally:
            for worker in workers:
                worker.close(_STOP_S)
    if failures and not isinstance(failures[0], _Interrupted):
        raise LabError(str(failures[0]))


def _next(turns: Turns, changed: threading.Condition, goes_on: Callable[[], bool]) -> Cell | None:
    """Wait for a cell that fits and return it; None if there is none left or the work is to end."""
    with changed:
        while goes_on() and not turns.is_over:
            if (cell := turns.begin()) is not None:
                return cell
            changed.wait(_POLL_S)
    return None
