"""Which cipher and MAC devices of a model are offered: what a sweep found to be the fastest, kept in the state folder.

Where there is none of a model, its devices are offered all that we have. The file, as an operator finds it:

    {
     "schema": "flashferry.ssh-preferences/1",
     "preferences": [
      {"model": "C8300-1N1S-4T2X", "cipher": "aes128-gcm@openssh.com", "mac": "", "rate_bytes_per_s": 5600000.0,
       "host": "r1", "run_id": "20261127-010203-4f2a"}
     ]
    }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flashferry.store.kept_file import KeptFile, KeptForm

FILE = "ssh_preferences.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshPreference:
    """What devices of a model are offered alone.

    Attributes:
        model: As the device reports it, for example `C8300-1N1S-4T2X`.
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


class SshPreferences(KeptFile[SshPreference]):
    """The preferences by model, as the file has them."""

    form = KeptForm(
        file=FILE,
        schema="flashferry.ssh-preferences/1",
        entries="preferences",
        kind=SshPreference,
        name="model",
        called="SSH preferences as a sweep keeps them",
        hint="Delete the file: devices are offered all ciphers again, and a sweep can be made anew",
    )

    @property
    def by_model(self) -> Mapping[str, SshPreference]:
        """Return all of them."""
        return self.by_name
