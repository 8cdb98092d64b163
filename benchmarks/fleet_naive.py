"""What one writes first: Nornir's threads and netmiko's `send_command`; see fleet_waiting.

`python -m benchmarks.fleet_naive INVENTORY URL LIMIT`. All sessions are opened before the first copy begins, for the
waiting sessions' polling would keep the later ones from ever being opened, and no more than twenty at a time, for five
hundred logins at once run into every limit there is. Nothing is tuned, verified or restored.
"""

import sys
import threading
from pathlib import Path

from netmiko import BaseConnection, ConnectHandler
from nornir.core.inventory import Host
from nornir.core.task import Result, Task

from benchmarks.fleet_watch import await_go, say
from inventory.load import open_inventory


def copy(task: Task, url: str, together: threading.Barrier) -> Result:
    """Nornir task: log in, copy, and wait for the prompt as netmiko's documentation shows it."""
    host = task.host
    with _LOGINS:
        connection = _login(host)
    together.wait()
    with _LOGINS:
        connection.send_command(f"copy {url} bootflash:", expect_string=r"filename \[", read_timeout=120)
    with _COUNTED:
        _BEGUN.append(host.name)
        if len(_BEGUN) == together.parties:
            say("all copying")
    shown = connection.send_command("\n", expect_string=r"#\s*$", read_timeout=3600, cmd_verify=False)
    return Result(host=host, result=shown)


def _login(host: Host) -> BaseConnection:
    """Log in; once more where that fails, for all the others wait for the last one."""
    for may_fail in (True, True, False):
        try:
            return ConnectHandler(
                device_type="cisco_ios", host=host.hostname, username=host.username, password=host.password,
                conn_timeout=60, banner_timeout=60, auth_timeout=60,
            )  # fmt: skip
        except Exception as error:
            print(f"{host.name}: {error!r}", file=sys.stderr)
            if not may_fail:
                raise
    raise AssertionError


_LOGINS = threading.BoundedSemaphore(20)
_COUNTED = threading.Lock()
_BEGUN: list[str] = []


def main(inventory: str, url: str, limit: str) -> None:
    """Copy to all devices at once."""
    nornir = open_inventory(Path(inventory), workers=int(limit))
    together = threading.Barrier(len(nornir.inventory.hosts))
    say("ready")
    await_go()
    results = nornir.run(task=copy, url=url, together=together)
    for name, one in results.items():
        if one[0].exception is not None or "bytes copied" not in str(one[0].result):
            print(f"{name}: {one[0].exception!r} {str(one[0].result)[-300:]!r}", file=sys.stderr)
    say("done", copied=sum("bytes copied" in str(one[0].result) for one in results.values()))


if __name__ == "__main__":
    main(*sys.argv[1:])
