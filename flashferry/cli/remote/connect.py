"""What every verb of a remote service begins with: the service opened, and options that it cannot carry refused."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from flashferry.cli.command_line import (
    DEVICES,
    IMAGE,
    SERVER,
    SERVICE_TOKEN_VARIABLE,
    TUNING,
    WAVES,
    App,
    UsageError,
    Verb,
)
from flashferry.core.errors import ConfigInvalid
from flashferry.service.client.client import ServiceClient
from flashferry.service.client.place import ServicePlace, checked_token, checked_url, token_in

_WHY = {
    DEVICES: "the service has its own inventory, and looks up logins itself",
    SERVER: "the service's host serves the images",
    WAVES: "a run at the service carries out a plan as it stands",
    TUNING: "a run at the service carries out a plan as it stands",
    IMAGE: "the service goes by what it holds of its images",
}
"""Why options of a group are none of a remote verb."""

_INSTEAD = {
    DEVICES: "Choose devices with --host, --group and --filter; the rest is [runs] in the service's service.toml",
    WAVES: "Say it when the plan is made",
    TUNING: "Say it when the plan is made",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceWords:
    """What the command line says of a service.

    Attributes:
        url: Its address, as it was typed.
        ca: The file of certificates, or None.
        token_file: The file with the token, or None.
    """

    url: str
    ca: Path | None = None
    token_file: Path | None = None


def connect(ctx: typer.Context) -> ServiceClient:
    """Return what asks the service that the command line names.

    Raises:
        ConfigInvalid: The address is none, there is no token, or a file of it cannot be used.
    """
    said = ctx.find_object(ServiceWords)
    assert said is not None
    url = checked_url(said.url)
    return ServiceClient(ServicePlace(url=url, token=_token(said, url), ca=said.ca))


def _token(said: ServiceWords, url: str) -> str:
    # Taken out: nothing that is started from here is to have it.
    given = os.environ.pop(SERVICE_TOKEN_VARIABLE, "")
    if said.token_file is not None:
        return token_in(said.token_file, url)
    if not given and sys.stdin is not None and sys.stdin.isatty():
        given = getpass.getpass(f"Token for {url}: ", stream=sys.stderr)
    if not given:
        raise ConfigInvalid(
            f"the service at {url} wants a token, found none",
            hint=f"Put it in {SERVICE_TOKEN_VARIABLE}, or name its file with --service-token-file; {url}/me makes one",
        )
    return checked_token(given, url)


class RemoteVerb(Verb):
    """A verb of a remote service. What only its local namesake takes is refused by name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the words behind the verb.

        Raises:
            ConfigInvalid: One of them is an option that the service cannot be given.
        """
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            name = str(getattr(error, "option_name", ""))
            local = _local_option(_path(ctx), name) if name.startswith("-") else None
            if local is None:
                raise
            panel = str(getattr(local, "rich_help_panel", "") or "")
            raise ConfigInvalid(
                f"{name} cannot be given with --service: {_WHY.get(panel, 'its API does not carry it')}",
                hint=_INSTEAD.get(panel, f"Leave it out, or '{' '.join(_path(ctx))} --help' behind --service has more"),
            ) from None


class RemoteApp(App):
    """A family of such verbs."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Return what makes a command of a function."""
        return super().command(name, **{"cls": RemoteVerb, **options})


def _path(ctx: Any) -> list[str]:
    """Return the verb's words: `run`, `pause`."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, str(ctx.info_name))
        ctx = ctx.parent
    return words


def _local_option(words: list[str], name: str) -> Any:
    """Return the option of that name which a verb has on its own host; None where it has none."""
    module = import_module(f"flashferry.cli.{words[0]}")
    app = getattr(module, "app", None)
    if app is None:
        app = App()
        app.command(words[0])(getattr(module, words[0]))
    found: Any = get_command(app)
    for word in words[1:]:
        found = getattr(found, "commands", {}).get(word)
    options = [] if found is None else found.params
    return next((one for one in options if name in (*one.opts, *one.secondary_opts)), None)
