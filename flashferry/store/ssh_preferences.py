"""The cipher and MAC offered to devices of a model: the fastest found by a sweep, stored in the state folder.

Devices of other models are offered all. The file:

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

from msgspec import Struct

from flashferry.store.kept_file import KeptFile, KeptForm



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

    form = KeptForm(
        file="ssh_preferences.json",
        schema="flashferry.ssh-preferences/1",
        entries="preferences",
        kind=SshPreference,
        name="model",
        called="SSH preferences as a sweep keeps them",
        hint="Delete the file: devices are offered all ciphers again, and a sweep can be made anew",
    )
