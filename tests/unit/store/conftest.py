"""Journals with something in them: transfers as the server tells them, devices in hand, a release before's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from flashferry.fileserver import SenderReport, TransferRecord
from flashferry.store.transfer_row import STAGE, TransferEntry
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import Verdict
from flashferry.tcp.verdict_rules import VerdictKind

STARTED_S = 1_780_000_000.0

TRANSFER = TransferRecord(
    ticket_id="t1",
    image_name="x.bin",
    peer_address="192.0.2.1",
    outcome="delivered",
    started_at=STARTED_S,
    first_byte_s=0.1,
    last_byte_s=9.9,
    last_ack_s=10.0,
    offset_bytes=0,
    size_bytes=20_000_000,
    bytes_sent=20_000_000,
    bytes_acked=20_000_000,
    duration_s=10.0,
    rate_bytes_per_s=2_000_000.0,
    retransmitted_bytes=0,
    retransmitted_share=0.0,
    min_rtt_s=0.1,
    srtt_s=0.11,
    max_window_bytes=1_250_000,
    control_syn=None,
    data_syn=None,
    mss_bytes=1460,
    sack=True,
    sender=SenderReport(
        congestion_control_asked="auto",
        congestion_control_chosen="bbr",
        congestion_control="bbr",
        reason="SACK and a cap",
        cap_asked_bytes_per_s=None,
        cap_bytes_per_s=None,
    ),
    verdict=Verdict(kind=VerdictKind.BANDWIDTH, share=0.9, sentence="Bandwidth.", evidence=()),
    samples=tuple(
        Sample(
            at_s=at_s,
            rtt_us=100_000,
            snd_mss_bytes=1460,
            snd_cwnd_segments=100,
            unacked_segments=50,
            bytes_acked=int(at_s * 2e6),
        )
        for at_s in (0.0, 5.0, 10.0)
    ),
    commands=("RETR x.bin 226",),
)


@pytest.fixture
def transfer() -> TransferRecord:
    return TRANSFER


@pytest.fixture
def kept() -> Callable[..., TransferEntry]:
    """Return a maker of kept transfers; what it is given of a TransferRecord goes there."""

    def make(
        kind: str = STAGE, *, tuned: bool = True, target: str = "flash:x.bin", verdict: str = "bandwidth", **of_record
    ) -> TransferEntry:
        steady = of_record.pop("steady_bytes_per_s", None)
        record = replace(TRANSFER, **of_record, verdict=replace(TRANSFER.verdict, kind=VerdictKind(verdict)))
        return TransferEntry(
            identity="SN1/r1",
            kind=kind,
            tuned=tuned,
            target=target,
            image=record.image_name,
            record=record,
            steady_bytes_per_s=steady,
        )

    return make


# As release 0.1 wrote it; kept by hand, so that a change of today's schema cannot change yesterday's.
FIRST_SCHEMA = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    verb TEXT NOT NULL,
    started_at TEXT NOT NULL,
    finished_at TEXT
);
CREATE TABLE devices (
    run_id TEXT NOT NULL REFERENCES runs,
    host TEXT NOT NULL,
    address TEXT NOT NULL,
    port INTEGER NOT NULL,
    platform TEXT NOT NULL,
    state TEXT NOT NULL,
    identity TEXT,
    touched INTEGER NOT NULL DEFAULT 0,
    snapshot TEXT,
    changes TEXT,
    target TEXT,
    record TEXT,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (run_id, host)
);
CREATE UNIQUE INDEX lease ON devices (identity) WHERE touched = 1;
PRAGMA user_version = 1;
"""


@pytest.fixture
def first_schema() -> str:
    return FIRST_SCHEMA


@pytest.fixture
def old_journal(tmp_path: Path) -> Path:
    """Return a state directory whose journal is of the first schema, with a device in a dead run's hands."""
    directory = tmp_path / "old"
    (directory / "runs").mkdir(parents=True)
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(FIRST_SCHEMA)
        database.execute("INSERT INTO runs VALUES ('20260101-000000-aaaa', 'stage', '2026-01-01T00:00:00+00:00', NULL)")
        database.execute("INSERT INTO runs VALUES ('20260102-000000-bbbb', 'probe', '2026-01-02T00:00:00+00:00', 'x')")
        database.execute(
            "INSERT INTO devices VALUES ('20260101-000000-aaaa', 'r1', '192.0.2.1', 22, 'ios', 'copying', 'SN1/r1', 1, "
            """'{"running": {"lines": ["ip tcp window-size 65535"]}, "startup": {"lines": []}, """
            """"running_fingerprint": {"whole": "w", "lines": ["l"]}, "salt": "00ff"}', """
            """'[{"keyword": "window-size", "before": "ip tcp window-size 65535", """
            """"ours": "ip tcp window-size 1250000"}]', 'flash:x.bin', NULL, '2026-01-01T00:01:00+00:00')"""
        )
        database.execute(
            "INSERT INTO devices VALUES ('20260102-000000-bbbb', 'r2', '192.0.2.2', 22, 'ios', 'done', 'SN2/r2', 0, "
            "NULL, NULL, NULL, ?, '2026-01-02T00:01:00+00:00')",
            (EARLY_PROBE,),
        )
        database.commit()
    return directory


EARLY_PROBE = """{"host": "r2", "outcome": "done", "restored": "restored",
 "check": {"facts": {"model": "ISR4331/K9"}}, "changes": [{"keyword": "window-size"}], "tune": {"lines": []},
 "transfer": {"ticket_id": "t9", "image_name": "probe-2000k", "started_at": 1767312030.0, "outcome": "delivered",
  "size_bytes": 50000000, "bytes_acked": 50000000, "duration_s": 10.0, "rate_bytes_per_s": 5000000.0, "min_rtt_s": 0.1,
  "max_window_bytes": 1250000, "sender": {"congestion_control": "bbr"}, "verdict": {"kind": "cap"},
  "samples": [{"at_s": 0.0}]},
 "probe": {"image_bytes": 500000000, "worth": {"is_worth": true, "gain": 31.2, "reason": "31 times as fast"},
  "as_is": {"size_bytes": 1600000, "duration_s": 10.0, "server_bytes_per_s": 160000.0, "steady_bytes_per_s": 161000.0,
   "rtt_s": 0.1, "sender": {"congestion_control": "cubic"}, "verdict": {"kind": "window"}},
  "tuned": {"size_bytes": 50000000, "duration_s": 10.0, "server_bytes_per_s": 5000000.0, "steady_bytes_per_s": 5720000,
   "rtt_s": 0.1, "sender": {"congestion_control": "bbr"}, "verdict": {"kind": "cap"}}}}"""
