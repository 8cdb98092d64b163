"""One run over a fleet: the server, the journal and a Nornir task per device, put together."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nornir.core import Nornir
from nornir.core.task import Result, Task

from inventory.errors import ConfigInvalid
from inventory.view import WORD, HostView, view
from staging.context import DeviceOptions, RunContext
from staging.device_run import stage_device
from staging.events import Emit, Event, never_failing, silent
from staging.journal import Journal
from staging.links import LinkRates
from staging.published import Published
from staging.record import DeviceRecord, RunReport, failure_of
from staging.serving import ANY_ADDRESS, serving, site_caps
from staging.states import Restored
from staging.status import last_hash_speeds
from staging.touched import JournalUnusable
from tasks.copy_dialogue import checked_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is to be done.

    Attributes:
        verb: `stage` or `probe`, for the journal.
        device: How devices are treated.
        listen_address: Address that our FTP server listens on.
        port: Its port, or None: 21 where that is allowed and free, else 2121, else any.
        passive_ports: Range for data connections, or None: the kernel chooses.
        sample_interval_s: How often our server asks the kernel about each transfer; 0.05 to 60.
        vendor: What the vendor published for the image; another file is refused before any device is touched.
    """

    verb: str = "stage"
    device: DeviceOptions = field(default_factory=DeviceOptions)
    listen_address: str = ANY_ADDRESS
    port: int | None = None
    passive_ports: tuple[int, int] | None = None
    sample_interval_s: float = 1.0
    vendor: Published = field(default_factory=Published)


def selected(nornir: Nornir, names: tuple[str, ...]) -> Nornir:
    """Return the inventory narrowed to the hosts named; all of them where none is named.

    Raises:
        ConfigInvalid: A name is not in the inventory, or no host is left.
    """
    hosts = nornir.inventory.hosts
    unknown = [name for name in names if name not in hosts]
    if unknown:
        known = ", ".join(sorted(hosts)[:10]) or "none"
        raise ConfigInvalid(
            f"unknown device {', '.join(map(repr, unknown))}: the inventory has {known}",
            hint="Check --host and --inventory",
        )
    chosen = nornir.filter(filter_func=lambda host: host.name in names) if names else nornir
    if not chosen.inventory.hosts:
        raise ConfigInvalid("no device in the inventory")
    return chosen


def checked_image(path: Path) -> Path:
    """Return the path of a readable image with a size.

    Raises:
        ConfigInvalid: It is missing, not a file, empty or unreadable.
    """
    try:
        if not path.is_file():
            raise ConfigInvalid(f"image {path}: expected a file, found {'a folder' if path.is_dir() else 'nothing'}")
        if path.stat().st_size == 0:
            raise ConfigInvalid(f"image {path}: expected an image, found an empty file")
        with path.open("rb"):
            return path
    except OSError as error:
        raise ConfigInvalid(f"image {path}: cannot be read: {error.strerror}") from None


def run_fleet(
    nornir: Nornir,
    image: Path,
    options: RunOptions,
    *,
    journal: Journal,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
    device_task: Callable[[Task, RunContext], Result] = stage_device,
    more_images: tuple[Path, ...] = (),
) -> RunReport:
    """Take every device of an inventory through a run.

    Args:
        nornir: The devices, with credentials.
        image: The image file.
        options: How the run is to be done.
        journal: Where prior configurations are kept until they are restored.
        emit: Takes events; called from several threads.
        interrupted: Whether the operator wants to stop.
        device_task: What is done with each device; its result is a DeviceRecord.
        more_images: What else the server offers.

    Returns:
        A record per device. A device's fault is in its record, never raised.

    Raises:
        ConfigInvalid: The inventory or the image is wrong, or the server cannot start; no device was touched.
    """
    path = checked_image(image)
    checked_name(path.name)
    emit = never_failing(emit)
    views = {name: view(host) for name, host in nornir.inventory.hosts.items()}
    if (address := options.device.server_address) is not None and not WORD.fullmatch(address):
        raise ConfigInvalid(f"server address {address!r}: expected an IPv4 address or a host name")
    hash_speeds = last_hash_speeds(journal.directory)
    started = time.monotonic()
    emit(Event(host=None, step="server", status="started", text=f"hashing {path.name}", at_s=0.0))
    with serving(
        (path, *more_images),
        listen_address=options.listen_address,
        port=options.port,
        passive_ports=options.passive_ports,
        sample_interval_s=options.sample_interval_s,
    ) as server:
        offered = server.image(path.name)
        options.vendor.check(offered)
        for site, cap_bytes_per_s in site_caps(views.values()).items():
            server.set_site_cap(site, cap_bytes_per_s)
        links = LinkRates(journal.directory)
        for site, cap in links.learned_site_caps(views.values()).items():
            server.set_site_cap(site, cap.bytes_per_s, cap.source)
        run_id = journal.begin_run(options.verb)
        at_s = time.monotonic() - started
        emit(Event(host=None, step="run", status="started", text=run_id, at_s=at_s, run_id=run_id))
        for device in views.values():
            _enter(journal, run_id, device)
        text = f"offers {offered.name}, {offered.size_bytes:,} bytes, on FTP port {server.port}"
        emit(Event(host=None, step="server", status="done", text=text, at_s=time.monotonic() - started))
        context = RunContext(
            run_id=run_id,
            image=offered,
            server=server,
            journal=journal,
            options=options.device,
            emit=emit,
            interrupted=interrupted,
            started_s=started,
            links=links,
            hash_speeds=hash_speeds,
        )
        results = nornir.run(task=device_task, name=options.verb, context=context)
        with suppress(JournalUnusable):
            journal.finish_run(run_id)
    records = [_record_of(name, results[name][0]) for name in views]
    return RunReport(
        run_id=run_id,
        verb=options.verb,
        image=offered.name,
        image_bytes=offered.size_bytes,
        md5=offered.md5,
        devices=tuple(records),
        interrupted=interrupted(),
    )


def _record_of(name: str, found: Result) -> DeviceRecord:
    """Return a device's record, also where a fault of ours kept it from being made."""
    if isinstance(found.result, DeviceRecord):
        return found.result
    failure = failure_of("stage", found.exception or RuntimeError())
    return DeviceRecord(host=name, restored=Restored.INCOMPLETE, failure=failure, seconds_by_step={})


def _enter(journal: Journal, run_id: str, device: HostView) -> None:
    journal.add_device(run_id, host=device.name, address=device.address, port=device.port, platform=device.platform)
