"""Store values of one type by name in a JSON file of the state folder.

Not in the journal, so that an operator can read the file, or delete it to discard all values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from msgspec import Struct

from flashferry.core.codec import CodecError, decode, to_json
from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.core.files import write_whole

Kept = TypeVar("Kept")


class KeptForm(Struct, frozen=True, kw_only=True):
    """Format of such a file.

    Attributes:
        file: Its name in the state folder.
        schema: Value of its key `schema`.
        entries: Key of the list of values.
        kind: Their dataclass.
        name: The field that identifies a value; a new value replaces the old one.
        called: Description for error messages.
        hint: Hint of the error for an invalid file.
    """

    file: str
    schema: str
    entries: str
    kind: type[Any]
    name: str
    called: str
    hint: str


class KeptFile(Generic[Kept]):
    """The values of such a file; a subclass sets `form`."""

    form: ClassVar[KeptForm]

    def __init__(self, path: Path, values: Iterable[Kept]) -> None:
        self._path = path
        self._known = {self._name(one): one for one in values}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the file of a state folder; empty if there is none.

        Raises:
            ConfigInvalid: It cannot be read, or has another format.
        """
        path = folder / cls.form.file
        try:
            return cls(path, cls._values(json.loads(path.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            return cls(path, ())
        except (OSError, ValueError, KeyError, TypeError, CodecError) as error:
            raise ConfigInvalid(
                f"{path}: expected {cls.form.called} ({reason_of(error)})", hint=cls.form.hint
            ) from None

    @classmethod
    def _values(cls, data: Any) -> tuple[Kept, ...]:
        if data["schema"] != cls.form.schema:
            raise ValueError(f"expected {cls.form.schema!r}, found {data['schema']!r}")
        return tuple(decode(cls.form.kind, one) for one in data[cls.form.entries])

    def _name(self, value: Kept) -> str:
        return str(getattr(value, self.form.name))

    @property
    def by_name(self) -> Mapping[str, Kept]:
        """Return all values in the order of their names."""
        return {name: self._known[name] for name in sorted(self._known)}

    def keep(self, value: Kept) -> None:
        """Store a value, replacing the one of its name.

        Raises:
            OSError: The file cannot be written.
        """
        self._known[self._name(value)] = value
        values = to_json(tuple(self.by_name.values()))
        text = json.dumps({"schema": self.form.schema, self.form.entries: values}, indent=1)
        write_whole(self._path, text + "\n", is_private=True)
