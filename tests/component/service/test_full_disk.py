"""A full disk: what cannot be kept is refused in a sentence, people can look, and nothing is lost or half done.

The disk is a small tmpfs in a mount namespace of the service's own, reached from here by its process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.component.service.processes import SERVICE, running
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

ON_A_SMALL_DISK = ("unshare", "-Urm", "--", "sh", "-c", 'mount -t tmpfs -o size=4m,mode=700 tmpfs "$0" && exec "$@"')
MANY = 60
OURS = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return an empty folder; skip where this host grants no mount namespace."""
    probe = [*ON_A_SMALL_DISK, str(tmp_path), "true"]
    if subprocess.run(probe, capture_output=True, check=False, timeout=PATIENCE_S).returncode:
        pytest.skip("this host lets nobody mount a small disk in a namespace of his own")
    return tmp_path


def asked(url: str, token: str, body: object = None) -> tuple[int, dict[str, object]]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Authorization": f"Bearer {token}"})
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def fill(path: Path) -> None:
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))


MAKE_TOKEN = """
import sys
from pathlib import Path
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.database import ServiceDatabase
from tests.served import Clock, Served
folder = Path(sys.argv[1])
service = Service(state=folder, settings=ServiceSettings(), database=ServiceDatabase(folder))
served = Served(service=service, app=None, clock=Clock(now=service.now()))
served.person("root", "admin", "auditor")
print(served.token("root").text)
"""


def inside(pid: int, *words: str | Path) -> str:
    """Return what a program prints that sees the disk: by another way SQLite would look for it in our own tree."""
    entered = ["nsenter", "-t", str(pid), "-U", "-m", "--preserve-credentials", "--", *map(str, words)]
    done = subprocess.run(entered, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=OURS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_cannot_be_kept_is_refused_and_people_can_look(disk: Path) -> None:
    """507 with what to do; reading goes on; with room again all goes on, and the audit is whole."""
    with running(disk, command=(*ON_A_SMALL_DISK, str(disk), *SERVICE)) as service:
        pid = service.process.pid
        filler = Path(f"/proc/{pid}/root{disk}/filler")
        token = inside(pid, sys.executable, "-c", MAKE_TOKEN, disk).strip()
        users = f"{service.url}/api/v1/users"
        assert asked(users, token, {"name": "first"})[0] == 201

        fill(filler)
        answers = [asked(users, token, {"name": f"full{number}", "display": "x" * 190}) for number in range(MANY)]
        refused = [answer for status, answer in answers if status != 201]
        assert refused, "the disk was not full"
        assert {answer["status"] for answer in refused} == {507}
        assert refused[-1]["detail"] == "nothing was done: the service's disk is full"
        assert refused[-1]["hint"]
        assert asked(users, token)[0] == 200
        looks = asked(f"{service.url}/readyz", token)[1]["looks"]
        assert isinstance(looks, dict)
        assert (looks["database"], looks["disk"]) == (True, False)

        filler.unlink()
        assert asked(users, token, {"name": "last"})[0] == 201
        listed = json.loads(inside(pid, *SERVICE, "user", "list", "--json", "--state-dir", disk))
        names = {one["name"] for one in listed["people"]}
        taken = {f"full{number}" for number, (status, _) in enumerate(answers) if status == 201}
        assert names == {"root", "first", "last", *taken}
        found = json.loads(inside(pid, *SERVICE, "audit", "verify", "--json", "--state-dir", disk))
        assert found["is_whole"]
        kept = inside(pid, *SERVICE, "audit", "export", "--action", "user.made", "--state-dir", disk).splitlines()
        made = sorted(json.loads(line)["object"] for line in kept)
        assert made == sorted(f"user:{name}" for name in names - {"root"}), "one for each, none for what was refused"


def test_a_service_begins_on_no_full_disk(disk: Path) -> None:
    """One sentence, exit code 2."""
    fill_first = 'dd if=/dev/zero of="$0"/filler bs=1k 2>/dev/null; exec "$@"'
    command = (
        *ON_A_SMALL_DISK[:-1],
        f'mount -t tmpfs -o size=64k,mode=700 tmpfs "$0" && {{ {fill_first}; }}',
        str(disk),
    )
    done = subprocess.run(
        [*command, *SERVICE, "--state-dir", str(disk), "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=OURS,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "cannot be used" in done.stderr
    assert "free space on its disk" in done.stderr


def test_a_full_disk_of_the_log_harms_no_request(disk: Path) -> None:
    """The log alone is on it: requests are answered and kept, and with room again the log says how much it lacks."""
    log, state = disk / "log", disk / "state"
    log.mkdir()
    config = disk / "service.toml"
    config.write_text(f'[log]\nfile = "{log}/service.log"\naccess = true\n')
    with running(state, "--config", config, command=(*ON_A_SMALL_DISK, str(log), *SERVICE)) as service:
        there = Path(f"/proc/{service.process.pid}/root{log}")
        token = inside(service.process.pid, sys.executable, "-c", MAKE_TOKEN, state).strip()
        users = f"{service.url}/api/v1/users"
        fill(there / "filler")
        for number in range(MANY):
            assert asked(users, token, {"name": f"full{number}"})[0] == 201
        (there / "filler").unlink()
        assert asked(users, token)[0] == 200
        assert "lines could not be written" in (there / "service.log").read_text()
        said = service.end()
    assert said.count("No space left on device") == 1
