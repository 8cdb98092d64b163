"""FTP from the side of the device."""

from __future__ import annotations

import pytest

from flashferry.core.values import replace
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.transports.ftp import FTP
from flashferry.transports.transport import Offer, copy_command, shown_command

OFFER = Offer(transport=FTP, server="192.0.2.10", port=21, image="x.bin", username="u", password="p")


def test_the_url_as_ios_takes_it():
    """Port 21 is left out: old releases may not take one."""
    assert copy_command(OFFER, "flash:x", IOS_XE) == "copy ftp://u:p@192.0.2.10/x.bin flash:x"
    other = replace(OFFER, port=2121, vrf="Mgmt-vrf")
    assert copy_command(other, "flash:x", IOS_XE) == "copy ftp://u:p@192.0.2.10:2121/x.bin flash:x vrf Mgmt-vrf"
    assert shown_command(OFFER, "null:", IOS_XE) == "copy ftp://<user>:<password>@192.0.2.10/x.bin null:"


@pytest.mark.parametrize(
    ("commands", "mode"),
    [
        ((), None),
        (("USER q7***", "SIZE x.bin"), None),
        (("EPSV", "RETR x.bin"), "passive"),
        (("PASV", "RETR x.bin"), "passive"),
        (("PORT 192,0,2,7,4,1", "RETR x.bin"), "active"),
        (("EPSV", "PORT 192,0,2,7,4,1", "RETR x.bin"), "active"),
    ],
)
def test_how_the_data_connection_was_asked_for(commands, mode):
    """The last way that was tried counts."""
    assert FTP.data_mode(commands) == mode


def test_only_the_source_interface_is_ever_set():
    """And only where the inventory names one."""
    assert list(FTP.needed_settings(source_interface=None)) == []
    lines = [setting.line(value) for setting, value in FTP.needed_settings(source_interface="Gi0/0")]
    assert lines == ["ip ftp source-interface Gi0/0"]
    assert not any(setting.is_tuning for setting in FTP.settings)
