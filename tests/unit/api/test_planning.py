"""Where `flashferry plan` looks for rules and images, and whom it asks what can be served."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.api.fleet import FleetOptions
from flashferry.api.planning import image_rules, plan
from flashferry.core.errors import ConfigInvalid
from flashferry.depot.daemon import Depot
from flashferry.depot.options import DepotOptions
from flashferry.model.fleet_plan import FleetPlan
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.planning.fleet_planner import PlanRequest
from flashferry.run.request import RunOptions
from flashferry.run.server import depot_for, transports_of
from inventory.host_view import view
from inventory.image_rules import Traits
from inventory.nornir_loader import open_inventory

RULES = """
rules:
  - platform: ios-xe
    image: new.bin
"""


def test_rules_beside_a_configuration_file_hold(tmp_path: Path) -> None:
    """An inventory by a plugin has its rules and images beside the configuration file, as a folder has them inside."""
    (tmp_path / "images.yaml").write_text(RULES)
    (tmp_path / "nornir.yaml").write_text("---\n")
    traits = Traits(platform="ios-xe", model="ISR4321/K9", version="16.6.5")
    for inventory in (tmp_path, tmp_path / "nornir.yaml"):
        rules, folders = image_rules(FleetOptions(inventory=inventory).folder)
        assert rules.choose(traits).image == "new.bin"
        assert folders == (tmp_path,)


def test_one_image_for_all_leaves_the_rules_beside_alone(tmp_path: Path) -> None:
    """What is given on the command line goes before a file that merely lies there."""
    (tmp_path / "images.yaml").write_text("no rules at all")
    rules, _ = image_rules(tmp_path, has_image=True)
    assert not rules.rules


@pytest.fixture(scope="module")
def depot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Depot]:
    """A depot that serves FTP alone."""
    options = DepotOptions(state=tmp_path_factory.mktemp("d"), listen="127.0.0.1", port=0)
    with Depot(options) as running:
        yield running


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """An inventory of a router that nobody can reach and that may fetch by FTP or HTTPS, and an image."""
    (tmp_path / "hosts.yaml").write_text(
        "r1: {hostname: 127.0.0.1, port: 9, username: u, password: p, platform: ios, "
        "data: {transports: [https, ftp], link_rate_bps: 8000000, site: s}}\n"
    )
    (tmp_path / "new.bin").write_bytes(b"an image")
    return tmp_path


def planned(ground: Path, state: Path, transport: str, depot: str = "auto") -> FleetPlan:
    request = PlanRequest(
        image=ground / "new.bin",
        state_directory=state,
        policy=StagePolicy(transport=transport, any_image=True),
        depot=depot,
    )
    return plan(open_inventory(ground), request).plan


def staged_by(ground: Path, state: Path, transport: str, depot: str = "auto") -> tuple[str, ...]:
    """Return by what a run would try the router."""
    options = RunOptions(policy=StagePolicy(transport=transport), server=ServerPlace(depot=depot))
    views = [view(host) for host in open_inventory(ground).inventory.hosts.values()]
    with depot_for(options, state) as (_, theirs, _note):
        return tuple(one.name for one in transports_of(views, theirs)["r1"])


@pytest.mark.parametrize("transport", ["https", "https,ftp", "usual"])
def test_a_plan_is_refused_what_a_run_is_refused_by_the_depot(ground: Path, depot: Depot, transport: str) -> None:
    """In the same words, before any device is logged in to: what is planned by HTTPS, the depot has to serve."""
    told = []
    for attempt in (planned, staged_by):
        with pytest.raises(ConfigInvalid, match=r"transport https: expected it at the depot .* serves ftp") as error:
            attempt(ground, depot.options.state, transport)
        told.append((error.value.message, error.value.hint))
    assert told[0] == told[1]


def test_a_plan_leaves_out_what_the_depot_does_not_serve(ground: Path, depot: Depot) -> None:
    """By `auto` plan and run go by what is left, and the plan says so; where no depot is wanted it plans with all."""
    state = depot.options.state
    assert staged_by(ground, state, "auto") == ("ftp",)
    (told,) = (one for one in planned(ground, state, "auto").assumptions if "https" in one)
    assert re.match("not tried by https: expected it at the depot .*, which serves ftp. Start the depot with it", told)
    assert not any("https" in one for one in planned(ground, state, "auto", "never").assumptions)
    assert planned(ground, state, "https", "never").devices


def test_a_plan_says_that_the_depot_does_not_answer(ground: Path, tmp_path: Path) -> None:
    """It is made for a server of the run's own then; where the depot was insisted on, none is made."""
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(tmp_path / "depot.sock"))
    (told,) = (one for one in planned(ground, tmp_path, "auto").assumptions if "depot" in one)
    assert told.endswith("no depot is running there; planned as though the run brings its own file server")
    with pytest.raises(ConfigInvalid, match=r"--depot: depot .*no depot is running there"):
        planned(ground, tmp_path, "auto", str(tmp_path / "depot.sock"))
