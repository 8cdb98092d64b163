"""Make a journal and dump it: run by hand, once per schema, with the code of the release that wrote it.

    git worktree add FOLDER COMMIT
    PYTHONPATH=FOLDER python FOLDER-OF-THIS-FILE/make.py FILE.json OPTION...

It plays the same four runs on the lab of that release: a speed test, a run that ends well, one whose copy comes out
broken, and one that is paused, goes on, is killed in mid-copy and leaves a router tuned. The file holds the journal as
SQL, the other files of the state folder, and what the tuned router's configuration has of ours.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from flashferry.lab.world import DeviceSpec, WorldSpec, start_world
from tests.patience import until

FOLDER = Path("/tmp/flashferry-contract")
"""A journal holds the paths of its images, and a checksum over them: who resumes its run has them in the same place."""

IMAGES = {"good.bin": 300_000, "bad.bin": 200_000, "big.bin": 3_000_000}
OURS = ("ip tcp ", "alias exec flashferry")


def image(name: str) -> bytes:
    """Return an image's bytes, the same on every machine."""
    return random.Random(name).randbytes(IMAGES[name])


def main(target: Path, *more: str) -> None:
    """Play the runs, the last one with some more options, and write the file."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "inventory").mkdir(parents=True)
    for name in IMAGES:
        (FOLDER / name).write_bytes(image(name))
    devices = (DeviceSpec(name="xe1"), DeviceSpec(name="xe2"))
    with start_world(WorldSpec(devices=devices, profile="lan")) as world:
        hosts = {
            one.name: {
                "hostname": one.address,
                "platform": "ios",
                "username": one.username,
                "password": one.password,
                "data": {"enable_secret": one.enable_secret, "link_rate_bps": 50_000_000, "cap_share": 0.98},
            }
            for one in world.devices
        }
        (FOLDER / "inventory" / "hosts.yaml").write_text(json.dumps(hosts))

        env = os.environ | {"FLASHFERRY_STATE_DIR": str(FOLDER / "state"), "FLASHFERRY_ACTOR": "anna"}

        def start(*arguments: str) -> subprocess.Popen[bytes]:
            verb, *options = arguments
            return subprocess.Popen(
                [
                    *(sys.executable, "-m", "flashferry.lab.enter", str(world.core_pid), "--"),
                    *(sys.executable, "-m", "flashferry", verb, "--inventory", str(FOLDER / "inventory"), *options),
                ],
                cwd=FOLDER,
                start_new_session=True,
                env=env,
            )

        def steer(word: str) -> None:
            subprocess.run([sys.executable, "-m", "flashferry", "run", word, "latest"], env=env, check=True)

        assert start("probe", "--host", "xe1").wait() == 0
        assert start("stage", "--image", str(FOLDER / "good.bin")).wait() == 0
        world.fault("xe2", flip_byte=True)
        assert start("stage", "--host", "xe2", "--image", str(FOLDER / "bad.bin")).wait() == 3
        world.fault("xe2", flip_byte=False)
        world.fault("xe1", slow_flash_bytes_per_s=300_000)
        dying = start("stage", "--image", str(FOLDER / "big.bin"), *more)
        until(lambda: is_on("xe1", 300_000, world) and journal_has("'xe2'", "'done'"), "one copies and one is done")
        steer("pause")
        steer("continue")
        os.killpg(dying.pid, signal.SIGKILL)
        dying.wait()
        running = world.running_config("xe1").splitlines()
    left = [line for line in running if line.startswith(OURS)]
    # Salted anew by every lab, and part of the configuration that is held against the stored one.
    salted = [line for line in running if line.startswith(("enable secret ", "username "))]
    target.write_text(
        json.dumps(dumped(FOLDER / "state") | {"left_on_xe1": left, "logins_of_xe1": salted}, indent=1) + "\n"
    )
    shutil.rmtree(FOLDER)


def is_on(host: str, size_bytes: int, world: object) -> bool:
    """Tell whether so much of the image has come to a device."""
    return any(one.name == "big.bin" and one.size_bytes > size_bytes for one in world.files(host))


def journal_has(host: str, state: str) -> bool:
    """Tell whether the last run has a device in a state."""
    with closing(sqlite3.connect(FOLDER / "state" / "journal.sqlite3")) as database:
        found = database.execute(
            "SELECT state FROM devices WHERE run_id = (SELECT run_id FROM runs ORDER BY started_at DESC LIMIT 1) "
            f"AND host = {host}"
        ).fetchone()
    return found is not None and f"'{found[0]}'" == state


def dumped(state: Path) -> dict[str, object]:
    """Return what a state folder holds: the journal as SQL, and the files beside it that are no caches."""
    with closing(sqlite3.connect(state / "journal.sqlite3")) as database:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        sql = list(database.iterdump())
    files = {
        str(path.relative_to(state)): path.read_text()
        for path in sorted(state.rglob("*"))
        if path.is_file() and path.parent.name in {"runs", "leases"}
    }
    digests = {name: hashlib.sha512(image(name)).hexdigest() for name in IMAGES}
    return {"schema": version, "sql": sql, "files": files, "images_sha512": digests}


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
