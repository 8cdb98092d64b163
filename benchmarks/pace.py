"""The pace with and without a stated rate: `python -m benchmarks.pace [--only alone|beside|together] [--update-docs]`.

Needs root, TUN and vsftpd. All parts run over the lab's link of 50 Mbit/s and 100 ms, for every queue named, with the
stand-in's FTP client and a window of 2.5 MB.

alone: 50 MB by one copy, under random loss of 0.01 and 0.1 %: host-wide CUBIC and BBR (vsftpd), ours with the rate
stated (a cap of 98 % of the link), and ours without options.
beside: what a CUBIC flow of somebody else keeps beside one of CUBIC, beside ours with the rate stated and beside ours
without options, in 40 s and without random loss.
together: four copies to one site at once, and one alone before and after them, by one server without options.

Seeds are interleaved: each round goes through all senders. Figures are kept in benchmarks/results/pace.json; a part
that is measured again replaces its own. The exit code is 1 if a target is missed.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.pace_tables import Part, for_document, missed, to_markdown
from benchmarks.pace_together import measure_together
from benchmarks.report import conditions, print_progress
from flashferry.lab.experiment.bench import Bench, image_name, open_bench
from flashferry.lab.experiment.cell import Cell, LinkSetting, Measured, Receiver, Sender
from flashferry.lab.experiment.harness import put

RESULTS = Path(__file__).with_name("results") / "pace.json"
DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
WINDOW_BYTES = 2_500_000
SIZE_BYTES = 50_000_000
QUEUES_PACKETS = (200, 1000)
LOSS_RATIOS = (0.0001, 0.001)
CUBIC = Sender(program="vsftpd", control="cubic")
BBR = Sender(program="vsftpd", control="bbr")
STATED = Sender(program="ours", control="auto", cap_share=0.98)
LEARNED = Sender(program="ours", control="auto")
_RECEIVER = Receiver(kind="pull", window_bytes=WINDOW_BYTES, sack=True)
_BESIDE_S = 40.0
_LONGEST_S = 15.0
"""CUBIC under much loss is left after so long; its rate does not change any more."""


def _cell(sender: Sender, link: LinkSetting, seed: int, **more: Any) -> Cell:
    return Cell(
        study="pace", arm=f"queue {link.queue_packets}", receiver=_RECEIVER, sender=sender, link=link, seed=seed,
        keeps_samples=False, **more,
    )  # fmt: skip


def alone(bench: Bench, runs: int) -> Iterator[Measured]:
    """Play one copy at a time."""
    for queue in QUEUES_PACKETS:
        for loss in LOSS_RATIOS:
            link = LinkSetting(loss_ratio=loss, queue_packets=queue)
            for seed in range(1, runs + 1):
                for sender in (CUBIC, BBR, STATED, LEARNED):
                    seconds = _LONGEST_S if sender == CUBIC and loss > LOSS_RATIOS[0] else None
                    yield bench.play(_cell(sender, link, seed, size_bytes=SIZE_BYTES, seconds=seconds))


def beside(bench: Bench, runs: int) -> Iterator[Measured]:
    """Play copies beside a CUBIC flow of another server, which begins half a second before."""
    for queue in QUEUES_PACKETS:
        link = LinkSetting(loss_ratio=0.0, queue_packets=queue)
        size_bytes = int(link.payload_bytes_per_s * 75)
        for seed in range(1, runs + 1):
            for sender in (CUBIC, STATED, LEARNED):
                yield bench.play(_cell(sender, link, seed, size_bytes=size_bytes, seconds=_BESIDE_S, beside=True))


def _kept(run: Measured) -> Part:
    """Return what the tables need of a run."""
    sender, link = run.cell.sender, run.cell.link
    return {
        "sender": sender.name + (f" {sender.cap_share:.0%}" if sender.cap_share is not None else ""),
        "queue_packets": link.queue_packets,
        "loss_ratio": link.loss_ratio,
        "seed": run.cell.seed,
        "rate_bytes_per_s": round(run.rate_bytes_per_s),
        "again_share": run.again_share,
        "beside_bytes_per_s": run.beside_bytes_per_s,
        "control": run.control,
        "verdict": run.judgement.kind if run.judgement else "",
        "load": run.load,
        "error": run.error,
    }


def _played(name: str, runs: int, folder: Path) -> list[Part]:
    """Play a part in a bench of its own."""
    found = []
    with open_bench(folder) as bench:
        plays = {"alone": alone, "beside": beside}
        for run in plays[name](bench, runs) if name in plays else ():
            found.append(_kept(run))
            print_progress(json.dumps(found[-1]))
        if name == "together":
            for one in measure_together(bench, folder, QUEUES_PACKETS, runs):
                found.append(one)
                print_progress(json.dumps(one))
    return found


@contextlib.contextmanager
def _images() -> Iterator[Path]:
    """Make the files: random ones would be no different, for nothing on the way compresses."""
    with tempfile.TemporaryDirectory(prefix="flashferry-pace-") as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "images"
        folder.mkdir(mode=0o755)
        beside_bytes = int(LinkSetting().payload_bytes_per_s * 75)
        for size_bytes in (SIZE_BYTES, beside_bytes):
            with (folder / image_name(size_bytes)).open("wb") as file:
                file.truncate(size_bytes)
        yield folder


def _in_child(name: str, runs: int) -> list[Part]:
    """Measure in a child: a bench moves its process to another network namespace for good."""
    with _images() as folder, tempfile.TemporaryFile("w+") as results:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            json.dump(_played(name, runs, folder), results)
            results.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise SystemExit(f"{name}: the measurement ended with status {status}")
        results.seek(0)
        found: list[Part] = json.load(results)
        return found


def _results() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return kept


def main() -> None:
    """Measure, keep the figures, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["alone", "beside", "together"])
    parser.add_argument("--runs", type=int, default=5, help="seeds of the link's losses")
    parser.add_argument("--update-docs", action="store_true", help="put the tables into docs/benchmarks.md")
    options = parser.parse_args()
    chosen = [options.only] if options.only else ["alone", "beside", "together"]
    for name in chosen:
        print_progress(f"{name} ...")
        before, started = conditions(" ".join(sys.orig_argv[1:])), time.monotonic()
        found = before | {"rows": _in_child(name, options.runs), "took_s": round(time.monotonic() - started)}
        # Read only now: another part may have been measured meanwhile.
        kept = _results() | {name: found}
        RESULTS.write_text(json.dumps({"schema": "flashferry.benchmarks.pace/1"} | kept, indent=1) + "\n")
    kept = _results()
    markdown = to_markdown(kept)
    print(markdown)
    if options.update_docs:
        put(DOCUMENT, "pace", for_document(kept))
    sys.exit(bool(missed({name: kept[name] for name in chosen})))


if __name__ == "__main__":
    main()
