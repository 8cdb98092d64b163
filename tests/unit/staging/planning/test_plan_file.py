"""A plan as a file: what is written is what is read, and what changed since is told in a sentence."""

import hashlib
import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.errors import ConfigInvalid
from staging.planning.fleet_plan import Action, Fit, FleetPlan, PlannedDevice, PlannedImage, TuneMode
from staging.planning.limits import Limits
from staging.planning.plan_file import check_against, load_plan, plan_text, save_plan
from staging.planning.waves import Wave, WavePolicy


@pytest.fixture
def image(tmp_path: Path) -> PlannedImage:
    path = tmp_path / "new.bin"
    path.write_bytes(b"image")
    return PlannedImage(
        name="new.bin",
        path=str(path),
        size_bytes=5,
        md5=hashlib.md5(b"image").hexdigest(),
        sha512=hashlib.sha512(b"image").hexdigest(),
    )


@pytest.fixture
def plan(image: PlannedImage) -> FleetPlan:
    return FleetPlan(
        created_at="2026-11-21T22:00:00+00:00",
        starts_at="2026-11-21T22:00:00+00:00",
        ends_at=None,
        images=(image,),
        limits=Limits(site_copies=3),
        policy=WavePolicy(max_failures=0.25, size=4),
        tune=TuneMode.AUTO,
        duration_s=12.5,
        fit=Fit(fits=None, sentence="no end is given"),
        waves=(Wave(number=0, name="canary", hosts=("r1",), is_canary=True),),
        devices=(
            PlannedDevice(host="r1", address="192.0.2.1", image="new.bin", action=Action.STAGE, wave=0, rtt_s=0.1),
            PlannedDevice(host="r2", address="192.0.2.2", action=Action.UNREACHABLE, reason="no answer"),
        ),
    )


@pytest.mark.parametrize("failures", [0, 3, 0.5, 1.0])
def test_what_is_read_is_what_was_written(plan: FleetPlan, tmp_path: Path, failures: float) -> None:
    """Every value comes back, and a count of failures stays a count, a share a share."""
    plan = replace(plan, policy=WavePolicy(max_failures=failures))
    save_plan(plan, tmp_path / "plan.json")
    found = load_plan(tmp_path / "plan.json")
    assert found == plan
    assert type(found.policy.max_failures) is type(failures)


def test_the_file_is_its_owners_and_nothing_is_left_beside_it(plan: FleetPlan, tmp_path: Path) -> None:
    """Names of devices are nobody else's business, and a plan takes the place of an old one at once."""
    path = tmp_path / "plan.json"
    path.write_text("old")
    save_plan(plan, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["new.bin", "plan.json"]


def test_a_changed_device_changes_its_own_lines_only(plan: FleetPlan) -> None:
    """Two plans differ where the devices do, so that `diff` can be read."""
    first, second = plan.devices
    changed = replace(plan, devices=(replace(first, wave=1), second))
    pairs = zip(plan_text(plan).splitlines(), plan_text(changed).splitlines(), strict=True)
    assert [(one.strip(), other.strip()) for one, other in pairs if one != other] == [('"wave": 0,', '"wave": 1,')]


def test_what_json_prints_can_be_read_as_a_plan(plan: FleetPlan, tmp_path: Path) -> None:
    """`plan --json` puts exit code and meaning around a plan, which do no harm."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(json.loads(plan_text(plan)) | {"exit_code": 0, "meaning": "good"}))
    assert load_plan(path) == plan


def test_an_image_of_the_same_size_but_other_contents_is_refused(plan: FleetPlan, tmp_path: Path) -> None:
    """Both digests are named, so that it is plain which file is meant."""
    save_plan(plan, tmp_path / "plan.json")
    (tmp_path / "new.bin").write_bytes(b"other")
    found = hashlib.md5(b"other").hexdigest()
    with pytest.raises(ConfigInvalid, match=f"changed since the plan.*{plan.images[0].md5}, found {found}"):
        load_plan(tmp_path / "plan.json")


def test_an_image_of_another_size_is_refused(plan: FleetPlan, tmp_path: Path) -> None:
    """Sizes and digests are named."""
    save_plan(plan, tmp_path / "plan.json")
    (tmp_path / "new.bin").write_bytes(b"images")
    with pytest.raises(ConfigInvalid, match=r"expected 5 bytes with MD5 \w+, found 6 bytes with MD5 \w+"):
        load_plan(tmp_path / "plan.json")


def test_an_image_that_is_gone_is_named(plan: FleetPlan, tmp_path: Path) -> None:
    """A missing image is one sentence with its path and digest."""
    save_plan(plan, tmp_path / "plan.json")
    (tmp_path / "new.bin").unlink()
    with pytest.raises(ConfigInvalid, match=r"new.bin: expected the file that the plan is for, MD5 .*No such file"):
        load_plan(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema": "flashferry.plan/2"}, "expected the schema flashferry.plan/1, found flashferry.plan/2"),
        ({"schema": "flashferry.report/1"}, "expected a file with the schema"),
        ({"schema": None}, "expected a file with the schema"),
        ({"limits": {"copies": "many"}}, "damaged: limits.copies: expected a whole number, found 'many'"),
        ({"limits": {"copies": 0}}, "damaged: limit of copies"),
        ({"limits": {"speed": 1}}, "damaged: limits.speed: unknown key"),
        ({"tune": "perhaps"}, "damaged: tune: expected auto or always or never, found 'perhaps'"),
        ({"policy": {"by": "moon"}}, "damaged: policy.by: expected site or group"),
        ({"duration_s": True}, "damaged: duration_s: expected a number, found 'True'"),
        ({"devices": {}}, "damaged: devices: expected a list"),
        ({"devices": [{"host": "r1"}]}, "damaged: devices.0..address: expected this key, found none"),
        ({"waves": []}, "device r1 is to be staged and must be in exactly one wave"),
        ({"images": []}, "device r1 is to get image new.bin, which is not among"),
    ],
)
def test_a_plan_that_does_not_hold_together_is_refused(
    plan: FleetPlan, tmp_path: Path, change: dict[str, object], told: str
) -> None:
    """Damage, another release and edits that make no sense are one sentence that names the key."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(json.loads(plan_text(plan)) | change))
    with pytest.raises(ConfigInvalid, match=told):
        load_plan(path)


@pytest.mark.parametrize("text", ["", "{", "[]", '"plan"'])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    """Neither half a file nor another one is taken for a plan."""
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(ConfigInvalid, match=r"plan .*: (damaged|expected a file)"):
        load_plan(path)


def test_a_plan_of_devices_that_the_inventory_lacks_is_refused(plan: FleetPlan) -> None:
    """Devices to be staged must be there; those that are not staged need not."""
    check_against(plan, {"r1"})
    with pytest.raises(ConfigInvalid, match="the plan has r1, which the inventory has not"):
        check_against(plan, {"r2"})


def test_a_plan_that_cannot_be_written_is_one_sentence(plan: FleetPlan, tmp_path: Path) -> None:
    """A folder that is not there is the operator's to mend."""
    with pytest.raises(ConfigInvalid, match="cannot be written: No such file or directory"):
        save_plan(plan, tmp_path / "nowhere" / "plan.json")
