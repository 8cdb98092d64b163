"""`flashferry depot sync`: fetch images of a source, with a progress bar on a terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from flashferry import api
from flashferry.cli.options.policy import Sha512Option
from flashferry.cli.options.shared import DEPOT_PASSWORD_VARIABLE, CatalogueOption, JsonOption, StateOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import echo, finish, say
from flashferry.cli.terminal.questions import password_of
from flashferry.cli.view.layout import console
from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import sanitize
from flashferry.core.units import coarse_rate, counted, duration, rate, size
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.depot.sync.syncing import AnySource, Synced

_LINE_EVERY_S = 30.0
"""Interval of progress lines without a terminal."""


class _Rate(ProgressColumn):
    """Column with the rate of bytes, in our unit."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else coarse_rate(task.speed))


class SyncBars:
    """Shows the progress of a sync within a block."""

    def __init__(self) -> None:
        self._is_live = console(stderr=True).is_terminal
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            _Rate(),
            TimeRemainingColumn(),
            console=console(stderr=True),
            transient=True,
            disable=not self._is_live,
        )
        self._tasks: dict[tuple[str, api.SyncPhase], TaskID] = {}
        self._printed_s = time.monotonic()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, progress: api.SyncProgress) -> None:
        """Show the progress of an image."""
        if progress.text:
            self._say(f"{progress.image}: {progress.text}")
        if progress.phase in {api.SyncPhase.COPY, api.SyncPhase.PROVE}:
            self._show(progress)

    def _show(self, progress: api.SyncProgress) -> None:
        if self._is_live:
            key = progress.image, progress.phase
            if key not in self._tasks:
                for task in self._tasks.values():
                    self._bars.update(task, visible=False)
                words = sanitize(f"{progress.phase.value} {progress.image}")
                self._tasks[key] = self._bars.add_task(words, total=progress.size_bytes, completed=progress.done_bytes)
            self._bars.update(self._tasks[key], completed=progress.done_bytes, visible=True)
        elif time.monotonic() - self._printed_s >= _LINE_EVERY_S:
            self._printed_s = time.monotonic()
            share = progress.done_bytes / max(1, progress.size_bytes)
            self._say(f"{progress.image}: {progress.phase.value}, {share:.0%} of {size(progress.size_bytes)}")

    def _say(self, text: str) -> None:
        if self._is_live:
            self._bars.console.print(Text(sanitize(f"flashferry: {text}")))
        else:
            say(text)


def outcome_line(one: api.SyncedImage) -> str:
    """Return the result of an image as a line."""
    synced = one.synced
    if synced is None and one.is_interrupted:
        # Its hint was printed before.
        return f"{one.name}: under way: {part_in_words(one.held) if one.held is not None else 'nothing here yet'}"
    if synced is None:
        return f"{one.name}: failed: {one.error}" + (f". {one.hint}" if one.hint else "")
    replaced = _replaced(synced)
    if not synced.came_bytes:
        return f"{one.name}: {size(synced.image.size_bytes)}, proven; it was there{replaced}"
    speed = rate(synced.came_bytes / max(synced.copying_s, 1e-3))
    parts = [f"{size(synced.came_bytes)} came by {synced.by} with {speed}", f"{duration(synced.seconds)} in all"]
    if synced.kept_bytes:
        parts.append(f"{size(synced.kept_bytes)} were there")
    if synced.breaks:
        parts.append(f"{counted(synced.breaks, 'break')} of the line")
    if synced.wrong_chunks:
        parts.append(f"{counted(synced.wrong_chunks, 'wrong chunk')}")
    return f"{one.name}: {size(synced.image.size_bytes)}, proven; {', '.join(parts)}{replaced}"


def part_in_words(one: api.Held) -> str:
    """Return how much of an unfinished image is on disk, and how much of that is verified."""
    if one.here_bytes <= one.verified_bytes:
        return f"{size(one.verified_bytes)} verified"
    return f"{size(one.here_bytes)} here, of them {size(one.verified_bytes)} verified"


def _replaced(synced: Synced) -> str:
    """Return a sentence about the proven image that another of the same name replaced."""
    if not synced.replaced_sha512:
        return ""
    before, now = synced.replaced_sha512[:16], synced.image.sha512[:16]
    return f". It took the place of another proven image of that name: SHA-512 {before} before, {now} now"


ImagesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="IMAGE", help="Names of images (default: all).", show_default=False)
]


def sync(
    images: ImagesArgument = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="URL", help="The source: https://HOST[:PORT] of another depot; http:// in clear text."
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="NAME", help=f"Our login there; its password is in {DEPOT_PASSWORD_VARIABLE}."),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(
            "--ca",
            metavar="FILE",
            help="Certificates of the issuers to trust for it, PEM (default: those that this host trusts).",
        ),
    ] = None,
    rsync: Annotated[
        str | None,
        typer.Option(
            "--rsync",
            metavar="USER@HOST:DIR",
            help="In place of --from, where only SSH is open: a folder with images and their manifests.",
        ),
    ] = None,
    ssh_port: Annotated[
        int | None,
        typer.Option("--ssh-port", metavar="PORT", min=1, max=65535, help="With --rsync: the port of SSH there."),
    ] = None,
    identity: Annotated[
        Path | None,
        typer.Option("--identity", metavar="FILE", help="With --rsync: our private key (default: ssh's own)."),
    ] = None,
    known_hosts: Annotated[
        Path | None,
        typer.Option("--known-hosts", metavar="FILE", help="With --rsync: the host's key (default: ssh's own)."),
    ] = None,
    sha512: Sha512Option = None,
    wait_minutes: Annotated[
        float,
        typer.Option("--wait-minutes", metavar="MINUTES", min=0, help="How long a broken line is waited for."),
    ] = 10.0,
    catalogue: CatalogueOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Fetch images from a source; each gets its name once it is verified, and an interrupted sync is continued.

    Verified images are not fetched again; of damaged ones only the damaged parts are.
    """
    request = api.SyncRequest(
        source=_source(source, user, ca, _ssh(rsync, ssh_port, identity, known_hosts)),
        images=tuple(images or ()),
        sha512=sha512,
        catalogue=catalogue,
        give_up_s=wait_minutes * 60,
    )
    with stop_on_signals(announce=_print_stopping) as stop, SyncBars() as bars:
        result = api.depot_sync(request, state=state_dir, on_progress=bars, interrupted=stop.is_set)
    content: dict[str, object] = {"source": request.source.where, "images": [_row(one) for one in result.images]}
    finish("depot-sync", result.exit_code, content, as_json=json, human=lambda: _print(result))


def _ssh(
    rsync: str | None, port: int | None, identity: Path | None, known_hosts: Path | None
) -> api.RsyncSource | None:
    if rsync is not None:
        return api.RsyncSource(target=rsync, port=port, identity=identity, known_hosts=known_hosts)
    given = {"--ssh-port": port, "--identity": identity, "--known-hosts": known_hosts}
    if named := [name for name, value in given.items() if value is not None]:
        raise ConfigInvalid(f"{named[0]}: expected --rsync with it, found none", hint="Give it too, or leave both out")
    return None


def _source(url: str | None, user: str | None, ca: Path | None, rsync: api.RsyncSource | None) -> AnySource:
    if (url is None) is (rsync is None):
        raise ConfigInvalid(
            "depot sync: expected one of --from and --rsync",
            hint="Give the URL of a depot that offers its catalogue, or a folder at a host with SSH",
        )
    if rsync is not None:
        if user is not None or ca is not None:
            raise ConfigInvalid("--rsync: expected neither --user nor --ca with it", hint="SSH has a key for that")
        return rsync
    assert url is not None
    # Check the other options before asking for a password.
    api.Source(url=url, ca=ca)
    login = None
    if user is not None:
        password = password_of(user, DEPOT_PASSWORD_VARIABLE, f"Password of {user} at the source: ")
        login = api.Login(username=user, password=password)
    source = api.Source(url=url, login=login, ca=ca)
    if source.by == "http":
        # Refused without a login too: the expected digests come over the same connection.
        said = "what the images are to be" if login is None else "the password, and what the images are to be,"
        say(f"note: by http {said} crosses the line in clear text: take https, or a path that is trusted")
    return source


def _print_stopping(first: bool) -> None:
    if first:
        say("interrupted: what is verified is kept; the same command continues after it")


def _row(one: api.SyncedImage) -> dict[str, object]:
    synced = one.synced
    if synced is None:
        outcome, held = "interrupted" if one.is_interrupted else "failed", one.held
        return {
            "name": one.name,
            "outcome": outcome,
            "kind": one.kind,
            "error": one.error,
            "hint": one.hint,
            "here_bytes": 0 if held is None else held.here_bytes,
            "verified_bytes": 0 if held is None else held.verified_bytes,
        }
    return {
        "name": one.name,
        "outcome": "proven",
        "size_bytes": synced.image.size_bytes,
        "sha512": synced.image.sha512,
        "replaced_sha512": synced.replaced_sha512 or None,
        "path": str(synced.image.path),
        "proven_at": synced.image.proven_at.isoformat(),
        "came_bytes": synced.came_bytes,
        "kept_bytes": synced.kept_bytes,
        "wrong_chunks": synced.wrong_chunks,
        "breaks": synced.breaks,
        "seconds": round(synced.seconds, 3),
        "copying_s": round(synced.copying_s, 3),
        "by": synced.by,
    }


def _print(result: api.SyncResult) -> None:
    for one in result.images:
        echo(outcome_line(one))
    if not result.images and result.exit_code is not ExitCode.INTERRUPTED:
        echo("the source offers no image; one that is new there is read before it is offered")
