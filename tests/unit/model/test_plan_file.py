"""A plan as a file: what is written is what is read, and what changed since is told in a sentence."""

import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret
from flashferry.core.values import replace
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice, Savings, SiteForecast, Supply
from flashferry.model.limits import Limits
from flashferry.model.plan_file import check_against, load_plan, plan_document, plan_from, plan_text, save_plan, sealed
from flashferry.model.policy import TuneMode
from flashferry.model.waves import Wave, WavePolicy


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
        image_folders=(str(Path(image.path).resolve().parent),),
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


@pytest.mark.parametrize("devices", [0, 1, 2])
def test_a_plan_written_in_pieces_is_the_document(plan: FleetPlan, tmp_path: Path, devices: int) -> None:
    """Digest and all: what `--json` prints and what is written by devices are one plan, secrets masked."""
    keep_secret("hunter2hunter2")
    named = replace(plan.devices[1], reason="Zürich said 'hunter2hunter2'")
    plan = replace(plan, devices=(named, *plan.devices)[:devices])
    assert plan_text(plan) == json.dumps(plan_document(plan), indent=1, ensure_ascii=False) + "\n"
    save_plan(plan, tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_text("utf-8") == plan_text(plan)
    assert "hunter2" not in plan_text(plan)


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
    changes = [(one.strip(), other.strip()) for one, other in pairs if one != other]
    assert changes[0][0].startswith('"digest": "')
    assert changes[1:] == [('"wave": 0,', '"wave": 1,')]


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
    path.write_text(json.dumps(sealed(json.loads(plan_text(plan)) | change)))
    with pytest.raises(ConfigInvalid, match=told):
        load_plan(path)


def test_a_plan_carries_its_digest(plan: FleetPlan, tmp_path: Path) -> None:
    """It is that of the content alone: anybody can work it out, `--json` around it does not count, and it is read."""
    save_plan(plan, tmp_path / "plan.json")
    content = json.loads((tmp_path / "plan.json").read_text())
    stated = content.pop("digest")
    assert stated == hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert load_plan(tmp_path / "plan.json").digest == stated


def changed_path(content: dict[str, Any]) -> None:
    content["images"][0]["path"] = "/etc/shadow"


def changed_folder(content: dict[str, Any]) -> None:
    content["image_folders"] = ["/"]


def changed_wave(content: dict[str, Any]) -> None:
    content["waves"][0]["name"] = "all"


def changed_reason(content: dict[str, Any]) -> None:
    content["devices"][1]["reason"] = "none"


@pytest.mark.parametrize("change", [changed_path, changed_folder, changed_wave, changed_reason])
def test_a_changed_plan_is_refused(plan: FleetPlan, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Whatever was changed; the sentence names both digests and what to do."""
    content = json.loads(plan_text(plan))
    stated = content["digest"]
    change(content)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(content))
    with pytest.raises(
        ConfigInvalid, match=rf"has changed since it was made: expected SHA-256 {stated}, found \w{{64}}"
    ):
        load_plan(path)


@pytest.mark.parametrize("digest", [None, "", 5])
def test_a_plan_without_its_digest_is_refused(plan: FleetPlan, tmp_path: Path, digest: object) -> None:
    """It may be of an earlier release; it is made again."""
    content = json.loads(plan_text(plan)) | {"digest": digest}
    if digest is None:
        del content["digest"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(content))
    with pytest.raises(
        ConfigInvalid, match=r"expected its SHA-256 under the key 'digest', found none\. .*Make a new plan"
    ):
        load_plan(path)


@pytest.mark.parametrize("way", ["other name", "elsewhere", "up", "link", "relative", "no folder", "relative folder"])
def test_a_plan_names_no_other_files(plan: FleetPlan, tmp_path: Path, way: str) -> None:
    """Also one that is sealed: name and path agree, and links lead out of its image folders no more than paths do."""
    images, other = tmp_path / "images", tmp_path / "other"
    for folder in (images, other):
        folder.mkdir()
        (folder / "new.bin").write_bytes(b"image")
    (images / "passwd").write_bytes(b"image")
    (images / "linked").symlink_to(other)
    path, folders = images / "new.bin", (str(images),)
    load_sealed(plan, tmp_path, str(path), folders)
    bad = {
        "other name": (images / "passwd", folders),
        "elsewhere": (other / "new.bin", folders),
        "up": (images / ".." / "other" / "new.bin", folders),
        "link": (images / "linked" / "new.bin", folders),
        "relative": (Path("new.bin"), folders),
        "no folder": (path, ()),
        "relative folder": (path, (".",)),
    }[way]
    with pytest.raises(
        ConfigInvalid, match=r"plan .*: image new\.bin: expected (its whole path|it in one of the plan's)"
    ):
        load_sealed(plan, tmp_path, str(bad[0]), bad[1])


def load_sealed(plan: FleetPlan, folder: Path, image: str, folders: tuple[str, ...]) -> None:
    (one,) = plan.images
    save_plan(replace(plan, images=(replace(one, path=image),), image_folders=folders), folder / "plan.json")
    load_plan(folder / "plan.json")


@pytest.mark.parametrize("what", ["plan.json", "new.bin"])
def test_nothing_is_waited_for(plan: FleetPlan, tmp_path: Path, what: str) -> None:
    """A pipe in place of the plan, or of its image, is refused at once."""
    save_plan(plan, tmp_path / "plan.json")
    (tmp_path / what).unlink()
    os.mkfifo(tmp_path / what)
    with pytest.raises(ConfigInvalid, match="expected a regular file, found a named pipe"):
        load_plan(tmp_path / "plan.json")


def test_a_plan_holds_no_secret_and_is_carried_out_all_the_same(plan: FleetPlan, tmp_path: Path) -> None:
    """What a device said is masked; names and files stay, also where a password is part of one."""
    keep_secret("Sommer-2031", "new.bin")
    first, second = plan.devices
    told = replace(plan, devices=(first, replace(second, reason="it says Sommer-2031 of new.bin")))
    save_plan(told, tmp_path / "plan.json")
    assert "Sommer" not in (tmp_path / "plan.json").read_text()
    found = load_plan(tmp_path / "plan.json")
    assert (found.images, found.devices[0]) == (plan.images, first)
    assert found.devices[1].reason == "it says *** of ***"


@pytest.mark.parametrize("secret", ["always", "unreachable", "flashferry.plan", "canary-1", "images", "flash"])
def test_no_password_keeps_a_plan_from_being_carried_out(plan: FleetPlan, tmp_path: Path, secret: str) -> None:
    """Whatever word it is that a plan consists of."""
    keep_secret(secret)
    told = replace(plan, tune=TuneMode.ALWAYS)
    save_plan(told, tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json") == told


def test_a_plan_is_signs_alone(plan: FleetPlan, tmp_path: Path) -> None:
    """Whoever reviews it with `cat` is told what devices said, and obeys nothing of it; what is read is exact."""
    said = "Tromsø \x1b[2J\x9b\u202e"
    told = replace(plan, devices=(plan.devices[0], replace(plan.devices[1], reason=said)))
    text = plan_text(told)
    assert text.replace("\n", "").isprintable()
    assert "Tromsø" in text
    (tmp_path / "plan.json").write_text(text)
    assert load_plan(tmp_path / "plan.json") == told


@pytest.mark.parametrize("text", ["", "{", "[]", '"plan"'])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    """Neither half a file nor another one is taken for a plan."""
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(ConfigInvalid, match=r"plan .*: (is no plan|expected a file)"):
        load_plan(path)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b" \n", "an empty file"),
        (b"\x89PNG\r\n\x1a\n", "bytes that are no text (UTF-8), from byte 1 on"),
        (b"devices: []\n", "other text"),
        (b'{"schema":\n', "JSON that is cut, or has an error, in line 2, column 1"),
        (b"[" * 200_000, "JSON that is too deep, or has a number too long"),
        (b'{"schema": ' + b"9" * 5000 + b"}", "JSON that is too deep, or has a number too long"),
    ],
)
def test_what_is_no_json_is_told_without_the_words_of_a_library(content: bytes, found: str) -> None:
    """What was expected, what it is instead, and what to do."""
    with pytest.raises(ConfigInvalid) as caught:
        plan_from(content, "x")
    assert caught.value.message == (
        f"plan x: is no plan: expected JSON that 'flashferry plan --output' wrote, found {found}"
    )
    assert "make a new one" in str(caught.value.hint)


def test_a_plan_of_devices_that_the_inventory_lacks_is_refused(plan: FleetPlan) -> None:
    """Devices to be staged must be there; those that are not staged need not."""
    check_against(plan, {"r1"})
    with pytest.raises(ConfigInvalid, match="the plan has r1, not in the inventory or not selected"):
        check_against(plan, {"r2"})


def test_a_plan_that_cannot_be_written_is_one_sentence(plan: FleetPlan, tmp_path: Path) -> None:
    """A folder that is not there is the operator's to mend."""
    with pytest.raises(ConfigInvalid, match="cannot be written: No such file or directory"):
        save_plan(plan, tmp_path / "nowhere" / "plan.json")


def test_a_plan_of_an_earlier_release_knows_no_other_places(plan: FleetPlan) -> None:
    """It is carried out all the same: the run looks for members by itself."""
    content = json.loads(plan_text(plan))
    for device in content["devices"]:
        del device["other_places"], device["finish_s"]
    found = plan_from(json.dumps(sealed(content)).encode(), "night.json")
    assert [(one.other_places, one.finish_s) for one in found.devices] == [(0, None), (0, None)]


def _with_depot(plan: FleetPlan, depot: str) -> FleetPlan:
    site = SiteForecast(
        site="ams",
        devices=2,
        link_rate_bps=1e7,
        link_source="stated",
        cap_share=0.8,
        cap_bytes_per_s=973333,
        copies=8,
        peak_copies=2,
        load_share=1.0,
        busy_s=60.0,
        bytes=5,
        starts_s=61.0,
        ends_s=90.0,
        depot=depot,
        at_depot_s=61.0,
        lan_rate_bps=1e8,
        lan_bytes=10,
        lan_busy_s=1.0,
        saved_bytes=5,
    )
    saved = Savings(
        sentence="5 B instead of 10 B",
        bytes=5,
        bytes_without=10,
        lan_bytes=10,
        duration_s=90.0,
        duration_without_s=130.0,
        nights=1,
        nights_without=None,
    )
    first = replace(plan.devices[0], pulls_from=Supply.DEPOT)
    return replace(plan, sites=(site,), savings=saved, devices=(first, *plan.devices[1:]))


def test_a_plan_with_a_depot_says_so(plan: FleetPlan, tmp_path: Path) -> None:
    """Of the site, of each device, and what it saves; what is read is what was written."""
    made = _with_depot(plan, "https://depot.example.net:8443/")
    save_plan(made, tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json") == made
    content = json.loads((tmp_path / "plan.json").read_text())
    assert content["sites"][0]["depot"] == "https://depot.example.net:8443/"
    assert [one["pulls_from"] for one in content["devices"]] == ["depot", "centre"]


def test_a_depot_stays_as_it_is_whatever_it_looks_like(plan: FleetPlan) -> None:
    """A run goes by its name, though somebody has it for a password."""
    keep_secret("depot-ams")
    assert json.loads(plan_text(_with_depot(plan, "depot-ams")))["sites"][0]["depot"] == "depot-ams"


def test_a_plan_of_before_there_were_depots_is_still_read(plan: FleetPlan) -> None:
    """Each of its devices pulls from the centre, and nothing is said to be saved."""
    content = json.loads(plan_text(_with_depot(plan, "depot-1")))
    of_depots = {"depot", "neighbours", "at_depot_s", *("lan_rate_bps", "lan_source", "lan_bytes", "lan_busy_s")}
    for site in content["sites"]:
        for key in of_depots | {"saved_bytes", "saved_s"}:
            del site[key]
    for device in content["devices"]:
        del device["pulls_from"]
    del content["savings"], content["depot_advice"]
    found = plan_from(json.dumps(sealed(content)).encode(), "an old plan")
    assert (found.savings, found.depot_advice) == (None, ())
    assert {device.pulls_from for device in found.devices} == {Supply.CENTRE}
    assert (found.sites[0].depot, found.sites[0].neighbours, found.sites[0].lan_bytes) == (None, False, 0)
