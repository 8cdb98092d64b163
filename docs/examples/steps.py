"""Steps as Nornir tasks, in a task of your own: `python -P steps.py INVENTORY-FOLDER IMAGE`.

Each router is checked, tuned for FTP, and restored with the proof. Steps keep no journal: a script that is killed in
between leaves its lines. Change routers in production by `stage_fleet`, whose runs can be recovered.
"""

import sys
from pathlib import Path

from nornir import InitNornir
from nornir.core.exceptions import NornirSubTaskError
from nornir.core.task import Result

from flashferry.api import read_image
from flashferry.devices.connection import session_of
from flashferry.transports import transport_named
from tasks.check import check
from tasks.restore import restore
from tasks.snapshot import snapshot
from tasks.tcp_config import plan_tune
from tasks.tune import tune


def try_window(task, image):
    """Check a router; set a window of 1 MB, and restore it whatever happened."""
    found = task.run(check, target=image)[0].result
    if found.refusal:
        return Result(host=task.host, result=f"refused: {found.refusal}")
    before = task.run(snapshot)[0].result
    plan = plan_tune(
        before.running,
        platform=session_of(task).platform,
        transport=transport_named("ftp"),
        window_bytes=1_000_000,
        may_back_off=True,
    )
    changes = [plan.changes]  # the last one is what may be set
    try:
        shown = task.run(tune, plan=plan, before=before, remember=changes.append)[0].result
    except NornirSubTaskError as error:
        shown, reason = None, error.result.exception
    restored = task.run(restore, before=before, changes=changes[-1])[0].result
    text = ", ".join(shown.running.lines) if shown else f"not tuned: {reason}"
    return Result(host=task.host, result=f"{text}; {'restored' if restored.is_proven else restored.undecided}")


files = {kind: str(Path(sys.argv[1]) / f"{kind.split('_')[0]}s.yaml") for kind in ("host_file", "group_file")}
files["defaults_file"] = str(Path(sys.argv[1]) / "defaults.yaml")
routers = InitNornir(inventory={"plugin": "SimpleInventory", "options": files}, logging={"enabled": False})
results = routers.filter(platform="ios").run(task=try_window, image=read_image(sys.argv[2]))
routers.close_connections()
for host, found in sorted(results.items()):
    print(host, found.exception if found.failed else found[0].result)
sys.exit(results.failed)
