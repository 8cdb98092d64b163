"""One copy over the link, whatever the box is made of: members and standby get the image inside the box."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.soak]
DEVICE = "xe1"
NAME = "cat9k_iosxe.17.09.05.SPA.bin"
SIZE_BYTES = 300_000


def staged(rig, image, *arguments: str):
    done = rig.verb("stage", "--image", image, *arguments)
    (device,) = done.json["run"]["devices"]
    return done, device


@pytest.mark.parametrize(
    ("platform", "name", "systems"),
    [
        ("c9300-bundle-17.6", NAME, ["flash-2:", "flash-3:"]),
        ("asr1006-dual-16.3", "asr1000rpx86-universalk9.16.09.04.SPA.bin", ["stby-bootflash:"]),
    ],
)
def test_the_link_carries_the_image_once(new_rig, platform, name, systems):
    """Every member's file is proven there, and our server sent the image's bytes once; nothing is left changed."""
    with new_rig(platform=platform) as rig:
        before, image = rig.configurations(), rig.image(SIZE_BYTES, name)
        done, device = staged(rig, image)
        assert (done.code, device["outcome"], device["restored"]) == (0, "done", "restored"), device["failure"]
        assert [one["path"] for one in device["distribution"]["copies"]] == [f"{one}{name}" for one in systems]
        assert {one["digest"] for one in device["distribution"]["copies"]} == {device["verify"]["digest"]}
        assert device["transfer"]["bytes_acked"] == SIZE_BYTES
        assert not any(one["was_there"] for one in device["distribution"]["copies"])
        assert rig.configurations() == before

        again, device = staged(rig, image)
        assert (again.code, device["outcome"], device["transfer"]) == (0, "already there", None)
        assert all(one["was_there"] for one in device["distribution"]["copies"])


def test_a_stack_of_eight_gets_one_copy_and_is_ready(new_rig):
    """Our server sent the image's bytes once, to one connection; all eight hold it, proven, and `ready` says yes."""
    with new_rig(platform="c9300-eight-bundle-17.6") as rig:
        before, image = rig.configurations(), rig.image(SIZE_BYTES, NAME)
        done, device = staged(rig, image, "--ready")
        assert (done.code, device["outcome"], device["restored"]) == (0, "done", "restored"), device["failure"]
        assert device["transfer"]["bytes_acked"] == SIZE_BYTES
        assert rig.world.link_counters()["to_site"]["delivered_bytes"] < 2 * SIZE_BYTES
        copies = device["distribution"]["copies"]
        assert [one["path"] for one in copies] == [f"flash-{number}:{NAME}" for number in range(2, 9)]
        assert {one["digest"] for one in copies} == {device["verify"]["digest"]}
        flashes = [root / NAME for root in rig.world.flashes(DEVICE).values()]
        assert [file.read_bytes() == image.read_bytes() for file in flashes] == [True] * 8
        assert device["readiness"]["verdict"] == "yes"
        assert device["readiness"]["members"] == list(range(1, 9))

        ready = rig.verb("ready", "--image", image)
        assert (ready.code, ready.json["devices"][0]["readiness"]["verdict"]) == (0, "yes")
        assert rig.configurations() == before


def test_a_stack_of_eight_in_install_mode_is_added_to_everywhere(new_rig):
    """`install add` hands it on: one copy over the link, nothing copied by us, and all eight ready."""
    with new_rig(platform="c9300-eight-17.6") as rig:
        done, device = staged(rig, rig.image(SIZE_BYTES, NAME), "--add")
        assert (done.code, device["added"]["outcome"], device["readiness"]["verdict"]) == (0, "added", "yes")
        assert device["transfer"]["bytes_acked"] == SIZE_BYTES
        assert rig.world.link_counters()["to_site"]["delivered_bytes"] < 2 * SIZE_BYTES
        assert all((root / NAME).exists() for root in rig.world.flashes(DEVICE).values())
        assert device["readiness"]["members"] == list(range(1, 9))


def test_a_stack_in_install_mode_hands_on_by_itself(new_rig):
    """Without --add nothing is copied inside the box; the record says how it boots."""
    with new_rig(platform="c9300-17.6") as rig:
        _, device = staged(rig, rig.image(SIZE_BYTES, NAME))
        assert (device["outcome"], device["distribution"]) == (
            "done",
            {"mode": "install", "copies": [], "bytes_per_s": None},
        )


def test_a_member_that_does_not_take_its_copy_is_named(new_rig):
    """The active member keeps the image, the device is restored, and the run says where it ended."""
    with new_rig(platform="c9300-bundle-17.6") as rig:
        before = rig.configurations()
        rig.world.fault(DEVICE, refuse_exec_pattern="^copy flash:.* flash-3:")
        done, device = staged(rig, rig.image(SIZE_BYTES, NAME))
        assert (done.code, device["outcome"], device["restored"]) == (3, "failed", "restored")
        assert device["failure"]["step"] == "distribute"
        assert "flash-3:" in device["failure"]["reason"]
        assert rig.configurations() == before


def test_a_device_that_lists_no_file_systems_is_as_good_as_before(new_rig):
    """AAA refuses the look: the image is there, the device restored and done, and a note says what was not seen."""
    with new_rig(platform="c8000v-17.15") as rig:
        rig.world.fault(DEVICE, refuse_exec_pattern="^show file systems")
        done, device = staged(rig, rig.image(SIZE_BYTES, "c8000v-universalk9.17.15.03a.SPA.bin"))
        assert (done.code, device["outcome"], device["restored"]) == (0, "done", "restored"), device["failure"]
        assert any("whether other members lack the image" in note for note in device["notes"])


def test_a_run_killed_while_the_image_is_handed_on_is_finished_by_the_next(new_rig):
    """The configuration is what it was at that moment already; the next run copies to those that lack it alone."""
    with new_rig(platform="c9300-bundle-17.6") as rig:
        image, before = rig.image(SIZE_BYTES, NAME), rig.configurations()
        rig.world.fault(DEVICE, hold_command_pattern="^copy flash:.* flash-3:")
        with rig.started("stage", "--inventory", rig.inventory, "--image", image) as run:
            rig.until_held()
            run.kill()
            run.wait()
        rig.release()
        assert rig.configurations() == before
        done, device = staged(rig, image, "--remove-partial")
        assert (done.code, device["outcome"], device["transfer"]) == (0, "already there", None), device["failure"]
        assert device["distribution"]["copies"][0]["was_there"]
        assert rig.configurations() == before
