"""Answer to a Prometheus scrape, put together from all sources."""

from __future__ import annotations

from collections.abc import Sequence

from flashferry.depot.status import DepotFound
from flashferry.service.background import TaskState
from flashferry.service.live.collect import Snapshot
from flashferry.service.metrics import host_values, run_values, table_values
from flashferry.service.metrics.counting import Counted
from flashferry.service.metrics.exposition import Sheet
from flashferry.service.service import Service


def answer(
    service: Service, snapshot: Snapshot, counted: Counted, tasks: Sequence[TaskState], depot: DepotFound | None
) -> bytes:
    """Return all metrics in Prometheus' text format."""
    sheet = Sheet()
    run_values.put_snapshot(sheet, snapshot)
    table_values.put_plans(sheet, snapshot.plans)
    run_values.put_counted(sheet, counted)
    table_values.put_tables(sheet, service.database)
    host_values.put_disks(sheet, {"state": service.state, "images": service.images})
    host_values.put_tasks(sheet, tasks)
    host_values.put_depot(sheet, depot)
    host_values.put_nights(sheet, service.state)
    host_values.put_backup(sheet, service.settings.metrics.backups)
    host_values.put_build(sheet)
    return sheet.text()
