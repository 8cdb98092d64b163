"""`flashferry clean`: old images go where somebody said yes, and nothing else ever does, on stand-ins."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.soak]
DEVICE = "xe1"
OLD = "cat9k_iosxe.16.12.04.SPA.bin"
OLDER = "cat9k_iosxe.16.06.05.SPA.bin"


@pytest.fixture
def switch(new_rig):
    with new_rig(platform="c9300-17.6") as rig:
        for name, size in ((OLD, 4000), (OLDER, 3000)):
            (flash_of(rig) / name).write_bytes(b"x" * size)
        yield rig


def flash_of(rig):
    return rig.world.files(DEVICE)[0].path.parent


def there(rig):
    return {one.name for one in rig.world.files(DEVICE)}


def test_what_could_go_is_shown_and_stays(switch):
    """With date, size and why; nothing is asked and nothing deleted."""
    before, configurations = there(switch), switch.configurations()
    found = switch.verb("clean", "--dry-run")
    (device,) = found.json["devices"]
    assert (found.code, device["outcome"], device["deleted"]) == (0, "done", [])
    shown = {one["path"]: one for one in device["look"]["files"]}
    assert {path: one["size_bytes"] for path, one in shown.items()} == {f"flash:{OLD}": 4000, f"flash:{OLDER}": 3000}
    assert all(one["modified"] and "older than 17" in one["reason"] for one in shown.values())
    assert (there(switch), switch.configurations()) == (before, configurations)


def test_what_somebody_said_yes_to_goes_and_nothing_else(switch):
    """Each is proven gone; both configurations and all other files are as they were; a second time there is nothing."""
    before, configurations = there(switch), switch.configurations()
    found = switch.verb("clean", "--yes")
    (device,) = found.json["devices"]
    assert (found.code, {one["path"] for one in device["deleted"]}) == (0, {f"flash:{OLD}", f"flash:{OLDER}"})
    assert device["free_bytes_after"] > device["look"]["free_bytes"]
    assert (there(switch), switch.configurations()) == (before - {OLD, OLDER}, configurations)
    again = switch.verb("clean", "--yes")
    assert (again.code, again.json["devices"][0]["deleted"]) == (0, [])


def test_one_file_by_its_name(switch):
    """The other stays."""
    assert switch.verb("clean", "--yes", "--file", OLDER).code == 0
    assert there(switch) & {OLD, OLDER} == {OLD}


def test_without_anybody_to_say_yes_nothing_goes(switch):
    """Standard input is no terminal: refused before any device is asked."""
    before = there(switch)
    found = switch.verb("clean")
    assert found.code == 2
    assert "--dry-run" in found.err
    assert there(switch) == before


@pytest.mark.parametrize(("name", "code"), [("packages.conf", 4), (f"flash:{OLDER}", 2), (f"old/{OLDER}", 2)])
def test_a_file_that_must_stay_is_refused_before_anything_goes(switch, name, code):
    """Also where another name beside it could go; a path is no name, and would be taken for a file that is gone."""
    before = there(switch)
    found = switch.verb("clean", "--yes", "--file", name, "--file", OLD)
    assert (found.code, there(switch)) == (code, before)
    if code == 4:
        assert "packages.conf must stay" in found.json["devices"][0]["failure"]["reason"]


def test_what_a_boot_line_names_stays(switch):
    """A colleague means to go back to it."""
    switch.configure_by_hand(f"boot system flash:{OLD}")
    assert switch.verb("clean", "--yes").code == 0
    assert there(switch) & {OLD, OLDER} == {OLD}


def test_what_this_journal_staged_stays(switch):
    """An older image may be what a later night is to go back to."""
    name = "cat9k_iosxe.16.12.08.SPA.bin"
    staged = switch.verb("stage", "--image", switch.image(100_000, name), "--any-image")
    assert staged.code == 0, staged.err
    assert switch.verb("clean", "--yes").code == 0
    assert name in there(switch)
    assert not there(switch) & {OLD, OLDER}


def test_a_device_in_other_hands_is_left_alone(switch):
    """By the mark that a run of another controller left there."""
    before = there(switch)
    switch.configure_by_hand("alias exec flashferry-r1 ops@elsewhere")
    found = switch.verb("clean", "--yes")
    (device,) = found.json["devices"]
    assert (found.code, device["outcome"]) == (4, "refused")
    assert "run r1 of ops@elsewhere" in device["failure"]["reason"]
    assert there(switch) == before


def test_a_delete_that_the_device_refuses_is_no_success(switch):
    """The file is there, so it is not told as gone."""
    before = there(switch)
    switch.world.fault(DEVICE, refuse_exec_pattern="^delete")
    found = switch.verb("clean", "--yes")
    (device,) = found.json["devices"]
    assert (found.code != 0, device["deleted"], device["failure"] is None) == (True, [], False)
    assert there(switch) == before


def test_a_device_that_does_not_tell_what_it_needs_keeps_all(switch):
    """Where a table is refused nobody can tell, and it is said which."""
    before = there(switch)
    switch.world.fault(DEVICE, refuse_exec_pattern="^show boot")
    found = switch.verb("clean", "--yes")
    (device,) = found.json["devices"]
    assert (found.code, device["look"]["files"]) == (4, [])
    assert "show boot" in device["look"]["reason"]
    assert there(switch) == before
