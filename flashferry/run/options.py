"""How a run is to be done: the part of it that is the same for every device."""

from __future__ import annotations

from dataclasses import dataclass, field

from flashferry.images.digests import Digests
from flashferry.run.context import DeviceOptions
from flashferry.run.server import ANY_ADDRESS


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
    vendor: Digests = field(default_factory=Digests)
