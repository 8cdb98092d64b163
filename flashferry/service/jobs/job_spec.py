"""What is wanted of a job, and the command line that it comes to. Pure.

Which sites a job may touch is said to its verb too (`--filter site=…`): whoever may operate one site alone gets no
device of another, whatever names he gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from flashferry.core.apart.folder import JobFolder
from flashferry.core.errors import ConfigInvalid
from flashferry.model.policy import Chosen, as_options
from flashferry.service.settings import RunSettings
from flashferry.store.service.jobs import JobKind

_IMAGE = re.compile(r"[A-Za-z0-9][\w.+-]{0,254}", re.ASCII)
_SITE = "site"
_WITH_EVENTS = frozenset({JobKind.STAGE, JobKind.RESUME, JobKind.PROBE})
_OF_A_FLEET = frozenset({JobKind.STAGE, JobKind.CHECK, JobKind.PROBE, JobKind.DRY_RUN, JobKind.PLAN})
SELECTS = frozenset({JobKind.CHECK, JobKind.PROBE, JobKind.DRY_RUN, JobKind.PLAN})
"""Kinds whose devices are selected by name, group, filter and site; without a plan, which has its own."""
_VERBS = {
    JobKind.RESUME: ("stage",),
    JobKind.DRY_RUN: ("stage", "--dry-run"),
    JobKind.NIGHTLY: ("nightly", "run"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Which devices of the inventory a job is about; empty: all of its sites.

    Attributes:
        hosts: Names, any of them.
        groups: Groups, any of them.
        filters: `key=value`, as `--filter` takes it; not `site`, for which there are the job's sites.
    """

    hosts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWish:
    """What somebody wants to have run.

    Attributes:
        kind: What.
        digest: The plan to carry out: for `stage`, an approved one; for `dry-run`, any. None for others.
        run_id: The run to go on with, for `resume`; the one whose devices are restored, for `recover`.
        devices: Which devices, for `check`, `probe`, `plan` and a `dry-run` of an image.
        image: Name of an image in the folder of images; empty for none.
        rules: Image rules for a `plan` without an image, as the text of their file; empty: those of the inventory.
        file: The description of the night, for `nightly`.
        sites: Sites that it may touch; none: all, which takes a role everywhere. A plan brings its own.
        chosen: Settings of its run, by name; where a plan is carried out, besides what that says.
        words: More words behind the verb, made of values that the caller has checked.
        not_before: It waits until then; None: it begins when its turn comes.
        until: By when its run is to have ended, which its verb is told; None: nobody said.
        reason: Why, in the words of who asks.
        parent: The dead job that it cleans up after or goes on with.
        attempt: Which try of that it is, from 1.
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


def words_of(wish: JobWish, settings: RunSettings, state: Path, folder: JobFolder) -> tuple[str, ...]:
    """Return the command line of a job behind `flashferry`.

    Args:
        wish: What is wanted.
        settings: How the service begins runs.
        state: The state folder.
        folder: The job's own.

    Raises:
        ConfigInvalid: The wish lacks something or has something that is none, or the service knows no inventory.
    """
    check_wish(wish)
    return tuple(_words(wish, settings, state, folder))


def check_wish(wish: JobWish) -> None:
    """Check that a wish has what its kind needs, and names nothing that could be taken for something else.

    Raises:
        ConfigInvalid: It does not.
    """
    for what, is_there in (
        ("the digest of a plan", wish.kind is not JobKind.STAGE or wish.digest),
        ("a run", wish.kind not in (JobKind.RESUME, JobKind.RECOVER) or wish.run_id),
        ("the description of a night", wish.kind is not JobKind.NIGHTLY or wish.file is not None),
        ("an image or a plan", wish.kind is not JobKind.DRY_RUN or wish.image or wish.digest),
    ):
        if not is_there:
            raise ConfigInvalid(f"{wish.kind}: expected {what}, found none", hint="Name it in the request")
    if wish.image and not _IMAGE.fullmatch(wish.image):
        raise ConfigInvalid(
            f"image {wish.image!r}: expected the name of a file in the folder of images, found something else",
            hint="The list of images has those that there are: /images, or by the API GET /api/v1/images",
        )
    for one in wish.devices.filters:
        key, equals, _ = one.partition("=")
        if not equals or key.strip().lower() == _SITE:
            raise ConfigInvalid(
                f"filter {one!r}: expected key=value with another key than 'site'", hint="Give sites as 'sites'"
            )


def _words(wish: JobWish, settings: RunSettings, state: Path, folder: JobFolder) -> Iterator[str]:
    kind = wish.kind
    yield from _VERBS.get(kind, (kind.value,))
    if kind is JobKind.NIGHTLY:
        yield from ("--state-dir", str(state), "--json", *wish.words, "--", str(wish.file))
        return
    yield from _subject(wish, settings.images or state / "images", folder)
    if kind in _OF_A_FLEET:
        yield from ("--inventory", _inventory(settings))
    elif settings.inventory is not None:
        yield from ("--inventory", settings.inventory)
    if kind in SELECTS and wish.digest is None:
        yield from _selected(wish)
    if kind in _WITH_EVENTS:
        yield from ("--events", str(folder.events))
    yield from ("--state-dir", str(state), "--json")
    is_recovery = kind is JobKind.RECOVER and settings.recover_options is not None
    yield from (settings.recover_options or ()) if is_recovery else settings.options
    yield from (*as_options(wish.chosen), *wish.words)
    if wish.until is not None:
        yield from ("--until", wish.until.astimezone(UTC).isoformat(timespec="seconds"))


def _subject(wish: JobWish, images: Path, folder: JobFolder) -> Iterator[str]:
    """Yield what a job is about: a plan, a run, an image, or where it is to put what it makes."""
    if wish.digest is not None and wish.kind in (JobKind.STAGE, JobKind.DRY_RUN):
        yield from ("--plan", str(folder.plan))
    elif wish.kind is JobKind.RESUME:
        yield from ("--resume", str(wish.run_id))
    elif wish.kind is JobKind.RECOVER:
        # What others left is theirs to restore: they may be at work on it, at sites that nobody here operates.
        yield from ("--run", str(wish.run_id))
    elif wish.image:
        yield from ("--image", str(images / wish.image))
    elif wish.rules:
        yield from ("--image-rules", str(folder.rules))
    if wish.kind is JobKind.PLAN:
        yield from ("--output", str(folder.plan))


def _selected(wish: JobWish) -> Iterator[str]:
    for option, values in (
        ("--host", wish.devices.hosts),
        ("--group", wish.devices.groups),
        ("--filter", (*wish.devices.filters, *(f"{_SITE}={site}" for site in wish.sites))),
    ):
        # With `=`, for a name may begin with a dash.
        yield from (f"{option}={value}" for value in values)


def _inventory(settings: RunSettings) -> str:
    if settings.inventory is None:
        raise ConfigInvalid(
            "the service knows no inventory, which every look at devices needs",
            hint="Name it in service.toml: inventory under [runs]",
        )
    return settings.inventory
