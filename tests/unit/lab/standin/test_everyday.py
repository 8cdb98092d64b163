"""The everyday commands: known where the hardware has them, read by the public templates, and in agreement."""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ntc_templates.parse
import pytest
from textfsm.parser import TextFSMError

from flashferry.lab.standin.device import Device, DeviceSettings
from flashferry.lab.standin.platform import load_platform
from tests.e2e.outsiders.everyday import COMMANDS, CONFIG_LINES, FIRST_PORTS, PLATFORMS, SWITCH, Everyday
from tests.e2e.outsiders.report import REFUSED_BY_NTC

CAPTURES = Path(__file__).parents[3] / "captures/lab"
TEMPLATES = Path(ntc_templates.parse.__file__).parent / "templates"
SOMETIMES_EMPTY = ("dir", "show environment")
"""Which all platforms know, and some have nothing to show for: no flash, no sensors."""
SHOWN = tuple(each for each in COMMANDS if each.text.startswith(("show", "dir")))
Strangers = Callable[[str, str, tuple[str, ...]], list[str]]


def test_there_are_forty_of_them() -> None:
    """No more and no fewer, and each once."""
    assert len({each.text for each in COMMANDS}) == len(COMMANDS) == 40


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_command_is_known_where_the_hardware_has_it(make_console: Callable[..., Any], platform: str) -> None:
    """Nothing is refused that the device has, and what it has not is refused as IOS refuses it."""
    console = make_console(platform, config_lines=CONFIG_LINES)
    for command in SHOWN:
        output = console.show(command.on(platform, server="198.18.0.1"))
        if platform in command.platforms:
            assert "% Invalid input" not in output, command.text
        elif command.text not in SOMETIMES_EMPTY:
            assert "% Invalid input" in output, command.text
        assert "{" not in output, command.text


def _template(command: Everyday) -> Path:
    words = [word for word in command.text.split() if not word.startswith("{")]
    return TEMPLATES / f"cisco_ios_{'_'.join(words)}.textfsm"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_public_templates_read_them(make_console: Callable[..., Any], platform: str) -> None:
    """Each command that ntc-templates has a template for gives rows, but where it refuses real devices as well."""
    console = make_console(platform, config_lines=CONFIG_LINES)
    read = []
    for command in SHOWN:
        if platform not in command.platforms or not _template(command).exists() or command.text in REFUSED_BY_NTC:
            continue
        text = command.on(platform, server="198.18.0.1")
        assert ntc_templates.parse.parse_output("cisco_ios", text, console.show(text)), text
        read.append(text)
    assert len(read) >= 12, read


@pytest.mark.parametrize(
    ("command", "capture"),
    [
        ("show platform", "show_platform_isr4351.txt"),
        ("show platform", "show_platform_asr1002x.txt"),
        ("show redundancy", "show_redundancy_c3850.txt"),
        ("show redundancy", "show_redundancy_iosv.txt"),
        ("show boot", "../show_boot/asr1k.txt"),
    ],
)
def test_what_the_templates_refuse_of_ours_they_refuse_of_real_devices(command: str, capture: str) -> None:
    """The exceptions above are those of the templates, not ours."""
    assert command in REFUSED_BY_NTC
    with pytest.raises(TextFSMError, match="State Error"):
        ntc_templates.parse.parse_output("cisco_ios", command, (CAPTURES / capture).read_text(encoding="utf-8"))


CASES = (
    ("isr4321-16.6", "show platform", "show_platform_isr4351.txt", ()),
    ("asr1006-16.3", "show platform", "show_platform_asr1002x.txt", (r"ok, active|SIP|SPA|PWR",)),
    ("c9300-17.6", "show platform", "show_platform_c9300.txt", ()),
    ("isr4321-16.6", "show redundancy", "show_redundancy_c3850.txt",
     (r"Non-redundant$", r"0 minutes$", r"CONFIG_FILE", r" BOOT = ?$", r"^Cisco IOS|Image Version|^Technical")),
    ("c9300-17.6", "show redundancy", "show_redundancy_asr1k.txt",
     (r" BOOT = flash:packages.conf;$", r"0 minutes$", r"Image Version|^Technical|^Compiled")),
    ("iosv-15.8", "show redundancy", "show_redundancy_iosv.txt", (r"in current state = 0 min", r"uptime = 0 min")),
    ("csr1000v-16.11", "show redundancy states", "../show_redundancy_states/simplex.txt", ()),
    ("c9300-17.6", "show switch detail", "show_switch_detail.txt", (r"^ ?[*23]", r"^  [123] +OK ")),
    ("c9300-17.6", "show environment all", "show_environment_c9300.txt", ()),
    ("c9300-17.6", "show inventory", "show_inventory_c9300.txt", (r"c93xx Stack",)),
    ("asr1006-16.3", "show inventory", "show_inventory_asr1k.txt", ()),
    ("csr1000v-16.11", "show ip interface", "show_ip_interface.txt",
     (r"administratively down", "processing disabled", "non-volatile")),
    ("csr1000v-16.11", "show ip route", "show_ip_route.txt", (r"^       E1 |a - app", r"^S\*", r"^Gateway", r"^ +198")),
    ("csr1000v-16.11", "show ntp associations", "show_ntp_associations.txt", ()),
    ("csr1000v-16.11", "show processes memory sorted", "show_processes_memory_sorted.txt",
     (r"\*Init\*|Chunk|ipc task|Check|\*Dead\*|Total$", r"^Processor Pool| lsmpi_io")),
    ("csr1000v-16.11", "show logging", "show_logging.txt", (r"Exception|^Log Buffer|^Cisco IOS|^Tech|^Copy|^Comp|%",)),
    ("csr1000v-16.11", "show ip cef", "show_ip_cef.txt", (r"attached|127",)),
    ("isr4321-16.6", "show bootflash:", "show_bootflash.txt", (r"^-#-", "/bootflash/", "available", "^$")),
)  # fmt: skip


@pytest.mark.parametrize(("platform", "command", "capture", "known"), CASES)
def test_they_have_the_line_shapes_of_captures(
    strangers: Strangers,
    make_console: Callable[..., Any],
    platform: str,
    command: str,
    capture: str,
    known: tuple[str, ...],
) -> None:
    """No line stands in the output that has no like in the capture, but for the known ones."""
    output = make_console(platform, config_lines=CONFIG_LINES).show(command)
    assert len(output.splitlines()) > 3
    assert strangers(output, (CAPTURES / capture).read_text(encoding="utf-8"), known) == []


def test_a_stack_shows_a_block_for_each_member(strangers: Strangers, make_console: Callable[..., Any]) -> None:
    """Three of them in `show version`, with the addresses and numbers that other commands name."""
    console = make_console("c9300-17.6")
    version = console.show("show version")
    members = version[version.index("Switch 02") :]
    capture = (CAPTURES / "show_version_c3850_members.txt").read_text(encoding="utf-8")
    assert strangers(members, capture, (r"^CLEI", r"^Switch uptime +: 0 minutes")) == []
    addresses = re.findall(r"^Base Ethernet MAC Address +: (\S+)$", version, re.MULTILINE)
    serials = re.findall(r"^System Serial Number +: (\S+)$", version, re.MULTILINE)
    assert len(set(addresses)) == len(set(serials)) == 3
    rows = ntc_templates.parse.parse_output("cisco_ios", "show switch", console.show("show switch"))
    assert [row["mac_address"].replace(".", "") for row in rows] == [text.replace(":", "") for text in addresses]
    hardware = ntc_templates.parse.parse_output("cisco_ios", "show platform", console.show("show platform"))
    assert [row["serial"] for row in hardware] == serials
    assert all(serial in console.show("show inventory") for serial in serials)


@pytest.mark.parametrize("platform", ["asr1006-16.3", "isr4321-16.6"])
def test_the_modules_of_a_chassis_are_in_its_inventory(make_console: Callable[..., Any], platform: str) -> None:
    """Every type that `show platform` lists is a part with a number of its own there."""
    console = make_console(platform)
    slots = console.show("show platform").partition("Slot      CPLD")[0]
    types = set(re.findall(r"^ ?[\w/]+ +([A-Z][\w/+-]+) +ok", slots, re.MULTILINE))
    parts = set(re.findall(r"^PID: (\S+)", console.show("show inventory"), re.MULTILINE))
    assert len(types) >= 4
    assert types <= parts


COUNTED = {
    "Gigabit Ethernet": "GigabitEthernet", "FastEthernet": "FastEthernet", "Ethernet": "Ethernet",
    "Ten Gigabit Ethernet": "TenGigabitEthernet", "TwentyFive Gigabit Ethernet": "TwentyFiveGigE",
    "Forty Gigabit Ethernet": "FortyGigabitEthernet", "Virtual Ethernet": "Vlan",
}  # fmt: skip


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_interfaces_are_those_that_the_hardware_has(make_console: Callable[..., Any], platform: str) -> None:
    """As many of each kind as `show version` counts; the management port is not counted there."""
    console = make_console(platform)
    version = console.show("show version")
    counts = re.findall(r"^(\d+) ([A-Z][\w ]*?thernet) interfaces?$", version, re.MULTILINE)
    assert counts
    names = [row.split()[0] for row in console.show("show ip interface brief").splitlines()[1:] if row.strip()]
    ports = [
        name for name in names if name not in {"GigabitEthernet0", "GigabitEthernet0/0"} or platform == "iosv-15.8"
    ]
    for number, kind in counts:
        assert sum(re.match(rf"{COUNTED[kind]}\d", name) is not None for name in ports) == int(number), kind
    assert len(ports) == sum(int(number) for number, _ in counts)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_commands_agree_on_addresses(make_console: Callable[..., Any], platform: str) -> None:
    """Address, mask, state and layer-2 address of the way out are the same wherever they stand, and as configured."""
    console = make_console(platform)
    name = FIRST_PORTS.get(platform, "GigabitEthernet1")
    console.type(
        "config-transaction" if "sdwan" in platform else "configure terminal",
        f"interface {name}", "ip address 198.18.1.11 255.255.255.192", "commit" if "sdwan" in platform else "exit",
    )  # fmt: skip
    network = ipaddress.ip_network("198.18.1.0/26")
    interface = console.show(f"show interfaces {name}")
    assert "Internet address is 198.18.1.11/26\n" in interface
    assert "Internet address is 198.18.1.11/26\n" in console.show(f"show ip interface {name}")
    route = console.show("show ip route")
    assert f"{network} is directly connected, {name}\n" in route
    assert f"198.18.1.11/32 is directly connected, {name}\n" in route
    mac = re.search(r"address is (\S+) \(bia", interface)
    assert mac
    assert mac[1] in console.show("show ip arp")
    console.type(
        "config-transaction" if "sdwan" in platform else "configure terminal",
        f"interface {name}", "shutdown", "commit" if "sdwan" in platform else "exit",
    )  # fmt: skip
    route = console.show("show ip route")
    assert "198.18.1" not in route
    assert name not in route
    assert "Gateway of last resort is not set" in route
    assert f"{name} is administratively down" in console.show(f"show interfaces {name}")


def test_two_devices_have_addresses_of_their_own(tmp_path: Path) -> None:
    """The layer-2 addresses of a world differ, begin as the platform's maker begins, and come back after a restart."""

    def macs(name: str, folder: str) -> str:
        settings = DeviceSettings(name=name, address="198.18.1.11", username="u", password="w", enable_secret="e")
        device = Device(load_platform("isr4321-16.6"), settings, tmp_path / folder)
        from flashferry.lab.standin.hardware import base_mac, dotted

        return dotted(base_mac(device))

    assert macs("r1", "a") == macs("r1", "b") != macs("r2", "c")
    assert macs("r1", "d").startswith("0081.c4")


@pytest.mark.parametrize("platform", [name for name in PLATFORMS if name != "iol-17.15"])
def test_the_listing_of_the_flash_is_that_of_dir(make_console: Callable[..., Any], platform: str) -> None:
    """Every file with its size, and the same room."""
    console = make_console(platform)
    console.device.flash.write("added.cfg", b"x" * 4321)
    listing, directory = console.show(f"show {console.device.flash.prefix}"), console.show("dir")
    for entry in console.device.flash.entries():
        assert re.search(rf" {entry.size_bytes} .*{re.escape(entry.name)}$", listing, re.MULTILINE), entry.name
    assert re.search(r"\((\d+) bytes free\)", directory)[1] == re.search(r"(\d+) bytes available", listing)[1]


def test_the_log_holds_what_was_logged(console: Any) -> None:
    """A change of the configuration is in it; its size and the console's share follow the configuration."""
    assert "%SYS-5-RESTART: System restarted --\nCisco IOS Software [Gibraltar]" in console.show("show logging")
    console.type("configure terminal", "logging buffered 8192", "no logging console")
    shown = console.show("show logging")
    assert "%SYS-5-CONFIG_I: Configured from console by ferry on vty0" in shown
    assert "Log Buffer (8192 bytes):" in shown
    assert "Console logging: disabled\n" in shown
    for number in range(200):
        console.device.syslog(f"%TEST-5-FULL: message {number}")
    lines = console.show("show logging").partition("Log Buffer")[2].splitlines()[2:]
    assert "message 199" in "".join(lines)
    assert "RESTART" not in "".join(lines)
    assert sum(len(line) + 1 for line in lines) <= 8192 + len("\n\n")
    console.device.boot()
    assert "%TEST" not in console.show("show logging")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_memory_is_that_of_show_version(make_console: Callable[..., Any], platform: str) -> None:
    """The pool of the processor is as large as the memory named there, for all who show it."""
    console = make_console(platform)
    size = 1024 * int(re.search(r"with (?:with )?(\d+)K", console.show("show version"))[1])
    shown = re.search(r"Processor +\w+ +(\d+) +(\d+) +(\d+)", console.show("show memory"))
    pool = re.search(r"Processor Pool Total: +(\d+) Used: +(\d+)", console.show("show processes memory"))
    total, used, free = map(int, shown.groups())
    assert total == used + free == size
    assert tuple(map(int, pool.groups())) == (total, used)


def test_neighbours_and_clock_sources_follow_the_configuration(make_console: Callable[..., Any]) -> None:
    """CDP is on by default on switches and off on IOS-XE routers; LLDP and NTP are off until configured."""
    router, switch = make_console("csr1000v-16.11"), make_console(SWITCH[0])
    assert router.show("show cdp neighbors") == "% CDP is not enabled\n"
    assert "Total cdp entries displayed : 0" in switch.show("show cdp neighbors")
    assert router.show("show lldp neighbors") == "% LLDP is not enabled\n"
    assert router.show("show ntp status") == "%NTP is not enabled.\n"
    router.type("configure terminal", "cdp run", "lldp run", "ntp server 192.0.2.9 prefer")
    assert "Total cdp entries displayed : 0" in router.show("show cdp neighbors")
    assert "Total entries displayed: 0" in router.show("show lldp neighbors")
    assert "Clock is unsynchronized" in router.show("show ntp status")
    assert " ~192.0.2.9 " in router.show("show ntp associations")


LOOPBACK = {"address": "127.0.0.2"}


def test_an_echo_is_answered_by_who_is_there(make_console: Callable[..., Any]) -> None:
    """As many marks as asked for, times of real packets, and the source that was named."""
    console = make_console(**LOOPBACK)
    shown = console.show("ping 127.0.0.1 repeat 3")
    assert "Sending 3, 100-byte ICMP Echos to 127.0.0.1, timeout is 2 seconds:\n!!!\n" in shown
    assert re.search(r"Success rate is 100 percent \(3/3\), round-trip min/avg/max = \d+/\d+/\d+ ms", shown)
    rows = ntc_templates.parse.parse_output("cisco_ios", "ping", console.show("ping 127.0.0.1 source Gi1"))
    assert rows[0]["success_qty"] == "5"


def test_an_echo_without_a_way_times_out(make_console: Callable[..., Any]) -> None:
    """With the way out shut nothing is sent, and nothing is claimed."""
    console = make_console(**LOOPBACK)
    console.type("configure terminal", "interface Gi1", "shutdown")
    shown = console.show("ping 127.0.0.1 repeat 2 timeout 0")
    assert "\n..\nSuccess rate is 0 percent (0/2)\n" in shown
    assert "% Unrecognized host or address" in console.show("ping nowhere.example")


def test_a_route_is_traced_to_its_end(make_console: Callable[..., Any]) -> None:
    """One hop to a neighbour, with three times."""
    shown = make_console(**LOOPBACK).show("traceroute 127.0.0.1")
    assert re.search(r"^  1 127\.0\.0\.1 \d+ msec \d+ msec \d+ msec \n", shown, re.MULTILINE)
    assert "\n  2 " not in shown


@pytest.mark.parametrize(
    ("opening", "taken", "wrong", "mode"),
    [
        ("router ospf 1", "network 10.0.0.0 0.0.0.255 area 0", "ip mtu 1400", "config-router"),
        ("vrf definition RED", "rd 1:1", "bandwidth 10", "config-vrf"),
        ("ip access-list extended FERRY", "permit tcp any any eq 21", "match any", "config-ext-nacl"),
        ("ip access-list standard HOSTS", "deny 10.0.0.1", "set any", "config-std-nacl"),
        ("route-map OUT permit 10", "match ip address FERRY", "permit any", "config-route-map"),
        ("class-map match-any COPIES", "match dscp af11", "permit any", "config-cmap"),
        ("vlan 20", "name ferry", "match any", "config-vlan"),
        ("kron policy-list SAVE", "cli write memory", "permit any", "config-kron-policy"),
        ("aaa group server tacacs+ ADMINS", "server name one", "network 10.0.0.0", "config-sg-tacacs+"),
        ("tacacs server one", "address ipv4 192.0.2.1", "network 10.0.0.0", "config-server-tacacs"),
        ("radius server two", "timeout 5", "timeout 5000", "config-radius-server"),
    ],
)
def test_a_submode_takes_its_own_lines_alone(
    make_console: Callable[..., Any], opening: str, taken: str, wrong: str, mode: str
) -> None:
    """A line of another mode gets a caret and is not stored; its own stands below the line that opened the mode."""
    console = make_console()
    screen = console.type("configure terminal", opening, taken, wrong, "end")
    assert f"({mode})#" in screen
    assert "% Invalid input detected at '^' marker." in screen.partition(wrong)[2]
    running = console.device.running_text()
    assert f"\n{opening}\n {taken}\n" in running
    assert wrong not in running.partition(f"\n{opening}\n")[2]


def test_a_vlan_is_shown_alone_and_with_its_ports(make_console: Callable[..., Any]) -> None:
    """`show vlan id` has one VLAN (NAPALM asks so), and a port stands at the VLAN of its access line."""
    console = make_console(
        "c9300-17.6",
        config_lines=("vlan 20", " name cameras", "interface GigabitEthernet1/0/3", " switchport access vlan 20"),
    )
    one = console.show("show vlan id 20")
    assert [line.split() for line in one.splitlines()[3:4]] == [["20", "cameras", "active", "Gi1/0/3"]]
    assert "default" not in one
    assert "Gi1/0/3\n" not in console.show("show vlan id 1")
    assert "VLAN id 7 not found in current VLAN database" in console.show("show vlan id 7")
    assert "cameras" in console.show("show vlan brief")


def test_interfaces_have_accounts_of_their_own(console: Any) -> None:
    """Each name stands above its protocols, as Genie reads it; an unused port carried nothing."""
    shown = console.show("show interfaces accounting")
    assert re.search(
        r"^GigabitEthernet1 WAN\n +Protocol +Pkts In +Chars In +Pkts Out +Chars Out\n +IP +", shown, re.MULTILINE
    )
    assert "GigabitEthernet2 \nNo traffic sent or received on this interface.\n" in shown


def test_a_vrf_in_detail(make_console: Callable[..., Any]) -> None:
    """Its interfaces and address families, by the words that NAPALM reads; another one is left out."""
    lines = ("vrf definition A", " rd 1:1", " address-family ipv4", "vrf definition B")
    console = make_console(config_lines=(*lines, "interface GigabitEthernet2", " vrf forwarding A"))
    assert console.show("show vrf detail A").startswith("VRF A (VRF Id = 1); default RD 1:1; default VPNID <not set>\n")
    both = console.show("show vrf detail").split("\n\n")
    assert "Interfaces:\n    Gi2\n" in both[0]
    assert "No interfaces\n" in both[1]
