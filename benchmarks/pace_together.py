"""Several copies to one site at once by one server without options, and later ones."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashferry.fileserver import FileServer, ServerSettings, TicketRequest
from flashferry.lab.experiment.bench import Bench, fetched, image_name, site_client
from flashferry.lab.experiment.harness import JsonChild
from ftpserver import ftp_listener

COPIES = 4
_SIZE_BYTES = 50_000_000
_WINDOW_BYTES = 2_500_000
_SITE = "branch"
_LONGEST_S = 300.0


def measure_together(bench: Bench, folder: Path, queues: tuple[int, ...], runs: int) -> Iterator[dict[str, Any]]:
    """Play one copy, four at once, and one again, through a server of their own each time."""
    clients = [site_client(bench.world) for _ in range(COPIES)]
    try:
        for queue in queues:
            for seed in range(1, runs + 1):
                yield from _round(bench, clients, folder, queue, seed)
    finally:
        for client in clients:
            client.close()


def _round(
    bench: Bench, clients: list[JsonChild], folder: Path, queue: int, seed: int
) -> Iterator[dict[str, Any]]:  # fmt: skip
    world = bench.world
    settings = ServerSettings(image_paths=(folder,), listeners=(ftp_listener(listen_address=world.server_address),))
    with FileServer(settings) as server:
        for stage, count in (("before", 1), ("together", COPIES), ("after", 1)):
            world.renew_link(
                world.sites[0].name, f"{seed}/{stage}",
                rate_bps=50e6, delay_s=0.05, loss_ratio=0.0001, queue_packets=queue,
            )  # fmt: skip
            yield {"stage": stage, "queue_packets": queue, "seed": seed} | _fetched(
                world.server_address, server, clients[:count], world.devices[0].address
            )


def _fetched(address: str, server: FileServer, clients: list[JsonChild], source: str) -> dict[str, Any]:
    """Have clients fetch at once; return each one's rate, and what of all was sent again."""
    tickets = []
    for client in clients:
        ticket = server.issue_ticket(TicketRequest(image_name=image_name(_SIZE_BYTES), site=_SITE, tries=1))
        tickets.append(ticket)
        client.send(
            {
                "kind": "pull", "address": address, "port": server.port, "name": image_name(_SIZE_BYTES),
                "user": ticket.username, "password": ticket.password, "window_bytes": _WINDOW_BYTES, "sack": True,
                "source": source, "seconds": None, "longest_s": _LONGEST_S,
            }
        )  # fmt: skip
        # The options of a SYN are switched for the whole namespace: one connection opens after the other.
        time.sleep(0.5)
    seconds = [fetched(client)[1] for client in clients]
    records = [server.wait_final(ticket.ticket_id, 20.0).record for ticket in tickets]
    sent = sum(record.bytes_sent + (record.retransmitted_bytes or 0) for record in records if record)
    again = sum(record.retransmitted_bytes or 0 for record in records if record)
    return {
        "rates_bytes_per_s": [round(_SIZE_BYTES / each) for each in seconds],
        "all_bytes_per_s": round(len(clients) * _SIZE_BYTES / _whole_s(records)),
        "again_share": again / sent if sent else None,
        "found_link_bytes_per_s": [record.sender.found_link_bytes_per_s for record in records if record],
        "verdicts": [record.verdict.kind.value for record in records if record],
    }


def _whole_s(records: list[Any]) -> float:
    """Return the time from the first RETR to the last acknowledgement."""
    return float(
        max(one.started_at + (one.last_ack_s or 0) for one in records) - min(one.started_at for one in records)
    )
