"""A plan staged on a real lab by the command line at a service: followed over a restart, restored, exit code 0."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flashferry.lab.world_spec import write_inventory
from flashferry.service.images.lifecycle import approve_unpublished, reconcile_folder
from flashferry.service.plans.deciding import approve
from flashferry.service.principal import Actor, Grant, Role, Via
from tests import patience
from tests.component.service.tokens import token_of
from tests.e2e.service_kills.ground import Ground, configurations, open_lab
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.soak]

PORT = 8077
"""In a network of the lab's own, so that nobody else has it."""


def test_a_plan_is_staged_by_a_service_for_who_sits_elsewhere(tmp_path):
    """Offered and begun from the command line, approved by another; the service is killed in mid-run, and begun again.

    Both routers have the image and are as they were; the document is that of a run of this host.
    """
    with open_lab() as world:
        write_inventory(world, tmp_path / "inventory")
        ground = Ground(world, tmp_path, tmp_path / "inventory", "remote")
        settings = ground.state / "service.toml"
        settings.write_text(settings.read_text().replace("port = 0", f"port = {PORT}"))
        approver = Actor(name="bob", via=Via.SESSION, grants=frozenset({Grant(role=Role.APPROVER)}))
        token_of(ground.state, "bob", "approver")
        environment = os.environ | {"FLASHFERRY_SERVICE_TOKEN": token_of(ground.state, "anna", "operator")}
        reconcile_folder(ground.service)
        approve_unpublished(ground.service, approver, ground.image.name, "random bytes of this test")
        before, plan, shown = configurations(world), tmp_path / "plan.json", tmp_path / "shown.txt"
        options = ("--no-canary", "--wave-by", "all", "--tune", "always", "--output", plan, "--state-dir", ground.state)
        words = ("plan", "--inventory", ground.inventory, "--image", ground.image, *options)
        subprocess.run(ground.command(*words), check=True, capture_output=True, timeout=PATIENCE_S)
        try:
            serve(ground)
            with staging(ground, plan, shown, environment) as asking:
                until(lambda: "waits for approval" in shown.read_text())
                approve(ground.service, approver, json.loads(plan.read_text())["digest"])
                until(lambda: " connect " in shown.read_text())
                ground.services[-1].kill()
                ground.services[-1].wait()
                until(lambda: "Trying again" in shown.read_text())
                serve(ground)
                out, _ = asking.communicate(timeout=PATIENCE_S)
        finally:
            ground.end()
        document, said = json.loads(out), shown.read_text()
        assert (asking.returncode, document["schema"], document["exit_code"]) == (0, "flashferry.stage/1", 0), said
        devices = {one["host"]: (one["outcome"], one["restored"]) for one in document["run"]["devices"]}
        assert devices == dict.fromkeys(("r1", "r2"), ("done", "restored"))
        assert said.count("the service answers again") == 1, said
        assert [said.count(f"{host:<12} device   done") for host in ("r1", "r2")] == [1, 1], said
        assert configurations(world) == before


@contextmanager
def staging(ground: Ground, plan: Path, shown: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run the client that waits for the end of its run; it is ended with the block, whatever became of that."""
    words = ("--service", f"http://127.0.0.1:{PORT}", "stage", "--plan", plan, "--wait", "--json")
    with (
        shown.open("w") as errors,
        subprocess.Popen(
            ground.command(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        ) as client,
    ):
        try:
            yield client
        finally:
            client.kill()


def serve(ground: Ground) -> None:
    """Start the service, and wait until it answers."""
    log = ground.folder / f"{ground.name}.log"
    before = log.read_text().count("answers at") if log.exists() else 0
    ground.serve()
    until(lambda: log.read_text().count("answers at") > before)


def until(is_so: Callable[[], bool]) -> None:
    """Wait for something."""
    patience.until(is_so, "an event of the service or the page")
