"""The owner's side of a helper process of a world: settings in, JSON lines out."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from flashferry.lab.capability_levels import Rung
from flashferry.lab.errors import LabError
from flashferry.lab.standin.configuration import hash9
from flashferry.lab.world_spec import Addressing, DeviceAccess, DeviceSpec, Site, WorldSpec

_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 3.0
_LONGEST_LOG_BYTES = 2**20
_SECRET = re.compile("PASSW|SECRET|TOKEN")
"""Variables that a stand-in has no use for."""


class Helper:
    """A helper process.

    `settings`: Sent as its first line, with what ties its life to ours. `log`: Where its standard error goes.
    """

    def __init__(self, module: str, settings: dict[str, Any], log: Path) -> None:
        self._log = log.open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            # Ctrl-C is for the owner, which ends its helpers itself, also while they start.
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if not _SECRET.search(name)},
        )  # fmt: skip
        in_main_thread = threading.current_thread() is threading.main_thread()
        self.send({"owner_pid": os.getpid(), "tie_to_thread": in_main_thread} | settings)

    def send(self, values: dict[str, Any]) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(values).encode() + b"\n")
            self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Wait for the next report and return it. Raises LabError: it reports an error, ended, or took too long."""
        assert self.process.stdout is not None
        ready = select.select([self.process.stdout], (), (), _START_TIMEOUT_S)[0]
        line = self.process.stdout.readline() if ready else b""
        if not line:
            # By our own descriptor: a helper that ends takes the world's directory along.
            tail = os.pread(self._log.fileno(), _LONGEST_LOG_BYTES, 0).decode(errors="replace")
            last = tail.strip().rpartition("\n")[2] or "it gave no reason"
            raise LabError(f"A lab process did not start: {last}.")
        report = cast("dict[str, Any]", json.loads(line))
        if "error" in report:
            raise LabError(report["error"])
        return report

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """End the process: politely by closing its pipe, then by signal."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldBase:
    """What a world is built from: its specification, settled for a rung and its addresses, and its directory.

    `spec`: What it is made of. `core_pid`: A process in a core namespace that is there already; None to make one with
    the first link. `first_interface`: Number of the first site's interface in the core, where others have links there
    too.
    """

    spec: WorldSpec
    sites: tuple[Site, ...]
    rung: Rung
    addressing: Addressing
    directory: Path
    core_pid: int | None = None
    first_interface: int = 0


def control_socket(directory: Path, what: str, number: int) -> Path:
    """Return where the control socket of a site's ``devices``, ``link`` or ``lan`` is."""
    return directory / f"{what}-{number}.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPids:
    """Live processes by which a world's namespaces are entered: in the core, in each site, and in each site's depot."""

    core_pid: int
    site_pids: tuple[int, ...]
    depot_pids: tuple[int | None, ...]


def start_helpers(stack: ExitStack, base: WorldBase) -> WorldPids:
    """Start all helpers, which end with the stack. Raises LabError: one did not start."""
    numbers = range(len(base.sites))
    standins = [_start(stack, base, "devices", i, _devices_settings(base, i)) for i in numbers]
    depots = {i: _start(stack, base, "lan", i, settings) for i in numbers if (settings := _lan_settings(base, i))}
    _receive([*standins, *depots.values()])
    site_pids = tuple(standin.process.pid for standin in standins)
    depot_pids = tuple(depots[i].process.pid if i in depots else None for i in numbers)
    places = WorldPids(core_pid=site_pids[0], site_pids=site_pids, depot_pids=depot_pids)
    if base.rung is not Rung.LOOPBACK:
        places = replace(places, core_pid=_start_links(stack, base, places))
    for i, each in [*enumerate(standins), *depots.items()]:
        each.send({"link_is_up": True, "site_pid": site_pids[i]})
    _receive([*standins, *depots.values()])
    return places


def _start_links(stack: ExitStack, base: WorldBase, places: WorldPids) -> int:
    """Start the links of all sites and return a process in the core."""
    links: list[Helper] = []
    for i, site_pid in enumerate(places.site_pids):
        core = links[0].process.pid if links else base.core_pid
        pids = {"site_pid": site_pid, "depot_pid": places.depot_pids[i], "core_pid": core}
        links.append(_start(stack, base, "link", i, _link_settings(base, i) | pids))
        if i == 0:
            _receive(links)  # the others enter the core that it has made
    _receive(links[1:])
    return links[0].process.pid


def _receive(helpers: list[Helper]) -> None:
    for each in helpers:
        each.receive()


_INVENTORY_ONLY = ("transports", "clear_text")
"""What the inventory says of a device, which knows nothing of it."""

_MODULES = {"devices": "flashferry.lab.standin", "link": "flashferry.lab.relay", "lan": "flashferry.lab.depot_host"}


def _start(stack: ExitStack, base: WorldBase, what: str, number: int, settings: dict[str, Any]) -> Helper:
    control = {"control": str(control_socket(base.directory, what, number))}
    helper = Helper(_MODULES[what], settings | control, base.directory / f"{what}-{number}.log")
    stack.callback(helper.stop)
    return helper


def _devices_settings(base: WorldBase, number: int) -> dict[str, Any]:
    specs, site = base.spec.all_sites[number].devices, base.sites[number]
    # Hashed once per secret, which costs hundredths of a second on purpose; a fleet mostly has one.
    secrets = {secret for spec in specs for secret in (spec.password, spec.enable_secret)}
    hashed = {secret: f"9 {hash9(secret)}" if secret else "" for secret in secrets}
    return {
        "directory": str(base.directory),
        "has_own_network": base.rung is not Rung.LOOPBACK,
        "link_control": str(control_socket(base.directory, "link", number)) if base.rung is Rung.FULL else None,
        "devices": [_device(spec, access, hashed) for spec, access in zip(specs, site.devices, strict=True)],
    }


def _device(spec: DeviceSpec, access: DeviceAccess, hashed: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of `flashferry.lab.standin.device.DeviceSettings`, with the platform's name."""
    own = {"address": access.address, "port": access.port}
    values = asdict(spec)
    for key in _INVENTORY_ONLY:
        del values[key]
    return values | own | {"password": hashed[spec.password], "enable_secret": hashed[spec.enable_secret]}


def _link_settings(base: WorldBase, number: int) -> dict[str, Any]:
    site = base.sites[number]
    return {
        "interface": f"wan{base.first_interface + number}",
        "has_tun": base.rung is Rung.FULL,
        "site_addresses": [f"{access.address}/32" for access in site.devices],
        "site_network": site.network,
        "core_address": f"{base.addressing.server_address}/32",
        "depot_address": None if site.depot is None else site.depot.address,
        "profile": site.profile.as_json(),
        "nodes": {
            access.address: spec.control_plane_packets_per_s
            for spec, access in zip(base.spec.all_sites[number].devices, site.devices, strict=True)
            if spec.control_plane_packets_per_s is not None
        },
        # The first link's losses are those of a world of one site.
        "seed": base.spec.seed if number == 0 else f"{base.spec.seed}/{site.name}",
    }


def _lan_settings(base: WorldBase, number: int) -> dict[str, Any] | None:
    """Return the settings of a depot's host; None where there is none, or no namespace to put it in."""
    site = base.sites[number]
    if site.depot is None or base.rung is Rung.LOOPBACK:
        return None
    return {
        "site_network": site.network,
        "depot_address": site.depot.address,
        "profile": site.lan.as_json() if site.lan is not None and base.rung is Rung.FULL else None,
        "seed": f"{base.spec.seed}/{site.name}/lan",
    }
