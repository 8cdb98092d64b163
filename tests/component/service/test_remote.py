"""The command line against a real service: what is asked, approved, begun and followed, over a restart of it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.subjects import free_port
from flashferry.core.values import replace
from flashferry.model.exit_codes import ExitCode
from flashferry.model.plan_file import plan_from, plan_text
from flashferry.monitor.event_log import event_log
from flashferry.monitor.events import Event
from flashferry.service.client.stream import run_events
from flashferry.store.control_requests import Origin
from flashferry.store.journal import Journal
from flashferry.store.service.database import ServiceDatabase
from flashferry.store.service.images import ImageState, StoredImage, add_image
from tests import patience
from tests.component.service.calls import World
from tests.component.service.processes import running
from tests.component.service.tokens import client_of, token_of
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

FLASHFERRY = (sys.executable, "-P", "-m", "flashferry")


@pytest.fixture
def ground(tmp_path):
    """Return a folder with a service's state, an image that it knows, and an inventory of a router that is away."""
    state, images, inventory = tmp_path / "state", tmp_path / "images", tmp_path / "inventory"
    for folder in (state, images, inventory):
        folder.mkdir(mode=0o700)
    (images / "new.bin").write_bytes(b"image")
    router = {"hostname": "127.0.0.1", "port": 1, "platform": "ios", "username": "u", "password": "p"}
    (inventory / "hosts.yaml").write_text(json.dumps({"r1": router | {"data": {"site": "AMS"}}}))
    (state / "service.toml").write_text(f'[runs]\ninventory = "{inventory}"\nimages = "{images}"\n')
    (state / "service.toml").chmod(0o600)
    image = StoredImage(
        name="new.bin",
        size_bytes=5,
        sha512=hashlib.sha512(b"image").hexdigest(),
        state=ImageState.PUBLISHED,
        uploaded_by="system",
        created_at="2026-11-23T00:00:00.000Z",
    )
    with ServiceDatabase(state).writing() as database:
        add_image(database, image)
    return tmp_path


def asked(url, token, *words):
    """Run a verb at a service; return exit code, standard output and standard error."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FLASHFERRY_")}
    environment |= {"FLASHFERRY_SERVICE": url, "FLASHFERRY_SERVICE_TOKEN": token}
    done = subprocess.run(
        [*FLASHFERRY, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


def test_from_a_check_to_a_report_by_two_people(ground):
    """A check; a plan that somebody else approves; its run, followed to its end; its report: as on the host itself."""
    state, plan = ground / "state", ground / "plan.json"
    now = datetime.now(UTC)
    until_at = now + timedelta(hours=1)
    times = {"created_at": now.isoformat(), "starts_at": now.isoformat(), "ends_at": until_at.isoformat()}
    made = plan_from(World(served=None, images=ground / "images").plan_text(), plan)
    plan.write_text(plan_text(replace(made, **times)))
    anna, bob, vera = (token_of(state, *one) for one in (("anna", "operator"), ("bob", "approver"), ("vera", "viewer")))
    with running(state) as service:
        code, out, err = asked(service.url, anna, "check", "--json")
        assert (code, json.loads(out)["schema"]) == (3, "flashferry.check/1"), err
        assert [one["host"] for one in json.loads(out)["devices"]] == ["r1"]
    with (state / "service.toml").open("a") as file:
        file.write('options = ["--retries", "0"]\n')
    with running(state) as service:
        code, out, err = asked(service.url, anna, "stage", "--plan", plan)
        assert (code, out) == (ExitCode.APPROVAL, ""), err
        assert "An approver for AMS other than anna decides at" in err
        with client_of(service.url, bob) as client:
            (offered,) = client.plans()
        digest = offered.digest
        body = {"comment": "read it"}
        request = urllib.request.Request(f"{service.url}/api/v1/plans/{digest}/approve", json.dumps(body).encode())
        request.add_header("Authorization", f"Bearer {bob}")
        request.add_header("Content-Type", "application/json")
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()
        code, out, err = asked(service.url, vera, "stage", "--plan", digest)
        assert (code, "found viewer" in err) == (2, True), err
        code, out, err = asked(service.url, anna, "stage", "--plan", digest[:12], "--json", "--reason", "tonight")
        document = json.loads(out)
        assert (code, document["schema"], document["exit_code"]) == (3, "flashferry.stage/1", 3), err
        (device,) = document["run"]["devices"]
        assert (device["host"], device["outcome"], device["restored"]) == ("r1", "failed", "untouched")
        assert "r1           device" in err
        code, out, err = asked(service.url, vera, "report", "latest", "--json")
        assert (code, json.loads(out)["run_id"]) == (0, document["run"]["run_id"]), err
        code, out, err = asked(service.url, vera, "status")
        assert (code, "1 failed" in out, "nothing to recover" in out) == (0, True, True), err


def test_a_run_is_followed_over_a_service_that_was_killed(ground):
    """Events that were told before, while it was away, and after: each once; the run notices nothing."""
    state, port = ground / "state", free_port()
    token, events = token_of(state, "vera", "viewer"), ground / "events.jsonl"
    found, said = [], []
    with Journal(state, Origin(events=str(events))) as journal, event_log(events, devices=1) as log:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="x", port=22, platform="ios", site="AMS")

        def follow():
            with client_of(f"http://127.0.0.1:{port}", token) as client:
                for event in run_events(client, run_id, said.append):
                    found.append(event.text)  # noqa: PERF401 -- looked at meanwhile

        def tell(first, last):
            for number in range(first, last):
                log(Event(host="r1", step="check", status="note", text=f"n{number}", at_s=float(number), site="AMS"))

        thread = threading.Thread(target=follow)
        with running(state, "--listen", f"127.0.0.1:{port}") as service:
            tell(0, 10)
            thread.start()
            tell(10, 20)
            until(lambda: len(found) == 20)
            service.end(signal.SIGKILL)
        tell(20, 30)
        until(lambda: said)
        with running(state, "--listen", f"127.0.0.1:{port}"):
            tell(30, 40)
            until(lambda: len(found) == 40)
            journal.finish_run(run_id)
            thread.join(PATIENCE_S)
    assert found == [f"n{number}" for number in range(40)]
    assert said[1] == "the service answers again"


def until(is_so):
    """Wait for something."""
    patience.until(is_so, "an event of the service or the page")
