"""Probing the path from a source to this host's depot: what is found is kept, and can be shown again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.options import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import make_private_directory

if TYPE_CHECKING:
    from flashferry.depot.probing.findings import PathFound, ProbeAsked
    from flashferry.store.bulk_paths import BulkPath


def probe_depot_path(
    asked: ProbeAsked,
    *,
    state: Path | str | None = None,
    tell: Callable[[str], None] = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> PathFound:
    """Measure the path from a source to here, and keep the best way of copying for it.

    Args:
        asked: What is asked.
        state: Folder of the journal, where it is kept; None: where the command line has it.
        tell: Takes a line of what is going on.
        interrupted: Whether to break off; then nothing is kept.

    Raises:
        ConfigInvalid: What was asked makes no sense, or the source cannot be reached or used.
    """
    from flashferry.depot.probing.path import probe_path
    from flashferry.store.bulk_paths import BulkPaths

    folder = state_folder(state)
    # A file that cannot be read is told before an hour of copies, not behind it.
    BulkPaths.read(folder)
    found = probe_path(asked, tell=tell, interrupted=interrupted)
    kept = found.kept()
    if found.is_whole and kept is not None:
        try:
            make_private_directory(folder)
            BulkPaths.read(folder).keep(kept)
        except OSError as error:
            raise ConfigInvalid(
                f"{folder}: what was found cannot be kept there ({error.strerror})",
                hint="Make room there, or give another folder with --state-dir",
            ) from None
    return found


def known_depot_paths(state: Path | str | None = None) -> tuple[BulkPath, ...]:
    """Return what earlier probes have kept, by source.

    Raises:
        ConfigInvalid: The file cannot be read.
    """
    from flashferry.store.bulk_paths import BulkPaths

    return BulkPaths.read(state_folder(state)).all
