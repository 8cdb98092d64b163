"""Find what to offer: the catalogue's images with manifests, plans, and a list of the images.

Facts
-----

- A file that is being copied into the folder looks like an image. It is offered once it was not written to for a while
  and was read without a change; a synced image has a proof and is not read again.
- Small files are written to a folder of ours, with links to the images, so that the same folder works for rsync over
  SSH.
- One image is read at a time; known ones are offered meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from flashferry.core.codec import CodecError, decode, to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import JsonCache, check_regular, reading, write_whole
from flashferry.depot.catalogue.part import load_proof
from flashferry.depot.sync.filling import Interrupted, check, never
from flashferry.images.catalogue import HashCache
from flashferry.images.errors import ImageError
from flashferry.images.image import ImageFile
from flashferry.images.manifest import (
    CATALOGUE_NAME,
    CATALOGUE_SCHEMA,
    MOST_PLAN_BYTES,
    SUFFIX,
    Manifest,
    is_image_name,
    is_plan_name,
    read_manifest,
    to_text,
)
from flashferry.images.safe_open import FileIdentity

PLANS = "plans"
"""Folder of plans in the catalogue, `plan-DIGEST.json` each."""

REST_S = 2.0
"""Seconds without a write after which a file is offered."""


class OfferFolders(Struct, frozen=True, kw_only=True):
    """The folders of what is offered.

    Attributes:
        catalogue: The images.
        plans: The plans.
        made: Our folder of small files and links; created if missing.
        kept: File that keeps manifests.
        digests: File that keeps digests of images for runs of this host.
    """

    catalogue: Path
    plans: Path
    made: Path
    kept: Path
    digests: Path


class Offer(Struct, frozen=True, kw_only=True):
    """What is offered.

    Attributes:
        files: All files by name.
        images: Number of images among them.
        plans: Number of plans.
        left_out: Files that look like images and are not offered, with the reason.
        is_more: Whether more images remain to be read.
    """

    files: tuple[ImageFile, ...]
    images: int
    plans: int
    left_out: tuple[str, ...]
    is_more: bool


class _Made(Struct, frozen=True, kw_only=True):
    """A manifest, and the state of its image's file."""

    identity: FileIdentity
    manifest: Manifest


class Offering:
    """Scan a catalogue repeatedly, and return the offer when it changes; `clock` returns seconds since 1970."""

    def __init__(self, folders: OfferFolders, *, clock: Callable[[], float] = time.time) -> None:
        self._folders, self._clock = folders, clock
        self._kept = JsonCache(
            folders.kept, unread="manifests are made again", unwritten="manifests will be made again"
        )
        self._made = _loaded(self._kept.load())
        self._seen: dict[str, FileIdentity] = {}
        self._latest: object = None

    def update(self, interrupted: Interrupted = never) -> Offer | None:
        """Read at most one new image and return the offer; None if it is unchanged.

        The first call reads nothing, so that known images are offered at once.

        Args:
            interrupted: Whether to stop.

        Raises:
            SyncStopped: It was asked to stop.
            OSError: A folder of ours cannot be written.
            ConfigInvalid: Another kind of file is in the place of one of ours.
        """
        found, left_out = self._found()
        made, is_more = self._manifests(found, interrupted)
        plans = self._plans()
        now = (made, tuple(plans), left_out, is_more)
        self._seen = found
        if now == self._latest:
            return None
        files = (*(self._image(one) for one in made.values()), *self._small(made), *plans)
        self._link(
            {one.name for one in files} | {f"{name}{SUFFIX}" for name in made}, (*made, *(p.name for p in plans))
        )
        self._latest = now
        return Offer(files=files, images=len(made), plans=len(plans), left_out=left_out, is_more=is_more)

    def _found(self) -> tuple[dict[str, FileIdentity], tuple[str, ...]]:
        """Return the files that may be images, and why others are not."""
        found: dict[str, FileIdentity] = {}
        left_out: list[str] = []
        for path in _visible(self._folders.catalogue):
            try:
                if not is_image_name(path.name):
                    left_out.append(f"{path}: expected a name of letters, digits and ._+-, and no small file's")
                    continue
                status = check_regular(path, follow_links=False)
            except OSError as error:
                left_out.append(f"{path}: {error.strerror}")
                continue
            if status.st_size:
                found[path.name] = FileIdentity.of(status)
        return found, tuple(left_out)

    def _manifests(self, found: dict[str, FileIdentity], interrupted: Interrupted) -> tuple[dict[str, _Made], bool]:
        """Return the known manifests, after reading at most one image; and whether more remain."""
        self._made = {name: one for name, one in self._made.items() if name in found}
        new = [name for name, identity in found.items() if not self._is_known(name, identity)]
        ready = [name for name in new if self._is_at_rest(name, found[name])]
        if ready and self._latest is None:
            return dict(self._made), True
        if ready and self._read_one(ready, interrupted):
            self._kept.store({name: to_json(one) for name, one in self._made.items()})
        # Images whose file changed since are still offered: a client that asks for one learns that it changed.
        return dict(self._made), len(ready) > 1

    def _is_known(self, name: str, identity: FileIdentity) -> bool:
        if name in self._made and self._made[name].identity == identity:
            return True
        with suppress(OSError, ConfigInvalid):
            proof = load_proof(self._folders.catalogue, name)
            if proof is not None and proof.identity == identity:
                self._made[name] = _Made(identity=identity, manifest=proof.manifest)
                return True
        return False

    def _is_at_rest(self, name: str, identity: FileIdentity) -> bool:
        rested_s = self._clock() - max(identity.mtime_ns, identity.ctime_ns) / 1e9
        return rested_s >= REST_S or (rested_s < 0 and self._seen.get(name) == identity)

    def _read_one(self, names: list[str], interrupted: Interrupted) -> bool:
        """Read the first readable image; return whether there was one."""
        for name in names:
            with suppress(ImageError):
                self._read(name, interrupted)
                return True
        return False

    def _read(self, name: str, interrupted: Interrupted) -> None:
        read = read_manifest(self._folders.catalogue / name, on_progress=lambda *_: check(interrupted))
        self._made[name] = _Made(identity=read.identity, manifest=read.manifest)
        # Runs of this host need not read it again.
        HashCache(self._folders.digests).put(read.identity.key, read.contents)

    def _image(self, made: _Made) -> ImageFile:
        manifest = made.manifest
        return ImageFile(
            name=manifest.name,
            size_bytes=manifest.size_bytes,
            md5=manifest.md5,
            sha512=manifest.sha512,
            path=self._folders.catalogue / manifest.name,
            identity=made.identity,
        )

    def _plans(self) -> list[ImageFile]:
        plans: list[ImageFile] = []
        for path in _visible(self._folders.plans):
            with suppress(OSError):
                if is_plan_name(path.name) and 0 < check_regular(path, follow_links=False).st_size <= MOST_PLAN_BYTES:
                    plans.append(_small_file(path))
        return plans

    def _small(self, made: dict[str, _Made]) -> Iterator[ImageFile]:
        """Write the small files, and yield them."""
        images = [one.manifest for one in made.values()]
        listed = [{"name": one.name, "size_bytes": one.size_bytes, "sha512": one.sha512} for one in images]
        yield self._written(CATALOGUE_NAME, json.dumps({"schema": CATALOGUE_SCHEMA, "images": listed}, indent=1) + "\n")
        for one in images:
            yield self._written(f"{one.name}{SUFFIX}", to_text(one))

    def _written(self, name: str, text: str) -> ImageFile:
        path = self._folders.made / name
        self._folders.made.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):
            if not path.is_symlink() and path.read_text(encoding="utf-8") == text:
                return _small_file(path)
        write_whole(path, text, is_private=True, is_durable=False)
        return _small_file(path)

    def _link(self, names: set[str], elsewhere: tuple[str, ...]) -> None:
        """Link to images and plans beside the small files, and remove what is no longer offered."""
        for path in self._folders.made.iterdir():
            if path.name not in names:
                path.unlink()
        for name in elsewhere:
            to = (self._folders.plans if is_plan_name(name) else self._folders.catalogue) / name
            link = self._folders.made / name
            if not link.is_symlink() or link.readlink() != to.absolute():
                link.unlink(missing_ok=True)
                link.symlink_to(to.absolute())


def _visible(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if not path.name.startswith(".") and not path.is_dir():
                yield path


def _small_file(path: Path) -> ImageFile:
    with reading(path) as file:
        identity, data = FileIdentity.of(os.fstat(file.fileno())), file.read(MOST_PLAN_BYTES)
    return ImageFile(
        name=path.name,
        size_bytes=identity.size_bytes,
        md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
        sha512=hashlib.sha512(data).hexdigest(),
        path=path,
        identity=identity,
    )


def _loaded(data: Any) -> dict[str, _Made]:
    found: dict[str, _Made] = {}
    for name, one in (data if isinstance(data, dict) else {}).items():
        with suppress(CodecError, ValueError):
            made = decode(_Made, one)
            if made.manifest.name == name:
                found[name] = made
    return found
