"""Figures of the depot: a site's cap over its runs and syncs, and what probing sees of a pipeline."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.held.figure import figure
from flashferry.depot.probing.copying import run_pipeline
from flashferry.depot.sync.source import Login, Source
from flashferry.depot.sync.syncing import offered_as, sync_image
from flashferry.fileserver import FixedLogin
from tests.component.depot.conftest import depot_in
from tests.component.depot.sync_bench import CHUNK, NAME, SITE, sync_bench

_CAP = 400_000
_SIZE = 20 * CHUNK


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="held-") as folder:
        yield Path(folder)


@figure("ratio")
def depot_rate_of_two_runs_of_cap() -> float:
    """Measure the rate of two runs' copies from one depot over 1.5 s, over the cap of their site."""
    with _folder() as folder, depot_in(folder) as depot:
        one, two = depot.run(sample_interval_s=0.1), depot.run(sample_interval_s=0.1)
        one.set_site_cap(SITE, _CAP, "by one")
        two.set_site_cap(SITE, 2 * _CAP, "by two")
        first, second = depot.ticket(one, site=SITE), depot.ticket(two, site=SITE)

        def acked() -> int:
            return one.progress(first.ticket_id).bytes_acked + two.progress(second.ticket_id).bytes_acked

        with depot.fetching(one, first), depot.fetching(two, second):
            depot.until_sending(one, first)
            depot.until_sending(two, second)
            time.sleep(1.0)
            before, start_s = acked(), time.monotonic()
            time.sleep(1.5)
            rate = (acked() - before) / (time.monotonic() - start_s)
            for run in (one, two):
                run.set_site_cap(SITE, None)
    return rate / _CAP


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """Rates over the site's cap.

    Attributes:
        sync: Of the sync of the site's depot.
        device: Of a device of the site meanwhile.
        other: Of the sync of another site, which has no cap.
    """

    sync: float
    device: float
    other: float


def _sync_rates() -> _Rates:
    """Sync a site's depot and another's at the same time, while a device of the first one copies."""
    done: dict[str, float] = {}
    with _folder() as folder, sync_bench(folder, size_bytes=_SIZE) as bench:
        files = bench.offered_files()
        bench.server.admit(FixedLogin(username="far", password="long-enough-2", site="far"), files)
        bench.server.set_site_cap(SITE, _CAP)
        far = Source(url=bench.url, login=Login(username="far", password="long-enough-2"))

        def sync(name: str, source: Source) -> None:
            start_s = time.monotonic()
            sync_image(source, offered_as(source, NAME), bench.catalogue(name))
            done[name] = time.monotonic() - start_s

        threads = [threading.Thread(target=sync, args=one) for one in (("near", bench.source), ("far", far))]
        with bench.device_of(next(one for one in files if one.name == NAME)) as device_bytes:
            before, start_s = device_bytes(), time.monotonic()
            for thread in threads:
                thread.start()
            threads[0].join()
            device = (device_bytes() - before) / (time.monotonic() - start_s)
            threads[1].join()
    return _Rates(sync=_SIZE / done["near"] / _CAP, device=device / _CAP, other=_SIZE / done["far"] / _CAP)


@figure("ratio")
def depot_sync_and_device_of_site_cap() -> float:
    """Measure the rate of a site's sync and of one of its devices together, over the site's cap."""
    rates = _sync_rates()
    return rates.sync + rates.device


@figure("ratio")
def depot_device_of_site_cap() -> float:
    """Measure the rate of a device while its site's depot syncs, over the site's cap; half of it is its share."""
    return _sync_rates().device


@figure("ratio")
def depot_sync_of_other_site_of_cap() -> float:
    """Measure the rate of the sync of a site without a cap, over the cap of a site that syncs meanwhile."""
    return _sync_rates().other


@figure("ratio")
def probe_busy_share() -> float:
    """Measure how long the busiest of two processes that burn 0.3 s each is seen busy, over the pipeline's time."""
    busy = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.3: pass"
    ran = run_pipeline([[sys.executable, "-c", busy]] * 2)
    assert ran.busy_s is not None
    return ran.busy_s / ran.wall_s
