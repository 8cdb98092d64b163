"""`flashferry status`: what runs are alive, what they hold, what is left to recover, and how the last ones ended."""

from __future__ import annotations

from flashferry import api
from flashferry.cli.options.shared import JsonOption, RunsOption, StateOption
from flashferry.cli.terminal.output import finish
from flashferry.core.described import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.store.reader import LATEST_RUNS


def status(
    runs: RunsOption = LATEST_RUNS,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Show runs, devices in hand and what is left to recover. Reads the journal only, and exits with 0 either way."""
    from flashferry.cli.view.run_tables import print_status

    found = api.status(runs, state=state_dir)
    left = [{"run_id": run.run_id, "host": device.host, "address": device.address} for run, device in found.to_recover]
    left += [{"run_id": one.run_id, "host": one.host, "address": one.address} for one in found.lost]
    result: dict[str, object] = {"status": found, "needs_recovery": bool(left), "to_recover": left}
    what = counted(len(left), "device") if left else "nothing"
    finish(
        "status",
        ExitCode.OK,
        result,
        as_json=json,
        human=lambda: print_status(found),
        meaning=f"the journal was read; {what} left to recover",
    )
