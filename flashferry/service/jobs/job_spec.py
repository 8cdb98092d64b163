"""Specification of a job and the command line made of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, field

from flashferry.core.errors import ConfigInvalid
from flashferry.core.jobs import JobFolder
from flashferry.model.policy import Chosen, as_options
from flashferry.service.settings import RunSettings
from flashferry.store.service.jobs import JobKind

_IMAGE = re.compile(r"[A-Za-z0-9][\w.+-]{0,254}", re.ASCII)
_SITE = "site"
_WITH_EVENTS = frozenset({JobKind.STAGE, JobKind.RESUME, JobKind.PROBE})
SELECTS = frozenset({JobKind.CHECK, JobKind.PROBE, JobKind.DRY_RUN, JobKind.READY, JobKind.PLAN})
"""Kinds whose devices are selected by name, group, filter and site."""
_OF_A_FLEET = SELECTS | {JobKind.STAGE}

_VERBS = {
    JobKind.RESUME: ("stage",),
    JobKind.DRY_RUN: ("stage", "--dry-run"),
    JobKind.NIGHTLY: ("nightly", "run"),
}


class Devices(Struct, frozen=True, kw_only=True):
    """Devices of a job, selected from the inventory; empty: all of the job's sites.

    Attributes:
        filters: `key=value`, as `--filter` takes it; not `site`.
    """

    hosts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()


class JobSpec(Struct, frozen=True, kw_only=True):
    """Specification of a job.

    Attributes:
        digest: The plan: approved for `stage`, any for `dry-run`; None: the job has no plan.
        run_id: Run to resume or to recover; None: the job makes a run of its own, or none.
        image: Name in the image folder; empty: none.
        rules: Image rules of a `plan` without an image, as text; empty: those of the inventory.
        sites: Sites that the job can touch; empty: all. A plan brings its own.
        words: Further command-line options, with checked values.
        not_before: Earliest start; None: as soon as its turn comes.
        until: Latest end of its run; None: no limit.
        parent: The dead job that this one follows up; None: it follows up none.
    """

    kind: JobKind
    digest: str | None = None
    run_id: str | None = None
    devices: Devices = field(default_factory=Devices)
    image: str = ""
    rules: str = ""
    file: Path | None = None
    sites: tuple[str, ...] = ()
    chosen: Chosen = field(default_factory=dict)
    words: tuple[str, ...] = ()
    not_before: datetime | None = None
    until: datetime | None = None
    reason: str = ""
    parent: str | None = None
    attempt: int = 0


def command_line(spec: JobSpec, settings: RunSettings, state: Path, folder: JobFolder) -> tuple[str, ...]:
    """Return the command line of a job after `flashferry`.

    Raises:
        ConfigInvalid: The specification is not valid, or no inventory is configured.
    """
    check_spec(spec)
    return tuple(_words(spec, settings, state, folder))


def check_spec(spec: JobSpec) -> None:
    """Check that a job has what its kind needs. Raises `ConfigInvalid`."""
    for what, is_there in (
        ("the digest of a plan", spec.kind is not JobKind.STAGE or spec.digest),
        ("a run", spec.kind not in (JobKind.RESUME, JobKind.RECOVER) or spec.run_id),
        ("the description of a night", spec.kind is not JobKind.NIGHTLY or spec.file is not None),
        ("an image or a plan", spec.kind is not JobKind.DRY_RUN or spec.image or spec.digest),
    ):
        if not is_there:
            raise ConfigInvalid(f"{spec.kind}: expected {what}, found none", hint="Name it in the request")
    if spec.image and not _IMAGE.fullmatch(spec.image):
        raise ConfigInvalid(
            f"image {spec.image!r}: expected the name of a file in the folder of images, found something else",
            hint="See the list of images",
        )
    for one in spec.devices.filters:
        key, equals, _ = one.partition("=")
        if not equals or key.strip().lower() == _SITE:
            raise ConfigInvalid(
                f"filter {one!r}: expected key=value with another key than 'site'", hint="Give sites as 'sites'"
            )


def _words(spec: JobSpec, settings: RunSettings, state: Path, folder: JobFolder) -> Iterator[str]:
    kind = spec.kind
    yield from _VERBS.get(kind, (kind.value,))
    if kind is JobKind.NIGHTLY:
        yield from ("--state-dir", str(state), "--json", *spec.words, "--", str(spec.file))
        return
    yield from _subject(spec, settings.images or state / "images", folder)
    if kind in _OF_A_FLEET:
        yield from ("--inventory", _inventory(settings))
    elif settings.inventory is not None:
        yield from ("--inventory", settings.inventory)
    if kind in SELECTS and spec.digest is None:
        yield from _selected(spec)
    if kind in _WITH_EVENTS:
        yield from ("--events", str(folder.events))
    yield from ("--state-dir", str(state), "--json")
    is_recovery = kind is JobKind.RECOVER and settings.recover_options is not None
    yield from (settings.recover_options or ()) if is_recovery else settings.options
    yield from (*as_options(spec.chosen), *spec.words)
    if spec.until is not None:
        yield from ("--until", spec.until.astimezone(UTC).isoformat(timespec="seconds"))


def _subject(spec: JobSpec, images: Path, folder: JobFolder) -> Iterator[str]:
    """Yield the options for a job's plan, run or image, and for its output."""
    if spec.digest is not None and spec.kind in (JobKind.STAGE, JobKind.DRY_RUN):
        yield from ("--plan", str(folder.plan))
    elif spec.kind is JobKind.RESUME:
        yield from ("--resume", str(spec.run_id))
    elif spec.kind is JobKind.RECOVER:
        # Devices of other runs are not touched: their runs may be restoring them.
        yield from ("--run", str(spec.run_id))
    elif spec.image:
        yield from ("--image", str(images / spec.image))
    elif spec.rules:
        yield from ("--image-rules", str(folder.rules))
    if spec.kind is JobKind.PLAN:
        yield from ("--output", str(folder.plan))


def _selected(spec: JobSpec) -> Iterator[str]:
    for option, values in (
        ("--host", spec.devices.hosts),
        ("--group", spec.devices.groups),
        ("--filter", (*spec.devices.filters, *(f"{_SITE}={site}" for site in spec.sites))),
    ):
        # With `=`, because a name can start with a dash.
        yield from (f"{option}={value}" for value in values)


def _inventory(settings: RunSettings) -> str:
    if settings.inventory is None:
        raise ConfigInvalid(
            "no inventory is configured, which jobs on devices need",
            hint="Name it in service.toml: inventory under [runs]",
        )
    return settings.inventory
