"""Requests to a remote service: its client, bodies from command-line options, jobs followed to their result."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from flashferry.cli.command_line import SERVICE_TOKEN_VARIABLE
from flashferry.cli.remote.jobs import (
    Document,
    code_of,
    continues,
    error_in,
    job_ended,
    leaving_alone,
)
from flashferry.cli.result import Result
from flashferry.cli.terminal.output import command, say
from flashferry.core.errors import ConfigInvalid
from flashferry.model.record import RunReport
from flashferry.service.client.client import (
    ServiceClient,
    ServicePlace,
    as_agreed,
    checked_token,
    checked_url,
    token_in,
)

if TYPE_CHECKING:
    from flashferry.api import FleetOptions
    from flashferry.cli.stage import StageAsked
    from flashferry.service.client.values import RemoteJob


@contextmanager
def service_client(words: Mapping[str, Any]) -> Iterator[ServiceClient]:
    """Open a client of the service that a command line selects.

    Args:
        words: Values of the options before the verb.

    Raises:
        ConfigInvalid: The address is invalid, the token is missing, or one of its files cannot be used.
    """
    url = checked_url(str(words.get("service") or ""))
    token = _token(url, words.get("service_token_file"))
    with ServiceClient(ServicePlace(url=url, token=token, ca=words.get("service_ca"))) as client:
        yield client


def _token(url: str, file: Path | None) -> str:
    # Removed from the environment: child processes inherit it.
    given = os.environ.pop(SERVICE_TOKEN_VARIABLE, "")
    if file is not None:
        return token_in(file, url)
    if not given and sys.stdin is not None and sys.stdin.isatty():
        given = getpass.getpass(f"Token for {url}: ", stream=sys.stderr)
    if not given:
        raise ConfigInvalid(
            f"the service at {url} needs a token, found none",
            hint=f"Put it in {SERVICE_TOKEN_VARIABLE}, or name its file with --service-token-file; {url}/me makes one",
        )
    return checked_token(given, url)


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
            "--image, --host, --group, --filter, --transport: a service stages by plans, which contain them",
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


T = TypeVar("T")


def started(client: ServiceClient, path: str, body: Mapping[str, object], does: str) -> RemoteJob:
    """Start a job that changes no device, and return it once it has ended."""
    job = client.begin(path, body)
    say(f"job {job.job_id} {does}")
    return job_ended(client, job)


def job_to_its_end(client: ServiceClient, path: str, body: Mapping[str, object], what: str, does: str) -> RemoteJob:
    """Like `started`; Ctrl-C ends only this command. what: the job, such as `the check`."""
    with leaving_alone(continues(what)):
        return started(client, path, body, does)


def document_result(
    document: Document,
    verb: str,
    value: Callable[[Document], T],
    after: Callable[[Document], Iterator[str]] | None = None,
) -> Result[T]:
    """Return a verb's JSON document as its result.

    Raises:
        ServiceUnusable: The document is not of this verb, or of another release.
    """
    return Result(
        verb=verb,
        code=code_of(document, verb),
        content=document,
        value=lambda: value(document),
        is_document=True,
        error=error_in(document),
        after=tuple(after(document)) if after is not None and not error_in(document) else (),
    )


def devices_as(kind: type[T]) -> Callable[[Document], T]:
    """Return a function that reads the devices of a document as records of a type."""
    return lambda document: as_agreed(kind, document.get("devices"))


def run_in(document: Document) -> RunReport:
    """Return the run in a document."""
    return as_agreed(RunReport, document.get("run"))
