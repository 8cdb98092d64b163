"""The forty commands that operators and their tools type every day, and which hardware has them."""

from __future__ import annotations

from dataclasses import dataclass

PLATFORMS = (
    "asr1006-16.3", "c2811-15.1", "c8000v-17.15", "c8000v-sdwan-17.15", "c9300-17.6", "csr1000v-16.11", "iol-17.15",
    "iosv-15.8", "isr4321-16.6",
)  # fmt: skip
ROUTERS_XE = ("asr1006-16.3", "c8000v-17.15", "c8000v-sdwan-17.15", "csr1000v-16.11", "isr4321-16.6")
SWITCH = ("c9300-17.6",)
WITH_SENSORS = ("asr1006-16.3", "c9300-17.6", "isr4321-16.6")
IN_PACKAGES = ("c8000v-17.15", "c8000v-sdwan-17.15", "c9300-17.6", "csr1000v-16.11")
UNICON = {
    "asr1006-16.3": ("iosxe", "asr1k"), "c2811-15.1": ("ios", ""), "c8000v-17.15": ("iosxe", "c8kv"),
    "c8000v-sdwan-17.15": ("iosxe", "sdwan"), "c9300-17.6": ("iosxe", "cat9k"), "csr1000v-16.11": ("iosxe", "csr1000v"),
    "iol-17.15": ("ios", "iol"), "iosv-15.8": ("ios", "iosv"), "isr4321-16.6": ("iosxe", ""),
}  # fmt: skip
"""`os` and `platform` of each in a testbed; empty where unicon has nothing more special."""
FIRST_PORTS = {
    "asr1006-16.3": "GigabitEthernet0/0/0", "c2811-15.1": "FastEthernet0/0", "c9300-17.6": "Vlan1",
    "iol-17.15": "Ethernet0/0", "iosv-15.8": "GigabitEthernet0/0", "isr4321-16.6": "GigabitEthernet0/0/0",
}  # fmt: skip
CONFIG_LINES = ("ntp server 198.18.0.1", "vrf definition BLUE", " rd 65000:1", " address-family ipv4")
"""What the devices are configured with besides, so that there is something to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Everyday:
    """A command.

    Attributes:
        text: What is typed; ``{port}`` is the interface that leads to the world, ``{server}`` the world's server.
        platforms: Who has it.
        variants: Other words for it on single platforms.
    """

    text: str
    platforms: tuple[str, ...] = PLATFORMS
    variants: tuple[tuple[str, str], ...] = ()

    def on(self, platform: str, *, server: str) -> str:
        """Return what is typed on a platform."""
        text = dict(self.variants).get(platform, self.text)
        return text.format(port=FIRST_PORTS.get(platform, "GigabitEthernet1"), server=server)


def _all(*texts: str) -> tuple[Everyday, ...]:
    return tuple(Everyday(text=text) for text in texts)


COMMANDS: tuple[Everyday, ...] = (
    *_all("show version", "show inventory"),
    Everyday(text="show platform", platforms=(*ROUTERS_XE, *SWITCH)),
    Everyday(text="show redundancy", platforms=(*ROUTERS_XE, *SWITCH, "iosv-15.8")),
    Everyday(text="show redundancy states", platforms=(*ROUTERS_XE, *SWITCH)),
    Everyday(text="show environment", platforms=WITH_SENSORS, variants=(("c9300-17.6", "show environment all"),)),
    Everyday(text="show switch", platforms=SWITCH),
    Everyday(text="show switch detail", platforms=SWITCH),
    Everyday(text="show install summary", platforms=IN_PACKAGES),
    *_all("show boot", "show file systems"),
    Everyday(text="dir", platforms=tuple(p for p in PLATFORMS if p != "iol-17.15")),
    Everyday(
        text="show flash:", platforms=tuple(p for p in PLATFORMS if p != "iol-17.15"),
        variants=(*((p, "show bootflash:") for p in ROUTERS_XE), ("iosv-15.8", "show flash0:")),
    ),
    *_all(
        "show archive", "show running-config interface {port}", "show clock", "show users", "show line", "show logging",
        "show processes cpu", "show processes cpu sorted", "show processes memory sorted", "show memory statistics",
        "show ntp status", "show ntp associations", "show ip interface brief", "show ip interface", "show interfaces",
        "show interfaces description",
    ),
    Everyday(text="show interfaces status", platforms=SWITCH),
    Everyday(text="show vlan", platforms=SWITCH),
    Everyday(text="show mac address-table", platforms=SWITCH),
    Everyday(text="show spanning-tree", platforms=SWITCH),
    *_all("show ip route", "show ip arp", "show ip cef", "show vrf", "show tcp brief numeric"),
    *_all("ping {server}", "traceroute {server}"),
)  # fmt: skip
