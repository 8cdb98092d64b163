"""What a verb ends with at a remote service: the document that its job printed, as the local verb would have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import typer

from flashferry.cli.terminal.output import echo, here, print_document, printed, say, tell_programs
from flashferry.model.exit_codes import ExitCode
from flashferry.service.client.answers import ServiceUnusable
from flashferry.service.client.client import ServiceClient
from flashferry.service.client.values import RemoteJob

Document = Mapping[str, Any]
_ERROR = "error"
_ERRORS = f"flashferry.{_ERROR}/"
_GOES_ON = "interrupted by the operator; what the service has begun goes on there"


def leave_with_result(
    client: ServiceClient, job: RemoteJob, verb: str, *, as_json: bool, human: Callable[[Document], None]
) -> NoReturn:
    """Print what a job came to, and leave with the exit code that its verb ended with.

    Args:
        client: Asks the service.
        job: A job that has ended.
        verb: The verb, as its documents name it.
        as_json: Whether the document itself is wanted.
        human: Prints it for people.

    Raises:
        ServiceUnusable: The job did not come to an end of its own, or what it printed is not of the agreed form.
    """
    leave(result_of(client, job), verb, as_json=as_json, human=human)


def result_of(client: ServiceClient, job: RemoteJob) -> Document:
    """Return the document that the verb of a job printed.

    Raises:
        ServiceUnusable: The job did not come to an end of its own, or there is no document.
    """
    if job.exit_code is None:
        raise ServiceUnusable(
            f"job {job.job_id} ({job.kind}) is {job.state}: {job.sentence or 'it did not say why'}",
            hint=f"The service's page has its runs: {client.url}/runs",
        )
    return client.document(job)


def together(found: Sequence[Document]) -> Document:
    """Return documents of several jobs of one verb as one: all their devices, and the gravest exit code.

    Args:
        found: They, one at least; the first that is an error is returned as it is.
    """
    if error := next((one for one in found if str(one.get("schema", "")).startswith(_ERRORS)), None):
        return error
    gravest = next((one for one in found if one.get("exit_code") == ExitCode.RESTORE_INCOMPLETE), None)
    gravest = gravest or next((one for one in found if one.get("exit_code")), found[0])
    lists = [one.get("devices") for one in found]
    return {**gravest, "devices": [device for one in lists if isinstance(one, list) for device in one]}


def leave(document: Document, verb: str, *, as_json: bool, human: Callable[[Document], None]) -> NoReturn:
    """Print a document of a verb, and leave with its exit code; arguments and errors as above."""
    code = _code_of(document, verb)
    if str(document.get("schema", "")).startswith(_ERRORS):
        with suppress(OSError):
            echo(f"flashferry: error: at the service: {here(str(document.get(_ERROR, '')))}", err=True)
        is_out = not as_json or printed(lambda: print_document(document))
    else:
        is_out = printed((lambda: print_document(document)) if as_json else lambda: human(document))
    raise typer.Exit(int(code if is_out else code or ExitCode.INTERNAL))


def leave_interrupted(words: str) -> NoReturn:
    """Say what goes on after Ctrl-C, and leave."""
    say(f"interrupted; {words}")
    tell_programs(f"interrupted; {words}", ExitCode.INTERRUPTED, _GOES_ON)
    raise typer.Exit(int(ExitCode.INTERRUPTED))


def _code_of(document: Document, verb: str) -> ExitCode:
    """Return the exit code of a document.

    Raises:
        ServiceUnusable: It is no document of the verb, or of another release.
    """
    schema, code = document.get("schema"), document.get("exit_code")
    known = (f"flashferry.{verb}/1", f"{_ERRORS}1")
    with suppress(ValueError):
        if schema in known and isinstance(code, int) and not isinstance(code, bool):
            return ExitCode(code)
    raise ServiceUnusable(
        f"the service's result: expected {known[0]} and an exit code, found {str(schema)[:60]!r}, {str(code)[:20]}",
        hint="Is the service of the same release as this command line?",
    )
