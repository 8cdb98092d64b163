"""The command lines of jobs: what each kind comes to, and what cannot be smuggled into one."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.jobs import JobFolder
from flashferry.service.jobs.job_spec import Devices, JobSpec, command_line
from flashferry.service.settings import RunSettings
from flashferry.store.service.jobs import JobKind

STATE = Path("/s")
FOLDER = JobFolder.of(STATE, "j1")
SETTINGS = RunSettings(
    inventory="/inv", images=Path("/img"), options=("--keyring",), recover_options=("--host-keys", "accept")
)


def words(settings: RunSettings = SETTINGS, **wish: object) -> str:
    return " ".join(command_line(JobSpec(**wish), settings, STATE, FOLDER))


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (
            {"kind": JobKind.STAGE, "digest": "ab"},
            (
                "stage --plan /s/jobs/j1/plan.json --inventory /inv --events /s/jobs/j1/events.jsonl "
                "--state-dir /s --json --keyring"
            ),
        ),
        (
            {"kind": JobKind.RESUME, "run_id": "r1", "digest": "ab"},
            "stage --resume r1 --inventory /inv --events /s/jobs/j1/events.jsonl --state-dir /s --json --keyring",
        ),
        (
            {"kind": JobKind.RECOVER, "run_id": "r1"},
            "recover --run r1 --inventory /inv --state-dir /s --json --host-keys accept",
        ),
        (
            {"kind": JobKind.CHECK, "image": "a.bin", "devices": Devices(hosts=("r1",)), "sites": ("AMS",)},
            "check --image /img/a.bin --inventory /inv --host=r1 --filter=site=AMS --state-dir /s --json --keyring",
        ),
        (
            {"kind": JobKind.PROBE, "sites": ("AMS", "LIM"), "words": ("--seconds", "4.0")},
            (
                "probe --inventory /inv --filter=site=AMS --filter=site=LIM --events /s/jobs/j1/events.jsonl "
                "--state-dir /s --json --keyring --seconds 4.0"
            ),
        ),
        (
            {"kind": JobKind.DRY_RUN, "digest": "ab", "sites": ("AMS",)},
            "stage --dry-run --plan /s/jobs/j1/plan.json --inventory /inv --state-dir /s --json --keyring",
        ),
        (
            {"kind": JobKind.PLAN, "devices": Devices(groups=("edge",), filters=("role=ce",))},
            (
                "plan --output /s/jobs/j1/plan.json --inventory /inv --group=edge --filter=role=ce --state-dir /s "
                "--json --keyring"
            ),
        ),
        (
            {"kind": JobKind.NIGHTLY, "file": Path("/n/night.yaml")},
            "nightly run --state-dir /s --json -- /n/night.yaml",
        ),
    ],
    ids=lambda value: str(value["kind"]) if isinstance(value, dict) else "",
)
def test_each_kind_has_its_command_line(wish, expected):
    """Behind `flashferry`: what it is about, where things are, then the options of the settings."""
    assert words(**wish) == expected


def test_the_command_line_understands_each_of_them(tmp_path):
    """Options are those that the verbs have: none of the words is unknown to them."""
    from flashferry.cli.program import command_named

    for kind in JobKind:
        wish = JobSpec(kind=kind, digest="ab", run_id="r1", file=tmp_path / "n.yaml")
        given = list(command_line(wish, RunSettings(inventory="/inv"), tmp_path, JobFolder.of(tmp_path, "j1")))
        command = command_named(given[0])
        while hasattr(command, "commands"):
            known = command.later or command.commands
            command = command.get_command(None, next(word for word in given if word in known))
        offered = {name for one in command.params for name in one.opts}
        assert [word for word in given if word.startswith("--") and word != "--" and word not in offered] == [], kind


@pytest.mark.parametrize("image", ["../x.bin", "/etc/passwd", "-rf", "a b", ".hidden", "x/y"])
def test_an_image_is_a_name_in_the_folder(image):
    """None leads out of it, and none is an option."""
    with pytest.raises(ConfigInvalid):
        words(kind=JobKind.CHECK, image=image)


@pytest.mark.parametrize("given", ["site=LIM", " Site =LIM", "site"])
def test_nobody_filters_himself_into_another_site(given):
    """Values of one key are alternatives: one more site would widen what he may touch."""
    with pytest.raises(ConfigInvalid, match="filter"):
        words(kind=JobKind.CHECK, devices=Devices(filters=(given,)), sites=("AMS",))


def test_a_name_that_begins_with_a_dash_stays_a_name():
    """It is bound to its option."""
    assert "--host=--plan" in words(kind=JobKind.CHECK, devices=Devices(hosts=("--plan",)))


@pytest.mark.parametrize("kind", [JobKind.STAGE, JobKind.RESUME, JobKind.NIGHTLY, JobKind.DRY_RUN])
def test_what_a_kind_needs_must_be_there(kind):
    """A run of no plan, or a resume of no run, is refused before it is entered."""
    with pytest.raises(ConfigInvalid, match="found none"):
        words(kind=kind)


def test_images_are_where_the_service_keeps_them():
    """Where the configuration names no folder, a job takes them from the state folder, as uploads and plans do."""
    assert "--image /s/images/a.bin " in words(RunSettings(inventory="/inv"), kind=JobKind.CHECK, image="a.bin")


def test_without_an_inventory_nothing_looks_at_devices():
    """The sentence says where to name it."""
    with pytest.raises(ConfigInvalid) as told:
        words(RunSettings(), kind=JobKind.CHECK)
    assert "service.toml" in (told.value.hint or "")
