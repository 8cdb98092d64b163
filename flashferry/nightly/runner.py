"""Run a night from its description: read `nightly.yaml`, run the steps, store the result and prune old folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from flashferry.nightly.backend import Progress
from flashferry.nightly.booting import ImageChoice, chosen
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.deadline import Clock, StoppableClock, SystemClock
from flashferry.nightly.description.check import TRIED_TITLE
from flashferry.nightly.description.logins import controller_access, node_login
from flashferry.nightly.description.reading import load_description
from flashferry.nightly.description.values import NightDescription
from flashferry.nightly.night import Night
from flashferry.nightly.results import ResultStore, prune
from flashferry.nightly.step_log import Watcher
from flashferry.nightly.steps import NightParts, run_night
from flashferry.nightly.topology.made import made_topology


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
