"""`flashferry lab up|down|exec|ssh|demo|night|experiment|...`: stand-in routers behind an emulated WAN."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from flashferry.cli.command_line import App
from flashferry.cli.options.shared import JsonOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import echo, result_document
from flashferry.core.errors import ConfigInvalid
from flashferry.lab.cli.cml import LATENCIES, LatencyOption, keep_up, night
from flashferry.lab.cli.experiment import bulk_study, experiment, fairness, peers, sweep
from flashferry.lab.cli.verb import LabVerb, lab_errors
from flashferry.lab.demo.commands import service_demo, sites_demo
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.lab.state import LabState
    from flashferry.lab.world import Site, World

app = App(help="Stand-in routers behind an emulated WAN, to rehearse on.")
experiments = App(no_args_is_help=False, invoke_without_command=True)
experiments.callback()(experiment)
for name, about in (
    ("ssh", "Run the studies of scp again: ciphers, MACs, compression, and a board without AES instructions."),
    ("bulk", "Run the study of dd through ssh and nc again: block sizes, compressing pipes, ciphers."),
):
    experiments.command(name, cls=LabVerb, help=about)(bulk_study)

_SSH_PORT = 22
_DOWN_S, _POLL_S = 60.0, 0.1
SeedSetting = typer.Option("--seed", help="Seeds the links' random losses.")
SeedOption = Annotated[int, SeedSetting]
DEFAULT_WORLD = "published"
WorldArgument = Annotated[
    str,
    typer.Argument(
        metavar="WORLD",
        help="A world of the lab (published, two-sites, sites-depots, transports, fleet, team, fleet-40, sites-200), "
        "or a file of your own that ends in .toml.",
    ),
]
SiteArgument = Annotated[str, typer.Argument(metavar="SITE", help="Name of a site of the running lab.")]


@app.command(cls=LabVerb)
def up(
    world: WorldArgument = DEFAULT_WORLD,
    seed: Annotated[int | None, SeedSetting] = None,
    cml: Annotated[
        bool, typer.Option("--cml", help="Start a stand-in of a CML controller; its nodes are stand-in routers.")
    ] = False,
    latency: LatencyOption = LATENCIES[0],
    json: JsonOption = False,
) -> None:
    """Start a lab and keep it until Ctrl-C or 'flashferry lab down'."""
    if cml:
        if world != DEFAULT_WORLD:
            raise ConfigInvalid(f"expected no world with --cml, found {world!r}", hint="Its labs are made by clients")
        keep_up(latency, json=json)
        return
    from flashferry.lab.namespaces import become_root_in_user_namespace
    from flashferry.lab.state import remove_state, write_state
    from flashferry.lab.world import best_rung, start_world
    from flashferry.lab.world_spec import load_world, write_inventory

    with lab_errors(), ExitStack() as stack:
        spec = load_world(world, seed=seed)
        # Where the system lets an ordinary user, else a lower rung is left. Before there is a second thread.
        become_root_in_user_namespace()
        reach = best_rung()
        stop = stack.enter_context(stop_on_signals(signals=(signal.SIGINT, signal.SIGTERM)))
        started = stack.enter_context(start_world(spec, rung=reach.rung))
        inventory = write_inventory(started, started.directory / "inventory")
        write_state(started.state())
        stack.callback(lambda: _known_hosts().unlink(missing_ok=True))
        stack.callback(remove_state)
        _known_hosts().unlink(missing_ok=True)
        if json:
            typer.echo(result_document("lab", ExitCode.OK, _described(started, inventory, reach.reason)))
        else:
            typer.echo(_introduction(started, inventory, reach.reason))
        stop.wait()


@app.command(cls=LabVerb)
def down() -> None:
    """End the lab that runs in another terminal."""
    from flashferry.lab.state import started_ticks

    state = _running()
    os.kill(state.pid, signal.SIGTERM)
    ends_at = time.monotonic() + _DOWN_S
    while started_ticks(state.pid) == state.started_ticks:
        if time.monotonic() > ends_at:
            raise ConfigInvalid(
                f"the lab of process {state.pid} did not end within {_DOWN_S:g} s", hint="Look what it waits for"
            )
        time.sleep(_POLL_S)
    echo("The lab is down.")


@app.command("exec", cls=LabVerb, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run_inside(
    command: Annotated[list[str], typer.Argument(help="The command and its arguments.")],
    site: Annotated[
        str | None,
        typer.Option("--site", metavar="SITE", help="Run it on this site's depot host, not in front of the WAN."),
    ] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the command's exit code and output as one document; exits with 0 once it has run."
        ),
    ] = False,
) -> None:
    """Run a command where the lab's routers are reached, such as: lab exec flashferry check -i sample."""
    if command[0] == "flashferry" and shutil.which("flashferry") is None:
        # Called by its path, as out of a virtual environment that is not activated: it is the one that is meant.
        command = [str(Path(sys.argv[0]).absolute()), *command[1:]]
    if json:
        _report(command, site)
    else:
        _become(command, site)


@app.command(cls=LabVerb)
def cut(site: SiteArgument) -> None:
    """Cut a site's WAN link: packets are lost both ways until it is mended."""
    _ask_link(site, "cut")
    echo(f"The link of {site} is cut; 'flashferry lab mend {site}' mends it.")


@app.command(cls=LabVerb)
def mend(site: SiteArgument) -> None:
    """Mend a site's WAN link that was cut."""
    _ask_link(site, "mend")
    echo(f"The link of {site} carries packets.")


@app.command(cls=LabVerb)
def ssh(name: Annotated[str, typer.Argument(help="Name of a device of the lab.")]) -> None:
    """Open a session with a device of the running lab."""
    state = _running()
    device = next((one for one in state.devices if one.name == name), None)
    if device is None:
        if not state.devices:
            raise ConfigInvalid(
                "the lab's routers come and go with the labs of its controller: it knows none by name",
                hint="Ask the controller for the address, then 'flashferry lab exec ssh USER@ADDRESS'",
            )
        known = ", ".join(one.name for one in state.devices)
        raise ConfigInvalid(f"unknown device {name!r}: the lab has {known}", hint="Give one of these names")
    # The stand-in's host key is made anew with every lab: remembering it would only raise alarms.
    keys = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    typer.echo(f"password: {device.password}", err=True)
    _become(["ssh", *keys, "-p", str(device.port), f"{device.username}@{device.address}"])


@app.command(cls=LabVerb)
def demo(seed: SeedOption = 1) -> None:
    """Show the main job on the lab: four routers checked, probed, fed, timed and restored."""
    from flashferry.lab.demo.main_job import demo_world, run_demo

    raise typer.Exit(run_demo(demo_world(seed)))


app.command(cls=LabVerb)(service_demo)
app.command(cls=LabVerb)(sites_demo)
app.command(cls=LabVerb)(night)
app.add_typer(experiments, name="experiment")
app.command(cls=LabVerb)(sweep)
app.command(cls=LabVerb)(fairness)
app.command(cls=LabVerb)(peers)


def _known_hosts() -> Path:
    """Return the running lab's own known_hosts file: its devices have new host keys every time."""
    from flashferry.lab.state import state_path

    return state_path().with_suffix(".known_hosts")


def _ask_link(site: str, what: str) -> None:
    """Ask something of a site's link in the running lab."""
    from flashferry.lab.state import ask

    state = _running()
    if not state.links:
        raise ConfigInvalid(f"the lab has no WAN link: it runs on {state.rung}", hint="Start it as root, with TUN")
    if site not in state.links:
        raise ConfigInvalid(
            f"unknown site {site!r}: the lab has {', '.join(state.links)}", hint="Give one of these names"
        )
    with lab_errors():
        ask(Path(state.links[site]), {"do": what})


def _become(command: list[str], site: str | None = None) -> NoReturn:
    """Enter a namespace of the running lab and become a command."""
    _enter(command, site)
    try:
        os.execvp(command[0], command)  # noqa: S606 -- becoming the user's own command is the purpose
    except OSError as error:
        raise _not_a_program(command[0], error) from None


def _report(command: list[str], site: str | None) -> None:
    """Run a command in a namespace of the running lab and print what came of it as JSON."""
    _enter(command, site)
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise _not_a_program(command[0], error) from None
    shown = {"command": command, "command_exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    typer.echo(result_document("lab-exec", ExitCode.OK, shown))


def _enter(command: list[str], site: str | None) -> None:
    """Enter the running lab's core, or a site's depot host, if there is such a command to run in it."""
    from flashferry.lab.enter import enter_core

    if shutil.which(command[0]) is None:
        raise ConfigInvalid(
            f"{command[0]}: expected a program, found none of that name", hint="Install it, or give its whole path"
        )
    with lab_errors():
        state = _running()
        enter_core(state.core_pid if site is None else _depot_pid(state, site))
    os.environ.setdefault("FLASHFERRY_KNOWN_HOSTS", str(_known_hosts()))


def _depot_pid(state: LabState, site: str) -> int:
    """Return a process in the namespace of a site's depot host."""
    pids = {depot.site: depot.pid for depot in state.depots}
    if site not in pids:
        raise ConfigInvalid(
            f"there is no depot at {site!r}: the lab has depots at {', '.join(pids) or 'no site'}",
            hint="Give a site that has one, or leave --site out",
        )
    return pids[site]


def _not_a_program(name: str, error: OSError) -> ConfigInvalid:
    return ConfigInvalid(
        f"{name}: expected a program, found what the system cannot run: {error.strerror}",
        hint="Check that the file is a program for this machine, and that you may run it",
    )


def _running() -> LabState:
    from flashferry.lab.state import read_state

    state = read_state()
    if state is None:
        raise ConfigInvalid("no lab is running", hint="Start one with 'flashferry lab up' in another terminal")
    return state


def _introduction(world: World, inventory: Path, reason: str) -> str:
    lines = [f"The lab is up: {world.rung}. Ctrl-C ends it and leaves nothing behind."]
    if reason:
        lines.append(f"No WAN here, so no figure of this lab stands for one. {reason}")
    for site in world.sites:
        link = f"{site.profile.name}: {site.profile.describe()}" if not reason else "no link"
        lines.append(f"site {site.name}, {link}")
        lines += [
            f"  {one.name:<10} {one.username}@{one.address}{'' if one.port == _SSH_PORT else f':{one.port}'}"
            f"  password {one.password}  enable {one.enable_secret}  {one.platform}"
            for one in site.devices
        ]
        if site.depot is not None:
            lan = f", LAN {site.lan.describe()}" if site.lan is not None else ""
            inside = f"flashferry lab exec --site {site.name} ..."
            lines.append(f"  {site.depot.name:<10} {site.depot.address}  depot host{lan}: {inside}")
    lines += [
        "In another terminal:",
        f"  flashferry lab exec flashferry check --inventory {inventory}",
        f"  flashferry lab ssh {world.devices[0].name}",
    ]
    return "\n".join(lines)


_DEVICE_KEYS = ("name", "site", "address", "port", "platform", "username", "password", "enable_secret")
"""Of a device in the JSON; the lab's logins are printed for people too, they open nothing but stand-ins."""


def _described(world: World, inventory: Path, reason: str) -> dict[str, object]:
    return {
        "rung": str(world.rung),
        "reason": reason or None,
        "profile": world.profile.name,
        "server_address": world.server_address,
        "core_pid": world.core_pid,
        "inventory": str(inventory),
        "sites": [_described_site(site) for site in world.sites],
        "devices": [{key: getattr(one, key) for key in _DEVICE_KEYS} for one in world.devices],
    }


def _described_site(site: Site) -> dict[str, object]:
    described: dict[str, object] = {"name": site.name, "network": site.network, "link": site.profile.as_json()}
    if site.depot is not None:
        lan = site.lan.as_json() if site.lan is not None else None
        described["depot"] = {"name": site.depot.name, "address": site.depot.address, "lan": lan}
    return described
