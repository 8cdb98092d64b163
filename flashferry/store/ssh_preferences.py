"""Which cipher and MAC devices of a model are offered: what a sweep found to be the fastest, kept in the state folder.

A small file of its own, and not the journal: an operator may read it, and delete it to have all offered again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flashferry.core.codec import CodecError, decode, to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.writing import write_whole

FILE = "ssh_preferences.json"
SCHEMA = "flashferry.ssh-preferences/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshPreference:
    """What devices of a model are offered alone.

    Attributes:
        model: As the device tells it, for example `C8300-1N1S-4T2X`.
        cipher: By its name in SSH.
        mac: The same; empty: any, or none where the cipher authenticates by itself.
        rate_bytes_per_s: What it gave where it was measured.
        host: Where that was.
        run_id: In which run.
    """

    model: str
    cipher: str
    mac: str = ""
    rate_bytes_per_s: float
    host: str
    run_id: str


class SshPreferences:
    """The preferences by model, as the file has them."""

    def __init__(self, path: Path, known: Mapping[str, SshPreference]) -> None:
        self._path, self._known = path, dict(known)

    @classmethod
    def read(cls, folder: Path) -> SshPreferences:
        """Read those of a state folder; none where there is no file.

        Raises:
            ConfigInvalid: The file cannot be read, or is none of ours.
        """
        path = folder / FILE
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["schema"] != SCHEMA:
                raise ValueError(f"expected {SCHEMA!r}, found {data['schema']!r}")
            found = decode(tuple[SshPreference, ...], data["preferences"])
        except FileNotFoundError:
            return cls(path, {})
        except (OSError, ValueError, KeyError, TypeError, CodecError) as error:
            raise ConfigInvalid(
                f"{path}: expected SSH preferences as a sweep keeps them ({error})",
                hint="Delete the file: devices are offered all ciphers again, and a sweep can be made anew",
            ) from None
        return cls(path, {one.model: one for one in found})

    @property
    def by_model(self) -> Mapping[str, SshPreference]:
        """Return all of them."""
        return dict(self._known)

    def keep(self, preference: SshPreference) -> None:
        """Keep one in place of the former of its model.

        Raises:
            OSError: The file cannot be written.
        """
        self._known[preference.model] = preference
        kept = [self._known[model] for model in sorted(self._known)]
        text = json.dumps({"schema": SCHEMA, "preferences": to_json(kept)}, indent=1)
        write_whole(self._path, text + "\n", is_private=True)
