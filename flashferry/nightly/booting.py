"""Boot the routers from an image under test, uploaded if necessary and removed after the night.

The image is an image definition on the controller, or a disk image that is checked and hashed before the lab is made
and uploaded before the import. It is named after its content, so an image that already exists is used and kept.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.core.value_description import of_these
from flashferry.core.values import replace
from flashferry.nightly.backend import Deadline, DiskFile, Progress, StoppableClock, Topology, UploadedImage
from flashferry.nightly.clean_up import remove_image
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.cml.images import disk_file, image_of, with_image


class ImageChoice(Struct, frozen=True, kw_only=True):
    """The command-line options about the image under test.

    Attributes:
        file: A disk image to upload; None: none is uploaded.
        definition: An image definition on the controller; None: not chosen.
        node_definition: Whose nodes boot it; None: the lab's only node definition.
        is_kept: Whether an uploaded disk image stays on the controller.
    """

    file: Path | None = None
    definition: str | None = None
    node_definition: str | None = None
    is_kept: bool = False


class BootImage(Struct, frozen=True, kw_only=True):
    """The checked choice: which nodes boot which image definition, or which disk image to upload."""

    node_definition: str
    definition_id: str | None = None
    disk: DiskFile | None = None
    is_kept: bool = False


def chosen(choice: ImageChoice, topology: Topology, *, on_progress: Progress | None = None) -> BootImage | None:
    """Check the options, and hash the disk image; None if no image was chosen.

    Raises:
        ConfigInvalid: Options contradict each other, the file is no disk image, or no router has the node definition.
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
            f"--image-for: expected {of_these(kinds)}, found {found}",
            hint="Name the node definition that the image is made for",
        )
    return choice.node_definition


class BootedImage:
    """Upload the image under test, boot it, and remove it."""

    def __init__(
        self, image: BootImage | None, backend: CmlBackend, clock: StoppableClock, on_progress: Progress
    ) -> None:
        self._image, self._backend, self._clock, self._on_progress = image, backend, clock, on_progress
        self._ours: UploadedImage | None = None

    def planned(self, topology: Topology) -> Topology:
        """Return the topology for the preflight check, before an upload."""
        return topology if self._image is None else self._booting(topology, self._image.definition_id)

    def bring(self, topology: Topology) -> tuple[Topology, str]:
        """Upload the image unless it exists; return the topology that boots it, and a sentence.

        Raises:
            NightFault: `LAB`: the controller refuses the image.
        """
        if self._image is None or self._image.disk is None:
            return topology, ""
        backend, disk, kind = self._backend, self._image.disk, self._image.node_definition
        image = image_of(disk, kind)
        if backend.has_image(image):
            sentence = f"image {image.definition_id} is there already and stays"
        else:
            # From here on it may be there, in part or whole, whatever is answered.
            self._ours = None if self._image.is_kept else image
            backend.put_image(disk, kind, on_progress=self._report)
            sentence = f"image {image.definition_id} of {disk.path.name} uploaded, {disk.size_bytes:,} bytes"
        return self._booting(topology, image.definition_id), sentence

    def remove(self, deadline: Deadline) -> str:
        """Remove the image if this night uploaded it and it is not kept; return a sentence, or an empty string.

        Raises:
            NightFault: `CLEANUP`: it may still exist.
        """
        return remove_image(self._backend, self._ours, deadline) if self._ours else ""

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
        return replace(topology, text=with_image(topology.text, kind, image), nodes=tuple(nodes))
