"""`stage --dead-man`: the device takes our lines back by itself when nobody comes back to do it, on stand-ins."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab
DEVICE = "xe1"
NAME = "c8000v-universalk9.17.15.03a.SPA.bin"
SIZE_BYTES = 300_000
COMMANDS = "aaa authorization commands 15 default group tacacs+ local"


@pytest.fixture
def router(new_rig):
    with new_rig(platform="c8000v-17.15") as rig:
        yield rig


def staged(rig, *arguments: str):
    done = rig.verb("stage", "--image", rig.image(SIZE_BYTES, NAME), "--dead-man", *arguments)
    (device,) = done.json["run"]["devices"]
    return done, device


def test_an_applet_stands_while_our_lines_do_and_goes_with_them(router):
    """It was armed and proven, undoes what the device took, and nothing of it is left."""
    before = router.configurations()
    done, device = staged(router)
    found = device["dead_man"]
    assert (done.code, device["outcome"], device["restored"]) == (0, "done", "restored"), device["failure"]
    assert (found["is_armed"], found["reason"], found["countdown_s"]) == (True, "", 1806)
    assert found["undo"][0].startswith("no ip tcp window-size")
    assert found["undo"][-1].startswith("no alias exec flashferry-")
    assert router.configurations() == before


@pytest.mark.soak
def test_nobody_gets_one_unasked(router):
    """A run without the option types none."""
    done = router.verb("stage", "--image", router.image(SIZE_BYTES, NAME))
    (device,) = done.json["run"]["devices"]
    assert (done.code, device["dead_man"]) == (0, None)


@pytest.mark.parametrize(
    ("faults", "lines", "words"),
    [
        pytest.param({"refuse_config_pattern": "event manager"}, (), "takes no applet", marks=pytest.mark.soak),
        pytest.param(
            {"refuse_config_pattern": "authorization bypass"},
            (COMMANDS,),
            "no 'event manager session cli username'",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            {"ignore_config_pattern": "action 0"},
            (),
            "does not show the applet as it was typed",
            marks=pytest.mark.soak,
        ),
        ({"eem_never_counts": True}, (), "does not list the applet"),
        pytest.param(
            {"refuse_exec_pattern": "show event manager"}, (), "does not list the applet", marks=pytest.mark.soak
        ),
        pytest.param(
            {"refuse_config_pattern": "^event timer"}, (), "does not take all of the applet", marks=pytest.mark.soak
        ),
    ],
)
def test_a_device_that_cannot_carry_one_is_staged_as_ever(new_rig, faults, lines, words):
    """The reason is told, nothing of the applet stays, and the copy is made."""
    with new_rig(platform="c8000v-17.15", config_lines=lines) as rig:
        before = rig.configurations()
        rig.world.fault(DEVICE, **faults)
        done, device = staged(rig)
        assert (done.code, device["outcome"], device["restored"]) == (0, "done", "restored"), device["failure"]
        assert (device["dead_man"]["is_armed"], words in device["dead_man"]["reason"]) == (False, True)
        assert rig.configurations() == before


@pytest.mark.soak
def test_an_archive_is_named_where_no_applet_is_taken(new_rig):
    """Its rollback puts more back than our lines: it is offered in words, and never armed."""
    with new_rig(platform="c8000v-17.15", config_lines=("archive", " path bootflash:kept")) as rig:
        rig.world.fault(DEVICE, refuse_config_pattern="event manager")
        done, device = staged(rig)
        assert (done.code, device["restored"]) == (0, "restored"), device["failure"]
        assert "'configure terminal revert timer MINUTES'" in device["dead_man"]["reason"]


@pytest.mark.soak
def test_an_applet_without_bypass_runs_where_nobody_is_asked(router):
    """A release that does not know the word takes the applet without; no commands are authorized there."""
    router.world.fault(DEVICE, refuse_config_pattern="authorization bypass")
    done, device = staged(router)
    assert (done.code, device["dead_man"]["is_armed"]) == (0, True)


def killed_in_mid_copy(rig):
    """Begin to stage, and kill the controller once the copy runs."""
    image = rig.image(SIZE_BYTES, NAME)
    rig.hold_copies()
    with rig.started("stage", "--inventory", rig.inventory, "--image", image, "--dead-man") as run:
        rig.until_held()
        assert "event manager applet FLASHFERRY-" in rig.configurations()[0]
        run.kill()
        run.wait()
    rig.release()


def test_a_controller_that_dies_for_good_leaves_nothing(router):
    """When the countdown is over the device is what it was, by its own doing; recovery finds nothing to do."""
    before = router.configurations()
    killed_in_mid_copy(router)
    assert router.configurations() != before
    router.world.fault(DEVICE, applets_fire=True)
    assert router.configurations() == before
    assert router.verb("recover").code == 0
    assert router.configurations() == before


@pytest.mark.soak
def test_what_an_applet_took_from_a_colleague_is_told(router):
    """It types without a look (docs/dead-man.md); recovery finds the start, and says what may have gone with it."""
    before = router.configurations()
    killed_in_mid_copy(router)
    router.configure_by_hand("ip tcp window-size 100000")
    assert "ip tcp window-size 100000" in router.configurations()[0]
    router.world.fault(DEVICE, applets_fire=True)
    assert router.configurations() == before
    done = router.run("recover", "--inventory", router.inventory)
    assert (done.code, "its applet is not there: where it ran" in done.out) == (0, True)


def test_recovery_takes_an_applet_back_that_still_counts(router):
    """It was journaled before it was typed."""
    before = router.configurations()
    killed_in_mid_copy(router)
    assert router.verb("recover").code == 0
    assert router.configurations() == before


def test_a_countdown_that_ends_in_mid_copy_costs_nothing(router):
    """The copy goes on, and the restore finds its work done."""
    before, image = router.configurations(), router.image(SIZE_BYTES, NAME)
    router.hold_copies()
    with ThreadPoolExecutor(1) as beside:
        run = beside.submit(router.verb, "stage", "--image", image, "--dead-man")
        router.until_held()
        assert "event manager applet FLASHFERRY-" in router.configurations()[0]
        router.world.fault(DEVICE, applets_fire=True)
        assert router.configurations() == before
        router.release()
        done = run.result(timeout=PATIENCE_S)
    (device,) = done.json["run"]["devices"]
    assert (done.code, device["outcome"], device["restored"]) == (0, "done", "restored"), device["failure"]
    assert any("was gone before the restore" in note for note in device["notes"])
    assert router.configurations() == before


@pytest.mark.soak
def test_somebody_who_saves_meanwhile_is_told_what_to_remove(router):
    """A reload would bring lines and applet back: the device stays in the journal until the startup has neither."""
    killed_in_mid_copy(router)
    router.world.fault(DEVICE, other_user_saves=True)
    found = router.verb("recover")
    assert found.code != 0
    told = " ".join((found.out + found.err).split())
    assert "the startup configuration holds them" in told
    assert re.search(r"which takes [^.;]*'event manager applet FLASHFERRY-[0-9A-F]{4}'[^.;]* out of it", told), told


@pytest.mark.soak
def test_an_applet_that_an_earlier_run_left_is_named(new_rig):
    """Before anything is touched, with the line that removes it."""
    lines = ("event manager applet FLASHFERRY-3F2A", " event timer countdown time 5400")
    with new_rig(platform="c8000v-17.15", config_lines=lines) as rig:
        done, device = staged(rig)
        assert done.code != 0
        assert "no event manager applet FLASHFERRY-3F2A" in device["failure"]["hint"]


@pytest.mark.soak
def test_a_dry_run_tells_it(router):
    """And types nothing."""
    before = router.configurations()
    done = router.verb("stage", "--image", router.image(SIZE_BYTES, NAME), "--dead-man", "--dry-run")
    assert "an EEM applet that takes our lines and itself back" in done.out
    assert router.configurations() == before


@pytest.mark.soak
def test_what_a_device_has_shown_to_take_it_has_from_then_on(router):
    """Unless it is told not to; before that, only where somebody asks for it."""
    image = router.image(SIZE_BYTES, NAME)
    armed = []
    for number, options in enumerate(((), ("--dead-man",), (), ("--no-dead-man",), ())):
        for one in router.world.files(DEVICE):
            if one.name == NAME:
                one.path.unlink()
        done = router.verb("stage", "--image", image, "--tune", "always", *options)
        assert done.code == 0, (number, done.err)
        (device,) = done.json["run"]["devices"]
        armed.append(device["dead_man"] is not None and device["dead_man"]["is_armed"])
    assert armed == [False, True, True, False, True]
