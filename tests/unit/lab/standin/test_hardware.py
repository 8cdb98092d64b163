"""What a stand-in boots: what was saved and is there, and where it stays at ROMMON's prompt."""

from collections.abc import Callable
from typing import Any

import pytest

from flashferry.core.values import replace

NEW = "isr4300-universalk9.16.09.04.SPA.bin"
OTHER = "isr4300-universalk9.16.06.08.SPA.bin"


@pytest.fixture
def router(make_console: Callable[..., Any]) -> Any:
    """A router in bundle mode that has two more images on its flash."""
    console = make_console("isr4321-16.6")
    for name in (NEW, OTHER):
        console.device.flash.write(name, b"x" * 1000)
    return console


def configure(console: Any, *lines: str, saves: bool = True) -> None:
    console.type("configure terminal", *lines, "end", *(("write memory",) if saves else ()))


def test_the_first_saved_file_that_is_there_runs(router: Any) -> None:
    """In the order of the lines; release, image and boot variable are those of the file."""
    configure(router, "boot system flash bootflash:gone.bin", f"boot system flash bootflash:{NEW}")
    assert router.device.boot()
    version = router.show("show version")
    assert "Version 16.09.04" in version
    assert f'System image file is "bootflash:{NEW}"' in version
    assert f"bootflash:gone.bin,12;bootflash:{NEW},12;" in router.show("show boot")


def test_a_line_that_was_not_saved_boots_nothing(router: Any) -> None:
    """The variable follows the startup configuration."""
    before = router.show("show version").splitlines()[0]
    configure(router, f"boot system flash bootflash:{NEW}", saves=False)
    assert NEW not in router.show("show boot")
    assert router.device.boot()
    assert router.show("show version").splitlines()[0] == before


def test_no_boot_system_takes_all_lines_out(router: Any) -> None:
    """However many there are; what follows is the only one (pyntc and Genie type it before their own)."""
    configure(router, "boot system flash bootflash:gone.bin", f"boot system flash bootflash:{OTHER}")
    configure(router, "no boot system", f"boot system bootflash:{NEW}")
    assert f"BOOT variable = bootflash:{NEW},12;\n" in router.show("show boot")
    assert "% Incomplete command." in router.type("configure terminal", "boot system")
    configure(router, "no boot system")
    assert "BOOT variable does not exist" in router.show("show boot")


@pytest.mark.parametrize(("platform", "slot"), [("asr1006-dual-16.3", "R0"), ("c9300-17.6", "switch 1")])
def test_an_upgrade_in_service_is_told(make_console: Callable[..., Any], platform: str, slot: str) -> None:
    """Behind the locks, whether one goes on."""
    console = make_console(platform)
    locked = f"--- Starting local lock acquisition on {slot} ---\nFinished local lock acquisition on {slot}\n\n"
    idle = console.show("show issu state detail")
    assert idle.startswith(locked)
    assert idle.endswith("No ISSU operation is in progress\n")
    console.device.faults = replace(console.device.faults, issu_in_progress=True)
    going_on = console.show("show issu state detail")
    assert going_on.startswith(f"{locked}Slot being modified: {slot.rsplit(maxsplit=1)[-1]}\n  Loadversion time: 2")
    assert "No ISSU" not in going_on


def test_no_file_of_the_variable_ends_at_rommon(router: Any) -> None:
    """Nobody answers any more."""
    configure(router, "boot system flash bootflash:gone.bin")
    assert not router.device.boot()


@pytest.mark.parametrize(("register", "boots"), [("0x2102", True), ("0x2100", False), ("0x2142", False)])
def test_the_register_decides(router: Any, register: str, boots: bool) -> None:
    """One that ends in 0 or passes the configuration over does not boot what was saved; `show version` tells it."""
    router.device.faults = replace(router.device.faults, config_register=register)
    assert f"(will be {register} at next reload)" in router.show("show version")
    assert router.device.boot() is boots


@pytest.mark.parametrize("fault", [{"boots_old_image": True}, {"never_boots": True}])
def test_faults_of_a_restart(router: Any, fault: dict[str, bool]) -> None:
    """The old image runs again, or nobody comes back."""
    old = router.device.image
    configure(router, f"boot system flash bootflash:{NEW}")
    router.device.faults = replace(router.device.faults, **fault)
    assert router.device.boot() is ("boots_old_image" in fault)
    assert router.device.image == old


def test_manual_boot_waits_at_the_console(make_console: Callable[..., Any]) -> None:
    """On a switch, which tells it."""
    console = make_console("c9300-17.6")
    console.device.faults = replace(console.device.faults, manual_boot=True)
    assert "Manual Boot = yes" in console.show("show boot")
    assert not console.device.boot()


def test_a_package_that_is_gone_does_not_boot(make_console: Callable[..., Any]) -> None:
    """In install mode the list names a file that must be there."""
    console = make_console("c8000v-17.15")
    console.device.flash.delete("c8000v-mono-universalk9.17.15.01a.SPA.pkg")
    assert not console.device.boot()


def test_neighbours_and_ports_may_be_lost_by_a_restart(make_console: Callable[..., Any]) -> None:
    """As after an upgrade that went wrong: CDP tells of fewer, a port is down."""
    console = make_console("c9300-17.6")
    port = "GigabitEthernet1/0/1"
    console.device.faults = replace(
        console.device.faults, cdp_neighbors=("dist-1", "dist-2"), neighbors_lost=1, ports_down_after_boot=(port,)
    )
    assert "Total cdp entries displayed : 2" in console.show("show cdp neighbors")
    assert console.device.boot()
    shown = console.show("show cdp neighbors")
    assert "Total cdp entries displayed : 1" in shown
    assert "dist-2" not in shown


@pytest.mark.parametrize(
    ("platform", "words"),
    [
        ("c9300-17.6", "Reload command is being issued on Active unit, this will reload the whole stack\n"),
        ("asr1006-dual-16.3", "This will reload the active unit and force a switch of activity [confirm]"),
        ("c8000v-17.15", "Proceed with reload? [confirm]"),
    ],
)
def test_what_a_reload_asks(make_console: Callable[..., Any], platform: str, words: str) -> None:
    """By what the box is made of; `n` ends it."""
    console = make_console(platform)
    assert words in console.type("reload", "n\\")
