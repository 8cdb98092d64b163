"""The sweep over SSH's ciphers and MACs, against a stand-in whose crypto is a model."""

from __future__ import annotations

from typing import Any

import pytest

from flashferry.store.probe_choices import SshPreference, SshPreferences

pytestmark = [pytest.mark.lab, pytest.mark.soak]


def allow_ssh(rig: Any) -> None:
    """Have the inventory allow SCP alone."""
    device = rig.world.devices[0]
    rig.write_inventory(data={"enable_secret": device.enable_secret, "link_rate_bps": 100_000_000, "clear_text": False})


def test_each_cipher_of_the_device_is_timed(new_rig):
    """A 2811 with CBC alone: its list is shown, each cipher of it is timed, and nothing is left on it."""
    with new_rig(platform="c2811-15.1") as rig:
        allow_ssh(rig)
        before = rig.configurations()
        done = rig.verb("probe", "--ssh-sweep", "--sweep-copies", "2", "--seconds", "2")
        assert done.code == 0, done.err
        (device,) = done.json["run"]["devices"]
        assert (device["outcome"], device["restored"]) == ("done", "restored")
        assert rig.configurations() == before
        sweep = device["ssh_sweep"]
        timed = [row for row in sweep["ciphers"] if row["copies"]]
        refused = [row for row in sweep["ciphers"] if not row["copies"]]
        assert {row["name"] for row in timed} == {"aes128-cbc", "aes192-cbc", "aes256-cbc"}
        assert all(row["refused"] for row in refused)
        assert set(sweep["device_ciphers"]) >= {row["name"] for row in timed}
        assert all(row["median_bytes_per_s"] > 0 for row in timed)
        # On a machine that has other work our own side may be what binds them.
        assert {row["bound_by"] for row in timed} <= {"device", "our side"}
        assert [row["name"] for row in sweep["macs"] if row["copies"]] != []
        assert sweep["login_s"] > 0
        # Which of them is quicker is a figure: the conclusion names the ciphers, and whether there is one to choose.
        names = {row["name"] for row in timed}
        assert sweep["best_cipher"] in {"", *names}
        assert any(sweep["conclusion"].startswith(name) for name in (*names, "No cipher clearly differs"))


def test_what_was_kept_is_offered_alone(new_rig):
    """A copy goes by the first cipher of the device's list; with another one kept for its model, by that one."""
    with new_rig(platform="c8000v-17.15") as rig:
        allow_ssh(rig)
        staged = rig.verb("stage", "--image", rig.image(300_000), "--no-tune")
        assert staged.code == 0, staged.err
        (device,) = staged.json["run"]["devices"]
        assert device["transfer"]["transport"] == "scp"
        assert device["transfer"]["cipher"] == "chacha20-poly1305@openssh.com"
        kept = SshPreference(
            model=device["check"]["facts"]["model"],
            cipher="aes256-ctr",
            mac="hmac-sha2-512",
            rate_bytes_per_s=1e6,
            host="xe1",
            run_id="x",
        )
        SshPreferences.read(rig.state).keep(kept)
        staged = rig.verb("stage", "--image", rig.image(300_000, "other.bin"), "--no-tune")
        assert staged.code == 0, staged.err
        (device,) = staged.json["run"]["devices"]
        assert (device["transfer"]["cipher"], device["transfer"]["mac"]) == ("aes256-ctr", "hmac-sha2-512")
