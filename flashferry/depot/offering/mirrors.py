"""The sites whose depots may fetch from ours, from a file of the operator's: login, addresses, link and cap.

The file holds passwords, or names files that do; one that others can read is refused.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashferry.core.codec import CodecError, decode_exactly
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import NotRegular, reading
from flashferry.core.units import link_rate
from flashferry.fileserver import FixedLogin, SettingsInvalid
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.model.toml_file import parsed_toml
from inventory.host_view import DEFAULT_CAP_SHARE

_OTHERS = stat.S_IRWXO | stat.S_IRWXG
_MOST_BYTES = 1 << 20
_EXAMPLE = 'Write, say: [sites.branch] user = "branch", password_file = "/etc/flashferry/branch.password"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A site whose depot may fetch from ours, as the file has it.

    Attributes:
        user: Its login's user, as `FixedLogin` has it; no other site's.
        password: Its password; empty: it is in a file.
        password_file: File that holds it, by an absolute path; empty: it is here.
        allow: Addresses or networks that it must come from; empty for any.
        link_mbps: Rate of the site's link in Mbit/s, > 0, or None.
        cap_share: What all copies to the site may take of that together, 0 to 1.
        cap_mbps: Or that in Mbit/s, > 0.
    """

    user: str
    password: str = field(default="", repr=False)
    password_file: str = ""
    allow: tuple[str, ...] = ()
    link_mbps: float | None = None
    cap_share: float = DEFAULT_CAP_SHARE
    cap_mbps: float | None = None

    def __post_init__(self) -> None:
        """Check that no two keys contradict each other."""
        if bool(self.password) == bool(self.password_file):
            raise ConfigInvalid("password: expected it, or a password_file in its place", hint=_EXAMPLE)
        for key in ("link_mbps", "cap_mbps"):
            if (value := getattr(self, key)) is not None and not 0 < value < 1e6:
                raise ConfigInvalid(f"{key}: expected more than 0 Mbit/s, found {value}", hint="Give the link's rate")
        if not 0 < self.cap_share <= 1:
            raise ConfigInvalid(
                f"cap_share: expected more than 0 and at most 1, found {self.cap_share}", hint="0.8 say"
            )

    @property
    def cap_bytes_per_s(self) -> int | None:
        """Return what all copies to the site may take together, as payload; None where no cap is set."""
        if self.cap_mbps is not None:
            return payload_cap_bytes_per_s(self.cap_mbps * 1e6)
        return None if self.link_mbps is None else payload_cap_bytes_per_s(self.link_mbps * 1e6 * self.cap_share)

    @property
    def cap_source(self) -> str:
        """Return where that figure comes from, in words."""
        if self.cap_mbps is not None:
            return f"{link_rate(self.cap_mbps * 1e6)}, of the file of mirrors"
        link_bps = (self.link_mbps or 0.0) * 1e6
        return f"{self.cap_share:.0%} of {link_rate(link_bps)}, of the file of mirrors"


def load_mirrors(path: Path) -> dict[str, tuple[Mirror, FixedLogin]]:
    """Return the sites of a file, each with its login, by the sites' names: those of the inventory.

    Raises:
        ConfigInvalid: It cannot be read, others can read it, or something in it is wrong: reported with the key.
    """
    data = parsed_toml(_secret(path, f"--mirrors {path}"), where=f"--mirrors {path}", has_secrets=True)
    sites = data.pop("sites", None)
    if data or not isinstance(sites, dict) or not sites:
        raise ConfigInvalid(
            f"--mirrors {path}: expected a table [sites.NAME] for each site and nothing else, "
            f"found {', '.join(map(str, data))[:60] or 'no site'}",
            hint=_EXAMPLE,
        )
    found = {str(site): _mirror(path, str(site), one) for site, one in sites.items()}
    twice = [user for user, times in Counter(one.user for one in found.values()).items() if times > 1]
    if twice:
        raise ConfigInvalid(
            f"--mirrors {path}: expected a user of its own for each site, found {twice[0][:40]!r} for several",
            hint="What a site fetches counts for the site of its user",
        )
    return {site: (one, _login(path, site, one)) for site, one in found.items()}


def _mirror(path: Path, site: str, data: Any) -> Mirror:
    try:
        return decode_exactly(Mirror, data)
    except (CodecError, ConfigInvalid) as error:
        hint = error.hint if isinstance(error, ConfigInvalid) else _EXAMPLE
        # What it complains of begins with the key, if it is one key's.
        raise ConfigInvalid(f"--mirrors {path}: sites.{site}.{error.message}", hint=hint) from None


def _login(path: Path, site: str, mirror: Mirror) -> FixedLogin:
    password = mirror.password or _password(path, site, Path(mirror.password_file))
    link_bytes_per_s = None if mirror.link_mbps is None else payload_cap_bytes_per_s(mirror.link_mbps * 1e6)
    try:
        return FixedLogin(
            username=mirror.user,
            password=password,
            source_addresses=mirror.allow,
            site=site,
            link_bytes_per_s=link_bytes_per_s,
        )
    except SettingsInvalid as error:
        raise ConfigInvalid(f"--mirrors {path}: sites.{site}: {error.message}", hint=error.hint) from None


def _password(path: Path, site: str, file: Path) -> str:
    where = f"--mirrors {path}: sites.{site}.password_file {file}"
    return _secret(file, where).decode("utf-8", "replace").strip()


def _secret(path: Path, where: str) -> bytes:
    """Return what a file holds that its owner alone may read.

    Args:
        path: The file.
        where: What named it, for complaints.

    Raises:
        ConfigInvalid: It cannot be read, or others can read it.
    """
    try:
        with reading(path) as file:
            status = os.fstat(file.fileno())
            data = file.read(_MOST_BYTES)
    except OSError as error:
        why = error.found if isinstance(error, NotRegular) else error.strerror
        raise ConfigInvalid(
            f"{where}: expected a file that can be read, found: {why}", hint="Give the path of a file that is there"
        ) from None
    if status.st_mode & _OTHERS or status.st_uid not in (os.geteuid(), 0):
        raise ConfigInvalid(
            f"{where}: expected a file of ours that others cannot read, found mode "
            f"{stat.S_IMODE(status.st_mode):04o} of user {status.st_uid}",
            hint=f"Take the right away (chmod 600 {path}), and change the passwords if others had the time",
        )
    return data
