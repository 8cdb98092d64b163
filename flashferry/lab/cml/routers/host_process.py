"""The controller and its routers in a core namespace of their own, as a process that ends with its owner.

Run as ``python -m flashferry.lab.cml.routers.host_process`` by `started_controller`; settings come by standard input.
The process is the core itself: it listens on 198.18.0.1, all links start in it, and what is to reach controller and
routers enters it (`flashferry.lab.enter`).
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flashferry.lab import helper
from flashferry.lab.capability_levels import Rung, check_rung
from flashferry.lab.cml.routers.node import LatencyCounts
from flashferry.lab.cml.routers.runtime import BOOT, RouterRuntime
from flashferry.lab.cml.runtime import BootTimes
from flashferry.lab.cml.standin import standin_controller
from flashferry.lab.errors import LabError
from flashferry.lab.namespaces import Interface, set_up_interfaces, unshare_network
from flashferry.lab.state import LabState, started_ticks
from flashferry.lab.world import sweep_leftovers
from flashferry.lab.world_spec import SERVER_ADDRESS
from flashferry.lab.world_start import Helper

_MODULE = "flashferry.lab.cml.routers.host_process"
_HTTPS_PORT = 443
_END_S = 30.0
"""How long the end of a whole lab may take on a busy machine, until it is cut short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerProcess:
    """A running controller whose nodes are stand-in routers.

    Attributes:
        url: Where its interface is, from within the core.
        ca_file: The certificate of its authority, PEM.
        password: Of every account; it opens nothing but this.
        control: The unix socket where its switches are turned.
        pid: Its process, which is in the core namespace.
        directory: Private to it, and gone with it.
    """

    url: str
    ca_file: Path
    username: str
    password: str = field(repr=False)
    control: Path
    pid: int
    directory: Path

    def state(self) -> LabState:
        """Return what `flashferry.lab.state.write_state` records of it: a lab whose devices come and go."""
        return LabState(
            pid=os.getpid(),
            started_ticks=started_ticks(os.getpid()) or 0,
            core_pid=self.pid,
            server_address=SERVER_ADDRESS,
            profile="conditions of the controller",
            rung=Rung.FULL,
            devices=(),
        )


@contextlib.contextmanager
def started_controller(
    *, boot: BootTimes = BOOT, counts: LatencyCounts = LatencyCounts.ONCE, version: str | None = None, seed: int = 1
) -> Iterator[ControllerProcess]:
    """Start a controller and end it, with all that runs on it, with the with block.

    `boot`: How long nodes take to boot. `counts`: How the latency of links counts. `version`: The controller's; None
    for the stand-in's own. Raises LabError: it cannot be built here; the sentence says why.
    """
    check_rung(Rung.FULL)
    sweep_leftovers()
    owner = os.getpid()
    with contextlib.ExitStack() as stack:
        # The prefix and the two numbers are those of a world: a sweep after a kill finds them.
        directory = Path(tempfile.mkdtemp(prefix=f"flashferry-lab-{owner}-{started_ticks(owner)}-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        settings = {
            "directory": str(directory), "boot": asdict(boot), "counts": counts, "version": version, "seed": seed,
        }  # fmt: skip
        process = Helper(_MODULE, settings, directory / "controller.log")
        stack.callback(process.stop, _END_S)
        shown = process.receive()
        shown |= {key: Path(shown[key]) for key in ("ca_file", "control")}
        yield ControllerProcess(**shown, pid=process.process.pid, directory=directory)


def main() -> None:
    """Be the controller until the owner ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    over_reader, over_writer = os.pipe()
    signal.signal(signal.SIGTERM, lambda *_: os.write(over_writer, b"."))
    settings = helper.read_settings()
    owner = helper.tie_to_owner(settings)
    directory = Path(settings["directory"])
    try:
        with _serving(directory, settings) as shown:
            helper.report(**shown)
            select.select([owner, 0, over_reader], (), ())
    except (LabError, OSError) as error:
        helper.report(error=str(error))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _serving(directory: Path, settings: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Become the core and serve; yield what the owner needs."""
    unshare_network()
    set_up_interfaces((Interface(name="lo", addresses=(f"{SERVER_ADDRESS}/32",)),))
    nodes = directory / "nodes"
    nodes.mkdir(mode=0o700)
    runtime = RouterRuntime(
        nodes,
        os.getpid(),
        times=BootTimes(**settings["boot"]),
        counts=LatencyCounts(settings["counts"]),
        seed=settings["seed"],
    )
    with standin_controller(
        address=SERVER_ADDRESS,
        port=_HTTPS_PORT,
        runtime=runtime,
        version=settings["version"],
        control_at=directory / "control.sock",
        folder=directory,
    ) as running:
        yield running.as_json() | {"url": running.url.removesuffix(f":{_HTTPS_PORT}")}


if __name__ == "__main__":
    main()
