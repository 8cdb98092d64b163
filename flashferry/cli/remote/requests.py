"""Options of the command line in the form of the service's API."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from flashferry.cli.terminal.output import command
from flashferry.core.errors import ConfigInvalid

if TYPE_CHECKING:
    from flashferry.api import FleetOptions
    from flashferry.cli.stage import StageAsked

_SITE = "site"


def chosen_devices(which: FleetOptions) -> dict[str, object]:
    """Return the selected devices in the form of the API, with sites apart.

    Raises:
        ConfigInvalid: A filter is invalid.
    """
    sites, others = [], []
    for one in which.selection.filters:
        key, equals, value = one.partition("=")
        if not equals or not key.strip():
            raise ConfigInvalid(f"--filter: expected KEY=VALUE, found {one!r}", hint="Write it as site=branch1")
        if key.strip().lower() == _SITE:
            sites.append(value.strip())
        else:
            others.append(one)
    selection = which.selection
    return {"sites": sites, "hosts": list(selection.hosts), "groups": list(selection.groups), "filters": others}


def image_name(given: Path | None) -> str:
    """Return the name of an image at the service, or an empty string.

    Raises:
        ConfigInvalid: The image is a path on this host.
    """
    if given is None:
        return ""
    if PurePath(given).name != str(given):
        raise ConfigInvalid(
            f"--image: expected the name of an image at the service, found the path {str(given)!r}",
            hint=f"Send it there first, by the page Images, then give --image {PurePath(given).name}",
        )
    return str(given)


def check_stage(asked: StageAsked, *, is_choice: bool) -> None:
    """Check that exactly one thing is asked for, without options that the plan determines.

    Raises:
        ConfigInvalid: Nothing or several things are asked for, or an option that only a rehearsal accepts.
    """
    if is_choice and not (asked.dry_run and asked.plan is None):
        raise ConfigInvalid(
            "--image, --host, --group, --filter, --transport: a service stages by plans, in which they stand",
            hint=f"'{command('plan --image NAME')}' has it make one; to rehearse an image give --dry-run too",
        )
    given = [name for name, value in (("--plan", asked.plan), ("--resume", asked.resume)) if value is not None]
    if asked.dry_run and asked.image is not None:
        given.append("--image")
    if len(given) != 1 or (asked.dry_run and asked.resume is not None):
        expected = "--plan and --image with --dry-run" if asked.dry_run else "--plan and --resume"
        raise ConfigInvalid(
            f"expected one of {expected}, found {' and '.join(given) or 'none of them'}",
            hint=f"'{command('plan')}' makes a plan at the service",
        )


def api_time(at: object) -> str:
    """Return a time in the form of the API."""
    assert isinstance(at, datetime)
    return at.astimezone().isoformat()
