"""`stage --ready` and `--add`, then `ready`: the run says at its end what the verb says afterwards, on stand-ins."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.soak]
NAME = "c8000v-universalk9.17.15.03a.SPA.bin"
SIZE_BYTES = 300_000


@pytest.fixture
def router(new_rig):
    with new_rig(platform="c8000v-17.15") as rig:
        yield rig


def told(readiness):
    return {one["name"]: one["met"] for one in readiness["conditions"] if one["met"] in {"not met", "unknown"}}


def test_a_device_that_has_added_the_image_is_ready(router):
    """By the run itself, and by the verb; activation has all that it needs."""
    image = router.image(SIZE_BYTES, NAME)
    done = router.verb("stage", "--image", image, "--add")
    (device,) = done.json["run"]["devices"]
    assert (done.code, told(device["readiness"]), device["readiness"]["verdict"]) == (0, {}, "yes")
    assert "ready" in device["seconds_by_step"]
    again = router.verb("ready", "--image", image)
    (seen,) = again.json["devices"]
    assert (again.code, again.json["ready"], seen["readiness"]["verdict"]) == (0, True, "yes")
    assert (seen["staged_by"], seen["since"]) == (done.json["run"]["run_id"], [])


def test_a_copied_file_alone_is_not_ready(router):
    """The run is good all the same: it did what it was asked for, and says what is missing."""
    done = router.verb("stage", "--image", router.image(SIZE_BYTES, NAME), "--ready")
    (device,) = done.json["run"]["devices"]
    assert (done.code, device["outcome"]) == (0, "done")
    assert (device["readiness"]["verdict"], told(device["readiness"])) == ("no", {"install summary": "not met"})


def test_nobody_asks_unless_that_was_wanted(router):
    """A run without either option says nothing about it."""
    done = router.verb("stage", "--image", router.image(SIZE_BYTES, NAME))
    (device,) = done.json["run"]["devices"]
    assert device["readiness"] is None


def test_what_changed_since_the_staging_is_told(router):
    """Somebody removes the inactive packages: the image goes with them, and the night is called off."""
    image = router.image(SIZE_BYTES, NAME)
    assert router.verb("stage", "--image", image, "--add").code == 0
    (path,) = (one.path for one in router.world.files("xe1") if one.name == NAME)
    path.unlink()
    later = router.verb("ready", "--image", image)
    (seen,) = later.json["devices"]
    assert (later.code, seen["readiness"]["verdict"]) == (4, "no")
    assert any(text.startswith("image (bootflash:): not met now, met then") for text in seen["since"])


def test_a_stack_is_ready_on_every_member(new_rig):
    """Each boots what is there, is ready, and has the packages; one that is away is named."""
    with new_rig(platform="c9300-17.6", config_lines=("boot system switch all flash:packages.conf",)) as rig:
        image = rig.image(SIZE_BYTES, "cat9k_iosxe.17.12.04.SPA.bin")
        done = rig.verb("stage", "--image", image, "--add")
        (device,) = done.json["run"]["devices"]
        assert (done.code, told(device["readiness"]), device["readiness"]["verdict"]) == (0, {}, "yes")
        assert device["readiness"]["members"] == [1, 2, 3]


def test_two_processors_are_ready_with_the_copy_on_the_standby(new_rig):
    """In bundle mode the image lies on both, both boot what is there, and the standby is hot."""
    line = "boot system bootflash:/asr1000rpx.bin"
    with new_rig(platform="asr1006-dual-16.3", config_lines=(line,)) as rig:
        image = rig.image(SIZE_BYTES, "asr1000rpx86-universalk9.16.09.04.SPA.bin")
        done = rig.verb("stage", "--image", image, "--ready")
        (device,) = done.json["run"]["devices"]
        assert (done.code, told(device["readiness"]), device["readiness"]["verdict"]) == (0, {}, "yes")
        images = [one["place"] for one in device["readiness"]["conditions"] if one["name"] == "image"]
        assert images == ["bootflash:", "stby-bootflash:"]
