"""A router that a killed run left tuned: recovered, and its run resumed, by today's code."""

from __future__ import annotations

import fcntl
import hashlib
import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.contract import product
from tests.contract.normal import KEPT, shape, words
from tests.contract.stored import journal, lay_out

IMAGES = Path("/tmp/flashferry-contract")
"""Where the stored journals say that their images are; a checksum over that row keeps it from being put elsewhere."""

IMAGE, IMAGE_BYTES = "big.bin", 3_000_000

_TOLD = KEPT | {
    *(
        "added",
        "attempt",
        "before",
        "commands",
        "error",
        "gone",
        "hint",
        "image_bytes",
        "ours",
        "partial_file",
        "passes",
    ),
    *("present", "reordered", "startup_changed", "target", "touched", "wave"),
}
_VARYING = frozenset({"samples", "transfer", "verdict", "evidence", "limited_by", "notes", "congestion_control"})


@contextmanager
def image_in_place() -> Iterator[None]:
    """Have the image of the stored runs where they had it; one test at a time."""
    content = random.Random(IMAGE).randbytes(IMAGE_BYTES)
    assert hashlib.sha512(content).hexdigest() == journal()["images_sha512"][IMAGE]
    with IMAGES.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        IMAGES.mkdir(mode=0o700, exist_ok=True)
        try:
            (IMAGES / IMAGE).write_bytes(content)
            yield
        finally:
            shutil.rmtree(IMAGES)


def recovered_and_resumed(folder: Path) -> dict[str, str]:
    """Return what `recover` and `stage --resume` make of a journal and of the router that it speaks of."""
    logins = journal()["logins_of_xe1"]
    with image_in_place(), product.the_routers_of_the_journals(logins) as world:
        inventory = product.write_hosts(world, folder / "inventory")
        before = world.running_config("xe1")
        files = {}
        for verb, options in (("recover", ()), ("resume", ("--resume",))):
            place = folder / verb
            place.mkdir()
            *_, dead = lay_out(place / "state")
            product.configure(world, "xe1", journal()["left_on_xe1"])
            assert _lines(world.running_config("xe1")) != _lines(before)
            given = (*options, dead) if options else ()
            done = product.run(place, "stage" if options else verb, "-i", inventory, "--json", *given, world=world)
            after = "as before" if _lines(world.running_config("xe1")) == _lines(before) else "tuned"
            text = json.dumps(shape(done.document, _VARYING, kept=_TOLD), indent=1)
            files[f"{verb}.json"] = words(
                f"exit code {done.code}\nconfiguration of xe1: {after}\n{text}\n", {dead: "RUN"}
            )
            files[f"{verb}-journal.json"] = _journal(place / "state")
            if after == "tuned":
                assert product.run(place, "recover", "-i", inventory, world=world).code == 0
    return files


def _lines(configuration: str) -> list[str]:
    return [line for line in configuration.splitlines() if not line.startswith("! ")]


def _journal(state: Path) -> str:
    """Return what the journal holds of its last run now: its schema, where each device stands, and its record."""
    with closing(sqlite3.connect(state / "journal.sqlite3")) as database:
        database.row_factory = sqlite3.Row
        (version,) = database.execute("PRAGMA user_version").fetchone()
        run = dict(database.execute("SELECT * FROM runs ORDER BY started_at DESC LIMIT 1").fetchone())
        rows = database.execute("SELECT * FROM devices WHERE run_id = ? ORDER BY host", (run["run_id"],))
        devices = [dict(row) for row in rows]
    for device in devices:
        for column in ("changes", "members", "record", "snapshot"):
            device[column] = json.loads(device[column]) if device.get(column) else None
    run["request"] = json.loads(run["request"]) if run.get("request") else None
    content = shape({"run": run, "devices": {one["host"]: one for one in devices}}, _VARYING, kept=_TOLD)
    return json.dumps({"schema_of_the_journal": version} | content, indent=1) + "\n"
