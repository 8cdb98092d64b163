"""Read and change topologies (needs, notes, images), and upload disk images to a controller.

A night's notes are written into the topology instead of onto the imported lab: a night killed in between would leave a
lab that is not known to be ours.
"""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from flashferry.core.errors import ConfigInvalid
from flashferry.core.json_access import Node
from flashferry.core.redaction import sanitize
from flashferry.nightly.backend import DiskFile, Progress, UploadedImage
from flashferry.nightly.cml.controller import Call, Controller, below

LONGEST_TITLE = 64
"""Characters of a lab's title (CML 2.9's description of its interface)."""

_UNCOUNTED = frozenset({"external_connector", "unmanaged_switch"})
"""Node definitions that the licence does not count."""

_ENDLESS = 1 << 20


class TopologyNeeds(Struct, frozen=True, kw_only=True):
    """The resources that a topology needs.

    Attributes:
        node_definitions: Number of nodes by definition.
        image_definitions: Number of nodes by node definition and image.
        connectors: What external connectors connect to: `System Bridge`, `NAT`, `bridge0`.
    """

    node_definitions: Counter[str]
    image_definitions: Counter[tuple[str, str]]
    connectors: tuple[str, ...]

    @property
    def counted_nodes(self) -> int:
        """Number of nodes that the licence counts."""
        return sum(count for name, count in self.node_definitions.items() if name not in _UNCOUNTED)


def topology_needs(text: str) -> TopologyNeeds:
    """Return what a topology needs.

    Raises:
        ConfigInvalid: The text is no topology.
    """
    nodes = Node(_parsed(text)).list("nodes")
    images = ((node.text("node_definition") or "", node.text("image_definition")) for node in nodes)
    return TopologyNeeds(
        node_definitions=Counter(node.text("node_definition") or "" for node in nodes),
        image_definitions=Counter((definition, image) for definition, image in images if image is not None),
        connectors=tuple(dict.fromkeys(_connectors(nodes))),
    )


def with_notes(text: str, *, title: str, notes: str) -> str:
    """Return a topology with title and notes replaced.

    Raises:
        ConfigInvalid: The text is no topology, or the title is too long.
    """
    if not 0 < len(title) <= LONGEST_TITLE:
        raise ConfigInvalid(
            f"topology: expected a title of 1 to {LONGEST_TITLE} characters, found {len(title)}",
            hint="Leave the title to the night",
        )
    content = _parsed(text)
    content["lab"]["title"], content["lab"]["notes"] = title, notes
    return _written(content)


def with_image(text: str, node_definition: str, image: str | None) -> str:
    """Return a topology whose nodes of a definition boot an image; None: the controller's default.

    Raises:
        ConfigInvalid: The text is no topology.
    """
    content = _parsed(text)
    for node in content.get("nodes") or ():
        if isinstance(node, dict) and node.get("node_definition") == node_definition:
            node["image_definition"] = image
    return _written(content)


def _written(content: Any) -> str:
    out = io.StringIO()
    _yaml().dump(content, out)
    return out.getvalue()


def _connectors(nodes: tuple[Node, ...]) -> Iterator[str]:
    for node in nodes:
        if node.text("node_definition") == "external_connector":
            # 0.2.x has a text there, 0.3.x a list of files.
            for said in (node.text("configuration"), *(one.text("content") for one in node.list("configuration"))):
                if said is not None and said.strip():
                    yield said.strip()


def _parsed(text: str) -> Any:
    try:
        content = _yaml().load(text)
    except (YAMLError, UnicodeError, RecursionError, ValueError):
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("lab"), dict):
        raise ConfigInvalid(
            "topology: expected YAML with 'lab', 'nodes' and 'links', found something else",
            hint="Take the file as the controller's 'Download lab' gives it",
        )
    return content


def _yaml() -> YAML:
    """Return a YAML parser that preserves quotes, multi-line texts and order."""
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = _ENDLESS
    return yaml


STEP = "import"
_MAGIC = b"QFI\xfb"
_LONGEST_LABEL = 64
_BLOCK_BYTES = 1 << 20
_ANSWER_S = 600.0
"""Time limit after the last byte, in which the controller checks and moves the file [unknown how long]."""


def disk_file(path: Path, *, on_progress: Progress | None = None) -> DiskFile:
    """Check and hash a disk image.

    Raises:
        ConfigInvalid: It cannot be read, or is no disk image.
    """
    hint = "Give a disk image (.qcow2); a router's own image is staged, not booted: 'image' in nightly.yaml"
    if path.suffix == ".bin":
        raise ConfigInvalid(
            f"{path}: expected a disk image that ends in .qcow2, found a router's own image: these cannot be uploaded "
            "as they are, no node boots them",
            hint=hint,
        )
    if path.suffix not in {".qcow2", ".qcow"}:
        raise ConfigInvalid(f"{path}: expected a disk image that ends in .qcow2, found {path.name}", hint=hint)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ConfigInvalid(f"{path}: expected a disk image, found something else in it", hint=hint)
            file.seek(0)
            digest = _hashed(file, size, on_progress)
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be read: {error.strerror}", hint="Check the file's name and permissions"
        ) from None
    return DiskFile(path=path, size_bytes=size, sha256=digest)


def image_of(disk: DiskFile, node_definition: str) -> UploadedImage:
    """Return the names of a disk image on the controller; made from its content, so a file is never uploaded twice."""
    mark = disk.sha256[:12]
    return UploadedImage(
        definition_id=f"flashferry-{node_definition}-{mark}", file_name=f"flashferry-{mark}{disk.path.suffix}"
    )


def has_image(controller: Controller, image: UploadedImage) -> bool:
    """Return whether an image definition exists."""
    answer = controller.get("image_definitions", "read its image definitions", step=STEP)
    return any(one.text("id") == image.definition_id for one in Node(answer.value).list())


def put_image(
    controller: Controller, disk: DiskFile, node_definition: str, *, on_progress: Progress | None = None
) -> UploadedImage:
    """Upload a disk image and define it for nodes of a definition.

    Raises:
        ConfigInvalid: The file cannot be read.
        NightFault: `LAB`: the controller refuses; the uploaded file is removed again.
    """
    image = image_of(disk, node_definition)
    _upload(controller, disk, image.file_name, on_progress)
    what = f"define the image for {sanitize(node_definition)}"
    call = Call(
        method="POST",
        path="image_definitions",
        what=what,
        step=STEP,
        json=_definition(image, disk, node_definition),
        is_repeatable=False,
    )
    try:
        controller.ask(call, done=lambda: has_image(controller, image) or None)
    except BaseException:
        _remove(controller, "images", "manage", image.file_name, what="remove the image's file")
        raise
    return image


def remove_image(controller: Controller, image: UploadedImage) -> None:
    """Remove an image's definition and file; missing ones are no error.

    Raises:
        NightFault: `LAB`: the controller refuses; a lab may still use the image.
    """
    _remove(controller, "image_definitions", image.definition_id, what="remove the image's definition")
    _remove(controller, "images", "manage", image.file_name, what="remove the image's file")


def _definition(image: UploadedImage, disk: DiskFile, node_definition: str) -> dict[str, str]:
    return {
        "id": image.definition_id,
        "node_definition_id": node_definition,
        "label": f"{node_definition} {disk.path.name}"[:_LONGEST_LABEL],
        "description": f"Put here by a night of flashferry from {disk.path.name}",
        "disk_image": image.file_name,
        "sha256": disk.sha256,
    }


class _ProgressFile:
    """A file that reports how much was read; a repeated form seeks back to the start."""

    def __init__(self, file: IO[bytes], size: int, report: Progress) -> None:
        self._file, self._size, self._report = file, size, report

    def read(self, count: int = -1) -> bytes:
        """Return the next bytes."""
        data = self._file.read(count)
        self._report(self._file.tell(), self._size)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Change the position."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()


def _upload(controller: Controller, disk: DiskFile, name: str, on_progress: Progress | None) -> None:
    with disk.path.open("rb") as file:
        upload = _ProgressFile(file, disk.size_bytes, on_progress or (lambda _done, _size: None))
        call = Call(
            method="POST",
            path="images/upload",
            what=f"upload {disk.path.name}",
            step=STEP,
            expects="nothing",
            files={"field0": (name, upload)},
            headers={"X-Original-File-Name": name},
            is_repeatable=False,
            timeout_s=_ANSWER_S,
        )
        controller.ask(call)


def _remove(controller: Controller, *parts: str, what: str) -> None:
    call = Call(method="DELETE", path=below(*parts), what=what, step=STEP, expects="nothing", allows=(404,))
    controller.ask(call)


def _hashed(file: IO[bytes], size: int, on_progress: Progress | None) -> str:
    digest, done = hashlib.sha256(), 0
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
        done += len(block)
        if on_progress is not None:
            on_progress(done, size)
    return digest.hexdigest()
