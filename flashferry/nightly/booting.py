"""The image under test: what a night's routers boot where the operator says so, and what becomes of it afterwards.

Either the controller has an image definition of it, or a disk image is brought: looked at and hashed before anything is
made, uploaded and defined before the import, and taken away behind the lab. An image is known by its content, so one
that a night finds there is booted and left alone, however it came there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import counted
from flashferry.nightly.backend import (
    DiskFile,
    LabBackend,
    Progress,
    Topology,
    UploadedImage,
)
from flashferry.nightly.clean_up import remove_image
from flashferry.nightly.cml.images import disk_file
from flashferry.nightly.deadline import Deadline, StoppableClock


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChoice:
    """What the operator says of the image under test.

    Attributes:
        file: A disk image to be brought, or None.
        definition: An image definition that the backend has, or None.
        node_definition: Whose nodes boot it; None: the topology has one node definition only.
        is_kept: Whether a disk image that was brought stays there.
    """

    file: Path | None = None
    definition: str | None = None
    node_definition: str | None = None
    is_kept: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BootImage:
    """What routers of a night boot.

    Attributes:
        node_definition: Which routers.
        definition_id: The image definition; None: `disk` is brought.
        disk: The disk image that is brought, or None.
        is_kept: Whether it stays there.
    """

    node_definition: str
    definition_id: str | None = None
    disk: DiskFile | None = None
    is_kept: bool = False


def chosen(choice: ImageChoice, topology: Topology, *, on_progress: Progress | None = None) -> BootImage | None:
    """Return what routers boot, its file looked at and hashed; None where nothing was said.

    Args:
        choice: What the operator says.
        topology: The lab, of whatever title.
        on_progress: Called with how far the hash is.

    Raises:
        ConfigInvalid: Options contradict each other, the file is none that nodes boot, or no router is of the kind.
    """
    if choice.file is not None and choice.definition is not None:
        raise ConfigInvalid(
            "--image-definition: expected it without --image-file, found both",
            hint="A file that is uploaded gets a definition of its own: leave one out",
        )
    if choice.is_kept and choice.file is None:
        raise ConfigInvalid(
            "--keep-image: expected --image-file with it, found none", hint="Nothing else is taken away: leave it out"
        )
    if choice.file is None and choice.definition is None:
        if choice.node_definition is not None:
            raise ConfigInvalid(
                "--image-for: expected --image-file or --image-definition with it, found neither",
                hint="Say which image its nodes boot, or leave it out",
            )
        return None
    kind = _kind(choice, topology)
    disk = disk_file(choice.file, on_progress=on_progress) if choice.file is not None else None
    return BootImage(node_definition=kind, definition_id=choice.definition, disk=disk, is_kept=choice.is_kept)


def _kind(choice: ImageChoice, topology: Topology) -> str:
    kinds = sorted({node.node_definition for node in topology.nodes})
    if choice.node_definition is None and len(kinds) == 1:
        return kinds[0]
    if choice.node_definition not in kinds:
        found = choice.node_definition or f"{counted(len(kinds), 'node definition')} in the lab and none named"
        raise ConfigInvalid(
            f"--image-for: expected one of {', '.join(kinds)}, found {found}",
            hint="Name the node definition that the image is made for",
        )
    return choice.node_definition


class BootedImage:
    """The image under test on its way through a night.

    Args:
        image: What routers boot; None: what the description says.
        backend: Where they boot it.
        clock: The night's clock.
        on_progress: Called with how far the upload is.
    """

    def __init__(
        self, image: BootImage | None, backend: LabBackend, clock: StoppableClock, on_progress: Progress
    ) -> None:
        self._image, self._backend, self._clock, self._on_progress = image, backend, clock, on_progress
        self._ours: UploadedImage | None = None

    def planned(self, topology: Topology) -> Topology:
        """Return the lab as it can be looked at before an image is brought."""
        return topology if self._image is None else self._booting(topology, self._image.definition_id)

    def bring(self, topology: Topology) -> tuple[Topology, str]:
        """Bring the image, where it is not there already; return the lab that boots it, and a sentence.

        Raises:
            NightFault: `LAB`: the backend refuses it.
        """
        if self._image is None or self._image.disk is None:
            return topology, ""
        backend, disk, kind = self._backend, self._image.disk, self._image.node_definition
        image = backend.image_of(disk, kind)
        if backend.has_image(image):
            sentence = f"image {image.definition_id} is there already and stays"
        else:
            # From here on it may be there, in part or whole, whatever is answered.
            self._ours = None if self._image.is_kept else image
            backend.put_image(disk, kind, on_progress=self._report)
            sentence = f"image {image.definition_id} of {disk.path.name} uploaded, {disk.size_bytes:,} bytes"
        return self._booting(topology, image.definition_id), sentence

    def remove(self, deadline: Deadline) -> str:
        """Take the image away where this night brought it and it is not to stay; return a sentence, or none.

        Raises:
            NightFault: `CLEANUP`: it may still be there.
        """
        if self._ours is None:
            return ""
        return remove_image(self._backend, self._ours, deadline)

    def _report(self, done: int, size: int) -> None:
        # An upload takes minutes: a stop of the night does not wait for it.
        self._clock.check()
        self._on_progress(done, size)

    def _booting(self, topology: Topology, image: str | None) -> Topology:
        assert self._image is not None
        kind = self._image.node_definition
        nodes = (
            replace(node, image_definition=image) if node.node_definition == kind else node for node in topology.nodes
        )
        return replace(topology, text=self._backend.with_image(topology.text, kind, image), nodes=tuple(nodes))
