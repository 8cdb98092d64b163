"""Lock a catalogue, list and verify its images, give an image its name, and take the name away again.

Facts
-----

- rename(2) replaces a name in one step: a reader opens the old image or the new one, complete. Name and content are
  synced before a proof is written.
- A process may be killed at any point between starting and completing a proof. The file is then read again: it matches
  the proof, or its name does not count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import sync_folder
from flashferry.core.state_folder import lock, open_private
from flashferry.depot.catalogue.part import (
    PART,
    PART_SCHEMA,
    PLACE,
    PROOF,
    STATE,
    CatalogueBusy,
    Held,
    HeldState,
    Part,
    Proof,
    ProvenImage,
    beside,
    disk_errors,
    here_bytes_of,
    load_json,
    load_proof,
    names_with,
    now,
    remove_part,
    save_proof,
    save_verified,
    verified_bytes_of,
    verified_of,
)
from flashferry.images.errors import ImageError
from flashferry.images.manifest import CHUNK_BYTES, Manifest, Reading, is_image_name, read_manifest
from flashferry.images.safe_open import FileIdentity

_LOCK = ".lock"


class CatalogueSummary(Struct, frozen=True, kw_only=True):
    """A catalogue's content, as far as known without reading an image.

    Attributes:
        proven: Images whose files are unchanged since they were proven, by name.
        under_way: Incomplete images, by name.
        others: Names whose files changed since their proof; `flashferry depot list` reads them.
    """

    folder: Path
    proven: tuple[str, ...] = ()
    under_way: tuple[Held, ...] = ()
    others: tuple[str, ...] = ()


OnRead = Callable[[str, int, int], None]
"""Called with an image's name, bytes read, and size while it is read."""


class CatalogueFolder:
    """A depot's catalogue. Reading writes nothing; a missing folder is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Make the folder unless it exists.

        Raises:
            ConfigInvalid: It cannot be made, or is no folder.
        """
        with disk_errors(self.path, "the folder"):
            self.path.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the catalogue for a block, and remove half-written files of killed processes.

        Raises:
            CatalogueBusy: Another process or thread has it.
            ConfigInvalid: The folder cannot be written.
        """
        self.make()
        with disk_errors(self.path, _LOCK), open_private(self.path / _LOCK, "a+") as held:
            if not lock(held):
                held.seek(0)
                other = held.read(20).strip() or "?"
                raise CatalogueBusy(f"catalogue {self.path}: expected no other process using it, found process {other}")
            held.truncate(0)
            held.write(f"{os.getpid()}\n")
            held.flush()
            self._sweep()
            yield

    def _sweep(self) -> None:
        for path in self.path.glob("..*.part"):
            with suppress(OSError):
                path.unlink()

    # What is proven

    def proven(self, name: str) -> ProvenImage | None:
        """Return a proven image, or None. The file is read only if it changed since its proof.

        Raises:
            ConfigInvalid: The catalogue cannot be read.
        """
        if not is_image_name(name):
            return None
        with disk_errors(self.path, name):
            proof = load_proof(self.path, name)
            if proof is None or not (path := self.path / name).exists():
                return None
            if proof.identity is not None and proof.identity == FileIdentity.of(path.lstat()):
                return ProvenImage(path=path, proof=proof)
            reading = self._read(name, proof.manifest.chunk_bytes)
            if reading is None or reading.manifest != proof.manifest:
                return None
            if load_proof(self.path, name) != proof:
                # Reading takes minutes, and who looks has no lock: a sync has given the name to another image by now.
                return self.proven(name)
            return self._proved(replace(proof, identity=reading.identity, proven_at=now()))

    def unchanged(self) -> tuple[ProvenImage, ...]:
        """Return the proven images whose files are unchanged, by name; reads no image.

        Raises:
            ConfigInvalid: The folder cannot be read.
        """
        found: dict[str, ProvenImage] = {}
        with disk_errors(self.path, "the folder"):
            for name in names_with(self.path, PROOF) if self.path.exists() else ():
                proof, path = load_proof(self.path, name), self.path / name
                with suppress(FileNotFoundError):
                    if proof is not None and proof.identity == FileIdentity.of(path.lstat()):
                        found[name] = ProvenImage(path=path, proof=proof)
        return tuple(found[name] for name in sorted(found))

    def summary(self) -> CatalogueSummary:
        """Return the content without reading an image.

        Raises:
            ConfigInvalid: The folder cannot be read.
        """
        if not self.path.exists():
            return CatalogueSummary(folder=self.path)
        proven = tuple(one.proof.manifest.name for one in self.unchanged())
        with disk_errors(self.path, "the folder"):
            under_way = tuple(filter(None, (self.incomplete(name) for name in names_with(self.path, STATE))))
            others = {*self._files(), *names_with(self.path, PROOF)} - set(proven)
        return CatalogueSummary(folder=self.path, proven=proven, under_way=under_way, others=tuple(sorted(others)))

    def list(self) -> tuple[Held, ...]:
        """Return all images, complete or not, by name.

        Raises:
            ConfigInvalid: The folder cannot be read.
        """
        if not self.path.exists():
            return ()
        with disk_errors(self.path, "the folder"):
            names = sorted({*self._files(), *names_with(self.path, PROOF)})
            found = [self._held(name) for name in names]
            started = [self.incomplete(name) for name in names_with(self.path, STATE)]
            return tuple(sorted([*found, *filter(None, started)], key=lambda held: (held.name, held.state)))

    def _files(self) -> Iterator[str]:
        for path in self.path.iterdir():
            if is_image_name(path.name) and path.is_file() and not path.is_symlink():
                yield path.name

    def _held(self, name: str) -> Held:
        path, proof, proven = self.path / name, load_proof(self.path, name), self.proven(name)
        if proven is not None:
            return _held_of(proven.proof)
        if proof is None:
            return Held(name=name, state=HeldState.UNPROVEN, size_bytes=(size := path.stat().st_size), here_bytes=size)
        if proof.identity is None and path.exists():
            # Its successor was about to take its name when the process was killed; the next sync gives it to it.
            return Held(name=name, state=HeldState.UNPROVEN, size_bytes=(size := path.stat().st_size), here_bytes=size)
        state = HeldState.DAMAGED if path.exists() else HeldState.MISSING
        here_bytes = path.stat().st_size if state is HeldState.DAMAGED else 0
        return replace(_held_of(proof), state=state, proven_at=None, verified_bytes=0, here_bytes=here_bytes)

    def incomplete(self, name: str) -> Held | None:
        """Return the progress of an incomplete image; None: there is none.

        Raises:
            ConfigInvalid: The folder cannot be read.
        """
        with disk_errors(self.path, name):
            data = load_json(beside(self.path, name, STATE), PART_SCHEMA)
            if data is None or not beside(self.path, name, PART).exists():
                return None
            size_bytes, verified_bytes = _whole(data.get("size_bytes")), _whole(data.get("verified_bytes"))
            verified = str(data.get("verified", ""))
            return Held(
                name=name,
                state=HeldState.PARTIAL,
                size_bytes=size_bytes,
                sha512=str(data.get("sha512", "")),
                verified_bytes=verified_bytes,
                here_bytes=here_bytes_of(self.path, name, size_bytes, verified_bytes, verified),
            )

    def verify(self, names: tuple[str, ...] = (), *, on_read: OnRead | None = None) -> tuple[Held, ...]:
        """Read images again and compare them with their proofs; a damaged one loses proof and name.

        Its correct chunks are kept under the hidden name, so that the next sync fetches only the bad ones.

        Args:
            names: The images; empty: all with a proof.
            on_read: Called with progress; its error ends the verification.

        Returns:
            The state of each image, with the numbers of its bad chunks.

        Raises:
            CatalogueBusy: Another process has the catalogue.
            ConfigInvalid: A name is not in the catalogue, or it cannot be read or written.
        """
        if not self.path.exists() and not names:
            return ()
        with self.locked(), disk_errors(self.path, "the folder"):
            known = sorted({*self._files(), *names_with(self.path, PROOF)})
            if unknown := [name for name in names if name not in known]:
                raise ConfigInvalid(
                    f"catalogue {self.path}: expected {unknown[0][:80]!r} in it, found no such image",
                    hint="'flashferry depot list' shows what there is",
                )
            return tuple(self._verified(name, on_read) for name in names or known)

    def _verified(self, name: str, on_read: OnRead | None) -> Held:
        proof = load_proof(self.path, name)
        if proof is None or not (self.path / name).exists():
            return self._held(name)
        reading = self._read(name, proof.manifest.chunk_bytes, on_read)
        if reading is not None and reading.manifest == proof.manifest:
            return _held_of(self._proved(replace(proof, identity=reading.identity, proven_at=now())).proof)
        if proof.identity is None:
            return self._held(name)
        return self._demoted(proof, reading)

    # What a sync does; it has the lock

    def settle(self, name: str) -> None:
        """Take the name from an image that differs from its proof; its correct chunks are kept."""
        if self.proven(name) is None and (self.path / name).exists():
            with disk_errors(self.path, name):
                self._verified(name, None)

    def adopted(self, manifest: Manifest, source: str) -> ProvenImage | None:
        """Read the file with a manifest's name, and return it as proven if it matches; else None.

        Raises:
            ConfigInvalid: A different file has the name that no sync wrote.
        """
        name = manifest.name
        if not os.path.lexists(self.path / name):
            return None
        with disk_errors(self.path, name):
            reading = self._read(name, manifest.chunk_bytes)
            if reading is not None and reading.manifest == manifest:
                return self._proved(Proof(manifest=manifest, proven_at=now(), source=source, identity=reading.identity))
            if load_proof(self.path, name) is None:
                raise ConfigInvalid(
                    f"catalogue {self.path}: expected no {name}, or the source's, found another file of that name "
                    "that no sync has put there",
                    hint="Move it away, or name another folder with --catalogue",
                )
        return None

    def taken_in(self, name: str, sha512: str, *, on_read: OnRead | None = None) -> ProvenImage | None:
        """Read a file that was put here by hand, and return it as proven if its SHA-512 matches; else None.

        Args:
            name: Its name.
            sha512: The published SHA-512.
            on_read: Called with progress; its error ends the reading.
        """
        if not is_image_name(name) or load_proof(self.path, name) is not None or not (self.path / name).exists():
            return None
        with disk_errors(self.path, name):
            found = self._read(name, CHUNK_BYTES, on_read)
            if found is None or found.manifest.sha512 != sha512:
                return None
            return self._proved(Proof(manifest=found.manifest, proven_at=now(), identity=found.identity))

    def place(self, part: Part, source: str) -> ProvenImage:
        """Give an image its name, after its whole content was verified.

        Args:
            part: The image; the caller closes it afterwards.
            source: Where it came from.

        Raises:
            CatalogueFull: There is no space for the proof.
        """
        manifest, path = part.manifest, self.path / part.manifest.name
        part.finish()
        proof = Proof(manifest=manifest, proven_at=now(), source=source)
        with disk_errors(self.path, manifest.name):
            save_proof(self.path, proof)
            part.path.replace(path)
            sync_folder(self.path)
            for ending in (STATE, PLACE):
                beside(self.path, manifest.name, ending).unlink(missing_ok=True)
            return self._proved(replace(proof, identity=FileIdentity.of(path.lstat())))

    def forget_part(self, name: str) -> None:
        """Remove an incomplete image."""
        with disk_errors(self.path, name):
            remove_part(self.path, name)

    # Inside

    def _read(self, name: str, chunk_bytes: int, on_read: OnRead | None = None) -> Reading | None:
        """Read an image; None if it is missing, empty, or being written."""

        def read(done: int, size_bytes: int) -> None:
            if on_read is not None:
                on_read(name, done, size_bytes)

        with suppress(ImageError):
            return read_manifest(self.path / name, chunk_bytes=chunk_bytes, on_progress=read)
        return None

    def _proved(self, proof: Proof) -> ProvenImage:
        save_proof(self.path, proof)
        return ProvenImage(path=self.path / proof.manifest.name, proof=proof)

    def _demoted(self, proof: Proof, reading: Reading | None) -> Held:
        manifest, found = proof.manifest, reading.manifest.chunks if reading is not None else ()
        right = [number < len(found) and found[number] == one for number, one in enumerate(manifest.chunks)]
        name = manifest.name
        # In this order a process that is killed in the midst leaves something that counts for less, never for more.
        beside(self.path, name, PROOF).unlink(missing_ok=True)
        if verified_of(self.path, manifest) is None and beside(self.path, name, STATE).exists():
            # Its successor is under way, which is worth more.
            (self.path / name).unlink()
        else:
            remove_part(self.path, name)
            (self.path / name).replace(beside(self.path, name, PART))
            save_verified(self.path, manifest, right)
        sync_folder(self.path)
        bad = tuple(number for number, is_right in enumerate(right) if not is_right)
        return replace(
            _held_of(proof),
            state=HeldState.DAMAGED,
            proven_at=None,
            verified_bytes=verified_bytes_of(manifest, right),
            bad_chunks=bad,
        )


def _held_of(proof: Proof) -> Held:
    manifest = proof.manifest
    return Held(
        name=manifest.name,
        state=HeldState.PROVEN,
        size_bytes=manifest.size_bytes,
        sha512=manifest.sha512,
        verified_bytes=manifest.size_bytes,
        here_bytes=manifest.size_bytes,
        proven_at=proof.proven_at,
        source=proof.source,
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
