"""`flashferry check` and what proves an image, on stand-in devices behind a link."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab
DEVICE = "xe1"
AAA = "aaa authorization commands 15 default group tacacs+ local"


def device_of(document: dict) -> dict:
    (device,) = document["devices"]
    return device


def test_published_hashes_prove_the_file_before_any_device_is_touched(rig):
    """A damaged download is refused with exit 2, without a login; nothing is on flash."""
    image, files = rig.image(300_000), rig.world.files(DEVICE)
    done = rig.verb("stage", "--image", image, "--md5", "0" * 32)
    assert done.code == 2
    assert "expected the published MD5 " + "0" * 32 in done.err
    assert rig.world.files(DEVICE) == files
    assert "--md5 and --sha512 are hashes of an image" in rig.verb("check", "--md5", "0" * 32).err


@pytest.mark.soak
def test_sha512_proves_where_the_device_offers_it(rig):
    """Stage and check prove by SHA-512; the report keeps the MD5 too."""
    image = rig.image(300_000)
    staged = rig.verb("stage", "--image", image)
    (device,) = staged.json["run"]["devices"]
    assert (staged.code, device["verify"]["algorithm"]) == (0, "sha512")
    assert device["verify"]["md5"] == staged.json["run"]["md5"]
    checked = rig.verb("check", "--image", image)
    found = device_of(checked.json)
    assert (found["outcome"], found["check"]["proof"]["algorithm"]) == ("already there", "sha512")
    assert found["check"]["proof"]["md5"] == staged.json["run"]["md5"]


@pytest.mark.soak
def test_a_file_without_a_signature_is_no_success(rig):
    """Random bytes carry no signature: the hash is right, the device does not vouch, and the router is restored."""
    before = rig.configurations()
    done = rig.verb("stage", "--image", rig.image(300_000), "--verify-signature")
    (device,) = done.json["run"]["devices"]
    assert (done.code, device["failure"]["kind"], device["restored"]) == (3, "ImageCorrupt", "restored")
    assert "expected a good signature, the device says" in device["failure"]["reason"]
    assert rig.configurations() == before


def test_an_unsaved_configuration_is_noted(rig):
    """A line that somebody set and did not save: a note with who, not a refusal; the line itself is not shown."""
    rig.configure_by_hand("ip domain name secret.example")
    done = rig.verb("check")
    found = device_of(done.json)
    assert (done.code, found["check"]["configuration"]["saved"]) == (0, False)
    assert "is not saved (2 lines differ)" in found["check"]["notes"][0]
    assert "secret.example" not in done.out


@pytest.mark.soak
def test_a_run_leaves_no_note_behind(rig):
    """Tuning and restoring move the stamp of the last change; the configuration is the saved one all the same."""
    assert rig.verb("stage", "--image", rig.image(100_000)).code == 0
    found = device_of(rig.verb("check").json)["check"]
    assert (found["configuration"]["saved"], found["notes"]) == (True, [])


@pytest.mark.soak
def test_commands_that_aaa_refuses(new_rig):
    """With command authorization, a refused `verify` is found before anything is touched: exit 4."""
    with new_rig(config_lines=(AAA,)) as rig:
        before = rig.configurations()
        assert rig.verb("check").code == 0
        rig.world.fault(DEVICE, refuse_exec_pattern="^verify")
        done = rig.verb("stage", "--image", rig.image(100_000))
        (device,) = done.json["run"]["devices"]
        assert (done.code, device["outcome"], device["transfer"]) == (4, "refused", None)
        assert "may not use 'verify' (Command authorization failed.)" in device["failure"]["reason"]
        assert rig.configurations() == before


@pytest.mark.soak
def test_vrf_and_source_interface_of_the_inventory(rig):
    """A VRF that the device lacks is refused by name, with those that it has."""
    data = {"enable_secret": rig.world.devices[0].enable_secret, "vrf": "nowhere"}
    rig.write_inventory(data=data)
    done = rig.verb("check")
    assert (done.code, device_of(done.json)["outcome"]) == (4, "refused")
    assert "VRF 'nowhere' of the inventory" in device_of(done.json)["failure"]["reason"]
