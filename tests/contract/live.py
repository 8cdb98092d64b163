"""One image's whole way to two routers of the lab, by the command line, and every document that it gives."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.contract import golden, product
from tests.contract.normal import event_lines, metrics_page, shape, words
from tests.contract.tables import tables
from tests.patience import PATIENCE_S, until

IMAGE_BYTES = 250_000
METRICS = "127.0.0.1:9912"
METRICS_FILE = "stage-metrics.txt"
VARYING = frozenset({"evidence", "limited_by", "notes", "samples", "verdict"})
"""What a verdict goes by, and what is worth noting: by how a measurement came out."""


def whole_way(folder: Path) -> dict[str, str]:
    """Return what a check, a dry run, a plan and the run of that plan give: documents, events, metrics, journal."""
    image, plan = folder / "image.bin", folder / "plan.json"
    image.write_bytes(random.Random(1).randbytes(IMAGE_BYTES))
    with product.two_routers() as world:
        inventory = product.write_hosts(world, folder / "inventory")

        def document(
            name: str, verb: str, *options: object, code: int = 0, shown: Callable[[Any], Any] = lambda found: found
        ) -> dict[str, str]:
            done = product.run(folder, verb, "-i", inventory, "--json", *options, world=world)
            assert done.code == code, done.out + done.err
            return {f"{name}.json": _shaped(folder, done.code, shown(done.document))}

        given = ("--image", image, "--tune", "always", "--any-image")
        files = document("check", "check", "--image", image, "--reach")
        files |= document("dry-run", "stage", *given, "--dry-run")
        files |= document("dry-run-refused", "stage", "--image", image, "--dry-run", code=4, shown=_whoever_came_first)
        files |= document("plan", "plan", *given, "-o", plan, "--no-canary", "--wave-by", "all")
        files["plan-file.json"] = _shaped(folder, 0, json.loads(plan.read_text()))
        files |= _staged(world, folder, inventory, "--plan", plan)
        files |= document("stage-again", "stage", *given)
        files |= document("ready", "ready", "--plan", plan, code=4)
    files["journal.json"] = tables(folder / "state" / "journal.sqlite3", VARYING)
    files["state-files.txt"] = "".join(
        words(f"{path.relative_to(folder / 'state')}\n") for path in sorted((folder / "state").rglob("*"))
    )
    return files


def _whoever_came_first(found: Any) -> Any:
    """Return a dry run's document with the device that got the image in front: two routers race for it."""
    devices = sorted(found["devices"], key=lambda one: one["outcome"])
    return found | {"devices": [one | {"host": host} for host, one in zip(("xe1", "ios1"), devices, strict=True)]}


def broken_copies(folder: Path) -> dict[str, str]:
    """Return what a run tells and keeps whose copies come out broken on one router, also at the second try."""
    image = folder / "image.bin"
    image.write_bytes(random.Random(1).randbytes(IMAGE_BYTES))
    with product.two_routers() as world:
        inventory = product.write_hosts(world, folder / "inventory")
        world.fault("xe1", flip_byte=True)
        given = ("--image", image, "--any-image", "--tune", "always", "--no-canary", "--wave-by", "all")
        files = _staged(world, folder, inventory, *given, "--remove-partial", "--retries", "1", code=3)
    # Names and labels of metrics are the same whatever a run comes to, so one golden file has them.
    assert files.pop(METRICS_FILE) == golden.stored("run")[METRICS_FILE]
    done = product.run(folder, "report", "latest", "--format", "csv")
    head, *_ = done.out.splitlines()
    return files | {
        "report.csv": f"exit code {done.code}\n{head}\n",
        "journal.json": tables(folder / "state" / "journal.sqlite3", VARYING),
    }


def _staged(world: product.World, folder: Path, inventory: Path, *given: object, code: int = 0) -> dict[str, str]:
    """Return document, events and metrics of a run."""
    events = folder / "events.jsonl"
    watched = ("--events", events, "--metrics", METRICS, "--json")
    with product.started(folder, "stage", "-i", inventory, *given, *watched, world=world) as process:
        with product.in_front(world):
            page = _last_page(process)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, err
    return {
        "stage.json": _shaped(folder, process.returncode, json.loads(out)),
        "stage-events.txt": event_lines(events.read_text().splitlines(), VARYING),
        METRICS_FILE: metrics_page(page),
    }


def speed_test(folder: Path) -> dict[str, str]:
    """Return what a speed test tells and keeps."""
    with product.two_routers() as world:
        inventory, events = product.write_hosts(world, folder / "inventory"), folder / "events.jsonl"
        given = ("--host", "xe1", "--seconds", "2", "--events", events)
        done = product.run(folder, "probe", "-i", inventory, "--json", *given, world=world)
    assert done.code == 0, done.out + done.err
    return {
        "probe.json": _shaped(folder, done.code, done.document),
        "probe-events.txt": event_lines(events.read_text().splitlines(), VARYING),
        "journal.json": tables(folder / "state" / "journal.sqlite3", VARYING),
    }


def lab_verbs(folder: Path) -> dict[str, str]:
    """Return what `lab up` and `lab exec` tell of a lab."""
    with product.started(folder, "lab", "up", "--json") as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.rstrip() == "}":
                break
        done = product.run(folder, "lab", "exec", "--json", "--", "sh", "-c", "echo said; exit 7")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    return {
        "lab-up.json": _shaped(folder, process.returncode, json.loads("".join(lines))),
        "lab-exec.json": words(f"exit code {done.code}\n{done.out}"),
    }


def _shaped(folder: Path, code: int, document: Any) -> str:
    text = f"exit code {code}\n{json.dumps(shape(document, VARYING), indent=1)}\n"
    return words(text, {str(folder): "FOLDER"})


def _last_page(process: subprocess.Popen[str]) -> str:
    """Return the last page of metrics that a run gave."""
    page = ""

    def is_over() -> bool:
        nonlocal page
        with suppress(OSError), urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=PATIENCE_S) as answer:
            page = answer.read().decode()
        return process.poll() is not None

    until(is_over, "the end of the run")
    return page
