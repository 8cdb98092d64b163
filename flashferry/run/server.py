"""The file server of a run: its images, and what the copies to each site may take together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import FileServer, FileServerError, ServerSettings
from flashferry.images.errors import ImageError
from flashferry.model.links import payload_cap_bytes_per_s
from flashferry.transports.listening import listener_at
from inventory.view import HostView

SERVER_RESTARTS = 3
"""So many times in a run a server whose process died is replaced: more often, somebody should look what kills it."""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 -- routers reach us from outside; a ticket is needed for every byte


@contextmanager
def serving(
    images: tuple[Path, ...],
    *,
    listen_address: str = ANY_ADDRESS,
    port: int | None = None,
    passive_ports: tuple[int, int] | None = None,
    sample_interval_s: float = 1.0,
) -> Iterator[FileServer]:
    """Run our file server for as long as the block lasts.

    Args:
        images: Image files, or folders of them.
        listen_address: Address to listen on.
        port: Its port, or None: 21 where that is allowed and free, else 2121, else any.
        passive_ports: Range for data connections, or None: the kernel chooses.
        sample_interval_s: How often the kernel is asked about each transfer; 0.05 to 60.

    Raises:
        ConfigInvalid: It cannot start, which is the operator's to mend; no device was touched yet.
    """
    try:
        settings = ServerSettings(
            image_paths=images,
            listeners=(listener_at(listen_address, port, passive_ports=passive_ports),),
            sample_interval_s=sample_interval_s,
        )
        server = FileServer(settings, restarts=SERVER_RESTARTS)
        server.__enter__()
    except (FileServerError, ImageError) as error:
        raise ConfigInvalid(error.message, step="server", hint=error.hint) from None
    with closing(server):
        yield server


def site_caps(devices: Iterable[HostView]) -> dict[str, int]:
    """Return what the copies to each site may take together; a site whose link nobody stated has no cap.

    Raises:
        ConfigInvalid: Two devices of a site state different links.
    """
    caps: dict[str, int] = {}
    for device in devices:
        cap = payload_cap_bytes_per_s(device.cap_bps)
        if device.site is None or cap is None:
            continue
        if caps.setdefault(device.site, cap) != cap:
            raise ConfigInvalid(
                f"site '{device.site}': two devices state different link rates or shares",
                host=device.name,
                hint="State link_rate_bps and cap_share once, in the site's group",
            )
    return caps
