"""Where state is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from inventory.access import state_directory

if TYPE_CHECKING:
    from flashferry.store.control_requests import Origin
    from flashferry.store.journal import Journal


def state_folder(state: Path | str | None) -> Path:
    """Return the folder of journal and history: the one given, else where the command line has it."""
    return state_directory(None if state is None else Path(state))


@contextmanager
def journal_in(state: Journal | Path | str | None, origin: Origin | None = None) -> Iterator[Journal]:
    """Yield a journal: one that is open stays so, another is opened for as long as the block runs.

    Args:
        state: The journal, or its folder; None: where the command line has it.
        origin: From where the runs come that are begun with it, where it is opened here; None: nobody says.

    Raises:
        JournalUnusable: It cannot be opened, or is of a later release.
    """
    from flashferry.store.journal import Journal

    if isinstance(state, Journal):
        yield state
        return
    with Journal(state_folder(state), origin) as journal:
        yield journal
