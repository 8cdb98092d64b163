"""Jobs of a remote service run to their end, and their documents as results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from flashferry.cli.remote.jobs import (
    Document,
    code_of,
    continues,
    error_in,
    job_ended,
    leaving_alone,
)
from flashferry.cli.result import Result
from flashferry.cli.terminal.output import say
from flashferry.model.record import RunReport
from flashferry.service.client.client import ServiceClient, as_agreed

if TYPE_CHECKING:
    from flashferry.service.client.values import RemoteJob

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
