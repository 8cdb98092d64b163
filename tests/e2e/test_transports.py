"""Which transport is taken, on the lab: by policy, by wish, by history, and by what fails before a byte came."""

from __future__ import annotations

import hashlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.authority import Authority
from flashferry.lab.world import DeviceSpec, WorldSpec, start_world
from tests.e2e.conftest import Rig

pytestmark = pytest.mark.lab

XE17 = "c8000v-17.15"


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def device_of(document: dict[str, Any]) -> dict[str, Any]:
    (device,) = document["run"]["devices"]
    return device


def state(rig: Any, **more: Any) -> None:
    """Have the inventory say more of the device."""
    one = rig.world.devices[0]
    rig.write_inventory(
        data={"enable_secret": one.enable_secret, "link_rate_bps": 50_000_000, "cap_share": 0.98, **more}
    )


def staged(rig: Any, *words: str, size_bytes: int = 400_000) -> dict[str, Any]:
    """Stage an image; it is proven on flash, and the configuration is what it was."""
    image, before = rig.image(size_bytes), rig.configurations()
    done = rig.verb("stage", "--image", image, *words)
    assert done.code == 0, done.err + done.out
    device = device_of(done.json)
    assert (device["outcome"], device["restored"]) == ("done", "restored"), done.out
    assert rig.flash_md5("image.bin") == md5(image)
    assert rig.configurations() == before
    return device


@pytest.mark.parametrize("transport", ["http", "scp", pytest.param("sftp", marks=pytest.mark.soak)])
def test_a_device_fetches_by_what_is_asked_for(new_rig, transport):
    """The image is proven, the record says by what it came, and the configuration is what it was."""
    with new_rig(platform=XE17) as rig:
        device = staged(rig, "--transport", transport)
    assert (device["transport"], device["transfer"]["transport"]) == (transport, transport)
    assert device["transports_tried"] == []


@pytest.mark.parametrize("transport", ["ftp", "http"])
def test_a_device_that_asks_for_what_the_url_has(new_rig, transport):
    """Server and file are shown as we sent them, and confirmed."""
    with new_rig() as rig:
        rig.world.fault("xe1", asks_what_url_has=True)
        assert staged(rig, "--transport", transport)["transport"] == transport


@pytest.mark.parametrize(
    "platform", ["c2811-15.1", *(pytest.param(one, marks=pytest.mark.soak) for one in ("iosv-15.8", "csr1000v-16.11"))]
)
@pytest.mark.soak
def test_an_old_release_is_offered_the_algorithms_that_it_knows(new_rig, platform):
    """By its ticket, to its address alone: what was agreed on is of that release's own list."""
    with new_rig(platform=platform) as rig:
        device = staged(rig, "--transport", "scp")
    cipher = "aes128-cbc" if platform == "c2811-15.1" else "aes128-ctr"
    assert (device["transfer"]["transport"], device["transfer"]["cipher"]) == ("scp", cipher)


@pytest.mark.soak
def test_where_clear_text_is_forbidden_scp_is_taken_by_itself(new_rig):
    """Nobody asked; a wish for clear text is refused before anything is touched."""
    with new_rig(platform=XE17) as rig:
        state(rig, clear_text=False)
        before = rig.configurations()
        done = rig.verb("stage", "--image", rig.image(1000), "--transport", "ftp")
        assert done.code == 2
        assert "--transport ftp carries clear text, which the inventory forbids" in done.out + done.err
        assert rig.configurations() == before
        assert staged(rig)["transport"] == "scp"


@pytest.mark.soak
def test_auto_falls_from_blocked_ftp_to_http_and_begins_with_it_the_next_time(new_rig):
    """The record says what was tried; history remembers, so the second time no minute is lost."""
    with new_rig(platform=XE17, blocked_transports=("ftp",), config_lines=("ip tcp synwait-time 5",)) as rig:
        device = staged(rig, "--transport", "auto")
        assert (device["transport"], [one["transport"] for one in device["transports_tried"]]) == ("http", ["ftp"])
        assert device["transports_tried"][0]["hint"]
        told = rig.run("report", "latest", "--format", "json").json
        assert told["devices"][0]["transport"] == "http"
        assert told["devices"][0]["transports_tried"][0]["transport"] == "ftp"
        again = rig.verb("stage", "--image", rig.image(400_000, "second.bin"), "--transport", "auto")
        device = device_of(again.json)
        assert (device["transport"], device["transports_tried"]) == ("http", [])


@pytest.mark.soak
def test_the_lines_of_the_one_that_failed_are_gone_before_those_of_the_next(new_rig):
    """A source interface is a line of its own for each; both are gone in the end."""
    with new_rig(platform=XE17, blocked_transports=("ftp",), config_lines=("ip tcp synwait-time 5",)) as rig:
        state(rig, source_interface="GigabitEthernet1")
        device = staged(rig, "--transport", "ftp,http")
        lines = [change["ours"] for change in device["changes"]]
        assert any(line.startswith("ip http client source-interface") for line in lines)
        assert not any(line.startswith("ip ftp source-interface") for line in lines)


@pytest.mark.soak
def test_a_look_tells_which_transports_reach_us(new_rig):
    """Each that the inventory names is tried, and nothing is changed."""
    with new_rig(platform=XE17, blocked_transports=("ftp",), config_lines=("ip tcp synwait-time 5",)) as rig:
        state(rig, transports=["http", "scp", "ftp"])
        before = rig.configurations()
        done = rig.verb("check", "--reach")
        (device,) = done.json["devices"]
        reached = {one["transport"]: one["report"]["copied"] is not None for one in device["reaches"]}
        assert (done.code, reached) == (0, {"http": True, "scp": True, "ftp": False})
        assert rig.configurations() == before


@pytest.mark.soak
def test_where_no_algorithm_is_common_both_lists_are_told_and_what_to_do(new_rig):
    """By stage and by a look: our server's word, no word of memory or flash, and nothing left on the device."""
    with new_rig(platform=XE17) as rig:
        rig.world.fault("xe1", ssh_client_offers={"encryption": ["3des-cbc"]})
        before = rig.configurations()
        staged_in_vain = rig.verb("stage", "--image", rig.image(1000), "--transport", "scp")
        failure = device_of(staged_in_vain.json)["failure"]
        (looked_at,) = rig.verb("check", "--reach", "--transport", "scp").json["devices"]
        report = looked_at["reach"]["report"]
        assert rig.configurations() == before
    assert (failure["step"], failure["kind"], report["hindrance"]) == ("pull", "CopyFailed", "no login")
    for said in (failure["reason"], report["sentence"]):
        assert re.search(r"no encryption algorithm in common: client 3des-cbc, server \S*aes128-ctr", said)
    for hint in (failure["hint"], report["hint"], looked_at["failure"]["hint"]):
        assert "ip ssh client algorithm encryption" in hint
        assert "flash" not in hint


@pytest.mark.soak
def test_a_comparison_marks_the_fastest_and_auto_begins_with_it(new_rig):
    """Behind the WAN the SSH window of this release holds SCP back, and the table says so."""
    with new_rig(platform=XE17, profile="published") as rig:
        before = rig.configurations()
        done = rig.verb("probe", "--transports", "http,scp", "--seconds", "3")
        assert done.code == 0, done.err + done.out
        device = device_of(done.json)
        rows = {row["transport"]: row for row in device["probe"]["by_transport"]}
        assert set(rows) == {"http", "scp"}
        best = [name for name, row in rows.items() if row["is_best"]]
        assert best == [device["transport"]]
        assert all(row["arm"] and row["ceiling_bytes_per_s"] and row["image_s"] for row in rows.values())
        assert device["restored"] == "restored"
        assert rig.configurations() == before
        human = rig.run("history", "xe1")
        assert human.code == 0
        planned = rig.verb("plan", "--image", rig.image(400_000), "--transport", "auto").json
        (row,) = planned["devices"]
        assert (row["transport"], "the fastest that is known" in row["transport_reason"]) == (best[0], True)


@pytest.mark.soak
@pytest.mark.parametrize("requests", [1, 64])
def test_a_device_that_asks_for_little_at_a_time_by_sftp_is_told_so(new_rig, requests):
    """Not "no cause found": what it asks for at most, and what is faster. One that reads ahead has no such sentence."""
    with new_rig(platform=XE17, profile="published") as rig:
        rig.world.fault("xe1", ssh_sftp_requests=requests)
        device = staged(rig, "--transport", "sftp", size_bytes=3_000_000 if requests == 1 else 12_000_000)
    transfer = device["transfer"]
    verdict = transfer["verdict"]
    if requests == 1:
        assert verdict["kind"] == "slow receiver"
        assert "its SFTP client asked for at most 32." in verdict["sentence"]
        assert "take SCP" in verdict["advice"]
    else:
        assert "SFTP client asked" not in verdict["sentence"]


@pytest.mark.soak
def test_a_run_that_is_killed_with_scp_s_lines_set_is_recovered(new_rig):
    """Both windows, the channel's and TCP's, come back as they were."""
    with new_rig(platform=XE17) as rig:
        rig.hold_copies()
        before, image = rig.configurations(), rig.image(300_000)
        with rig.started(
            "stage", "--inventory", rig.inventory, "--json", "--image", image, "--transport", "scp"
        ) as run:
            rig.until_held()
            assert rig.configurations() != before
            os.killpg(run.pid, signal.SIGKILL)
        rig.release()
        recovered = rig.run("recover", "--inventory", rig.inventory, "--json")
        assert recovered.code == 0, recovered.err + recovered.out
        assert rig.configurations() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--transport", "tftp"), "--transport: expected ftp, "),
        pytest.param(("--transport", "https"), "expected a certificate", marks=pytest.mark.soak),
        pytest.param(
            ("--transport", "https", "--certificate", "/nowhere.pem"),
            "--certificate: expected --key with it",
            marks=pytest.mark.soak,
        ),
        (("--transport", "push"), "is not among the transports that the inventory allows"),
    ],
)
def test_bad_input_is_told_in_one_sentence_before_anything_is_touched(rig, words, sentence):
    """With exit code 2, as other mistakes of the operator's."""
    done = rig.verb("stage", "--image", rig.image(1000), *words)
    assert (done.code, sentence in done.out + done.err) == (2, True), done.err + done.out


@pytest.fixture
def https_rig(tmp_path: Path) -> Iterator[tuple[Any, list[str | Path]]]:
    """A router that trusts an authority of the test's own, and our certificate of that authority."""
    authority = Authority()
    device = DeviceSpec(name="xe1", platform=XE17, trustpoints=(("LAB-CA", authority.pem),))
    with start_world(WorldSpec(devices=(device,), profile="lan")) as world:
        files = authority.issue(tmp_path, (world.server_address,))
        yield Rig(world, tmp_path), ["--certificate", files.certificate, "--key", files.key]


def test_https_where_the_device_trusts_us(https_rig):
    """Nothing of the trust is ours to set: the certificate is the operator's, the trustpoint was there."""
    rig, words = https_rig
    device = staged(rig, "--transport", "https", *words)
    assert (device["transport"], device["transfer"]["transport"]) == ("https", "https")
    assert not any("crypto" in change["ours"] for change in device["changes"])


@pytest.mark.soak
def test_a_certificate_for_another_name_is_told_before_anything_is_set(https_rig):
    """Our address is found out by the session: the device is looked at, and then left as it is."""
    rig, _ = https_rig
    folder = rig.folder / "other"
    folder.mkdir()
    files, before = Authority().issue(folder, ("192.0.2.77",)), rig.configurations()
    words = ("--transport", "https", "--certificate", files.certificate, "--key", files.key)
    done = rig.verb("stage", "--image", rig.image(1000), *words)
    device = device_of(done.json)
    assert (device["outcome"], device["restored"]) == ("failed", "untouched")
    assert "192.0.2.77" in device["failure"]["reason"]
    assert rig.configurations() == before
