"""The result of a verb, from this host or from a service, and how it is printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

import typer

from flashferry.cli.terminal.output import echo, finish, here, print_document, printed
from flashferry.core.codec import to_json
from flashferry.core.value_description import counted
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.api import DepotFound
    from flashferry.depot.catalogue.folder import CatalogueSummary
    from flashferry.sites.centre.overview import RunOverview
    from flashferry.store.status import Status

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Generic[T_co]):
    """The result of a verb.

    Attributes:
        verb: The verb, as its JSON documents name it.
        code: The exit code.
        content: The JSON document's content; of a service its whole document.
        value: Returns what is printed for people.
        meaning: What the code means here; None: what it always means after this verb.
        is_document: Whether the content is a whole document that a service printed.
        error: What the verb reported as its error at a service; empty: nothing.
        sentence: A sentence for people in place of the value; empty: none.
        after: Lines for people after the value.
        before_bytes_per_s: Speed of devices before tuning, where an earlier speed test measured it.
    """

    verb: str
    code: ExitCode
    content: Mapping[str, object]
    value: Callable[[], T_co]
    meaning: str | None = None
    is_document: bool = False
    error: str = ""
    sentence: str = ""
    after: Sequence[str] = ()
    before_bytes_per_s: Mapping[str, float] = field(default_factory=dict)


def devices_result(verb: str, code: ExitCode, devices: T) -> Result[T]:
    """Return the result of a verb whose document is a list of devices."""
    return Result(verb=verb, code=code, content={"devices": devices}, value=lambda: devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """Where the events of a run go besides the terminal: a file, and metrics at an address; None for neither."""

    events: Path | None = None
    metrics: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPage:
    """What `status` shows.

    Attributes:
        runs: Runs, devices being staged and what is left to recover.
        content: The JSON document's content.
        meaning: What the exit code means.
        without: The sentence where there is no run at all; empty: the usual one.
        depot: The shared file server, or None.
        images: The catalogue of images, or None.
        site_runs: Runs that were given to sites.
        troubles: What could not be read.
    """

    runs: Status
    content: dict[str, object]
    meaning: str
    without: str = ""
    depot: DepotFound | None = None
    images: CatalogueSummary | None = None
    site_runs: tuple[RunOverview, ...] = ()
    troubles: Sequence[str] = ()


def show(result: Result[T], human: Callable[[T], None], *, as_json: bool) -> NoReturn:
    """Print a result for people or as its JSON document, and leave with its exit code."""

    def for_people() -> None:
        from flashferry.cli.view.layout import console

        if not result.sentence:
            human(result.value())
        for text in (result.sentence,) if result.sentence else result.after:
            console().print(text)

    if not result.is_document:
        content = dict(result.content)
        finish(result.verb, result.code, content, as_json=as_json, human=for_people, meaning=result.meaning)
    if result.error:
        with suppress(OSError):
            echo(f"flashferry: error: at the service: {here(result.error)}", err=True)
        is_out = not as_json or printed(lambda: print_document(result.content))
    else:
        is_out = printed((lambda: print_document(result.content)) if as_json else for_people)
    raise typer.Exit(int(result.code if is_out else result.code or ExitCode.INTERNAL))


def status_content(found: Status, url: str = "") -> tuple[dict[str, object], str]:
    """Return the content of the document of `status`, and what its exit code means; `url` is that of a service."""
    left = [{"run_id": run.run_id, "host": device.host, "address": device.address} for run, device in found.to_recover]
    left += [{"run_id": one.run_id, "host": one.host, "address": one.address} for one in found.lost]
    what = counted(len(left), "device") if left else "nothing"
    status = {**to_json(found), "directory": url} if url else found
    content: dict[str, object] = {"status": status, "needs_recovery": bool(left), "to_recover": left}
    return content, f"the journal was read; {what} left to recover"
