"""A depot's image catalogue: sync it, list it, verify it, and measure the path to its source."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet_options import state_folder
from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind, kind_of
from flashferry.core.state_folder import make_private_directory
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.depot.catalogue.part import Held, HeldState
from flashferry.depot.options import catalogue_in
from flashferry.depot.probing.path import probe_path
from flashferry.depot.sync.filling import OnProgress, SourceChanged, SourceUnreachable, SyncStopped, silent
from flashferry.depot.sync.syncing import GIVE_UP_S, Offered, Synced, offered_as, offered_by, patiently, sync_image
from flashferry.images.image import published_digests
from flashferry.model.exit_codes import ExitCode
from flashferry.store.probe_choices import BulkPaths

if TYPE_CHECKING:
    from flashferry.depot.probing.findings import PathFound, ProbeAsked
    from flashferry.depot.sync.syncing import AnySource
    from flashferry.store.probe_choices import BulkPath

_MOST_CHANGES = 3
"""How often an image may change at the source during its fetch before that is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """Images to fetch into a catalogue.

    Attributes:
        source: Where images come from.
        images: Their names; empty: all images of the source.
        sha512: Published SHA-512 of the single image; an image with another digest is not fetched; None: the source's
            digest alone is checked.
        catalogue: The catalogue's folder; None: the one in the state folder.
        give_up_s: Seconds without data after which a broken connection is given up, >= 0.

    Raises:
        ConfigInvalid: The digest is invalid, or given for several images.
    """

    source: AnySource
    images: tuple[str, ...] = ()
    sha512: str | None = None
    catalogue: Path | None = None
    give_up_s: float = GIVE_UP_S

    def __post_init__(self) -> None:
        """Check the values against each other."""
        published_digests(sha512=self.sha512)
        if self.sha512 is not None and len(self.images) != 1:
            raise ConfigInvalid(
                f"--sha512: expected one image with it, found {len(self.images)}", hint="Name the image that it is of"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedImage:
    """Result of syncing an image.

    Attributes:
        name: The image's name.
        synced: What was done; None if the image is not verified.
        kind: Kind of the error; empty if there is none.
        error: The error as a sentence.
        hint: What to do about it, or None.
        held: The incomplete image in the catalogue; None if there is nothing of it, or the image is verified.
    """

    name: str
    synced: Synced | None = None
    kind: str = ""
    error: str = ""
    hint: str | None = None
    held: Held | None = None

    @property
    def is_interrupted(self) -> bool:
        """Whether the operator stopped the sync during this image."""
        return self.kind == Kind.SYNC_STOPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """Result of a sync.

    Attributes:
        images: Each image that was started, in the order of selection.
        exit_code: OK: all are verified; DEVICES_FAILED: some are not; INTERRUPTED: the operator stopped the sync.
    """

    images: tuple[SyncedImage, ...]
    exit_code: ExitCode


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """Result of verifying images.

    Attributes:
        images: The state of each.
        exit_code: OK: none is damaged or missing; DEVICES_FAILED: some are.
    """

    images: tuple[Held, ...]
    exit_code: ExitCode


def depot_sync(
    request: SyncRequest,
    *,
    state: Path | str | None = None,
    on_progress: OnProgress = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> SyncResult:
    """Fetch images of a source into a catalogue. An image gets its name only once every byte is verified.

    Args:
        request: What to fetch.
        state: The state folder, used if no catalogue is named; None: the default.
        on_progress: Receives progress.
        interrupted: Whether to stop: verified chunks are kept.

    Returns:
        The result of each image, with its error if it failed.

    Raises:
        SourceUnreachable: The source does not answer, or no longer answers in time.
        SourceRefused: The source refuses the login, or its identity is wrong.
        SourceWrong: The source's list of images is malformed.
        ConfigInvalid: The source does not offer a selected image.
    """
    catalogue = CatalogueFolder(catalogue_in(state_folder(state), request.catalogue))
    done: list[SyncedImage] = []
    code = ExitCode.OK
    try:
        selected = _selected(request, on_progress, interrupted)
    except SyncStopped:
        return SyncResult(images=(), exit_code=ExitCode.INTERRUPTED)
    for one in selected:
        try:
            synced = _fetched(request, one, catalogue, on_progress, interrupted)
            done.append(SyncedImage(name=one.name, synced=synced))
        except FlashferryError as error:
            done.append(_failed(one.name, error, catalogue))
            if isinstance(error, SyncStopped):
                code = ExitCode.INTERRUPTED
            code = code or ExitCode.DEVICES_FAILED
            if isinstance(error, SyncStopped | SourceUnreachable):
                # The source is down; the next image would wait as long again.
                break
    return SyncResult(images=tuple(done), exit_code=code)


def depot_list(*, catalogue: Path | None = None, state: Path | str | None = None) -> tuple[Held, ...]:
    """Return the images of a catalogue. An image is read only if its file changed since it was verified.

    Args:
        catalogue: The folder; None: the one in the state folder.
        state: The state folder; None: the default.

    Raises:
        ConfigInvalid: The catalogue cannot be read.
    """
    return CatalogueFolder(catalogue_in(state_folder(state), catalogue)).list()


def depot_verify(
    images: tuple[str, ...] = (),
    *,
    catalogue: Path | None = None,
    state: Path | str | None = None,
    on_read: Callable[[str, int, int], None] | None = None,
) -> VerifyResult:
    """Read images of a catalogue again. A damaged one loses its name; the next sync fetches its damaged chunks.

    Args:
        images: Their names; empty: all.
        catalogue: The folder; None: the one in the state folder.
        state: The state folder; None: the default.
        on_read: Receives name, bytes read and size; an exception from it ends the reading.

    Raises:
        CatalogueBusy: Another process is filling the catalogue.
        ConfigInvalid: An image is not in the catalogue, or the catalogue cannot be read or written.
    """
    found = CatalogueFolder(catalogue_in(state_folder(state), catalogue)).verify(images, on_read=on_read)
    is_bad = any(one.state in {HeldState.DAMAGED, HeldState.MISSING} for one in found)
    return VerifyResult(images=found, exit_code=ExitCode.DEVICES_FAILED if is_bad else ExitCode.OK)


def _failed(name: str, error: FlashferryError, catalogue: CatalogueFolder) -> SyncedImage:
    held = None
    with suppress(FlashferryError):
        held = catalogue.incomplete(name)
    return SyncedImage(name=name, kind=kind_of(error), error=error.message, hint=error.hint, held=held)


def _selected(request: SyncRequest, on_progress: OnProgress, interrupted: Callable[[], bool]) -> tuple[Offered, ...]:
    source, names = request.source, tuple(dict.fromkeys(request.images))

    def ask() -> tuple[Offered, ...]:
        if names and source.by == "rsync":
            # An rsync folder may have no list of its images.
            return tuple(offered_as(source, name, interrupted=interrupted) for name in names)
        return offered_by(source, interrupted=interrupted)

    found = patiently(ask, on_progress, interrupted, give_up_s=request.give_up_s, is_known=False)
    offered = {one.name: one for one in found}
    if missing := [name for name in request.images if name not in offered]:
        raise ConfigInvalid(
            f"{source.where}: expected {missing[0][:80]!r} in its catalogue, found {', '.join(offered) or 'nothing'}",
            hint="Give a name as it is there; an image that was put there just now takes some seconds to be offered",
        )
    return tuple(offered[name] for name in names or offered)


def _fetched(
    request: SyncRequest,
    one: Offered,
    catalogue: CatalogueFolder,
    on_progress: OnProgress,
    interrupted: Callable[[], bool],
) -> Synced:
    """Fetch an image. If the source replaces it meanwhile, fetch the new one, unless the image was named."""
    pinned = published_digests(sha512=request.sha512).sha512
    expected = one if not pinned else Offered(name=one.name, size_bytes=0, sha512=pinned)
    for _ in range(_MOST_CHANGES - 1):
        try:
            return sync_image(
                request.source, expected, catalogue, on_progress, interrupted, give_up_s=request.give_up_s
            )
        except SourceChanged:
            if pinned:
                raise
            expected = patiently(
                lambda: offered_as(request.source, one.name, interrupted=interrupted),
                on_progress,
                interrupted,
                give_up_s=request.give_up_s,
                is_known=True,
            )
    return sync_image(request.source, expected, catalogue, on_progress, interrupted, give_up_s=request.give_up_s)


def probe_depot_path(
    asked: ProbeAsked,
    *,
    state: Path | str | None = None,
    notify: Callable[[str], None] = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> PathFound:
    """Measure the path from a source to this host, and save the fastest copy method for it.

    Args:
        asked: What to measure.
        state: The state folder in which the result is saved; None: the default.
        notify: Receives lines of progress.
        interrupted: Whether to stop; nothing is saved then.

    Raises:
        ConfigInvalid: The request is invalid, or the source cannot be reached or used.
    """
    folder = state_folder(state)
    # Report an unreadable file before an hour of copies.
    BulkPaths.read(folder)
    found = probe_path(asked, report=notify, interrupted=interrupted)
    kept = found.kept()
    if found.is_whole and kept is not None:
        try:
            make_private_directory(folder)
            BulkPaths.read(folder).keep(kept)
        except OSError as error:
            raise ConfigInvalid(
                f"{folder}: what was found cannot be kept there ({error.strerror})",
                hint="Free some space there, or give another folder with --state-dir",
            ) from None
    return found


def known_depot_paths(state: Path | str | None = None) -> tuple[BulkPath, ...]:
    """Return the saved results of earlier probes, by source.

    Raises:
        ConfigInvalid: The file cannot be read.
    """
    return tuple(BulkPaths.read(state_folder(state)).by_name.values())
