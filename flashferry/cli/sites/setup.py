"""`flashferry sites init|keys|agent`: keys, configuration and agent of a site."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.command_line import OUTPUT
from flashferry.cli.options.shared import JsonOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import echo, finish, say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.extras import extra_hint
from flashferry.core.log_file import logging_to
from flashferry.model.exit_codes import ExitCode
from flashferry.sites.keys import PrivateKey
from flashferry.sites.settings import load_agent_settings, write_agent_template

if TYPE_CHECKING:
    from flashferry.sites.keys import PublicKey

KEY, CONFIG = "agent.key", "agent.toml"


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where key and configuration go.")] = Path(),
    key_only: Annotated[
        bool, typer.Option("--key-only", help="Make a key alone: for a centre, whose settings are others.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help=f"The key's file (default: {KEY} in the folder)."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make a key and a commented configuration for a site's agent; what is there stays as it is."""
    _make(folder)
    path, config = key or folder / KEY, folder / CONFIG
    is_key_new = not path.exists()
    if is_key_new:
        PrivateKey.make().save(path)
    is_config_new = not key_only and write_agent_template(config)
    public = PrivateKey.load(path).public
    content: dict[str, object] = {
        "key": str(path),
        "is_key_new": is_key_new,
        "public_key": public.line,
        "configuration": None if key_only else str(config),
        "is_configuration_new": is_config_new,
    }
    finish(
        *("sites-init", ExitCode.OK, content),
        as_json=json,
        human=lambda: _print_keys(path, public, None if key_only else config, is_config_new=is_config_new),
    )


def keys(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Private keys, as 'sites init' made them.")],
    json: JsonOption = False,
) -> None:
    """Print the public key of each private key: one line, which the other end's configuration is given."""
    found = [(path, PrivateKey.load(path).public) for path in files]
    content: dict[str, object] = {
        "keys": [{"file": str(path), "key_id": one.key_id, "public_key": one.line} for path, one in found]
    }
    finish("sites-keys", ExitCode.OK, content, as_json=json, human=lambda: _print([one.line for _, one in found]))


def _print(lines: list[str]) -> None:
    for line in lines:
        echo(line)


def _print_keys(key: Path, public: PublicKey, config: Path | None, *, is_config_new: bool) -> None:
    echo(f"The key is {key}, readable for its owner alone. Its public line, for the other end:")
    echo(f"  {public.line}")
    if config is not None:
        echo(f"{config} is {'written' if is_config_new else 'there already'}: say in it which site it is, whose")
        echo("orders it takes, and where broker, inventory and depot are. Then:")
        echo(f"  flashferry sites agent --config {config}")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigInvalid(
            f"{folder}: cannot be made: {error.strerror}", hint="Give a folder in one that you may write to"
        ) from None


def agent(
    config: Annotated[
        Path,
        typer.Option(
            "--config", envvar="FLASHFERRY_AGENT_CONFIG", metavar="FILE", help="The agent's configuration, agent.toml."
        ),
    ],
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            envvar="FLASHFERRY_AGENT_LOG",
            metavar="FILE",
            help="Keep what happens in a file; without one, warnings go to standard error.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """Work for a site until Ctrl-C or SIGTERM: take signed orders, carry them out, and report what became of them."""
    check_installed()
    from flashferry.sites.agent.agent import run_agent  # imports nornir

    settings = load_agent_settings(config)
    with stop_on_signals(announce=_print_ending) as ending, logging_to(log_file):
        run_agent(settings, ending, report=say)


def check_installed() -> None:
    """Check that the extra `sites` is installed.

    Raises:
        ConfigInvalid: It is missing.
    """
    if missing := [name for name in ("celery", "redis") if find_spec(name) is None]:
        raise ConfigInvalid(
            f"sites: expected the package {missing[0]}, which is not installed",
            hint=extra_hint("sites"),
        )


def _print_ending(first: bool) -> None:
    if first:
        say("ending: runs under way restore their devices first; once more, and they are left to do so by themselves")
        return
    say("ended at once: runs under way are processes of their own, and go on; the next agent finds them")
    os._exit(ExitCode.INTERRUPTED)
