"""What was proven of an image in a catalogue, when, and of which state of its file. Values, their files and names.

Facts
-----

- A proof belongs to a state of a file: device, inode, size, modification and change time. Giving a file its name moves
  its change time, so a proof is started before the name is there, without a state, and completed after it.
- All names beside images begin with a dot, and no image's does (`flashferry.images.manifest.is_image_name`). None of
  the endings here is the end of another, so a hidden file shows what it belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from flashferry.core.atomic_write import write_whole
from flashferry.core.codec import CodecError, decode, to_json
from flashferry.core.state_folder import open_private
from flashferry.images.files import FileIdentity
from flashferry.images.manifest import Manifest, is_image_name

PROOF_SCHEMA = "flashferry.proof/1"
PART, STATE, PLACE, PROOF = ".part", ".part.json", ".part.at", ".proof.json"
"""Endings of the files beside an image: what is under way, how far it is, where it writes, and what was proven."""

_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was proven of an image.

    Attributes:
        manifest: What it is made of.
        proven_at: When its whole SHA-512 was found right, last.
        source: Where it came from, without any login; empty: it was there.
        identity: The state of the file that was read; None while it is given its name.
    """

    manifest: Manifest
    proven_at: datetime
    source: str = ""
    identity: FileIdentity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenImage:
    """An image whose whole SHA-512 was found right, and whose file has not changed since.

    Attributes:
        path: The file.
        proof: What was proven.
    """

    path: Path
    proof: Proof

    @property
    def name(self) -> str:
        """Return its name."""
        return self.proof.manifest.name

    @property
    def size_bytes(self) -> int:
        """Return its size."""
        return self.proof.manifest.size_bytes

    @property
    def sha512(self) -> str:
        """Return its SHA-512."""
        return self.proof.manifest.sha512

    @property
    def md5(self) -> str:
        """Return its MD5."""
        return self.proof.manifest.md5

    @property
    def proven_at(self) -> datetime:
        """Return when it was proven, last."""
        return self.proof.proven_at


class HeldState(StrEnum):
    """How a name in a catalogue stands."""

    PROVEN = "proven"
    UNPROVEN = "not proven"
    """A file is there that no sync has put there, and what it should be is not known."""
    DAMAGED = "damaged"
    """It is not what was proven any more: 'depot verify' takes its name, the next sync what is wrong with it."""
    PARTIAL = "under way"
    """A part of it is there, under a hidden name."""
    MISSING = "missing"
    """It was proven, and its file is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A name in a catalogue.

    Attributes:
        name: The image's name.
        state: How it stands.
        size_bytes: Its size, as it should be.
        sha512: What was proven, or is to be; empty where that is not known.
        verified_bytes: How much of it is verified.
        here_bytes: How much of it is on the disk, verified or not: the chunk at hand counts once it is whole.
        proven_at: When it was proven, last; None where it is not.
        source: Where it came from; empty where that is not known.
        bad_chunks: Numbers of the chunks, from 0, that are not what they should be, where that was looked at.
    """

    name: str
    state: HeldState
    size_bytes: int
    sha512: str = ""
    verified_bytes: int = 0
    here_bytes: int = 0
    proven_at: datetime | None = None
    source: str = ""
    bad_chunks: tuple[int, ...] = ()


def beside(folder: Path, name: str, ending: str) -> Path:
    """Return the path of a file beside an image, by its ending."""
    return folder / f".{name}{ending}"


def names_with(folder: Path, ending: str) -> Iterator[str]:
    """Yield the names of images that have a file of that ending beside them, in order.

    Raises:
        OSError: The folder cannot be read.
    """
    for path in sorted(folder.iterdir()):
        name = path.name.removeprefix(".").removesuffix(ending)
        if path.name == f".{name}{ending}" and is_image_name(name):
            yield name


def load_proof(folder: Path, name: str) -> Proof | None:
    """Return the proof that is kept for a name; None where there is none, or it is none of ours.

    Raises:
        ConfigInvalid: A link or another user's file is in its place.
        OSError: It cannot be read.
    """
    data = load_json(beside(folder, name, PROOF), PROOF_SCHEMA)
    try:
        found = None if data is None else decode(Proof, data)
    except (CodecError, ValueError):
        return None
    return found if found is not None and found.manifest.name == name else None


def save_proof(folder: Path, proof: Proof) -> None:
    """Keep a proof; it is on disk when this returns.

    Raises:
        OSError: It cannot be written.
    """
    path = beside(folder, proof.manifest.name, PROOF)
    write_whole(path, json.dumps({"schema": PROOF_SCHEMA, **to_json(proof)}), is_private=True)


def load_json(path: Path, schema: str) -> dict[str, object] | None:
    """Return the object in a file of ours with that schema; None where there is no such thing.

    Raises:
        ConfigInvalid: A link or another user's file is in its place.
        OSError: It cannot be read.
    """
    try:
        with open_private(path, "rb") as file:
            data = json.loads(file.read(_MOST_BYTES))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and data.get("schema") == schema else None


def now() -> datetime:
    """Return the time, to the second."""
    return datetime.now(UTC).replace(microsecond=0)
