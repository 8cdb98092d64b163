"""`flashferry depot list` and `verify`: the images of the catalogue, and whether their files are still intact."""

from __future__ import annotations

from collections.abc import Callable

from rich.progress import Progress, TaskID

from flashferry import api
from flashferry.cli.depot_sync import ImagesArgument, part_in_words
from flashferry.cli.images import file_bars
from flashferry.cli.options.shared import CatalogueOption, JsonOption, StateOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import echo, finish, say
from flashferry.cli.view.layout import ShownTable, console, is_wide, line
from flashferry.core.units import size
from flashferry.depot.sync.filling import SyncStopped
from flashferry.model.exit_codes import ExitCode


def list_held(catalogue: CatalogueOption = None, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """List the images of the catalogue, incomplete ones too. An image is read only if its file changed."""
    found = api.depot_list(catalogue=catalogue, state=state_dir)
    content: dict[str, object] = {"images": [_row(one) for one in found]}
    finish("depot-list", ExitCode.OK, content, as_json=json, human=lambda: _print(found))


def verify(
    images: ImagesArgument = None,
    catalogue: CatalogueOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Read images again and compare them with their digests; a damaged one loses its name.

    Its intact parts are kept under a hidden name: the next sync fetches only the damaged ones.
    """
    with stop_on_signals(announce=_print_stopping) as stop, file_bars() as bars:
        reading = _Reading(bars, stop.is_set)
        result = api.depot_verify(tuple(images or ()), catalogue=catalogue, state=state_dir, on_read=reading)
    content: dict[str, object] = {"images": [_row(one) for one in result.images]}
    finish("depot-verify", result.exit_code, content, as_json=json, human=lambda: _print(result.images))


class _Reading:
    """Shows the progress of reading, and stops it if the operator asks for that."""

    def __init__(self, bars: Progress, interrupted: Callable[[], bool]) -> None:
        self._bars, self._interrupted = bars, interrupted
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, name: str, done_bytes: int, size_bytes: int) -> None:
        """Show the progress of one image.

        Raises:
            SyncStopped: The operator stopped the command.
        """
        if self._interrupted():
            raise SyncStopped(
                "interrupted: files that were not read are not reported", hint="Run the same command again"
            )
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=size_bytes)
        self._bars.update(self._tasks[name], completed=done_bytes, total=size_bytes)


def _print_stopping(first: bool) -> None:
    if first:
        say("interrupted: ending at once; what was not read is as it was")


def _row(one: api.Held) -> dict[str, object]:
    return {
        "name": one.name,
        "state": one.state.value,
        "size_bytes": one.size_bytes,
        "sha512": one.sha512,
        "verified_bytes": one.verified_bytes,
        "here_bytes": one.here_bytes,
        "proven_at": None if one.proven_at is None else one.proven_at.isoformat(),
        "source": one.source,
        "bad_chunks": list(one.bad_chunks),
    }


def _print(found: tuple[api.Held, ...]) -> None:
    if not found:
        echo("the catalogue is empty; 'flashferry depot sync' fills it")
        return
    is_full = is_wide()
    table = ShownTable(box=None, pad_edge=False, header_style="bold")
    for column in _cells(found[0], is_full=is_full):
        is_right, is_name = column in {"bytes", "size"}, column == "image"
        table.add_column(column, justify="right" if is_right else "left", overflow="fold", no_wrap=not is_name)
    for one in found:
        table.add_row(*_cells(one, is_full=is_full).values())
    console().print(table)
    for one in () if is_full else found:
        if detail := _detail(one):
            line(one.name, detail)


def _cells(one: api.Held, *, is_full: bool) -> dict[str, str]:
    """Return the table cells of an image. On a narrow terminal its details go to a line below the table."""
    sha512 = one.sha512[:16] or "-"
    if not is_full:
        return {"image": one.name, "size": size(one.size_bytes), "state": one.state.value, "sha512": sha512}
    at = "-" if one.proven_at is None else f"{one.proven_at:%Y-%m-%d %H:%M} UTC"
    state = ": ".join(filter(None, (one.state.value, _detail(one))))
    return {"image": one.name, "bytes": f"{one.size_bytes:,}", "state": state, "proven": at, "sha512": sha512}


def _detail(one: api.Held) -> str:
    if one.bad_chunks:
        chunks = ", ".join(map(str, one.bad_chunks[:8])) + (", ..." if len(one.bad_chunks) > 8 else "")
        return f"chunks {chunks}; its name is taken away"
    return part_in_words(one) if one.state is api.HeldState.PARTIAL else ""
