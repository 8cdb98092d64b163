"""Several worlds at once: workers with a bench each take the cells in turn."""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.lab.errors import LabError
from flashferry.lab.experiment.bench import image_name
from flashferry.lab.experiment.json_child import JsonChild
from flashferry.lab.experiment.load import Turns, most_at_once
from flashferry.lab.experiment.measured import Measured, measured_from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashferry.lab.experiment.cell import Cell

_CHUNK_BYTES = 1 << 20
_POLL_S = 0.2
_STOP_S = 10.0


def interleaved(cells: Sequence[Cell], *, seed: int = 1) -> list[Cell]:
    """Return cells so that every seed goes round all arms, in an order of its own each time.

    What changes on the machine in the meantime then touches all arms alike.
    """
    order = random.Random(seed)  # noqa: S311 - an order, no secret
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
        Path(name).chmod(0o755)  # vsftpd reads as nobody
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

    Args:
        cells: What to run, in this order, but for small ones that overtake, see `Turns`.
        links: As many at a time as cost as much as so many full links.
        on_run: Called with each run, from one thread at a time.
        until_s: Monotonic time after which no run starts; None for no limit.
        interrupted: Asked before each run whether to begin no more.

    Raises LabError: the lab cannot be built here; what was run until then has been reported.
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
