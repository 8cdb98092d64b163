"""Result of a verb, from this host or a service, and how it is printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

import typer
from msgspec import Struct, field

from flashferry.cli.terminal.output import echo, finish, here, print_document, printed
from flashferry.core.codec import to_json
from flashferry.core.units import counted
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.api import DepotFound
    from flashferry.depot.catalogue.folder import CatalogueSummary
    from flashferry.sites.centre.overview import RunOverview
    from flashferry.store.status import Status

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Result(Struct, Generic[T_co], frozen=True, kw_only=True):
    """Result of a verb.

    Attributes:
        verb: The verb's name in JSON documents.
        code: The exit code.
        content: Content of the JSON document; from a service the whole document.
        value: Returns the value to print for people.
        meaning: What the exit code means here; None: what it always means for this verb.
        is_document: Whether `content` is a service's whole document.
        error: Error reported by a service, or empty.
        sentence: Sentence printed in place of the value, or empty.
        after: Lines printed after the value.
        before_bytes_per_s: Speed before tuning by device, from an earlier speed test.
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


class Watching(Struct, frozen=True, kw_only=True):
    """Where a run's events go besides the terminal: a file, and the address that serves metrics. None: neither."""

    events: Path | None = None
    metrics: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPage:
    """What `status` prints.

    Attributes:
        runs: Runs, devices being staged, and devices left to recover.
        content: Content of the JSON document.
        meaning: What the exit code means.
        without: Sentence printed if there is no run; empty: the default sentence.
        depot: The shared file server, or None.
        images: The image catalogue, or None.
        site_runs: Runs at sites.
        troubles: Parts that could not be read, as sentences.
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
    """Print a result for people or as its JSON document, and exit with its code."""

    def for_people() -> None:
        from flashferry.cli.view.layout import console  # imports rich

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
    """Return the content of `status`'s JSON document and what its exit code means. url: the service's address."""
    left = [{"run_id": run.run_id, "host": device.host, "address": device.address} for run, device in found.to_recover]
    left += [{"run_id": one.run_id, "host": one.host, "address": one.address} for one in found.lost]
    what = counted(len(left), "device") if left else "nothing"
    status = {**to_json(found), "directory": url} if url else found
    content: dict[str, object] = {"status": status, "needs_recovery": bool(left), "to_recover": left}
    return content, f"the journal was read; {what} left to recover"
