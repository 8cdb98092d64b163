"""A source as a depot is one: a real server process by HTTP, a login per site, and what was fetched from it."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.depot.offering.offer import OfferFolders, Offering
from flashferry.depot.sync.filling import SyncStopped
from flashferry.depot.sync.source import Login, Source
from flashferry.fileserver import (
    FileServer,
    FixedLogin,
    SenderProfile,
    ServerEvent,
    ServerSettings,
    TicketRequest,
    TransferRecord,
)
from flashferry.fileserver.ticket_accounts import issue
from flashferry.httpserver import http_listener
from flashferry.images.image import ImageFile
from flashferry.images.manifest import CATALOGUE_NAME, Manifest, manifest_of
from tests.patience import PATIENCE_S, until

CHUNK = 65_536
NAME = "image.bin"
USER, WORD, SITE = "branch", "long-enough-1", "branch"


@dataclass
class SyncBench:
    """A source with one image, in chunks that are small, at a pace at which its reader keeps up."""

    folder: Path
    data: bytes
    server: FileServer
    offering: Offering
    records: list[TransferRecord] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    @property
    def source(self) -> Source:
        return Source(url=self.url, login=Login(username=USER, password=WORD), stall_s=PATIENCE_S)

    @property
    def manifest(self) -> Manifest:
        return manifest_of(self.folder / "source" / NAME, chunk_bytes=CHUNK)

    def publish(self) -> None:
        """Offer what there is now."""
        while (offer := self.offering.update()) is not None:
            self.server.admit(FixedLogin(username=USER, password=WORD, site=SITE), offer.files)

    def put(self, data: bytes) -> None:
        """Put an image there, proven, in small chunks, and offer it."""
        self.data = data
        source = self.folder / "source"
        fresh = source / ".fresh"
        fresh.write_bytes(data)
        (source / f".{NAME}.proof.json").unlink(missing_ok=True)
        fresh.replace(source / NAME)
        assert CatalogueFolder(source).adopted(self.manifest, "") is not None
        self.publish()

    def acked_bytes(self) -> int:
        """Return how much of the image left for depots, as far as transfers have ended."""
        return sum(one.bytes_acked for one in self.records if one.image_name == NAME)

    def settled_bytes(self) -> int:
        """Return the same once no transfer is under way, and all have been told: one behind them is told last."""
        until(lambda: not self._has_clients(), "no transfer under way")
        others = self._others()
        self.source.fetch_small(CATALOGUE_NAME, 1_000_000)
        until(lambda: self._others() != others, "the record of the last transfer")
        return self.acked_bytes()

    def _others(self) -> int:
        return sum(one.image_name != NAME for one in self.records)

    def _has_clients(self) -> bool:
        """Return whether the source has a connection that is not closed by both ends (proc(5), /proc/net/tcp)."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ours = f":{self.server.port:04X}"
        return any(row[1].endswith(ours) and row[3] in {"01", "08"} for row in rows)

    def hear(self, event: ServerEvent) -> None:
        if event.progress is not None and event.progress.record is not None:
            record = event.progress.record
            if record not in self.records:
                self.records.append(record)

    def catalogue(self, name: str = "catalogue") -> CatalogueFolder:
        return CatalogueFolder(self.folder / name)

    def records_of_image(self, since: int = 0) -> list[TransferRecord]:
        """Return the records of transfers of the image that have come since so many were there."""
        return [one for one in self.records[since:] if one.image_name == NAME]

    def offered_files(self) -> tuple[ImageFile, ...]:
        """Return what is offered now, as another offering finds it."""
        offer = type(self.offering)(self.offering._folders, clock=lambda: 2e10).update()
        assert offer is not None
        return offer.files

    @contextlib.contextmanager
    def device_of(self, image: ImageFile) -> Iterator[Callable[[], int]]:
        """Copy as a device of the site does, by a ticket, for the time of a block; yield how many bytes it has."""
        ticket, grant = issue(TicketRequest(image_name=NAME, site=SITE), image)
        self.server.take_ticket(grant)
        over, count = threading.Event(), [0]

        def fetch() -> None:
            login = Login(username=ticket.username, password=ticket.password)
            source = Source(url=self.url, login=login)
            with contextlib.suppress(SyncStopped), source.asked(NAME, {}, over.is_set) as answer:
                while not over.is_set() and (some := answer.read1(65_536)):
                    count[0] += len(some)

        thread = threading.Thread(target=fetch, daemon=True)
        thread.start()
        until(lambda: count[0] or not thread.is_alive(), "the first byte")
        try:
            yield lambda: count[0]
        finally:
            over.set()
            thread.join(PATIENCE_S)


@contextlib.contextmanager
def sync_bench(folder: Path, *, size_bytes: int, cap_bytes_per_s: int | None = 3_000_000) -> Iterator[SyncBench]:
    """Run a source."""
    (folder / "source").mkdir()
    folders = OfferFolders(
        catalogue=folder / "source",
        plans=folder / "plans",
        made=folder / "state" / "offer",
        kept=folder / "state" / "manifests.json",
        digests=folder / "state" / "digests.json",
    )
    settings = ServerSettings(
        image_paths=(),
        listeners=(http_listener(listen_address="127.0.0.1"),),
        # As on a real path: in segments of loopback's size all of a small image would go at once.
        profile=SenderProfile(mss_bytes=1400),
        sample_interval_s=0.05,
    )
    with FileServer(settings, restarts=1, is_shared=True) as server:
        server.set_site_cap(SITE, cap_bytes_per_s)
        bench = SyncBench(folder=folder, data=b"", server=server, offering=Offering(folders, clock=lambda: 2e10))
        server.events(bench.hear)
        bench.put(os.urandom(size_bytes))
        yield bench


def state_of(catalogue: CatalogueFolder) -> dict[str, object]:
    """Return the state of what is under way."""
    path = catalogue.path / f".{NAME}.part.json"
    return json.loads(path.read_text()) if path.exists() else {}
