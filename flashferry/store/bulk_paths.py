"""The best way of copying over each path that was probed: kept in the state folder, one per source.

`depot probe --show` prints them; no copy of ours is steered by them, `--write` hands them on to ssh.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashferry.store.kept_file import KeptFile, KeptForm

FILE = "bulk_paths.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPath:
    """What a probe found of a path.

    Attributes:
        source: The source, as it was named: `user@host:port` of SSH, or a URL without a login.
        at: When, in UTC, ISO 8601.
        method: The best method, as results name it.
        rate_bytes_per_s: What it gave, its login subtracted.
        cost: Processor seconds per GB of the ends that were seen; None: none was.
        bound_by: What bound it.
        by_cost: Whether methods were ranked by processor time, as rates scattered.
        ciphers: Ciphers that both ends have, the best first; empty: SSH was not probed.
        macs: MACs likewise, for ciphers that need one.
        link_bytes_per_s: What the link carries; None: could not be had.
        compression_helps: Whether the sample shrinks so that compressing might pay.
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
    """The paths by source, as the file has them."""

    form = KeptForm(
        file=FILE,
        schema="flashferry.bulk-paths/1",
        entries="paths",
        kind=BulkPath,
        name="source",
        called="paths as a depot's probe keeps them",
        hint="Delete the file, and probe the paths anew",
    )

    @property
    def all(self) -> tuple[BulkPath, ...]:
        """Return all of them, by source."""
        return tuple(self.by_name.values())
