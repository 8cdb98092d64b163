"""Frozen values to JSON and back, typed by msgspec.

Dataclasses, enums, tuples, paths, optional and plain values are supported. Fields marked `repr=False` hold secrets and
are left out of what `public` returns.
"""

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from flashferry.core.errors import FlashferryError, Kind

T = TypeVar("T")


class CodecError(FlashferryError, ValueError):
    """Something that was stored or sent is not of the agreed shape."""

    kind: ClassVar[Kind] = Kind.CODEC_ERROR
    advice: ClassVar[str | None] = "Report it: two parts of flashferry do not understand each other"


def encode(value: Any) -> Any:
    """Turn a value into what `json.dumps` takes."""
    import msgspec  # here, for most commands end without it

    return msgspec.to_builtins(value, enc_hook=_path_as_text)


def public(value: Any) -> Any:
    """Turn a value into what `json.dumps` takes, without the fields that hold secrets."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: public(getattr(value, field.name)) for field in fields(value) if field.repr}
    if isinstance(value, (tuple, list)):
        return [public(item) for item in value]
    if isinstance(value, dict):
        return {str(key): public(item) for key, item in value.items()}
    return encode(value)


def decode(kind: type[T], data: Any) -> T:
    """Build a value of a dataclass from what `json.loads` returned.

    Args:
        kind: The dataclass wanted.
        data: A mapping of its fields; ones with a default may be missing, and others are left out of account.

    Raises:
        CodecError: A field is missing or of another type.
    """
    import msgspec

    try:
        return msgspec.convert(data, kind, dec_hook=_path_of_text)
    except msgspec.ValidationError as error:
        raise CodecError(f"{kind.__name__}: {error}") from error


def _path_as_text(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"no way to write a {type(value).__name__}")


def _path_of_text(kind: type, value: Any) -> Path:
    if issubclass(kind, Path) and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(f"no way to read a {kind.__name__}")
