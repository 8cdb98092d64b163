"""The file server of a run: its images, where it listens, and what the copies to each site may take together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import FileServer, FileServerError, ServerSettings, ServerStartFailed
from flashferry.images.errors import ImageError
from flashferry.model.links import payload_cap_bytes_per_s
from flashferry.run.options import RunOptions
from flashferry.transports import USUAL
from flashferry.transports.listening import listener_at, listeners_at, listening_error, port_notice
from flashferry.transports.transport import ListenOptions, Transport
from inventory.view import HostView

SERVER_RESTARTS = 3
"""So many times in a run a server whose process died is replaced: more often, somebody should look what kills it."""

HOST_KEYS = "server_host_keys"
"""Folder of our SSH server's host keys, below the state folder: made once, for devices remember them."""

_NOBODY_ELSE = "127.0.0.1"


@contextmanager
def serving(
    images: tuple[Path, ...],
    options: RunOptions,
    *,
    state: Path,
    transports: tuple[Transport, ...] = (USUAL,),
    pushes: bool = False,
) -> Iterator[FileServer]:
    """Run our file server for as long as the block lasts.

    Args:
        images: Image files, or folders of them.
        options: Where it listens, and how often it asks the kernel about each transfer.
        state: The state folder.
        transports: What it serves; none where all images are pushed: then no port is open to anybody else.
        pushes: Whether images may be pushed besides: their copies share what a site has.

    Raises:
        ConfigInvalid: It cannot start, which is the operator's to mend; no device was touched yet.
    """
    where = ListenOptions(
        address=options.listen_address,
        passive_ports=options.passive_ports,
        certificate=options.certificate,
        key=options.key,
        host_keys=state / HOST_KEYS,
    )
    try:
        settings = ServerSettings(
            image_paths=images,
            listeners=(
                listeners_at(transports, where, ports={one.listener_name: options.port_of(one) for one in transports})
                if transports
                # A server has a process, and that one a listener; on this address nobody else can come to it.
                else (listener_at(_NOBODY_ELSE, 0),)
            ),
            sample_interval_s=options.sample_interval_s,
        )
        server = FileServer(settings, restarts=SERVER_RESTARTS, pushes=pushes)
        server.__enter__()
    except ServerStartFailed as error:
        told = listening_error(error, transports)
        raise ConfigInvalid(told.message, step="server", hint=told.hint) from None
    except (FileServerError, ImageError) as error:
        raise ConfigInvalid(error.message, step="server", hint=error.hint) from None
    with closing(server):
        yield server


def own_fingerprints(state: Path, transports: Iterable[Transport]) -> tuple[str, ...]:
    """Return the fingerprints of our server's host keys, for devices that ask; none where no transport shows one.

    Args:
        state: The state folder; the keys are there once a server was started with it.
        transports: What the server serves.
    """
    return tuple(dict.fromkeys(shown for one in transports for shown in one.fingerprints(state / HOST_KEYS)))


def port_notices(server: FileServer, options: RunOptions, transports: Iterable[Transport]) -> Iterator[str]:
    """Yield what is to be told of ports that were found where none was asked for; of each port once."""
    told = set()
    for one in transports:
        port = server.port_of(one.name)
        if options.port_of(one) is None and port not in told:
            told.add(port)
            if (notice := port_notice(port, one)) is not None:
                yield notice


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
