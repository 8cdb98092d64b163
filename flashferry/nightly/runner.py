"""Run a night from its description: read `nightly.yaml`, run the steps, store the result and prune old folders."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import make_private_directory
from flashferry.nightly.artefacts.folder import check_writable, write_artefacts
from flashferry.nightly.backend import Clock, Progress, StoppableClock, SystemClock
from flashferry.nightly.booting import ImageChoice, chosen
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.description.check import TRIED_TITLE
from flashferry.nightly.description.logins import controller_access, node_login
from flashferry.nightly.description.reading import load_description
from flashferry.nightly.description.values import NightDescription
from flashferry.nightly.history import keep, past
from flashferry.nightly.lab_notes import is_title
from flashferry.nightly.night import Fault, Night, NightFault, StepName
from flashferry.nightly.step_log import Watcher
from flashferry.nightly.steps import NightParts, run_night
from flashferry.nightly.thresholds import judge_night
from flashferry.nightly.topology.made import made_topology
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


class NightResult(Struct, frozen=True, kw_only=True):
    """A finished night and its folder; None if the folder could not be written."""

    night: Night
    folder: Path | None


def locks_of(state: Path) -> Path:
    """Return the folder below the state folder that holds the locks and scratch files of nights."""
    return state / "nightly"


def play_night(
    file: Path,
    *,
    state: Path,
    watcher: Watcher,
    is_stopped: Callable[[], bool],
    image: ImageChoice | None = None,
    on_progress: Progress = lambda done, size: None,  # noqa: ARG005 -- the signature
) -> NightResult:
    """Run the night that a description defines.

    Args:
        file: The description.
        state: The state folder.
        watcher: Called with each step.
        is_stopped: Whether the operator asked to stop.
        image: What routers boot instead of what the description says.
        on_progress: Called with progress of hashing a disk image, then of its upload.

    Raises:
        ConfigInvalid: The description, a login, an image or the topology is wrong, or a folder cannot be written. No
            lab was made.
        NightFault: Another night runs on this host.
    """
    description = load_description(file)
    results = ResultStore(description.artefacts.folder, description.thresholds, state)
    results.check(locks_of(state))
    login = node_login(description)
    topology = partial(made_topology, description, login=login)
    boots = chosen(image or ImageChoice(), topology(title=TRIED_TITLE), on_progress=on_progress)
    clock = StoppableClock(SystemClock(), is_stopped)
    with open_backend(description, clock) as backend:
        night = run_night(
            NightParts(
                backend=backend,
                topology=lambda title: topology(title=title),
                settings=description.settings(login),
                folder=locks_of(state),
                judge=results.judge,
                write=results.write,
                watcher=watcher,
                clock=clock,
                boots=boots,
                on_progress=on_progress,
            )
        )
    prune(description.artefacts.folder, description.artefacts.keep_nights)
    return NightResult(night=night, folder=results.folder)


@contextmanager
def open_backend(description: NightDescription, clock: Clock | None = None) -> Iterator[CmlBackend]:
    """Open the backend of a description for a block; no request is sent yet.

    Raises:
        ConfigInvalid: The controller's login or certificate is missing.
    """
    with CmlBackend(controller_access(description.controller), clock=clock) as backend:
        yield backend
