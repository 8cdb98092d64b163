"""Sync an image into a catalogue: read its manifest, fetch, prove and name it; wait out broken connections.

Facts
-----

- A wide-area link is down for minutes (provider work, a reboot); ten minutes without a byte are something else. Time
  counts from the last byte, so that a slow connection is not a broken one.
- All sites of a centre lose it and return at the same time: their pauses grow from try to try, each with its own
  randomness.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from msgspec import Struct

from flashferry.core.codec import CodecError, decode
from flashferry.core.units import duration
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.depot.catalogue.part import Part, ProvenImage
from flashferry.depot.sync.filling import (
    TURN_S,
    Filling,
    Interrupted,
    OnProgress,
    SourceChanged,
    SourceRefused,
    SourceUnreachable,
    SourceWrong,
    SyncPhase,
    SyncProgress,
    check,
    never,
    silent,
)
from flashferry.images.errors import ManifestInvalid
from flashferry.images.manifest import (
    CATALOGUE_NAME,
    CATALOGUE_SCHEMA,
    MOST_CHUNKS,
    SUFFIX,
    Manifest,
    from_text,
    is_image_name,
)

MOST_SMALL_BYTES = 8 << 20
"""Largest manifest or catalogue: one of MOST_CHUNKS chunks has 4.5 MB."""

GIVE_UP_S = 600.0
"""How long a broken connection is waited for without a byte."""

RESTART_S = 60.0
"""How long a source that has sent some of the image may refuse: it restarted, and has not read its logins and images
yet.
"""

_NEVER_REACHED = (
    "Look at its address and port, and whether the depot there runs. A source that never answered is not waited for"
)

_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0
_Asked = TypeVar("_Asked")

assert MOST_CHUNKS * 70 < MOST_SMALL_BYTES


class ExpectedImage(Protocol):
    """The image to fetch: of a plan, of a catalogue, or given by name."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def size_bytes(self) -> int:
        """Return its size; 0: unknown."""

    @property
    def sha512(self) -> str:
        """Return its SHA-512."""


class AnySource(Protocol):
    """Where images come from: our own server, or a host by rsync."""

    @property
    def where(self) -> str:
        """Return the source in words."""

    @property
    def by(self) -> str:
        """Return how images arrive: `https`, `http`, `rsync`."""

    def fetch_small(self, name: str, most_bytes: int, *, interrupted: Interrupted = never) -> bytes:
        """Return a small file; see `Source.fetch_small`."""

    def fill(self, filling: Filling) -> None:
        """Fetch what is missing of an image; see `Source.fill`."""


class Offered(Struct, frozen=True, kw_only=True):
    """An image in a source's catalogue."""

    name: str
    size_bytes: int
    sha512: str


class Synced(Struct, frozen=True, kw_only=True):
    """The result of a sync.

    Attributes:
        came_bytes: Bytes received; 0 if it was there.
        kept_bytes: Verified bytes that were there already.
        wrong_chunks: How often a chunk arrived wrong.
        breaks: How often the connection broke.
        seconds: Duration.
        copying_s: Duration without waiting for broken connections.
        by: `https`, `http` or `rsync`.
        replaced_sha512: SHA-512 of the proven image that was replaced; empty: none.
    """

    image: ProvenImage
    came_bytes: int
    kept_bytes: int
    wrong_chunks: int
    breaks: int
    seconds: float
    copying_s: float
    by: str
    replaced_sha512: str = ""


def offered_by(source: AnySource, *, interrupted: Interrupted = never) -> tuple[Offered, ...]:
    """Return a source's catalogue; raises what `fetch_small` does.

    Raises:
        SourceWrong: It is malformed, or names what cannot be an image.
    """
    data = _parsed(source.fetch_small(CATALOGUE_NAME, MOST_SMALL_BYTES, interrupted=interrupted))
    if not isinstance(data, dict) or data.get("schema") != CATALOGUE_SCHEMA or not isinstance(data.get("images"), list):
        raise SourceWrong(f"{source.where}: {CATALOGUE_NAME}: expected the schema {CATALOGUE_SCHEMA}, found another")
    try:
        found: tuple[Offered, ...] = decode(tuple[Offered, ...], data["images"])
    except CodecError as error:
        raise SourceWrong(f"{source.where}: {CATALOGUE_NAME}: {error.message}") from None
    for one in found:
        if not is_image_name(one.name) or one.size_bytes <= 0 or len(one.sha512) != 128:
            raise SourceWrong(
                f"{source.where}: {CATALOGUE_NAME}: expected names, sizes and SHA-512 of images, found "
                f"{one.name[:60]!r} with {one.size_bytes} bytes"
            )
    return found


def offered_as(source: AnySource, name: str, *, interrupted: Interrupted = never) -> Offered:
    """Return an image by its manifest at a source; raises what `fetch_small` does.

    Raises:
        ManifestInvalid: The manifest is malformed, or another's.
    """
    if not is_image_name(name):
        raise _no_name(name)
    manifest = _manifest_of(
        source, name, source.fetch_small(f"{name}{SUFFIX}", MOST_SMALL_BYTES, interrupted=interrupted)
    )
    return Offered(name=name, size_bytes=manifest.size_bytes, sha512=manifest.sha512)


def patiently(
    ask: Callable[[], _Asked], on_progress: OnProgress, interrupted: Interrupted, *, give_up_s: float, is_known: bool
) -> _Asked:
    """Ask a source something, and wait if it exists and does not answer now.

    Args:
        ask: Asks it.
        on_progress: Called while waiting.
        interrupted: Whether to stop.
        give_up_s: How long to wait, from 0.
        is_known: Whether it has answered before.

    Raises:
        SourceUnreachable: It never answered, which is raised at once; or not in that time.
    """
    patience = _Patience(give_up_s, interrupted)
    while True:
        try:
            return ask()
        except SourceUnreachable as error:
            is_known = is_known or error.has_answered
            if not is_known:
                raise SourceUnreachable(error.message, hint=_NEVER_REACHED) from None
            patience.wait(error, lambda text: on_progress(_waiting_for(CATALOGUE_NAME, 0, text)))


def sync_image(
    source: AnySource,
    expected: ExpectedImage,
    catalogue: CatalogueFolder,
    on_progress: OnProgress = silent,
    interrupted: Interrupted = never,
    *,
    give_up_s: float = GIVE_UP_S,
) -> Synced:
    """Sync an image into a catalogue: fetch, continue, repair, or find it there already.

    Args:
        source: Where it comes from.
        expected: The image; its SHA-512 decides.
        catalogue: The catalogue.
        on_progress: Called with progress.
        interrupted: Whether to stop; called some times a second, from this thread.
        give_up_s: How long a broken connection is waited for without a byte, from 0.

    Raises:
        SourceUnreachable: The connection did not come back in that time.
        SourceRefused: The source refuses, or has the wrong identity.
        SourceChanged: It has another image under that name.
        SourceWrong: Its data contradicts its manifest.
        ManifestInvalid: Its manifest is malformed.
        CatalogueBusy: Another process has the catalogue.
        CatalogueFull: The disk is full.
        ConfigInvalid: The catalogue cannot be written, or has a file of that name that we may not replace.
        SyncStopped: It was asked to stop.
    """
    sync = _Sync(source, expected, catalogue, on_progress, _Patience(give_up_s, interrupted))
    with catalogue.locked():
        return sync.run()


@dataclass(slots=True)
class _Patience:
    """Wait for a broken connection."""

    give_up_s: float
    interrupted: Interrupted
    breaks: int = 0
    moved_at_s: float = field(default_factory=time.monotonic)
    _next_s: float = _FIRST_WAIT_S

    def moved(self, at_s: float) -> None:
        """Note the time of the last progress."""
        if at_s > self.moved_at_s:
            self.moved_at_s, self._next_s = at_s, _FIRST_WAIT_S

    def is_passing(self, error: SourceRefused) -> bool:
        """Return whether a refusal may come from a source that has just restarted."""
        return error.may_pass and time.monotonic() - self.moved_at_s < RESTART_S

    def wait(self, error: SourceUnreachable | SourceChanged | SourceRefused, report: Callable[[str], None]) -> None:
        """Wait before the next try; raise the error if the time is over."""
        self.breaks += 1
        pause_s = self._next_s * random.uniform(0.8, 1.2)  # noqa: S311 -- spreads sites in time, no secret
        self._next_s = min(_LONGEST_WAIT_S, 2 * self._next_s)
        until_s = time.monotonic() + pause_s
        if until_s - self.moved_at_s > self.give_up_s:
            raise error
        report(f"{error.message}; tried again in {duration(pause_s)}")
        while (left_s := until_s - time.monotonic()) > 0:
            check(self.interrupted)
            time.sleep(min(TURN_S, left_s))


class _Sync:
    """One sync; see `sync_image`."""

    def __init__(
        self,
        source: AnySource,
        expected: ExpectedImage,
        catalogue: CatalogueFolder,
        on_progress: OnProgress,
        patience: _Patience,
    ) -> None:
        self._source, self._expected, self._catalogue = source, expected, catalogue
        self._on_progress, self._patience = on_progress, patience
        self._place = source.where.removeprefix("source ")
        self._started_s, self._copying_s = time.monotonic(), 0.0
        self._replaced_sha512 = ""

    def run(self) -> Synced:
        """Sync the image."""
        name = self._expected.name
        if not is_image_name(name):
            raise _no_name(name)
        self._catalogue.settle(name)
        proven = self._catalogue.proven(name)
        if proven is not None and proven.sha512 == self._expected.sha512:
            return self._synced(proven, None, 0)
        self._replaced_sha512 = "" if proven is None else proven.sha512
        manifest = self._manifest()
        adopted = None if proven is not None else self._catalogue.adopted(manifest, self._place)
        if adopted is not None:
            self._catalogue.forget_part(name)
            return self._synced(adopted, None, 0)
        with Part(self._catalogue.path, manifest) as part:
            part.regain()
            kept_bytes = part.verified_bytes
            filling = Filling(part, self._on_progress, self._patience.interrupted, self._source.where)
            return self._synced(self._filled(filling), filling, kept_bytes)

    def _filled(self, filling: Filling) -> ProvenImage:
        while True:
            started_s = time.monotonic()
            try:
                try:
                    self._source.fill(filling)
                finally:
                    self._copying_s += time.monotonic() - started_s
            except (SourceUnreachable, SourceChanged, SourceRefused) as error:
                self._patience.moved(filling.moved_at_s)
                if isinstance(error, SourceRefused) and not self._patience.is_passing(error):
                    raise
                if isinstance(error, SourceChanged):
                    self._check_same(filling.part.manifest)
                done_bytes = filling.part.verified_bytes
                self._patience.wait(error, lambda text, done=done_bytes: filling.report(SyncPhase.WAIT, done, text))  # type: ignore[misc] # bound at once
                continue
            if filling.prove():
                return self._catalogue.place(filling.part, self._place)

    def _check_same(self, manifest: Manifest) -> None:
        """Check that the source still has the same image; raises what `_manifest` does."""
        if self._manifest() != manifest:
            raise SourceChanged(f"{self._source.where}: {manifest.name}: its manifest changed while it was fetched")

    def _manifest(self) -> Manifest:
        """Return the manifest of the expected image.

        Raises:
            SourceChanged: The source has another one under that name.
        """
        expected, where = self._expected, self._source.where
        manifest = _manifest_of(self._source, expected.name, self._small(f"{expected.name}{SUFFIX}"))
        sizes = (expected.size_bytes or manifest.size_bytes, manifest.size_bytes)
        if manifest.sha512 != expected.sha512 or sizes[0] != sizes[1]:
            raise SourceChanged(
                f"{where}: {expected.name}: expected {sizes[0]} bytes with SHA-512 {expected.sha512[:16]}..., found "
                f"{sizes[1]} bytes with {manifest.sha512[:16]}..."
            )
        return manifest

    def _small(self, name: str) -> bytes:
        while True:
            try:
                return self._source.fetch_small(name, MOST_SMALL_BYTES, interrupted=self._patience.interrupted)
            except SourceUnreachable as error:
                self._patience.wait(error, self._report_waiting)

    def _report_waiting(self, text: str) -> None:
        self._on_progress(_waiting_for(self._expected.name, self._expected.size_bytes, text))

    def _synced(self, image: ProvenImage, filling: Filling | None, kept_bytes: int) -> Synced:
        return Synced(
            image=image,
            came_bytes=0 if filling is None else filling.came_bytes,
            kept_bytes=image.size_bytes if filling is None else kept_bytes,
            wrong_chunks=0 if filling is None else filling.wrong_chunks,
            breaks=self._patience.breaks,
            seconds=time.monotonic() - self._started_s,
            copying_s=self._copying_s,
            by=self._source.by,
            replaced_sha512=self._replaced_sha512,
        )


def _waiting_for(name: str, size_bytes: int, text: str) -> SyncProgress:
    return SyncProgress(image=name, phase=SyncPhase.WAIT, done_bytes=0, size_bytes=size_bytes, text=text)


def _manifest_of(source: AnySource, name: str, text: bytes) -> Manifest:
    what = f"{source.where}: {name}{SUFFIX}"
    manifest = from_text(text, what=what)
    if manifest.name != name:
        raise ManifestInvalid(f"{what}: expected the manifest of {name}, found that of {manifest.name}")
    return manifest


def _no_name(name: str) -> SourceRefused:
    return SourceRefused(
        f"image {name[:60]!r}: expected a name of letters, digits and ._+-, which no other file beside images has",
        hint="Give the name as the source's catalogue has it",
    )


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
