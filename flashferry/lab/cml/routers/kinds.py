"""Which stand-in plays which node: node definitions and images of a controller, and platforms of the lab.

Short, for it is one table, all of a router is in it.
"""

from __future__ import annotations

from dataclasses import dataclass

_XE_FILE, _IOS_FILE = "bootflash:/iosxe_config.txt", "ios_config.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What plays a node definition.

    Attributes:
        platform: Name of the platform's data file.
        day0_file: As the console names the first configuration.
        has_cvac: The first configuration is applied by CVAC, which prints on the console what it could not apply; else
            by the parser, as a startup configuration. CVAC on iosv: third-party notes of labs on a real controller.
        makes_key: It makes its RSA key itself; else `crypto key generate rsa` in the first configuration does.
            Assumed: public labs of iosv and IOL carry that line, those of C8000V run with and without it.
        asks_first: It offers the initial configuration dialogue before it has read any configuration.
    """

    platform: str
    day0_file: str
    has_cvac: bool
    makes_key: bool
    asks_first: bool = False


_KINDS = {
    "cat8000v": Kind(platform="c8000v-17.15", day0_file=_XE_FILE, has_cvac=True, makes_key=True, asks_first=True),
    "csr1000v": Kind(platform="csr1000v-16.11", day0_file=_XE_FILE, has_cvac=True, makes_key=True),
    "iosv": Kind(platform="iosv-15.8", day0_file=_IOS_FILE, has_cvac=True, makes_key=False),
    "iol-xe": Kind(platform="iol-17.15", day0_file=_IOS_FILE, has_cvac=False, makes_key=False),
}

_IMAGES = {"csr1000v-161101b": "csr1000v-16.11", "iosv-158-3": "iosv-15.8", "iol-xe-17-15-01": "iol-17.15"}
"""Image definitions whose release a platform of the lab has."""

CONNECTOR, SWITCH = "external_connector", "unmanaged_switch"
"""Nodes that boot nothing."""


def kind_of(node_definition: str) -> Kind | None:
    """Return what plays a node definition; None where the lab has nothing that could."""
    return _KINDS.get(node_definition)


def is_release_of(kind: Kind, image_definition: str | None) -> bool:
    """Whether the stand-in is of the release that an image definition names; the definition's own image: yes."""
    return image_definition is None or _IMAGES.get(image_definition) == kind.platform
