"""`flashferry lab up|exec|ssh|demo`: stand-in routers behind an emulated WAN."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from flashferry.options import JsonOption
from flashferry.output import result_document
from inventory.errors import ConfigInvalid
from staging.exit_codes import ExitCode

if TYPE_CHECKING:
    from lab.state import LabState
    from lab.world import World, WorldSpec

app = typer.Typer(
    help="Stand-in routers behind an emulated WAN, to rehearse on.", no_args_is_help=True, rich_markup_mode=None
)

SeedOption = Annotated[int, typer.Option("--seed", help="Seeds the link's random losses.")]


def sample_world(seed: int = 1) -> WorldSpec:
    """Return the world that the sample inventory describes: one IOS-XE router behind the published WAN."""
    from lab.world import DeviceSpec, WorldSpec

    return WorldSpec(seed=seed, devices=(DeviceSpec(name="xe1"),))


@app.command()
def up(seed: SeedOption = 1, json: JsonOption = False) -> None:
    """Start the lab and keep it until Ctrl-C."""
    from lab.errors import LabError
    from lab.state import remove_state, write_state
    from lab.world import start_world

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with start_world(sample_world(seed)) as world:
            write_state(world.state())
            try:
                typer.echo(result_document("lab", ExitCode.OK, _described(world)) if json else _introduction(world))
                stop.wait()
            finally:
                remove_state()
    except LabError as error:
        raise ConfigInvalid(str(error).rstrip(".")) from None


@app.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run_inside(command: Annotated[list[str], typer.Argument(help="The command and its arguments.")]) -> None:
    """Run a command where the lab's routers are reached, such as: lab exec flashferry check -i sample."""
    _become(command)


@app.command()
def ssh(name: Annotated[str, typer.Argument(help="Name of a device of the lab.")]) -> None:
    """Open a session with a device of the running lab."""
    state = _running()
    device = next((one for one in state.devices if one.name == name), None)
    if device is None:
        known = ", ".join(one.name for one in state.devices)
        raise ConfigInvalid(f"unknown device {name!r}: the lab has {known}")
    # The stand-in's host key is made anew with every lab: remembering it would only raise alarms.
    keys = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    typer.echo(f"password: {device.password}", err=True)
    _become(["ssh", *keys, "-p", str(device.port), f"{device.username}@{device.address}"])


@app.command()
def demo(seed: SeedOption = 1) -> None:
    """Show the main job on the lab: one router checked, tuned, fed, timed and restored."""
    from flashferry.demo import run_demo

    raise typer.Exit(run_demo(sample_world(seed)))


def _become(command: list[str]) -> NoReturn:
    """Enter the running lab's core namespace and become a command."""
    from lab.enter import enter_core
    from lab.errors import LabError

    if shutil.which(command[0]) is None:
        raise ConfigInvalid(f"{command[0]}: expected a program, found none of that name")
    try:
        enter_core(_running().core_pid)
    except LabError as error:
        raise ConfigInvalid(str(error).rstrip(".")) from None
    os.execvp(command[0], command)  # noqa: S606 -- becoming the user's own command is the purpose


def _running() -> LabState:
    from lab.state import read_state

    state = read_state()
    if state is None:
        raise ConfigInvalid("no lab is running", hint="Start one with 'flashferry lab up' in another terminal")
    return state


def _introduction(world: World) -> str:
    devices = "\n".join(
        f"  {one.name:<8} {one.username}@{one.address}  password {one.password}  enable {one.enable_secret}"
        f"  {one.platform}"
        for one in world.devices
    )
    first = world.devices[0].name
    return (
        f"The lab is up: {world.rung}, profile {world.profile.name}. Ctrl-C ends it and leaves nothing behind.\n"
        f"{devices}\n"
        "In another terminal:\n"
        "  flashferry lab exec flashferry check --inventory sample\n"
        f"  flashferry lab ssh {first}"
    )


def _described(world: World) -> dict[str, object]:
    return {
        "rung": world.rung,
        "profile": world.profile.name,
        "server_address": world.server_address,
        "core_pid": world.core_pid,
        "devices": [
            {"name": one.name, "address": one.address, "port": one.port, "platform": one.platform}
            for one in world.devices
        ],
    }
