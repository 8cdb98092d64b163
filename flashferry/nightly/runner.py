"""Run a night from its description: read `nightly.yaml`, run the steps, store the result and prune old folders."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import make_private_directory
from flashferry.nightly.artefacts.folder import check_writable, write_artefacts
from flashferry.nightly.backend import LabBackend, Progress, Topology
from flashferry.nightly.booting import ImageChoice, chosen
from flashferry.nightly.deadline import Clock, StoppableClock, SystemClock
from flashferry.nightly.description.logins import TRIED_TITLE, controller_access, node_login
from flashferry.nightly.description.reading import load_description
from flashferry.nightly.description.values import NightDescription
from flashferry.nightly.history import keep, past
from flashferry.nightly.lab_notes import is_title
from flashferry.nightly.night import Fault, Night, NightFault, StepName
from flashferry.nightly.settings import NodeLogin
from flashferry.nightly.step_log import Watcher
from flashferry.nightly.steps import Files, NightParts, run_night
from flashferry.nightly.thresholds import judge_night
from flashferry.nightly.topology.made import made_topology
from flashferry.store.nights import PastSeriesNight


@dataclass(frozen=True, slots=True, kw_only=True)
class NightResult:
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
    _check_state(state)
    check_writable(description.artefacts.folder)
    login = node_login(description)
    boots = chosen(image or ImageChoice(), _topology(description, TRIED_TITLE, login), on_progress=on_progress)
    clock = StoppableClock(SystemClock(), is_stopped)
    results = _ResultStore(description, state)
    with open_backend(description, clock) as backend:
        night = run_night(
            NightParts(
                backend=backend,
                topology=lambda title: _topology(description, title, login),
                settings=description.settings(login),
                folder=locks_of(state),
                judge=lambda night: judge_night(night, results.before(night), description.thresholds),
                write=results.write,
                watcher=watcher,
                clock=clock,
                boots=boots,
                on_progress=on_progress,
            )
        )
    prune(description.artefacts.folder, description.artefacts.keep_nights)
    return NightResult(night=night, folder=results.folder)


def _check_state(state: Path) -> None:
    """Make the state folder; a night that cannot be stored does not start."""
    try:
        make_private_directory(state)
        make_private_directory(locks_of(state))
    except OSError as error:
        raise ConfigInvalid(
            f"state directory {state}: expected one that can be written, found: {error.strerror or error}",
            hint="Give a writable one with --state-dir",
        ) from None


def _topology(description: NightDescription, title: str, login: NodeLogin) -> Topology:
    return made_topology(description, title=title, login=login)


class _ResultStore:
    """Write a night's folder and its history record; both can be repeated."""

    def __init__(self, description: NightDescription, state: Path) -> None:
        self._root, self._state = description.artefacts.folder, state
        self.folder: Path | None = None

    def before(self, night: Night) -> Sequence[PastSeriesNight]:
        """Return the results of earlier nights.

        Raises:
            NightFault: `LAB`: the history cannot be read.
        """
        try:
            return past(self._state, before=night.night_id)
        except ConfigInvalid as error:
            # This host's own: no failure of the product's.
            hint = error.hint or "Check --state-dir"
            raise NightFault(error.message, fault=Fault.LAB, step=StepName.JUDGE, hint=hint) from None

    def write(self, night: Night, files: Files) -> None:
        """Write the folder and store the night."""
        self.folder = write_artefacts(night, self._root, files, self.before(night))
        keep(self._state, night)


@contextmanager
def open_backend(description: NightDescription, clock: Clock | None = None) -> Iterator[LabBackend]:
    """Open the backend of a description for a block; no request is sent yet.

    Raises:
        ConfigInvalid: The controller's login or certificate is missing.
    """
    from flashferry.nightly.cml.backend import CmlBackend

    with CmlBackend(controller_access(description.controller), clock=clock) as backend:
        yield backend


def prune(root: Path, keep_nights: int) -> tuple[str, ...]:
    """Remove the folders of all but the newest `keep_nights` nights, and return their names."""
    try:
        nights = sorted(path.name for path in root.iterdir() if is_title(path.name) and _is_folder(path))
    except OSError:
        return ()
    gone = nights[:-keep_nights]
    for name in gone:
        shutil.rmtree(root / name, ignore_errors=True)
    return tuple(gone)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
