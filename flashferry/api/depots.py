"""A depot's catalogue filled, listed and verified, and the path to its source measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet import state_folder
from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind, kind_of
from flashferry.core.state_folder import make_private_directory
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.depot.catalogue.part import Held, HeldState
from flashferry.depot.options import catalogue_in
from flashferry.depot.sync.filling import OnProgress, SourceChanged, SourceUnreachable, SyncStopped, silent
from flashferry.depot.sync.syncing import GIVE_UP_S, Offered, Synced, offered_as, offered_by, patiently, sync_image
from flashferry.images.image import published_digests
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.depot.probing.findings import PathFound, ProbeAsked
    from flashferry.depot.sync.syncing import AnySource
    from flashferry.store.bulk_paths import BulkPath

_MOST_CHANGES = 3

"""So often an image may change at the source while it is fetched, until that is a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """What a catalogue is to have.

    Attributes:
        source: Where images come from.
        images: Their names; empty: all that the source offers.
        sha512: Published SHA-512 of the one image; another one is not fetched.
        catalogue: The folder, or None: in the state folder.
        give_up_s: So long without a byte a broken line is waited for, in seconds, from 0.

    Raises:
        ConfigInvalid: A digest is given for several images, or is none.
    """

    source: AnySource
    images: tuple[str, ...] = ()
    sha512: str | None = None
    catalogue: Path | None = None
    give_up_s: float = GIVE_UP_S

    def __post_init__(self) -> None:
        """Check that no two values contradict each other."""
        published_digests(sha512=self.sha512)
        if self.sha512 is not None and len(self.images) != 1:
            raise ConfigInvalid(
                f"--sha512: expected one image with it, found {len(self.images)}", hint="Name the image that it is of"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedImage:
    """What became of an image.

    Attributes:
        name: Its name.
        synced: What was done, where it is proven now.
        kind: The kind of what went wrong; empty where it is proven.
        error: The same in a sentence.
        hint: What to do about that, or None.
        held: What there is of it now, where it is not proven; None where there is nothing.
    """

    name: str
    synced: Synced | None = None
    kind: str = ""
    error: str = ""
    hint: str | None = None
    held: Held | None = None

    @property
    def is_interrupted(self) -> bool:
        """Whether the operator stopped the sync while it was under way."""
        return self.kind == Kind.SYNC_STOPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """What became of images.

    Attributes:
        images: Each, in the order in which they were selected; those that were not started are not among them.
        exit_code: OK: all are proven; DEVICES_FAILED: some are not; INTERRUPTED: the operator stopped it.
    """

    images: tuple[SyncedImage, ...]
    exit_code: ExitCode


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What images that were read anew are.

    Attributes:
        images: Each, as it was found.
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
    """Have images of a source in a catalogue, each under its name only once it is proven to the byte.

    Args:
        request: What is selected.
        state: The state folder, where no catalogue is named; None: where the command line has it.
        on_progress: Takes what arrives.
        interrupted: Whether the caller wants to stop: what is verified is kept.

    Returns:
        What became of each. What went wrong with one is in its result, never raised.

    Raises:
        SourceUnreachable: Nothing answers at the source, or not in time where it had answered.
        SourceRefused: It refuses, or is not who it should be.
        SourceWrong: What it says that it offers is not of the agreed form.
        ConfigInvalid: It does not offer an image that is selected.
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
                # The next one would be waited for as long again.
                break
    return SyncResult(images=tuple(done), exit_code=code)


def depot_list(*, catalogue: Path | None = None, state: Path | str | None = None) -> tuple[Held, ...]:
    """Return what a catalogue has; an image is read only where its file changed since it was proven.

    Args:
        catalogue: The folder, or None: in the state folder.
        state: The state folder; None: where the command line has it.

    Raises:
        ConfigInvalid: It cannot be read.
    """
    return CatalogueFolder(catalogue_in(state_folder(state), catalogue)).list()


def depot_verify(
    images: tuple[str, ...] = (),
    *,
    catalogue: Path | None = None,
    state: Path | str | None = None,
    on_read: Callable[[str, int, int], None] | None = None,
) -> VerifyResult:
    """Read images of a catalogue anew; one that is damaged loses its name, and the next sync fetches what is wrong.

    Args:
        images: Their names; empty: all.
        catalogue: The folder, or None: in the state folder.
        state: The state folder; None: where the command line has it.
        on_read: Takes a name, bytes read and size; what it raises ends the reading.

    Raises:
        CatalogueBusy: Another process fills it.
        ConfigInvalid: An image is not in it, or it cannot be read or written.
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
            # A folder by rsync need not have a list of what is in it.
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
    """Have one image in the catalogue: the new one where it changes at the source, unless it was named."""
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
    tell: Callable[[str], None] = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> PathFound:
    """Measure the path from a source to here, and keep the best way of copying for it.

    Args:
        asked: What is asked.
        state: Folder of the journal, where it is kept; None: where the command line has it.
        tell: Takes lines of progress.
        interrupted: Whether to break off; then nothing is kept.

    Raises:
        ConfigInvalid: What was asked makes no sense, or the source cannot be reached or used.
    """
    from flashferry.depot.probing.path import probe_path
    from flashferry.store.bulk_paths import BulkPaths

    folder = state_folder(state)
    # A file that cannot be read is reported before an hour of copies, not after it.
    BulkPaths.read(folder)
    found = probe_path(asked, report=tell, interrupted=interrupted)
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
