"""`activate` on devices that boot from an image file: boot order in front, saved, one reload, compared."""

from __future__ import annotations

import json

import pytest

from tests.e2e.test_activate import DEVICE, activated, in_phase, planned, words

pytestmark = [pytest.mark.lab, pytest.mark.soak]
OLD = "boot system bootflash:isr4300-universalk9.16.06.05.SPA.bin"
NEW = "boot system bootflash:isr4300-universalk9.16.12.05.SPA.bin"
NAME = "isr4300-universalk9.16.12.05.SPA.bin"


@pytest.fixture
def router(new_rig):
    with new_rig(platform="isr4321-16.6", config_lines=(OLD,)) as rig:
        rig.world.fault(DEVICE, boot_s=1.5)
        yield rig


def boot_lines(text):
    return [line for line in text.splitlines() if line.startswith("boot system")]


def orders(rig):
    """Return the boot order of running and startup configuration."""
    return tuple(boot_lines(one) for one in rig.configurations())


def test_the_image_is_put_in_front_saved_and_booted(router):
    """The old image stays behind it; nothing else of the configuration changes; a second try finds it done."""
    plan, digest = planned(router, NAME, adds=False)
    before = router.configurations()
    done, device = activated(router, plan, digest)
    assert done.code == 0, (done.err, device["failure"])
    found = device["activation"]
    assert (found["outcome"], found["to_release"]) == ("activated", "16.12.5")
    assert found["commands"] == ["write memory", "reload"]
    assert orders(router) == ([NEW, OLD], [NEW, OLD])
    assert [one.replace(f"{NEW}\n", "") for one in router.configurations()] == list(before)
    again, device = activated(router, plan, digest)
    assert (again.code, device["outcome"]) == (0, "already there")


def test_a_restart_that_ends_with_the_old_image_has_its_boot_order_put_back(router):
    """Running and saved as before; told as what it is."""
    plan, digest = planned(router, NAME, adds=False)
    before = router.configurations()
    router.world.fault(DEVICE, boots_old_image=True)
    done, device = activated(router, plan, digest)
    assert (done.code, device["activation"]["outcome"]) == (3, "came back with the old image"), done.err
    assert device["activation"]["commands"] == ["write memory", "reload", "write memory"]
    assert (device["restored"], router.configurations()) == ("restored", before)


def test_a_line_that_is_refused_leaves_the_device_as_it_was(router):
    """The boot order is refused by authorization: nothing is saved, nothing is restarted."""
    plan, digest = planned(router, NAME, adds=False)
    before = router.configurations()
    router.world.fault(DEVICE, refuse_config_pattern=r"^boot system .*16\.12")
    done, device = activated(router, plan, digest)
    assert (done.code, device["activation"]["outcome"]) == (3, "not activated"), done.err
    assert (device["restored"], router.configurations()) == ("restored", before)
    assert device["activation"]["commands"] == []


def test_what_is_lacking_behind_the_restart_is_told(router):
    """There is no timer in bundle mode: the device runs the image for good, and the run says what is not there."""
    plan, digest = planned(router, NAME, adds=False)
    router.configure_by_hand("interface Loopback77", "ip address 198.51.100.77 255.255.255.255")
    router.world.fault(DEVICE, other_user_saves="ops")
    router.world.fault(DEVICE, ports_down_after_boot=("Loopback77",))
    done, device = activated(router, plan, digest)
    assert (done.code, device["activation"]["outcome"]) == (3, "activated, something is lacking"), done.err
    assert "Loopback77" in device["failure"]["reason"]
    assert json.loads(router.run("status", "--json").out)["needs_recovery"] is False


@pytest.mark.parametrize(
    ("phase", "is_away", "outcome"),
    [("boot order", False, "not activated"), ("reloading", False, None), ("reloading", True, "activated")],
)
def test_a_run_killed_on_its_way_is_ended_by_recover(router, phase, is_away, outcome):
    """Whatever was done by then: the image runs, or all is as it was; never a second reload."""
    plan, digest = planned(router, NAME, adds=False)
    before = router.configurations()
    router.world.fault(DEVICE, hold_boot=is_away)
    with router.started(*words(router, plan, digest)) as process:
        assert router.until(lambda: in_phase(router, phase))
        if is_away:
            router.until_held()
        process.kill()
        process.wait()
    router.release()
    recovered = router.run("recover", "--inventory", router.inventory, "--json")
    (seen,) = recovered.json["devices"]
    assert recovered.code == 0, recovered.err
    found = seen["activation"]["outcome"]
    assert found == outcome or (outcome is None and found in {"activated", "not activated"})
    assert "reload" not in seen["activation"]["commands"]
    if found == "activated":
        assert orders(router) == ([NEW, OLD], [NEW, OLD])
    else:
        assert router.configurations() == before


def test_a_colleagues_unsaved_line_keeps_a_device_from_being_restarted(router):
    """Not ready: what is not saved would be lost, or saved by us; neither is ours to decide."""
    plan, digest = planned(router, NAME, adds=False)
    router.configure_by_hand("interface Loopback77", "ip address 198.51.100.77 255.255.255.255")
    before = router.configurations()
    done, device = activated(router, plan, digest)
    assert (done.code, device["outcome"], device["failure"]["step"]) == (4, "refused", "ready")
    assert router.configurations() == before


def test_two_processors_in_bundle_mode_are_left_to_a_person(new_rig):
    """A reload would switch over to the other one with the old image."""
    line = "boot system bootflash:/asr1000rpx.bin"
    with new_rig(platform="asr1006-dual-16.3", config_lines=(line,)) as rig:
        plan, digest = planned(rig, "asr1000rpx86-universalk9.16.09.04.SPA.bin", adds=False)
        before = rig.configurations()
        done, device = activated(rig, plan, digest)
        assert (done.code, device["failure"]["step"]) == (3, "activate"), done.err
        assert "redundancy reload shelf" in device["failure"]["hint"]
        assert rig.configurations() == before


def test_a_stack_in_bundle_mode_boots_the_image_on_every_member(new_rig):
    """One line for all members, the old image behind the new one in it."""
    old = "boot system switch all flash:cat9k_iosxe.17.06.01.SPA.bin"
    with new_rig(platform="c9300-bundle-17.6", config_lines=(old,)) as rig:
        rig.world.fault(DEVICE, boot_s=1.5)
        plan, digest = planned(rig, "cat9k_iosxe.17.12.04.SPA.bin", adds=False)
        done, device = activated(rig, plan, digest)
        assert done.code == 0, (done.err, device["failure"])
        assert (device["activation"]["outcome"], device["activation"]["after"]["members"]) == ("activated", [1, 2, 3])
        wanted = ["boot system switch all flash:cat9k_iosxe.17.12.04.SPA.bin;flash:cat9k_iosxe.17.06.01.SPA.bin"]
        assert orders(rig) == (wanted, wanted)


def test_a_stack_with_a_line_for_each_member_is_left_to_a_person(new_rig):
    """A line in front for one of them would leave the others with the old image."""
    lines = tuple(f"boot system switch {number} flash:cat9k_iosxe.17.06.01.SPA.bin" for number in (1, 2, 3))
    with new_rig(platform="c9300-bundle-17.6", config_lines=lines) as rig:
        plan, digest = planned(rig, "cat9k_iosxe.17.12.04.SPA.bin", adds=False)
        before = rig.configurations()
        done, device = activated(rig, plan, digest)
        assert (done.code, device["failure"]["step"]) == (3, "activate"), done.err
        assert "a line of its own for a member" in device["failure"]["reason"]
        assert rig.configurations() == before
