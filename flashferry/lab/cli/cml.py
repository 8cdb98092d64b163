"""`flashferry lab up --cml` and `flashferry lab night`: a stand-in CML controller, and a whole night on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import echo, result_document, say
from flashferry.core.errors import ConfigInvalid
from flashferry.lab.cli.verb import lab_errors
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.lab.cml.routers.host_process import ControllerProcess

LATENCIES = ("once", "each-way")
_IMAGE_BYTES = 6_000_000
_IMAGE = "flashferry-night.bin"
_POLL_S = 0.2

LatencyOption = Annotated[
    str,
    typer.Option(
        "--latency",
        metavar="once|each-way",
        help="How the latency of a controller's links counts; no document of the real one says which.",
    ),
]


def keep_up(latency: str, *, json: bool) -> None:
    """Keep a controller until Ctrl-C or `flashferry lab down`, with an example of a description beside it.

    Raises ConfigInvalid: it cannot be built here, another lab is running, or the latency is no way to count.
    """
    from flashferry.lab.cml.routers.host_process import started_controller
    from flashferry.lab.cml.routers.node import LatencyCounts
    from flashferry.lab.namespaces import become_root_in_user_namespace
    from flashferry.lab.state import remove_state, write_state

    check_latency(latency)
    become_root_in_user_namespace()  # before there is a second thread
    with (
        lab_errors(),
        stop_on_signals(signals=(signal.SIGINT, signal.SIGTERM)) as stop,
        started_controller(counts=LatencyCounts(latency)) as controller,
    ):
        description = write_description(controller, Path("nights").absolute())
        write_state(controller.state())
        try:
            if json:
                typer.echo(result_document("lab", ExitCode.OK, _described(controller, description)))
            else:
                for line in _introduction(controller, description):
                    echo(line)
            stop.wait()
        finally:
            remove_state()


def night(
    folder: Annotated[
        Path, typer.Option("--folder", metavar="DIR", help="Where reports and the nights' history are kept.")
    ] = Path("nights"),
    copies: Annotated[int, typer.Option("--copies", min=1, max=100, help="Timed copies of each router.")] = 5,
    routers: Annotated[int, typer.Option("--routers", min=1, max=5, help="Routers on each of the two conditions.")] = 2,
    latency: LatencyOption = LATENCIES[0],
) -> None:
    """Play a whole night: a controller with stand-in routers, 'flashferry nightly run' on it, its report; all goes."""
    from flashferry.lab.cml.routers.host_process import started_controller
    from flashferry.lab.cml.routers.node import LatencyCounts
    from flashferry.lab.namespaces import become_root_in_user_namespace

    check_latency(latency)
    become_root_in_user_namespace()
    with lab_errors(), started_controller(counts=LatencyCounts(latency)) as controller:
        description = write_description(controller, folder.absolute(), copies=copies, count=routers)
        echo(f"A stand-in of a CML controller is up at {controller.url}. What it is asked for tonight:")
        echo()
        for line in description.read_text(encoding="utf-8").splitlines():
            echo(line)
        echo()
        command = ["flashferry", "nightly", "run", str(description), "--state-dir", str(folder / "state")]
        echo(f"$ {' '.join(command)}")
        sys.stdout.flush()  # before the night's own lines, also in a file
        code = _played(controller, [sys.executable, "-P", "-m", *command])
    raise typer.Exit(code)


def check_latency(latency: str) -> None:
    """Refuse what is no way to count a latency. Raises ConfigInvalid: it is none."""
    if latency not in LATENCIES:
        raise ConfigInvalid(
            f"--latency: expected {' or '.join(LATENCIES)}, found {latency!r}",
            hint="'once': it is the round trip's; 'each-way': each direction has it",
        )


def write_description(controller: ControllerProcess, folder: Path, *, copies: int = 5, count: int = 2) -> Path:
    """Write the description of a night on a stand-in controller, and an image of random bytes, into its folder.

    `folder`: Where the nights' artefacts go. `copies`: Timed copies of each router. `count`: Routers on each of the two
    conditions.
    """
    from flashferry.planning.local_images import fill_randomly

    image = controller.directory / _IMAGE
    fill_randomly(image, _IMAGE_BYTES)
    template = resources.files("flashferry.lab.cml").joinpath("nightly.yaml").read_text(encoding="utf-8")
    text = template.format(
        url=controller.url, ca_file=controller.ca_file, image=image, folder=folder, copies=copies, count=count
    )  # fmt: skip
    path = controller.directory / "nightly.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _played(controller: ControllerProcess, command: list[str]) -> int:
    """Run a command in the core until it ends; Ctrl-C is for it, so that it can clean up. Return its exit code."""
    from flashferry.lab.enter import enter_core
    from flashferry.lab.helper import end_with_owner

    def enter() -> None:
        end_with_owner()
        enter_core(controller.pid)

    environment = os.environ | {
        "FLASHFERRY_CML_USERNAME": controller.username,
        "FLASHFERRY_CML_PASSWORD": controller.password,
    }

    def on_signal(first: bool) -> None:
        if first:
            say("interrupted: the night ends what is under way and removes its lab")

    with stop_on_signals(announce=on_signal) as stop:
        # A session of its own: the terminal's Ctrl-C would reach it twice.
        process = subprocess.Popen(command, env=environment, preexec_fn=enter, start_new_session=True)  # noqa: PLW1509
        while True:
            try:
                return _exit_code(process.wait(_POLL_S))
            except subprocess.TimeoutExpired:
                if stop.is_set():
                    process.send_signal(signal.SIGINT)
                    return _exit_code(process.wait())


def _exit_code(returned: int) -> int:
    """Return the exit code of a process as a shell does: 128 and the number of the signal that ended it."""
    return returned if returned >= 0 else 128 - returned


def _introduction(controller: ControllerProcess, description: Path) -> list[str]:
    return [
        "The stand-in of a CML controller is up; its nodes are stand-in routers on emulated links.",
        "Ctrl-C here, or 'flashferry lab down', ends it and leaves nothing behind.",
        f"  url       {controller.url}",
        f"  CA file   {controller.ca_file}",
        f"  user      {controller.username}  password {controller.password}",
        f"  switches  curl --unix-socket {controller.control} http://standin/standin/faults",
        "In another terminal, for example:",
        f"  export FLASHFERRY_CML_USERNAME={controller.username} FLASHFERRY_CML_PASSWORD={controller.password}",
        f"  flashferry lab exec flashferry nightly run {description}",
    ]


def _described(controller: ControllerProcess, description: Path) -> dict[str, Any]:
    return {
        "url": controller.url,
        "ca_file": str(controller.ca_file),
        # The lab's logins are printed for people too; they open nothing but stand-ins.
        "username": controller.username,
        "password": controller.password,
        "door": str(controller.control),
        "core_pid": controller.pid,
        "description": str(description),
    }
