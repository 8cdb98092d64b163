"""Results of probes in JSON files of the state folder: the best copy method of a path, the SSH cipher of a model.

Not in the journal, so that an operator can read such a file, or delete it to discard all values. For example
`ssh_preferences.json`; devices of other models are offered all ciphers:

    {
     "schema": "flashferry.ssh-preferences/1",
     "preferences": [
      {"model": "C8300-1N1S-4T2X", "cipher": "aes128-gcm@openssh.com", "mac": "", "rate_bytes_per_s": 5600000.0,
       "host": "r1", "run_id": "20261127-010203-4f2a"}
     ]
    }
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


class KeptFile(Generic[Kept]):
    """The values of such a file, one of a name; a subclass describes its format.

    Attributes:
        file: Its name in the state folder.
        schema: Value of its key `schema`.
        entries: Key of the list of values.
        kind: Their class.
        name: The field that identifies a value; a new value replaces the old one.
        called: Description for error messages.
        hint: Hint of the error for an invalid file.
    """

    file: ClassVar[str]
    schema: ClassVar[str]
    entries: ClassVar[str]
    kind: ClassVar[type[Any]]
    name: ClassVar[str]
    called: ClassVar[str]
    hint: ClassVar[str]

    def __init__(self, path: Path, values: Iterable[Kept]) -> None:
        self._path = path
        self._known = {self._name(one): one for one in values}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the file of a state folder; empty if there is none.

        Raises:
            ConfigInvalid: It cannot be read, or has another format.
        """
        path = folder / cls.file
        try:
            return cls(path, cls._values(json.loads(path.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            return cls(path, ())
        except (OSError, ValueError, KeyError, TypeError, CodecError) as error:
            raise ConfigInvalid(f"{path}: expected {cls.called} ({reason_of(error)})", hint=cls.hint) from None

    @classmethod
    def _values(cls, data: Any) -> tuple[Kept, ...]:
        if data["schema"] != cls.schema:
            raise ValueError(f"expected {cls.schema!r}, found {data['schema']!r}")
        return tuple(decode(cls.kind, one) for one in data[cls.entries])

    def _name(self, value: Kept) -> str:
        return str(getattr(value, self.name))

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
        text = json.dumps({"schema": self.schema, self.entries: values}, indent=1)
        write_whole(self._path, text + "\n", is_private=True)


class BulkPath(Struct, frozen=True, kw_only=True):
    """Result of a probe of a path.

    Attributes:
        source: `user@host:port` for SSH, or a URL without login.
        at: ISO 8601, UTC.
        method: The best method.
        rate_bytes_per_s: Its rate, without the time of the login.
        cost: Processor seconds per GB of the measured ends; None if none was measured.
        bound_by: What limited it.
        by_cost: Whether methods were ranked by processor time, because the rates scattered.
        ciphers: Ciphers that both ends support, the best first; empty if SSH was not probed.
        macs: The same for MACs.
        link_bytes_per_s: Rate of the link; None if unknown.
        compression_helps: Whether the sample compresses well enough to be faster.
    """

    source: str
    at: str
    method: str
    rate_bytes_per_s: float
    cost: float | None = None
    bound_by: str = ""
    by_cost: bool = False
    ciphers: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    link_bytes_per_s: float | None = None
    compression_helps: bool = False


class BulkPaths(KeptFile[BulkPath]):
    """The stored paths by source."""

    file = "bulk_paths.json"
    schema = "flashferry.bulk-paths/1"
    entries = "paths"
    kind = BulkPath
    name = "source"
    called = "paths as a depot's probe keeps them"
    hint = "Delete the file, and probe the paths anew"


class SshPreference(Struct, frozen=True, kw_only=True):
    """The only cipher and MAC offered to devices of a model.

    Attributes:
        model: As the device reports it, for example `C8300-1N1S-4T2X`.
        cipher: SSH name.
        mac: SSH name; empty: any, or none with an authenticating cipher.
        rate_bytes_per_s: Measured rate.
        host: The measured device.
        run_id: The run that measured it.
    """

    model: str
    cipher: str
    mac: str = ""
    rate_bytes_per_s: float
    host: str
    run_id: str


class SshPreferences(KeptFile[SshPreference]):
    """The stored preferences by model."""

    file = "ssh_preferences.json"
    schema = "flashferry.ssh-preferences/1"
    entries = "preferences"
    kind = SshPreference
    name = "model"
    called = "SSH preferences as a sweep keeps them"
    hint = "Delete the file: devices are offered all ciphers again, and a sweep can be made anew"
