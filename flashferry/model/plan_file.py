"""Write a plan to a file, and read it with all checks.

Each device is a block with its keys in a fixed order, so that `diff` of two plans shows the devices that differ.

A plan states which files of the controller go to which routers, so it contains the SHA-256 of its content: that of the
content as JSON with sorted keys, without blanks, ASCII only, without the key `digest` and those that `--json` adds.
`plan` and `stage` print it. Its images are files of their names in the folders that it lists.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields
from pathlib import Path
from typing import BinaryIO

from flashferry.core.codec import CodecError, decode_exactly, to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import is_below, reading, write_whole
from flashferry.core.redaction import json_text, redact_json
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import SCHEMA, Action, FleetPlan

_NAME, _VERSION = SCHEMA.split("/")
_CHUNK_BYTES = 1 << 20
_OF_JSON_OPTION = frozenset({"schema", "exit_code", "meaning"})
"""Keys around a plan as `flashferry plan --json` prints it, which can also be read."""
_CARRIED_OUT = frozenset(
    {
        *(
            "action",
            "address",
            "by",
            "created_at",
            "depot",
            "digest",
            "ends_at",
            "group",
            "host",
            "hosts",
            "identity",
            "image",
        ),
        *("image_folders", "late", "md5", "name", "path", "schema", "sha512", "site", "starts_at", "transport", "tune"),
    }
)
"""Keys that a run uses: never redacted, even if a value looks like a secret."""
_AGAIN = "Make a new plan with 'flashferry plan'"


def plan_document(plan: FleetPlan) -> dict[str, object]:
    """Return a plan as JSON types, with its digest."""
    return sealed({"schema": SCHEMA, "digest": ""} | redact_json(to_json(plan), exact=_CARRIED_OUT))


def plan_text(plan: FleetPlan) -> str:
    """Return a plan as the text of its file."""
    return "".join(_pieces(plan))


def _pieces(plan: FleetPlan) -> Iterator[str]:
    """Yield the text of a plan's file, equal to `plan_document` with an indent of 1, in pieces.

    Each device is converted alone: neither the document of 100,000 devices is ever held, nor a second copy of its text.
    """
    values = {"schema": SCHEMA} | {one.name: getattr(plan, one.name) for one in fields(plan) if one.repr}
    values.pop("digest")
    digest = hashlib.sha256()
    texts: dict[str, tuple[str, ...]] = dict.fromkeys(["schema", "digest", *values], ())
    for number, key in enumerate(sorted(values)):
        digest.update(f"{',' if number else '{'}{json.dumps(key)}:".encode())
        texts[key] = tuple(_texts(key, values[key], digest.update))
    digest.update(b"}")
    texts["digest"] = (json_text(digest.hexdigest()),)
    for number, (key, pieces) in enumerate(texts.items()):
        yield f"{',' if number else '{'}\n {json_text(key)}: "
        yield from pieces
    yield "\n}\n"


def _texts(key: str, value: object, digest: Callable[[bytes], None]) -> Iterator[str]:
    """Yield the text of one field of a plan, and give its digest's form to `digest`."""
    if not isinstance(value, tuple) or not value:
        content = redact_json(to_json(value), key, exact=_CARRIED_OUT)
        digest(_canonical(content))
        yield json_text(content, indent=1).replace("\n", "\n ")
        return
    for number, one in enumerate(value):
        content = redact_json(to_json(one), key, exact=_CARRIED_OUT)
        digest((b"," if number else b"[") + _canonical(content))
        yield f"{',' if number else '['}\n  " + json_text(content, indent=1).replace("\n", "\n  ")
    digest(b"]")
    yield "\n ]"


def sealed(content: dict[str, object]) -> dict[str, object]:
    """Return a plan's content with its current digest."""
    return content | {"digest": _digest(content)}


def _digest(content: dict[str, object]) -> str:
    own = {key: value for key, value in content.items() if key == "schema" or key not in _OF_JSON_OPTION}
    own.pop("digest", None)
    return hashlib.sha256(_canonical(own)).hexdigest()


def _canonical(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def save_plan(plan: FleetPlan, path: Path) -> None:
    """Write a plan atomically, readable by its owner only.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    try:
        write_whole(path, _pieces(plan), is_private=True)
    except OSError as error:
        raise ConfigInvalid(
            f"plan {path}: cannot be written: {error.strerror}",
            hint="Check free disk space and the folder's permissions, or name another file with --output",
        ) from None


def load_plan(path: Path) -> FleetPlan:
    """Read a plan, and compare its images with the files.

    Raises:
        ConfigInvalid: The file is missing, damaged, changed or of another release, or an image is missing, changed, or
            not in the plan's folders.
    """
    plan = read_plan(path)
    check_places(plan, path)
    for image in plan.images:
        check_image(image)
    return plan


def read_plan(path: Path) -> FleetPlan:
    """Read a plan without checking its images.

    Raises:
        ConfigInvalid: The file is missing, damaged, changed or of another release.
    """
    try:
        with reading(path) as file:
            content = file.read()
    except OSError as error:
        raise ConfigInvalid(
            f"plan {path}: cannot be read: {error.strerror}", hint="Check the path and the file's permissions"
        ) from None
    return plan_from(content, path)


def plan_from(content: bytes, called: Path | str) -> FleetPlan:
    """Parse a plan, and check everything but its images.

    Args:
        content: The file's bytes.
        called: Its name in error messages.

    Raises:
        ConfigInvalid: It is damaged, changed or of another release.
    """
    plan = _parsed(content, called)
    _check_whole(called, plan)
    return plan


def check_image(image: PlannedImage) -> None:
    """Compare an image with its state when the plan was made.

    Raises:
        ConfigInvalid: It is missing, no regular file, or differs in size or content.
    """
    path = Path(image.path)
    try:
        with reading(path) as file:
            size_bytes, found = os.fstat(file.fileno()).st_size, _md5(file)
    except OSError as error:
        raise ConfigInvalid(
            f"image {path}: expected the file that the plan is for, MD5 {image.md5}: {error.strerror}",
            hint="Put it back, or make a new plan with 'flashferry plan'",
        ) from None
    if size_bytes != image.size_bytes:
        raise ConfigInvalid(
            f"image {path}: it has changed since the plan was made: expected {image.size_bytes:,} bytes with MD5 "
            f"{image.md5}, found {size_bytes:,} bytes with MD5 {found}",
            hint=_AGAIN,
        )
    if found != image.md5:
        raise ConfigInvalid(
            f"image {path}: it has changed since the plan was made: expected MD5 {image.md5}, found {found}",
            hint=_AGAIN,
        )


def check_places(plan: FleetPlan, called: Path | str) -> None:
    """Check that the plan's images are in its folders and have the names of their files.

    Raises:
        ConfigInvalid: An image is outside the folders, with links resolved, or its name differs from the file's.
    """
    folders = [Path(folder) for folder in plan.image_folders]
    for image in plan.images:
        path = Path(image.path)
        problem = ""
        if not path.is_absolute() or path.name != image.name:
            problem = "expected its whole path, which ends in its name, found another"
        elif not all(folder.is_absolute() for folder in folders) or not is_below(path, folders):
            problem = "expected it in one of the plan's image folders, found that its path leads elsewhere"
        if problem:
            raise ConfigInvalid(f"plan {called}: image {image.name}: {problem}", hint=_AGAIN)


def check_against(plan: FleetPlan, hosts: Collection[str]) -> None:
    """Compare a plan with the current inventory; further devices of the inventory are ignored.

    Args:
        plan: The plan.
        hosts: Names of all devices of the inventory.

    Raises:
        ConfigInvalid: A device to stage is not in the inventory.
    """
    if missing := [device.host for device in plan.of(Action.STAGE) if device.host not in hosts]:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ConfigInvalid(
            f"the plan has {', '.join(missing[:5])}{more}, not in the inventory or not selected",
            hint="Give the inventory that the plan was made from, without selecting devices, or make a new plan",
        )


def _parsed(text: bytes, path: Path | str) -> FleetPlan:
    try:
        content = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        found = _no_json(text, error)
        raise ConfigInvalid(
            f"plan {path}: is no plan: expected JSON that 'flashferry plan --output' wrote, found {found}",
            hint="Give the file of a plan; where this one was cut or altered, make a new one with 'flashferry plan'",
        ) from None
    schema = content.get("schema") if isinstance(content, dict) else None
    if not isinstance(schema, str) or not schema.startswith(f"{_NAME}/"):
        raise ConfigInvalid(
            f"plan {path}: expected a file with the schema {SCHEMA}, found {repr(schema) if schema else 'none'}",
            hint="Give a plan that 'flashferry plan --output FILE' wrote",
        )
    if schema != SCHEMA:
        raise ConfigInvalid(
            f"plan {path}: expected the schema {SCHEMA}, found {schema}", hint=f"Another release made it. {_AGAIN}"
        )
    _check_digest(path, content)
    try:
        return decode_exactly(FleetPlan, {key: value for key, value in content.items() if key not in _OF_JSON_OPTION})
    except (CodecError, ConfigInvalid) as error:
        raise ConfigInvalid(f"plan {path}: damaged: {error.message}", hint=_AGAIN) from None


def _no_json(text: bytes, error: ValueError | RecursionError) -> str:
    """Describe a file that is not JSON, without quoting it."""
    if not text.strip():
        return "an empty file"
    if isinstance(error, UnicodeDecodeError):
        return f"bytes that are no text (UTF-8), from byte {error.start + 1} on"
    if not isinstance(error, json.JSONDecodeError):
        return "JSON that is too deep, or has a number too long"
    if text.lstrip()[:1] != b"{":
        return "other text"
    return f"JSON that is cut, or has an error, in line {error.lineno}, column {error.colno}"


def _check_digest(path: Path | str, content: dict[str, object]) -> None:
    stated, found = content.get("digest"), _digest(content)
    if not isinstance(stated, str) or not stated:
        raise ConfigInvalid(
            f"plan {path}: expected its SHA-256 under the key 'digest', found none",
            hint=f"An earlier release made it, or it was removed by hand. {_AGAIN}",
        )
    if stated != found:
        raise ConfigInvalid(
            f"plan {path}: it has changed since it was made: expected SHA-256 {stated[:64]}, found {found}",
            hint=f"{_AGAIN}; if the change is yours, and meant, put the digest found under its key 'digest'",
        )


def _check_whole(path: Path | str, plan: FleetPlan) -> None:
    """Check that the plan is consistent, so that a run does not fail halfway."""
    names = [device.host for device in plan.devices]
    known = {image.name for image in plan.images}
    staged = {device.host for device in plan.of(Action.STAGE)}
    waved = [host for wave in plan.waves for host in wave.hosts]
    problem = ""
    if len(set(names)) != len(names):
        problem = f"device {next(name for name in names if names.count(name) > 1)} is there twice"
    elif unknown := next((one for one in plan.of(Action.STAGE) if one.image not in known), None):
        problem = f"device {unknown.host} is to get image {unknown.image}, which is not among the plan's images"
    elif sorted(waved) != sorted(staged):
        odd = sorted(set(waved) ^ staged) or sorted(host for host in staged if waved.count(host) > 1)
        problem = f"device {odd[0]} is to be staged and must be in exactly one wave, or in none if it is not"
    if problem:
        raise ConfigInvalid(f"plan {path}: {problem}", hint=_AGAIN)


def _md5(file: BinaryIO) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()
