"""A plan shared out to sites, and who cannot be given anything."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.api.jobs import job_for_plan
from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.model.fleet_plan import Action
from flashferry.sites.broker_settings import BrokerSettings
from flashferry.sites.centre.settings import CentreSettings, SiteSettings
from flashferry.sites.centre.sharing import ago, check_ready, left_out, refusals, shares, staged_from_here
from flashferry.sites.keys import PrivateKey
from flashferry.store.database import moment
from flashferry.store.sites.agents import AgentState
from inventory.nornir_loader import open_inventory
from inventory.selection import Selection, narrowed
from tests.unit.sites.centre.plans import device, plan

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
KEY = PrivateKey.make().public


def site(name: str, **more: frozenset[str]) -> SiteSettings:
    return SiteSettings(**{"name": name, "agent_key": KEY, "inventory_sites": frozenset({name})} | more)


def settings(*sites: SiteSettings) -> CentreSettings:
    return CentreSettings(
        path=Path("sites.toml"),
        key=Path("centre.key"),
        plans_folder=Path("plans"),
        broker=BrokerSettings(url="redis://127.0.0.1/0"),
        sites={one.name: one for one in sites},
    )


def agent(name: str, **more: object) -> AgentState:
    usual = {
        "site": name,
        "agent": f"agent-{name}",
        "instance": "1",
        "release": "1.0.0",
        "last_message_at": moment(NOW),
    }
    return AgentState(**{**usual, "clock_ahead_s": 0.0, **more})


@given(st.lists(st.sampled_from(["ams", "lim", "cuz"]), min_size=1, max_size=30))
def test_each_device_is_at_exactly_one_site(sites: list[str]) -> None:
    """Every device to stage is in one share, in the plan's order, and none is made up."""
    made = plan([device(f"r{number}", name) for number, name in enumerate(sites)])
    found = shares(made, settings(site("ams"), site("lim"), site("cuz")))
    assert sorted(host for share in found for host in share.hosts) == sorted(one.host for one in made.devices)
    for share in found:
        assert share.hosts == tuple(one.host for one in made.devices if one.site == share.site)


def test_a_name_outweighs_a_group_and_a_group_a_site() -> None:
    """What names a device decides, then its group, then its site."""
    made = plan([device("r1", "ams", group="core"), device("r2", "ams", group="core"), device("r3", "ams")])
    found = shares(
        made, settings(site("ams"), site("lim", groups=frozenset({"core"})), site("cuz", devices=frozenset({"r1"})))
    )
    assert {share.site: share.hosts for share in found} == {"cuz": ("r1",), "lim": ("r2",), "ams": ("r3",)}


def test_devices_that_are_not_staged_are_no_sites_business() -> None:
    """A device that the plan refuses is in no share, whatever its site."""
    made = plan([device("r1", "ams"), device("r2", "nowhere", action=Action.REFUSED)])
    assert [share.hosts for share in shares(made, settings(site("ams")))] == [("r1",)]


def test_a_device_at_no_site_is_refused_by_name() -> None:
    """A device whose site has no agent, or that has no site, stops the whole run before anything is sent."""
    made = plan([device("r1", "ams"), device("r2", "lim"), device("r3", None)])
    told = r"found r2 \(site lim\), r3 \(site none\) at none; nothing was sent"
    with pytest.raises(ConfigInvalid, match=told):
        shares(made, settings(site("ams")))


def test_the_refusal_names_what_leaves_them_out_and_what_stages_them_from_here() -> None:
    """Whole sites by their names, other devices each by its own; each command can be typed as it stands."""
    made = plan([device("r1", "ams"), device("r2", "lim"), device("r3", "lim"), device("r4", None)])
    with pytest.raises(ConfigInvalid) as refused:
        shares(made, settings(site("ams")), called="night 1.json")
    hint = str(refused.value.hint)
    assert "leave them out with '--leave-out lim --leave-out r4'" in hint
    assert "'flashferry stage --plan 'night 1.json' --host r2 --host r3 --host r4'" in hint
    left = left_out(made, settings(site("ams")), ["lim", "r4"])
    assert [one.host for one in left] == ["r2", "r3", "r4"]
    only = frozenset({"r1"})
    assert [share.hosts for share in shares(made, settings(site("ams")), only=only)] == [("r1",)]


def test_a_site_some_of_whose_devices_have_an_agent_is_not_left_out_by_its_name() -> None:
    """The name would leave out those, too."""
    made = plan([device("r1", "ams", group="core"), device("r2", "ams")])
    with pytest.raises(ConfigInvalid) as refused:
        shares(made, settings(site("lim", groups=frozenset({"core"}))))
    assert "'--leave-out r2'" in str(refused.value.hint)
    assert "--plan FILE --host r2'" in str(refused.value.hint)


def test_a_site_is_left_out_by_its_name_in_plan_or_settings_whatever_is_done_with_its_devices() -> None:
    """A device that the plan refuses is left out with its site: no report of the run has it."""
    made = plan([device("r1", "AMS"), device("r2", "AMS", action=Action.REFUSED), device("r3", "lim")])
    found = settings(site("ams", inventory_sites=frozenset({"AMS"})), site("lim"))
    for name in ("AMS", "ams"):
        assert [one.host for one in left_out(made, found, [name])] == ["r1", "r2"]
    assert left_out(made, found, []) == ()


def test_a_name_that_is_none_is_refused() -> None:
    """A slip of the pen leaves nothing out; the plan's sites are told."""
    made = plan([device("r1", "ams"), device("r2", "lim")])
    with pytest.raises(ConfigInvalid, match="--leave-out limm: expected a site or a device of the plan"):
        left_out(made, settings(site("ams")), ["lim", "limm"])


@pytest.mark.parametrize("homeless", [{"r2", "r3"}, {"r2"}, {"r2", "r3", "r4"}, {"r4"}])
def test_the_command_for_the_rest_stages_the_rest_and_nothing_else(tmp_path: Path, homeless: set[str]) -> None:
    """Typed on this host, with the plan's inventory, it is a run of exactly these devices."""
    image = tmp_path / "image.bin"
    image.write_bytes(b"x" * 500)
    sites = {"r1": "ams", "r2": "lima-2", "r3": "lima-2", "r4": None}
    data = {host: f", data: {{site: '{name}'}}" if name else "" for host, name in sites.items()}
    lines = [f"{host}: {{hostname: 192.0.2.{number}, platform: ios{data[host]}}}" for number, host in enumerate(sites)]
    (tmp_path / "hosts.yaml").write_text("\n".join(lines))
    made = plan([device(host, name) for host, name in sites.items()])
    made = replace(made, images=(replace(made.images[0], path=str(image)),))
    words = shlex.split(staged_from_here(made, homeless, "night.json"))
    assert words[:4] == ["flashferry", "stage", "--plan", "night.json"]
    pairs = list(zip(words[4::2], words[5::2], strict=True))
    chosen = Selection(
        hosts=tuple(value for word, value in pairs if word == "--host"),
        filters=tuple(value for word, value in pairs if word == "--filter"),
    )
    nornir = narrowed(open_inventory(tmp_path), chosen)
    job = job_for_plan(nornir, made, is_part=chosen != Selection())
    assert set(job.request.images) == homeless
    assert set(job.not_chosen) == set(sites) - homeless


def test_a_device_that_two_sites_claim_is_refused() -> None:
    """One device belongs to one agent."""
    both = (site("ams", groups=frozenset({"g"})), site("lim", groups=frozenset({"g"})))
    with pytest.raises(ConfigInvalid, match="r1: expected it at one site, found that ams and lim both claim it"):
        shares(plan([device("r1", None, group="g")]), settings(*both))


def test_a_plan_with_nothing_to_stage_is_refused() -> None:
    """Nothing is given where nothing is to be done."""
    made = plan([device("r1", "ams", action=Action.REFUSED)])
    with pytest.raises(ConfigInvalid, match="no device to stage"):
        shares(made, settings(site("ams")))


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (None, "site ams: expected its agent to answer, found that it never has"),
        (
            agent("ams", last_message_at=moment(NOW - timedelta(minutes=12))),
            "site ams: expected its agent to answer, found it silent; last message 12 min ago",
        ),
        (agent("ams", release="0.9.0"), "site ams: expected an agent of release 1.0.0, found 0.9.0"),
        (agent("ams", clock_ahead_s=-75.0), "site ams: expected its clock within 30 s of ours, found it 75 s behind"),
        (
            agent("ams", clock_ahead_s=41.0, clock_within_s=10.0),
            "site ams: expected its clock within 30 s of ours, found it 41 s ahead, give or take 10 s",
        ),
        (
            agent("ams", other="agent-x 2", contested_at=moment(NOW)),
            "site ams: expected one agent, found two processes that send for it: agent-ams and agent-x 2",
        ),
    ],
)
def test_who_cannot_be_given_anything_is_refused_in_a_sentence(known: AgentState | None, told: str) -> None:
    """An agent that is silent, of another release, with another clock, or not alone: expected and found are told."""
    agents = {} if known is None else {"ams": known}
    found = refusals(["ams"], agents, settings(site("ams")), release="1.0.0", now=NOW)
    assert found == (told,)
    with pytest.raises(ConfigInvalid, match="nothing was sent"):
        check_ready(found)


def test_an_agent_that_is_well_is_given_its_part() -> None:
    """Heard lately, of our release, its clock right, alone: nothing to refuse."""
    agents = {
        "ams": agent("ams", clock_ahead_s=39.0, clock_within_s=10.0, contested_at=moment(NOW - timedelta(hours=1)))
    }
    found = refusals(["ams"], agents, settings(site("ams")), release="1.0.0", now=NOW)
    check_ready(found)
    assert found == ()


def test_who_was_heard_but_did_not_answer_is_silent() -> None:
    """Asked just now, an agent heard a minute ago has not answered."""
    agents = {"ams": agent("ams", last_message_at=moment(NOW - timedelta(seconds=60)))}
    found = refusals(["ams"], agents, settings(site("ams")), release="1.0.0", now=NOW, asked_at=NOW)
    assert found == ("site ams: expected its agent to answer, found it silent; last message 1 min ago",)


def test_how_long_ago_is_told_in_the_unit_that_people_use() -> None:
    """Seconds up to a minute, minutes up to two hours, then hours, then days."""
    told = [ago(NOW - timedelta(seconds=seconds), NOW) for seconds in (-3, 59, 60, 720, 7199, 7200, 172800)]
    assert told == ["0 s ago", "59 s ago", "1 min ago", "12 min ago", "120 min ago", "2 h ago", "2 d ago"]


def test_settings_limited_stay_what_they_are() -> None:
    """A copy with other sites does not change the one that it was made from."""
    first = settings(site("ams"))
    assert replace(first, sites={}).sites == {}
    assert set(first.sites) == {"ams"}
