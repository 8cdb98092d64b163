"""The plan that a dry run prints and a run carries out."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.devices.session import Facts
from flashferry.model.link_rates import STATED, LinkRate
from flashferry.model.policy import StagePolicy, TuneMode
from flashferry.run.device_plan import DevicePlan, after, plan_device
from flashferry.transports import transport_named
from inventory.host_view import HostView
from tasks.check import CheckReport
from tasks.tcp_config import TcpLines
from templates.version import SoftwareVersion

HOST = HostView(
    name="r1",
    address="192.0.2.7",
    port=22,
    platform="ios",
    site=None,
    link_rate_bps=50e6,
    cap_share=0.8,
    server_address=None,
    vrf=None,
)
CHECK = CheckReport(
    facts=Facts(hostname="r1", vendor="Cisco", model="CSR1000V", os_version="16.11", serial_number="9X"),
    version=SoftwareVersion(
        release="16.11.1",
        hardware=("CSR1000V",),
        image_file_system="bootflash",
        image_path="packages.conf",
        install_mode=True,
        controller_managed=False,
    ),
    file_system="bootflash:",
    free_bytes=10**9,
    running=TcpLines(lines=()),
    startup=TcpLines(lines=()),
    rtt_s=0.1,
    server_address="192.0.2.1",
    already_there=False,
    refusal=None,
)
LINK = LinkRate(rate_bps=50e6, source=STATED)


def plan(*before: str, policy: StagePolicy | None = None, host: HostView = HOST, **changes: object) -> DevicePlan:
    given = {"check": CHECK, "link": LINK, "image": "x.bin", "port": 21}
    return plan_device(
        device=host,
        platform=IOS_XE,
        before=TcpLines(lines=before),
        policy=policy or StagePolicy(),
        **(given | changes),
    )


def test_lines_command_and_way_back():
    """Twice 50 Mbit/s x 100 ms, the very copy command without credentials, and the old line at the end."""
    found = plan("ip tcp window-size 65535")
    assert found.tune.commands == ("ip tcp window-size 1250000", "ip tcp selective-ack")
    assert found.copy == "copy ftp://<user>:<password>@192.0.2.1/x.bin bootflash:x.bin"
    assert found.restore == ("ip tcp window-size 65535", "no ip tcp selective-ack")


def test_a_device_that_is_good_enough_is_not_touched():
    """Enough window and SACK: no line there, no line back."""
    found = plan("ip tcp selective-ack", "ip tcp window-size 1250000")
    assert (found.tune.commands, found.restore) == ((), ())


def test_untuned_only_the_way_to_us_is_set():
    """With --no-tune the source interface is set all the same: without it there is no copy."""
    host = replace(HOST, source_interface="Loopback0", vrf="Mgmt-intf", server_address="203.0.113.5")
    found = plan(policy=StagePolicy(tune=TuneMode.NEVER), host=host, port=2121)
    assert found.tune.commands == ("ip ftp source-interface Loopback0",)
    assert found.copy == "copy ftp://<user>:<password>@203.0.113.5:2121/x.bin bootflash:x.bin vrf Mgmt-intf"
    assert found.window is None


def test_an_unknown_link_is_assumed_and_a_given_window_is_fixed():
    """100 Mbit/s where nobody knows better; a window that was asked for may not become smaller."""
    assert "assumed" in plan(link=None).window.reason
    assert plan().tune.may_back_off
    given = plan(policy=StagePolicy(window_bytes=100_000))
    assert given.tune.commands[0] == "ip tcp window-size 100000"
    assert not given.tune.may_back_off


def test_a_command_that_is_too_long_is_found_with_credentials_of_full_length():
    """The placeholders are shorter than a ticket: the length is that of the real command."""
    spare = 253 - len("copy ftp://:@192.0.2.1/ bootflash:") - 8 - 16
    name = "x" * (spare // 2)
    assert plan(image=name).target == f"bootflash:{name}"
    with pytest.raises(ConfigInvalid, match="an IOS line takes 253"):
        plan(image=name + "xx")


def test_lines_after_every_change():
    """Old lines give way, others stay."""
    found = plan("ip tcp synwait-time 5", "no ip tcp selective-ack")
    assert after(TcpLines(lines=("ip tcp synwait-time 5", "no ip tcp selective-ack")), found.tune.changes).lines == (
        "ip tcp synwait-time 5",
        "ip tcp window-size 1250000",
        "ip tcp selective-ack",
    )


def test_ceilings_are_told_before():
    """The transport's own first, then the others that the inventory allows; the link's share for copies is the most."""
    found = plan(transport=transport_named("scp"), port=22).ceilings
    assert [one.transport for one in found] == ["scp", "ftp", "http", "https", "sftp"]
    assert found[0].bytes_per_s == pytest.approx(1_310_720)
    assert found[1].bytes_per_s == pytest.approx(50e6 * 0.8 / 8 * 1460 / 1500)
    forbidden = replace(HOST, clear_text=False)
    assert [one.transport for one in plan(host=forbidden, transport=transport_named("scp")).ceilings] == [
        "scp",
        "https",
        "sftp",
    ]


def test_scp_has_both_windows_tuned_and_both_put_back():
    """The default's own line comes back as the line that it was."""
    found = plan("ip ssh bulk-mode 131072", transport=transport_named("scp"), port=22)
    assert found.tune.commands == (
        "ip tcp window-size 1250000",
        "ip tcp selective-ack",
        "ip ssh bulk-mode 1250000",
    )
    assert found.restore == ("no ip tcp window-size 1250000", "no ip tcp selective-ack", "ip ssh bulk-mode 131072")
    assert found.copy == "copy scp://<user>@192.0.2.1/x.bin bootflash:x.bin"


def test_https_is_refused_where_the_device_trusts_nobody():
    """Before anything is touched; where nobody looked it is tried."""
    with pytest.raises(ConfigInvalid, match="needs a trustpoint") as caught:
        plan(transport=transport_named("https"), port=443, check=replace(CHECK, trustpoints=()))
    assert caught.value.hint
    assert plan(transport=transport_named("https"), port=443).transport == "https"


def test_a_vrf_needs_a_source_interface_by_http():
    """The command takes none, and a copy from the global table would come from nowhere that we know."""
    with pytest.raises(ConfigInvalid, match="takes none with the copy command"):
        plan(host=replace(HOST, vrf="Mgmt"), transport=transport_named("http"), port=80)
    found = plan(host=replace(HOST, vrf="Mgmt", source_interface="Gi0"), transport=transport_named("http"), port=80)
    assert found.tune.commands[-1] == "ip http client source-interface Gi0"
    assert not found.copy.endswith("vrf Mgmt")
