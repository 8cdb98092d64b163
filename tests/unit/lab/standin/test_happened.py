"""What the lab counts of a device: commands that restart, install or save, restarts, and what they ended with."""

from collections.abc import Callable
from typing import Any

import pytest

from flashferry.lab.standin import faults
from flashferry.lab.standin.config_session import ConfigSession


def test_what_is_given_and_what_restarts_is_kept(make_console: Callable[..., Any]) -> None:
    """In its order; what only shows is not."""
    console = make_console("isr4321-16.6")
    device = console.device
    console.show("show version")
    console.show("write memory")
    device.restart(reason="power-on")
    assert device.boot()
    assert device.happened == ["given: write memory", "restart: power-on", f"boot: {device.image}"]


@pytest.mark.parametrize(
    ("switches", "reported"),
    [
        ({"never_boots": True}, ["restart: Reload Command", "stays at ROMMON"]),
        (
            {"ports_down_after_boot": ("Loopback7",)},
            ["restart: Reload Command", "boot: bootflash:packages.conf", "port down: Loopback7"],
        ),
        ({"other_user_saves": True}, ["event: other_user_saves"]),
        (
            {"other_user_configures": ["snmp-server location here"]},
            ["event: other_user_configures", "typed by another: snmp-server location here"],
        ),
    ],
)
def test_a_fault_that_came_about_is_kept(
    make_console: Callable[..., Any], switches: dict[str, Any], reported: list[str]
) -> None:
    """Whoever plays a fault can ask whether it really happened."""
    device = make_console("c8000v-17.15").device
    faults.switch(device, switches)
    if not reported[0].startswith("event: "):
        device.restart()
        device.boot()
    found = [one.replace(device.runs, "bootflash:packages.conf") for one in device.happened]
    assert found == reported


def test_a_refused_activation_and_a_refused_line_are_kept(make_console: Callable[..., Any]) -> None:
    """Each where its fault refuses it."""
    console = make_console("c8000v-17.15")
    faults.switch(console.device, {"install_busy": True, "refuse_config_pattern": "^snmp"})
    console.show("install commit")
    ConfigSession(console.device).take("snmp-server location here")
    assert console.device.happened == [
        "given: install commit",
        "refused: install_commit, another operation is in progress",
        "refused: snmp-server location here",
    ]


def test_what_is_activated_runs_from_the_restart_on(make_console: Callable[..., Any]) -> None:
    """Until then the device runs what it ran, and says so: its prompt stands behind the activation for a moment."""
    console = make_console("c8000v-17.15")
    device = console.device
    device.install.add("17.18.02.0.1", "c8000v-mono-universalk9.17.18.02.SPA.pkg", 1000)
    device.install.packages = tuple(
        type(one)(version=one.version, state={"I": "U"}.get(one.state, "D"), file=one.file)
        for one in device.install.packages
    )
    assert (device.release, device.runs) == (None, "17.15.01a.0.193")
    assert "Version 17.15.1a" in console.show("show version")
    device.boot()
    assert (device.release, device.runs) == ("17.18.02", "17.18.02.0.1")
