"""A process of an experiment that takes a line of JSON at a time and answers each by one."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashferry.fileserver import TransferRecord
from flashferry.lab.enter import enter_core, inside
from flashferry.lab.errors import LabError
from flashferry.lab.experiment.cell import Cell, Judgement, Measured, Sender
from flashferry.lab.experiment.harness import JsonChild
from flashferry.lab.experiment.servers import (
    Offer,
    Running,
    copy_to_flash,
    running_ours,
    running_vsftpd,
    set_host_control,
)
from flashferry.lab.experiment.witness import Flow, SynTap, Witness
from flashferry.lab.standin.receiver import OPTIMISTIC, PUBLISHED
from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world
from flashferry.tcp.syn import SynOptions
from flashferry.tcp.verdict import KnownLink, VerdictKind, classify_transfer

PLATFORMS = {"xe": "csr1000v-16.11", "ios": "iosv-15.8"}
"""The stand-ins of the article's routers."""

_INTERFACE = "wan0"
_SLOWEST_BYTES_PER_S = 5000
_LEAST_PATIENCE_S = 120.0
_APART_S = 0.5
_BESIDE = Sender(program="vsftpd", control="cubic")
"""Who sends to the client beside."""


def image_name(size_bytes: int) -> str:
    """Return what the file of a size is called."""
    return f"random-{size_bytes}.bin"


@contextlib.contextmanager
def open_bench(folder: Path) -> Iterator[Bench]:
    """Start a world and move this process to its core, for good: only for a process of its own.

    `folder`: Holds the files, see `image_name`. Raises LabError: it cannot be built here.
    """
    devices = tuple(
        DeviceSpec(name=_device_name(kind, profile), platform=platform, receiver=profile)
        for kind, platform in PLATFORMS.items()
        for profile in (OPTIMISTIC, PUBLISHED)
    )
    with start_world(WorldSpec(devices=devices)) as world, contextlib.ExitStack() as stack:
        enter_core(world.core_pid)
        yield Bench(world=world, folder=folder, stack=stack)


@dataclass(slots=True, kw_only=True)
class Bench:
    """Runs cells, one after the other.

    `stack`: Ends the servers and the clients.
    """

    world: World
    folder: Path
    stack: contextlib.ExitStack
    _clients: list[JsonChild] = field(default_factory=list)
    _servers: dict[str, Running] = field(default_factory=dict)

    def play(self, cell: Cell) -> Measured:
        """Run a cell; what goes wrong is in the record."""
        started: dict[str, Any] = {
            "cell": cell,
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "load": round(os.getloadavg()[0], 2),
        }
        try:
            return Measured(**started, **self._run(cell))
        except (LabError, OSError) as error:
            return Measured(**started, error=str(error))

    def _run(self, cell: Cell) -> dict[str, Any]:
        server = self._server(cell)
        site = self.world.sites[0]
        self.world.renew_link(site.name, f"{cell.seed}", **cell.link.changes())
        carries = int(cell.link.payload_bytes_per_s)
        offer = server.offer(image_name(cell.size_bytes), cell.cap_bytes_per_s, None if cell.beside else carries)
        with self._beside(cell) as beside_rate:
            devices = self.world.devices[:1] if cell.beside else self.world.devices
            peers = frozenset(device.address for device in devices)
            with contextlib.closing(SynTap(_INTERFACE)) as tap, Witness(peers, self._control_ports()) as witness:
                size_bytes, seconds = self._fetch(cell, offer)
                record = server.record()
                syns = tap.seen()
            beside = beside_rate()
        if cell.seconds is None and size_bytes != cell.size_bytes:
            raise LabError(f"The client got {size_bytes} bytes of {cell.size_bytes}.")
        link = self.world.link_counters(site.name)["to_site"]
        flows = witness.flows()
        seen = _seen(cell, flows[0], record, syns) if flows else {}
        return {"size_bytes": size_bytes, "seconds": seconds, "link": link, "beside_bytes_per_s": beside, **seen}

    def _fetch(self, cell: Cell, offer: Offer) -> tuple[int, float]:
        """Have the client fetch the file; return its own count of bytes and seconds."""
        receiver = cell.receiver
        if receiver.kind in PLATFORMS:
            name = _device_name(receiver.kind, receiver.profile)
            device = next(each for each in self.world.devices if each.name == name)
            copied = copy_to_flash(device, receiver.lines, offer.url, timeout_s=_patience_s(cell))
            return copied.size_bytes, copied.seconds
        client = self._client(0)
        client.send(self._request(cell, offer, kind=receiver.kind, source=self.world.devices[0].address))
        return fetched(client)

    @contextlib.contextmanager
    def _beside(self, cell: Cell) -> Iterator[Callable[[], float | None]]:
        """Have another client fetch from vsftpd meanwhile, if the cell asks for it; yields a function for its rate."""
        if not cell.beside:
            yield lambda: None
            return
        other = replace(cell, sender=_BESIDE)
        offer = self._server(other).offer(image_name(cell.size_bytes), None, None)
        client = self._client(1)
        # By an address of its own, so that its connection is not taken for the one that is judged.
        client.send(self._request(other, offer, kind="linux", source=self.world.devices[1].address))
        # The options of a SYN are switched for the whole namespace: one connection opens after the other.
        time.sleep(_APART_S)

        def rate() -> float:
            size_bytes, seconds = fetched(client)
            return size_bytes / seconds

        yield rate

    def _client(self, number: int) -> JsonChild:
        while len(self._clients) <= number:
            client = site_client(self.world)
            self.stack.callback(client.close)
            self._clients.append(client)
        return self._clients[number]

    def _request(self, cell: Cell, offer: Offer, *, kind: str, source: str) -> dict[str, Any]:
        return {
            "kind": kind,
            "address": offer.address,
            "port": offer.port,
            "name": offer.name,
            "user": offer.user,
            "password": offer.password,
            "window_bytes": cell.receiver.window_bytes,
            "sack": cell.receiver.sack,
            "read_bytes_per_s": cell.receiver.read_bytes_per_s,
            "profile": cell.receiver.profile,
            "source": source,
            "seconds": cell.seconds,
            "longest_s": _patience_s(cell),
        }

    def _server(self, cell: Cell) -> Running:
        """Return the server of a cell, started if it is not running yet, and set the host's congestion control."""
        sender, site = cell.sender, self.world.sites[0]
        name = sender.program if sender.program == "vsftpd" else f"ours {sender.control}"
        address = self.world.server_address
        if name not in self._servers:
            if sender.program == "vsftpd":
                context: Any = running_vsftpd(self.folder, address)
            else:
                context = running_ours(self.folder, address, sender.control, self.folder.parent / "digests.json")
            self._servers[name] = self.stack.enter_context(context)
        if sender.program == "vsftpd":
            set_host_control(site.network, _INTERFACE, sender.control)
        return self._servers[name]

    def _control_ports(self) -> frozenset[int]:
        # Those of the devices too: an SSH session is no copy.
        return frozenset((*(server.port for server in self._servers.values()), self.world.devices[0].port))


def _device_name(kind: str, profile: str) -> str:
    return kind if profile == OPTIMISTIC else f"{kind}-{profile}"


def _patience_s(cell: Cell) -> float:
    return max(_LEAST_PATIENCE_S, cell.size_bytes / _SLOWEST_BYTES_PER_S)


def _seen(cell: Cell, flow: Flow, record: TransferRecord | None, syns: dict[int, SynOptions]) -> dict[str, Any]:
    """Return what kernel, server and wire say of the copy."""
    last = flow.last
    assert last is not None
    syn = syns.get(flow.local_port)
    windows = [sample.snd_wnd_bytes for sample in flow.samples if sample.snd_wnd_bytes]
    return {
        "sent_bytes": last.bytes_sent,
        "again_bytes": last.bytes_retrans,
        "control": record.sender.congestion_control if record and record.sender.congestion_control else flow.control,
        "largest_window_bytes": max(windows, default=None),
        "min_rtt_s": last.min_rtt_s,
        "syn": syn.describe() if syn else "",
        "judgement": _judgement(cell, flow, record),
        "kind_by_readings": str(_kind_by_readings(flow, record)),
        "samples": tuple(flow.samples) if cell.keeps_samples else (),
    }


def _judgement(cell: Cell, flow: Flow, record: TransferRecord | None) -> Judgement:
    # The server's own verdict; of a copy too short for its readings a second apart, that of the witness.
    is_own = record is not None and record.verdict.kind is not VerdictKind.TOO_SHORT
    # Where another sender has a part of the link, its rate says nothing about ours.
    link = None if cell.beside else KnownLink(bytes_per_s=cell.link.payload_bytes_per_s)
    verdict = record.verdict if record is not None and is_own else flow.judged(link)
    return Judgement(
        kind=str(verdict.kind),
        share=verdict.share,
        sentence=verdict.sentence,
        evidence=verdict.evidence,
        advice=verdict.advice,
        by="server" if is_own else "witness",
    )


def _kind_by_readings(flow: Flow, record: TransferRecord | None) -> VerdictKind:
    """Return what the same readings say where the link's rate is unknown."""
    if record is None or record.verdict.kind is VerdictKind.TOO_SHORT:
        return flow.judged().kind
    sender = record.sender
    return classify_transfer(
        record.samples,
        congestion_control=sender.congestion_control,
        shared_cap_bytes_per_s=sender.shared_cap_bytes_per_s,
        slowed_for_loss=sender.is_slowed,
        own_pace=sender.own_pace,
    ).kind


def site_client(world: World) -> JsonChild:
    """Start a client at a world's first site, see `flashferry.lab.experiment.puller`."""
    command = [*inside(world.site_pids[0]), sys.executable, "-P", "-m", "flashferry.lab.experiment.puller"]
    return JsonChild("The client at the site", command)


def fetched(client: JsonChild) -> tuple[int, float]:
    """Return the bytes that a client got, and its seconds."""
    answer = client.receive()
    return int(answer["size_bytes"]), float(answer["seconds"])
