"""The document that a job of a remote service printed: taken as foreign, and of an agreed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from flashferry.model.exit_codes import ExitCode
from flashferry.service.client.answers import ServiceUnusable
from flashferry.service.client.client import ServiceClient
from flashferry.service.client.values import RemoteJob

Document = Mapping[str, Any]
_ERROR = "error"
_ERRORS = f"flashferry.{_ERROR}/"


def result_of(client: ServiceClient, job: RemoteJob) -> Document:
    """Return the document that the verb of a job printed.

    Raises:
        ServiceUnusable: The job did not end by itself, or there is no document.
    """
    if job.exit_code is None:
        raise ServiceUnusable(
            f"job {job.job_id} ({job.kind}) is {job.state}: {job.sentence or 'no reason was given'}",
            hint=f"The service's page has its runs: {client.url}/runs",
        )
    return client.document(job)


def gathered(found: Sequence[Document]) -> Document:
    """Return documents of several jobs of one verb, one at least, as one: all devices, and the gravest exit code.

    The first document that is an error is returned as it is.
    """
    if error := next((one for one in found if _is_error(one)), None):
        return error
    gravest = next((one for one in found if one.get("exit_code") == ExitCode.RESTORE_INCOMPLETE), None)
    gravest = gravest or next((one for one in found if one.get("exit_code")), found[0])
    lists = [one.get("devices") for one in found]
    return {**gravest, "devices": [device for one in lists if isinstance(one, list) for device in one]}


def error_in(document: Document) -> str:
    """Return what the verb reported as its error; empty where it reported none."""
    return (str(document.get(_ERROR, "")) or "no reason was given") if _is_error(document) else ""


def code_of(document: Document, verb: str) -> ExitCode:
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


def _is_error(document: Document) -> bool:
    return str(document.get("schema", "")).startswith(_ERRORS)
