"""The best copy method for each probed path to an image source, stored in the state folder.

For information only: `depot probe --show` prints them, and `--write` writes them into ssh's configuration.
"""

from __future__ import annotations

from msgspec import Struct

from flashferry.store.kept_file import KeptFile, KeptForm



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

    form = KeptForm(
        file="bulk_paths.json",
        schema="flashferry.bulk-paths/1",
        entries="paths",
        kind=BulkPath,
        name="source",
        called="paths as a depot's probe keeps them",
        hint="Delete the file, and probe the paths anew",
    )
