"""The best ciphers of a path as a block of ssh_config, in a file of its own that `Include` reads.

Facts (ssh_config(5))
-----

- The first value found for an option holds, so a block has to be read before what it is to replace: the `Include`
  stands at the top of ~/.ssh/config, before any `Host`.
- A list of `Ciphers` without a sign before it replaces the default list; so all that both ends have stand in it,
  the best first, and a source that drops the best one is reached still.
"""

from __future__ import annotations

import re
from pathlib import Path

from flashferry.core import units
from flashferry.core.atomic_write import write_asked
from flashferry.core.errors import ConfigInvalid
from flashferry.depot.probing.methods import SshAccess
from flashferry.store.bulk_paths import BulkPath

_FORBIDDEN = Path("/etc/ssh")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:%-]*")
_MARK = "# flashferry depot probe"


def block(found: BulkPath, access: SshAccess) -> str:
    """Return the block for a source.

    Raises:
        ConfigInvalid: SSH was not probed there, or the host's name is none that a block may name.
    """
    _check(found, access)
    rate = f"{units.exact_rate(found.rate_bytes_per_s)}, bound by {found.bound_by or 'nothing that was seen'}"
    lines = [
        f"{_MARK}: {found.source}, {found.at}: {found.method}, {rate}",
        f"Host {access.host}",
        f"    Ciphers {','.join(found.ciphers)}",
    ]
    lines += [f"    MACs {','.join(found.macs)}"] if found.macs else []
    lines += ["    Compression no", ""]
    return "\n".join(lines)


def _check(found: BulkPath, access: SshAccess) -> None:
    if not found.ciphers:
        raise ConfigInvalid(
            f"{found.source}: expected ciphers that were measured, found none",
            hint="Probe the path by SSH first (--ssh USER@HOST)",
        )
    if _PLAIN.fullmatch(access.host) is None:
        raise ConfigInvalid(
            f"{access.host!r}: expected a host name or address, found other signs in it",
            hint="Probe it by a name that ssh_config can have",
        )


def replaces(path: Path) -> str:
    """Say what writing a file would replace, and what else has to be done for it to be read."""
    include = f"Have it read by a line at the top of ~/.ssh/config: Include {path.absolute()}"
    try:
        before = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return f"{path} is new. {include}"
    except OSError as error:
        raise ConfigInvalid(f"--write {path}: cannot be read ({error.strerror})", hint="Name another file") from None
    kept = [line.strip() for line in before.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return f"{path} holds so far: {'; '.join(kept) or 'nothing'}. That is replaced. {include}"


def write(path: Path, text: str) -> None:
    """Write the block to a file of its own.

    Raises:
        ConfigInvalid: The file is the system's, is not ours, or cannot be written.
    """
    resolved = path.absolute().resolve()
    own_config = (Path.home() / ".ssh" / "config").resolve()
    if resolved.is_relative_to(_FORBIDDEN) or resolved == own_config:
        raise ConfigInvalid(
            f"--write {path}: expected a file of its own, found one that all of ssh reads",
            hint="Name another file, and have it read by an Include line",
        )
    if path.exists() and _MARK not in path.read_text(encoding="utf-8", errors="replace"):
        raise ConfigInvalid(
            f"--write {path}: expected none, or one that a probe has written, found another file there",
            hint="Name another file; this one is left alone",
        )
    write_asked(path, text, option="--write")
