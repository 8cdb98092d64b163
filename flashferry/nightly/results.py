"""Store the results of nights: rate a night against the history, write its folder and record, prune old folders."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import make_private_directory
from flashferry.nightly.artefacts.folder import check_writable, write_artefacts
from flashferry.nightly.history import keep, past
from flashferry.nightly.lab_notes import is_title
from flashferry.nightly.night import Fault, Night, NightFault, StepName
from flashferry.nightly.thresholds import judge_night
from flashferry.reports.thresholds import Threshold


class ResultStore:
    """Store one night's results; every method can be repeated.

    Args:
        root: The parent folder of nights' folders.
        thresholds: What tuned copies are compared with.
        state: The state folder, which has the history.

    Attributes:
        folder: The night's folder; None before it is written.
    """

    def __init__(self, root: Path, thresholds: Sequence[Threshold], state: Path) -> None:
        self._root, self._thresholds, self._state = root, thresholds, state
        self.folder: Path | None = None

    def check(self, *folders: Path) -> None:
        """Make the state folder and some more, and check that the artefacts can be written.

        Raises:
            ConfigInvalid: They cannot: a night that cannot be stored does not start.
        """
        try:
            for folder in (self._state, *folders):
                make_private_directory(folder)
        except OSError as error:
            raise ConfigInvalid(
                f"state directory {self._state}: expected one that can be written, found: {error.strerror or error}",
                hint="Give a writable one with --state-dir",
            ) from None
        check_writable(self._root)

    def judge(self, night: Night) -> Night:
        """Return the night with its judgements.

        Raises:
            NightFault: `LAB`: the history cannot be read.
        """
        try:
            history = past(self._state, before=night.night_id)
        except ConfigInvalid as error:
            # This host's own: no failure of the product's.
            hint = error.hint or "Check --state-dir"
            raise NightFault(error.message, fault=Fault.LAB, step=StepName.JUDGE, hint=hint) from None
        return judge_night(night, history, self._thresholds)

    def write(self, night: Night, files: Mapping[str, bytes]) -> None:
        """Write the night's folder and its record.

        Raises:
            ConfigInvalid: They cannot be written, or the history cannot be read.
        """
        self.folder = write_artefacts(night, self._root, files, past(self._state, before=night.night_id))
        keep(self._state, night)


def prune(root: Path, keep_nights: int) -> tuple[str, ...]:
    """Remove the folders of all but the newest `keep_nights` nights, and return their names."""
    try:
        nights = sorted(
            one.name for one in root.iterdir() if is_title(one.name) and one.is_dir() and not one.is_symlink()
        )
    except OSError:
        return ()
    gone = nights[:-keep_nights]
    for name in gone:
        shutil.rmtree(root / name, ignore_errors=True)
    return tuple(gone)
