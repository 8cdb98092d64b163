"""The demo's last table: each router before, while and after, and what the lab sees behind its back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.cli.view.layout import BAD, GOOD, line, rate, restored, show
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.model.states import Restored
from tasks.configuration import difference, fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashferry.lab.world import World
    from flashferry.model.record import DeviceRecord, RunReport

_SALT = ""  # compared in memory; nothing is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The routers' running and startup configurations as the lab has them."""

    running: dict[str, str]
    startup: dict[str, str]

    @classmethod
    def of(cls, world: World) -> Before:
        """Take them from a world, behind SSH's back."""
        names = [device.name for device in world.devices]
        return cls(
            running={name: world.running_config(name) for name in names},
            startup={name: world.startup_config(name) for name in names},
        )

    def compared(self, world: World) -> dict[str, str]:
        """Return by router what is different now; empty texts where nothing is."""
        now = Before.of(world)
        return {
            name: _different(self.running[name], now.running[name]) or _different(self.startup[name], now.startup[name])
            for name in self.running
        }


def print_result(probed: RunReport, staged: Sequence[RunReport], differences: dict[str, str]) -> bool:
    """Print the table and return whether every router is proven to be what it was."""
    before = {device.host: device for device in probed.devices}
    after = [(run, device) for run in staged for device in run.devices]
    show(_row(before[device.host], device) for _, device in after)
    for run, device in after:
        digest = device.verify.md5 if device.verify else "none"
        line(device.host, f"MD5 computed by the router: {digest}; of the file: {run.md5}")
        if device.pull is not None and device.transfer is not None:
            seen = device.pull.device
            line(device.host, f"{seen.size_bytes:,} bytes in {seen.duration_s:.3f} s by the router's own clock")
            line(device.host, device.transfer.verdict.sentence)
    for host, found in differences.items():
        line(
            host,
            f"seen from behind its back, its configuration is not what it was: {found}"
            if found
            else "seen from behind its back, its running and startup configurations are what they were",
            BAD if found else GOOD,
        )
    proven = all(device.restored is Restored.RESTORED for _, device in after)
    return proven and not any(differences.values())


def _row(before: DeviceRecord, after: DeviceRecord) -> dict[str, str | Text]:
    was = before.probe.as_is if before.probe else None
    tuned = before.probe.tuned if before.probe else None
    link = after.link_rate
    limit = payload_cap_bytes_per_s(link.rate_bps) if link else None
    return {
        "device": after.host,
        "by": after.transport,
        "as it was": _mb(was.measured_bytes_per_s if was else None),
        "tuned": _mb(tuned.measured_bytes_per_s if tuned else None),
        # By the router's own line: its window takes a part of a small image before flash has seen a byte of it.
        "to flash": _mb(after.pull.device.rate_bytes_per_s if after.pull else None),
        "link limit": _mb(limit),
        "verdict": after.transfer.verdict.kind.value if after.transfer else "-",
        "hash": "proven" if after.verify else "-",
        "config": restored(after.restored),
    }


def _mb(bytes_per_s: float | None) -> str:
    return rate(bytes_per_s).removesuffix(" MB/s")


def _different(before: str, after: str) -> str:
    return str(difference(fingerprint(before, salt=_SALT), after, salt=_SALT) or "")
