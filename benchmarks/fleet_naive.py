"""What one writes first: Nornir's threads and netmiko's `send_command`; see fleet_waiting.

`python -m benchmarks.fleet_naive INVENTORY URL LIMIT`. All sessions are opened before the first copy begins, no more
than twenty at a time, for five hundred logins at once run into every limit there is. Then all copies are begun, before
anybody waits for the end of one: the polling of those that wait would keep the later ones from ever beginning. From
then on each thread waits inside `send_command`, and only that is measured. Nothing is tuned, verified or restored.
"""

import sys
import threading
from pathlib import Path

from netmiko import BaseConnection, ConnectHandler
from nornir.core.inventory import Host
from nornir.core.task import Result, Task

from benchmarks.fleet_watch import await_go, say
from inventory.nornir_loader import open_inventory


def copy(task: Task, url: str, opened: threading.Barrier, begun: threading.Barrier) -> Result:
    """Nornir task: log in, copy, and wait for the prompt as netmiko's documentation shows it.

    A device that cannot go on ends the wait of all others at the barriers: what is left would be another fleet.
    """
    try:
        with _FEW:
            connection = _login(task.host)
        opened.wait()
        with _FEW:
            _begin(connection, url)
        begun.wait()
    except BaseException:
        opened.abort()
        begun.abort()
        raise
    # An empty command without an Enter: typed into a copy, it would be the answer to whatever comes next.
    shown = connection.send_command(
        "", expect_string=r"#\s*$", read_timeout=3600, cmd_verify=False, normalize=False, strip_command=False
    )
    say("ended", host=task.host.name, shown=str(shown)[-300:])
    return Result(host=task.host, result=shown)


def _begin(connection: BaseConnection, url: str) -> None:
    """Give the command, take the file name it offers, and return once bytes flow.

    Raises:
        RuntimeError: The device came back to its prompt instead.
    """
    connection.send_command(f"copy {url} bootflash:", expect_string=r"filename \[", read_timeout=120)
    connection.write_channel("\n")
    shown = connection.read_until_pattern(r"Loading|#\s*$", read_timeout=120)
    if "Loading" not in shown:
        raise RuntimeError(f"expected the copy to begin, the device says {shown[-200:]!r}")


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


_FEW = threading.BoundedSemaphore(20)


def main(inventory: str, url: str, limit: str) -> None:
    """Copy to all devices at once."""
    nornir = open_inventory(Path(inventory), workers=int(limit))
    devices = len(nornir.inventory.hosts)
    opened = threading.Barrier(devices)
    begun = threading.Barrier(devices, action=lambda: say("all copying"))
    say("ready")
    await_go()
    results = nornir.run(task=copy, url=url, opened=opened, begun=begun)
    for name, one in results.items():
        if one[0].exception is not None or "bytes copied" not in str(one[0].result):
            print(f"{name}: {one[0].exception!r} {str(one[0].result)[-300:]!r}", file=sys.stderr)
    say("done", copied=sum("bytes copied" in str(one[0].result) for one in results.values()))


if __name__ == "__main__":
    main(*sys.argv[1:])
