"""`stage --add`: the image is copied, the device restored, and then the image is taken apart, on stand-ins."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab
DEVICE = "xe1"
NAME = "c8000v-universalk9.17.15.03a.SPA.bin"
SIZE_BYTES = 300_000


@pytest.fixture
def router(new_rig):
    with new_rig(platform="c8000v-17.15") as rig:
        yield rig


def staged(rig, *arguments: str, image=None):
    done = rig.verb("stage", "--image", image or rig.image(SIZE_BYTES, NAME), *arguments)
    (device,) = done.json["run"]["devices"]
    return done, device


def test_an_image_is_added_once_the_device_is_restored(router):
    """Copied, restored, added; the configuration is what it was, and a second run adds nothing more."""
    before = router.configurations()
    image = router.image(SIZE_BYTES, NAME)
    done, device = staged(router, "--add", image=image)
    assert (done.code, device["outcome"], device["restored"]) == (0, "done", "restored"), device["failure"]
    assert (device["added"]["outcome"], device["added"]["version"]) == ("added", "17.15.03a.0.1")
    assert router.configurations() == before

    again, device = staged(router, "--add", image=image)
    assert (again.code, device["outcome"]) == (0, "already there")
    assert device["added"]["outcome"] == "already added"


@pytest.mark.soak
def test_without_the_option_nothing_is_added(router):
    """A copied file is all that a run leaves."""
    _, device = staged(router)
    assert (device["outcome"], device["added"]) == ("done", None)


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"install_busy": True}, "Another install operation is in progress"),
        pytest.param({"issu_in_progress": True}, "ISSU in progress", marks=pytest.mark.soak),
        pytest.param({"install_counts_undone": True}, "System configuration has been modified", marks=pytest.mark.soak),
    ],
)
def test_a_device_that_does_not_add_keeps_the_copy(router, faults, words):
    """The device is restored, the file is there, and the run says why it was not added."""
    before = router.configurations()
    router.world.fault(DEVICE, **faults)
    done, device = staged(router, "--add")
    assert (done.code, device["outcome"], device["restored"]) == (3, "failed", "restored")
    assert (device["failure"]["step"], device["failure"]["kind"]) == ("add", "InstallRefused")
    assert words in device["failure"]["reason"]
    assert router.configurations() == before
    assert NAME in [file.name for file in router.world.files(DEVICE)]


def test_an_add_that_failed_is_not_taken_for_done_by_the_next_run(router):
    """The table lists the image; the next run refuses and says what to do; a good add after that lifts it."""
    image, before = router.image(SIZE_BYTES, NAME), router.configurations()
    router.world.fault(DEVICE, install_add_fails=True)
    failed, device = staged(router, "--add", image=image)
    assert (failed.code, device["outcome"], device["failure"]["kind"]) == (3, "failed", "InstallFailed")
    assert "FAILED: install_add" in device["failure"]["reason"]
    assert "17.15.03a.0.1" in router.world.packages(DEVICE)

    router.world.fault(DEVICE, install_add_fails=False)
    refused, device = staged(router, "--add", image=image)
    assert (refused.code, device["failure"]["kind"]) == (3, "InstallRefused"), device["failure"]
    assert "is listed in state I, but 'install add' of it failed in run" in device["failure"]["reason"]
    assert "install remove inactive" in device["failure"]["hint"]

    router.world.fault(DEVICE, other_user_removes_inactive=True)
    assert router.until(lambda: "17.15.03a.0.1" not in router.world.packages(DEVICE))
    for outcome in ("added", "already added"):
        good, device = staged(router, "--add", image=image)
        assert (good.code, device["added"]["outcome"]) == (0, outcome), device["failure"]
    assert router.configurations() == before


@pytest.mark.soak
def test_a_run_killed_in_an_add_is_finished_by_the_next(router):
    """The device may go on adding; the next run finds the image there, and has it added once."""
    image, before, events = router.image(20_000_000, NAME), router.configurations(), router.folder / "events.jsonl"
    arguments = ("stage", "--inventory", router.inventory, "--image", image, "--add", "--events", events)
    with router.started(*arguments) as run:
        assert router.until(lambda: events.exists() and "Adding PACKAGE" in events.read_text())
        run.kill()
        run.wait()
    assert router.configurations() == before
    router.until(lambda: any(version.startswith("17.15.03a.") for version in router.world.packages(DEVICE)))
    done, device = staged(router, "--add", image=image)
    assert (done.code, device["outcome"]) == (0, "already there"), device["failure"]
    assert device["added"]["outcome"] in {"added", "already added"}
    assert router.configurations() == before


@pytest.mark.soak
def test_a_dry_run_says_what_would_be_added(router):
    """The command is told, and not given."""
    done = router.verb("stage", "--image", router.image(SIZE_BYTES, NAME), "--add", "--dry-run")
    assert done.code == 0
    assert f"once it is restored: install add file bootflash:{NAME}" in done.out
    assert NAME not in [file.name for file in router.world.files(DEVICE)]


def by_rule(router, *, adds):
    """Return a plan by a rule that says whether its image is added."""
    router.image(SIZE_BYTES, NAME)
    rules, plan = router.folder / "images.yaml", router.folder / f"night-{adds}.json"
    rules.write_text(f"rules:\n  - {{platform: ios-xe, image: {NAME}, add: {str(adds).lower()}}}\n")
    made = router.verb("plan", "--image-rules", rules, "--image-dir", router.folder, "--output", plan)
    assert made.code == 0, made.err
    (device,) = made.json["devices"]
    assert device["adds"] is adds
    return plan


@pytest.mark.soak
def test_a_rule_has_its_image_added(router):
    """Without a word of the run's options: the plan has it, and the run does it."""
    done = router.verb("stage", "--plan", by_rule(router, adds=True))
    (device,) = done.json["run"]["devices"]
    assert (done.code, device["added"]["outcome"]) == (0, "added"), done.err


@pytest.mark.soak
def test_a_rule_that_does_not_say_so_adds_nothing(router):
    """As before: the copy alone."""
    done = router.verb("stage", "--plan", by_rule(router, adds=False))
    (device,) = done.json["run"]["devices"]
    assert (done.code, device["added"]) == (0, None), done.err


@pytest.mark.soak
def test_a_resumed_run_knows_what_its_plan_adds(router):
    """Killed in mid-copy: the rule is in what the run kept, and need not be there any more."""
    plan = by_rule(router, adds=True)
    router.hold_copies()
    with router.started("stage", "--inventory", router.inventory, "--plan", plan, "--json") as process:
        router.until_held()
        process.kill()
    router.release()
    (router.folder / "images.yaml").unlink()
    done = router.verb("stage", "--resume", "latest", "--remove-partial")
    (device,) = done.json["run"]["devices"]
    assert (done.code, device["added"]["outcome"]) == (0, "added"), done.err
