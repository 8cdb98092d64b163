"""`flashferry lab peers`: tools that stage images, side by side on the same stand-in and WAN."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.options.shared import JsonOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import finish, say
from flashferry.core.errors import ConfigInvalid
from flashferry.lab.cli.experiment import DocsOption, OutputOption
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.lab.experiment.peers.play import Found
    from flashferry.lab.experiment.peers.study import PeersPlan
    from flashferry.lab.experiment.peers.tools import Tool


def peers(
    output: OutputOption = Path("peers"),
    python: Annotated[
        Path | None,
        typer.Option("--python", help="Python of the peers' environment, see lab/experiment/peers-requirements.txt."),
    ] = None,
    size_mb: Annotated[float, typer.Option("--size-mb", min=1, help="Size of the image in 10^6 bytes.")] = 3.0,
    ceiling: Annotated[float, typer.Option("--ceiling", min=10, help="Wait at most so many seconds.")] = 420.0,
    parallel: Annotated[int, typer.Option("--parallel", min=1, max=8, help="How many worlds at a time.")] = 5,
    tool: Annotated[list[str] | None, typer.Option("--tool", help="Only tools whose name holds this.")] = None,
    situation: Annotated[
        list[str] | None, typer.Option("--situation", help="Only situations whose name holds this.")
    ] = None,
    docs: DocsOption = None,
    json: JsonOption = False,
) -> None:
    """Play each tool in each situation: success, again, kill -9, unreachable server, full flash, stall."""
    from flashferry.lab.errors import LabError
    from flashferry.lab.experiment.evidence import put
    from flashferry.lab.experiment.peers.study import PeersPlan
    from flashferry.lab.experiment.servers import vsftpd_path

    if vsftpd_path() is None:
        raise ConfigInvalid(
            "vsftpd is not installed, from which the peers' devices pull", hint="Install it: apt install vsftpd"
        )
    plan = PeersPlan(python=python, size_bytes=int(size_mb * 1e6), ceiling_s=ceiling, parallel=parallel)
    installed = _installed(tool, python)
    requested = [
        (each, name) for each in installed for name in each.situations if _is_named(name, situation)
    ]  # fmt: skip
    command = f"flashferry lab peers --size-mb {size_mb:g} --ceiling {ceiling:g} --parallel {parallel}"
    try:
        with stop_on_signals() as stop:
            found, text = _play(requested, plan, output, f"`{command}`; {_conditions(installed)}", stop)
        if docs is not None:
            put(docs, "peers", text)
    except LabError as error:
        raise ConfigInvalid(str(error).rstrip(".")) from None
    code = ExitCode.INTERRUPTED if stop.is_set() else ExitCode.OK
    result: dict[str, object] = {"folder": str(output), "found": found}
    finish("lab-peers", code, result, as_json=json, human=lambda: typer.echo(text))


def _play(
    requested: list[tuple[Tool, str]], plan: PeersPlan, output: Path, heading: str, stop: threading.Event
) -> tuple[list[Found], str]:
    """Play what is missing; every result is on disk as soon as it is there."""
    from flashferry.lab.experiment.peers.report import write_peers
    from flashferry.lab.experiment.peers.study import play_missing, read_found

    found = read_found(output / "peers.json", plan)
    tools = list(dict.fromkeys(tool for tool, _ in requested))
    lock = threading.Lock()

    def write() -> str:
        return write_peers(found, tools, output, settings=plan.settings, heading=heading)

    def keep(one: Found) -> None:
        with lock:
            found.append(one)
            write()

    play_missing(requested, plan, tuple(found), keep=keep, log=say, interrupted=stop.is_set)
    return found, write()


def _installed(names: list[str] | None, python: Path | None) -> dict[Tool, dict[str, str]]:
    """Return the tools that are asked for and there, with their packages' versions; say which are not there."""
    from flashferry.lab.experiment.peers.tools import TOOLS, versions

    there = {}
    for each in TOOLS:
        if not _is_named(each.name, names):
            continue
        its_versions = versions(each, python)
        if its_versions is None:
            say(f"{each.name} is not installed, so it is left out; give its environment by --python")
        else:
            there[each] = its_versions
    return there


def _conditions(installed: dict[Tool, dict[str, str]]) -> str:
    from flashferry.lab.experiment.tables import conditions

    packages = {name: version for each in installed.values() for name, version in each.items()}
    return ", ".join((conditions(()), *(f"{name} {version}" for name, version in packages.items())))


def _is_named(name: str, words: list[str] | None) -> bool:
    return not words or any(word.lower() in name.lower() for word in words)
