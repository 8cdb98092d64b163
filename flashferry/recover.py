"""`flashferry recover`: restore what dead runs left tuned."""

from __future__ import annotations

from flashferry.interrupt import graceful_interrupt
from flashferry.options import InventoryOption, JsonOption, StateOption, whole_fleet
from flashferry.output import EventLines, finish
from flashferry.tables import print_recovery
from staging.exit_codes import ExitCode
from staging.journal import Journal, state_directory
from staging.recover import recover as recover_fleet
from staging.states import Restored


def recover(inventory: InventoryOption, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """Find every device that a dead run left tuned, restore it and prove it."""
    with Journal(state_directory(state_dir)) as journal, graceful_interrupt() as stop:
        records = recover_fleet(whole_fleet(inventory), journal, emit=EventLines(), interrupted=stop.is_set)
    whole = all(record.restored is Restored.RESTORED for record in records)
    code = ExitCode.OK if whole else ExitCode.RESTORE_INCOMPLETE
    finish("recover", code, {"devices": records}, as_json=json, human=lambda: print_recovery(records))
