"""Plain Nornir and netmiko: a hand-written `copy ftp:`, as many a runbook has it."""

import json
import sys

from driver_host import nornir_of
from nornir.core.task import Result, Task
from nornir_netmiko.connections import CONNECTION_NAME

asked = json.load(sys.stdin)


def copy(task: Task) -> Result:
    """Copy, answering what the device asks."""
    device = task.host.get_connection(CONNECTION_NAME, task.nornir.config)
    device.enable()
    command = f"copy {asked['url']} {asked['file_system']}{asked['name']}"
    for _ in range(5):
        shown = device.send_command(command, expect_string=r"#\s*$|\]\?|confirm\]", read_timeout=900, cmd_verify=False)
        if "bytes copied" in shown:
            return Result(host=task.host)
        if "%Error" in shown or "% " in shown:
            break
        command = "\n"
    raise RuntimeError(shown.strip().splitlines()[-1])


done = nornir_of(asked).run(copy)["r"]
print(done[0].exception or "copied")
sys.exit(bool(done.failed))
