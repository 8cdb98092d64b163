"""A plan given to sites and followed: through refusals, a dead broker, a dead centre, and an operator who stops it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import pytest

from benchmarks.sites_agents import Conduct, SimulatedAgent
from flashferry.model.exit_codes import ExitCode
from flashferry.model.fleet_plan import Action
from flashferry.model.waves import WavePolicy
from tests.component.sites_centre.conftest import Centre, ended, interrupt, outcomes
from tests.patience import until
from tests.unit.sites.centre.plans import device

AMS = [device(f"ams-r{number}", "ams") for number in range(6)]
LIM = [device(f"lim-r{number}", "lim") for number in range(6)]
SLOW = Conduct(copy_s=6.0, copies=2)

pytestmark = pytest.mark.soak


def test_each_site_does_its_part_and_the_report_is_one(centre: Centre) -> None:
    """Two agents, three sites: every device once, by its own agent, in the plan's order; the report reads the same."""
    one, two = centre.agent("one", "ams", "cuz"), centre.agent("two", "lim")
    cuz = device("cuz-r0", "cuz")
    centre.plan(*AMS, cuz, *LIM, device("x", "ams", action=Action.REFUSED))
    code, result, said = ended(centre.stage())
    assert code == ExitCode.REFUSED, said
    assert list(outcomes(result)) == [*(one.host for one in (*AMS, cuz, *LIM)), "x"]
    assert set(outcomes(result).values()) == {"done", "refused"}
    assert sorted(host for _, host in one.staged) == sorted([*(one.host for one in AMS), "cuz-r0"])
    assert sorted(host for _, host in two.staged) == sorted(one.host for one in LIM)
    code, report, _ = ended(centre.typed("sites", "report", "latest"))
    assert code == ExitCode.OK
    assert {one["host"]: one["outcome"] for one in report["devices"]} == outcomes(result)


def test_all_sites_wait_for_the_canary_of_one(centre: Centre) -> None:
    """A canary that fails at one site keeps the others' devices as they are."""
    agents = [
        centre.agent("one", "ams", conduct=Conduct(fails=frozenset({"ams-r0"}))),
        centre.agent("two", "lim", conduct=Conduct(copy_s=600.0)),
    ]
    centre.plan(*AMS, *LIM, policy=WavePolicy())
    code, result, said = ended(centre.stage())
    assert "no site begins anything more: 1 of the first devices (canaries) failed" in said
    assert code == ExitCode.DEVICES_FAILED, said
    assert outcomes(result)["ams-r0"] == "failed"
    assert "done" not in outcomes(result).values()
    assert len(agents) == 2


def _await_more(agents: Sequence[SimulatedAgent]) -> None:
    """Wait until the agents go on by themselves: another device begins, or all have."""

    def waiting() -> int:
        return sum(len(part.waiting) for agent in agents for part in tuple(agent._parts.values()))

    before = waiting()
    until(lambda: waiting() < max(before, 1), "one more device that begins")


def test_a_broker_killed_and_started_again_loses_nothing(centre: Centre) -> None:
    """The run goes on at the sites while the broker is away; records complete, none twice."""
    agents = [centre.agent("one", "ams", conduct=SLOW), centre.agent("two", "lim", conduct=SLOW)]
    centre.plan(*AMS, *LIM)
    command = centre.stage()
    centre.wait_for_devices("done", 1)
    centre.redis.kill()
    _await_more(agents)
    centre.redis.start()
    code, result, said = ended(command)
    assert code == ExitCode.OK, said
    assert set(outcomes(result).values()) == {"done"}
    assert len(outcomes(result)) == 12


def test_a_centre_killed_is_taken_up_by_follow(centre: Centre) -> None:
    """Killed -9 in mid-run, another command follows the same ledger to the end; records complete, none twice."""
    agents = [centre.agent("one", "ams", conduct=SLOW), centre.agent("two", "lim", conduct=SLOW)]
    centre.plan(*AMS, *LIM)
    command = centre.stage()
    centre.wait_for_devices("done", 1)
    os.kill(command.pid, signal.SIGKILL)
    command.wait()
    _await_more(agents)
    code, result, said = ended(centre.typed("sites", "follow", "latest", "--sites", str(centre.settings())))
    assert code == ExitCode.OK, said
    assert set(outcomes(result).values()) == {"done"}
    given = [host for agent in agents for _, host in agent.staged]
    assert sorted(given) == sorted(outcomes(result))


def test_ctrl_c_stops_all_sites_and_waits(centre: Centre) -> None:
    """The first Ctrl-C tells every site to stop; the command ends when all have."""
    centre.agent("one", "ams", conduct=SLOW)
    centre.agent("two", "lim", conduct=SLOW)
    centre.plan(*AMS, *LIM)
    command = centre.stage()
    centre.wait_for_parts("running")
    interrupt(command)
    code, result, said = ended(command)
    assert code == ExitCode.INTERRUPTED, said
    assert "2 sites asked to stop" in said
    assert {"interrupted", "not begun"} <= set(outcomes(result).values())
    assert {part.state for part in centre.overview().parts} == {"ended"}


def test_a_second_ctrl_c_leaves_the_sites_to_themselves(centre: Centre) -> None:
    """Where a site does not answer the command leaves, says how to look on again, and the run stays open."""
    agent = centre.agent("one", "ams", conduct=Conduct(copy_s=600.0))
    centre.plan(*AMS)
    command = centre.stage()
    centre.wait_for_parts("running")
    agent.stop()
    interrupt(command)
    # Two at once are one to the kernel: the ledger shows that the first was taken.
    until(lambda: centre.overview().stopped, "the run to be stopped")
    interrupt(command)
    code, result, said = ended(command)
    assert code == ExitCode.INTERRUPTED, said
    assert "continues at its sites; 'flashferry sites follow" in said
    assert result["meaning"] == "interrupted by the operator; the run continues at its sites"
    assert centre.overview().ended_at is None


def test_steering_reaches_one_site_alone(centre: Centre) -> None:
    """A stop for one site ends its part; the other goes on to its end, and who wanted it is kept."""
    centre.agent("one", "ams", conduct=Conduct(copy_s=600.0))
    centre.agent("two", "lim", conduct=Conduct(copy_s=8.0))
    centre.plan(*AMS, *LIM)
    command = centre.stage()
    centre.wait_for_parts("running")
    words = ["sites", "stop", "latest", "--site", "ams", "--reason", "a storm", "--sites", str(centre.settings())]
    code, told, said = ended(centre.typed(*words))
    assert (code, told["sites"]) == (ExitCode.OK, ["ams"]), said
    code, result, said = ended(command)
    assert code == ExitCode.UNFINISHED, said
    found = outcomes(result)
    assert {found[one.host] for one in LIM} == {"done"}
    assert {found[one.host] for one in AMS} == {"interrupted"}
    (wish,) = centre.overview().wishes
    assert (wish.site, wish.wish.what, wish.wish.reason) == ("ams", "stop", "a storm")


def test_a_refused_part_is_told_and_the_others_go_on(centre: Centre) -> None:
    """A site that refuses its part says why; its devices are refused, the other site's done."""
    centre.agent("one", "ams", conduct=Conduct(refuses="image.bin is not proven in the depot"))
    centre.agent("two", "lim")
    centre.plan(*AMS, *LIM)
    code, result, said = ended(centre.stage())
    assert code == ExitCode.REFUSED, said
    assert "refused: image.bin is not proven in the depot" in said
    assert {outcomes(result)[one.host] for one in AMS} == {"refused"}
    assert {outcomes(result)[one.host] for one in LIM} == {"done"}


@pytest.mark.parametrize(
    ("conduct", "told"),
    [
        (Conduct(is_silent=True), "site lim: expected its agent to answer, found that it never has"),
        (Conduct(release="9.9.9"), "site lim: expected an agent of release"),
        (Conduct(clock_ahead_s=300.0), "site lim: expected its clock within 30 s of ours, found it"),
    ],
)
def test_who_cannot_be_given_anything_stops_the_run_before_it_begins(
    centre: Centre, conduct: Conduct, told: str
) -> None:
    """One site that cannot be relied on, and nobody is sent anything."""
    centre.answer_s = 4.0
    good, _ = centre.agent("one", "ams"), centre.agent("two", "lim", conduct=conduct)
    centre.plan(*AMS, *LIM)
    code, _, said = ended(centre.stage())
    assert code == ExitCode.USAGE
    assert told in said
    assert "nothing was sent" in said
    assert good.staged == []


def test_a_site_without_an_agent_in_the_settings_is_refused_before_anything_is_opened(centre: Centre) -> None:
    """A device of a site that nobody serves stops the run; the broker is not even asked."""
    good = centre.agent("one", "ams")
    centre.plan(*AMS, *LIM)
    centre.redis.kill()
    code, _, said = ended(centre.stage(), 30.0)
    assert code == ExitCode.USAGE
    assert "lim-r0 (site lim)" in said
    assert good.staged == []
    centre.redis.start()


def test_what_is_left_out_by_name_is_told_and_the_rest_is_staged(centre: Centre) -> None:
    """The refusal's own words, typed behind the command, begin a run of the sites that have an agent."""
    good = centre.agent("one", "ams")
    centre.plan(*AMS, *LIM)
    code, _, said = ended(centre.stage(), 30.0)
    assert code == ExitCode.USAGE
    assert "leave them out with '--leave-out lim'" in said
    code, result, said = ended(centre.stage("--leave-out", "lim"))
    assert code == ExitCode.OK, said
    assert f"left out: {len(LIM)} devices: lim-r0" in said
    here = f"flashferry stage --plan {centre.folder / 'plan.json'} --filter site=lim"
    assert f"'{here}' stages those at no site from here" in said
    assert sorted(one["host"] for one in result["run"]["devices"]) == sorted(one.host for one in AMS)
    assert sorted(host for _, host in good.staged) == sorted(one.host for one in AMS)


def test_sites_list_shows_agents_and_what_is_wrong(centre: Centre) -> None:
    """A table of sites: who answers, of which release, what the depot has; and one that nobody ever heard."""
    centre.answer_s = 4.0
    centre.agent("one", "ams")
    code, result, said = ended(centre.typed("sites", "list", "--sites", str(centre.settings("cuz"))))
    assert code == ExitCode.OK, said
    ams, cuz = result["sites"]
    assert (ams["site"], ams["agent"], ams["trouble"], ams["images"]) == ("ams", "one", "", ["image.bin"])
    assert (cuz["site"], cuz["agent"]) == ("cuz", None)
    assert cuz["trouble"] == "expected its agent to answer, found that it never has"
