"""FTP's own settings: refused with a sentence, or handed to the file server as plain values."""

import json
from typing import Any

import msgspec
import pytest

from flashferry.fileserver import SettingsInvalid
from ftpserver import FtpOptions, ftp_listener


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"passive_ports": (50000, 40000)}, "passive_ports: expected two ports from 1024 to 65535 in order"),
        ({"passive_ports": (21, 40000)}, "passive_ports: expected two ports from 1024"),
        ({"masquerade_address": "2001:db8::1"}, "masquerade_address: expected an IPv4 address, since PASV"),
        ({"masquerade_networks": (("ten", "192.0.2.1"),)}, "masquerade_networks: expected networks as 10.0.0.0/8"),
        ({"masquerade_networks": (("10.0.0.0/8", "x"),)}, "masquerade_networks 10.0.0.0/8: expected an IP address"),
        ({"listen_address": "localhost"}, "listen_address: expected an IP address such as 192.0.2.1"),
    ],
)
def test_wrong_settings_are_one_sentence(wrong: dict[str, Any], message: str) -> None:
    """Each wrong value is refused with its name, what was expected and what was found."""
    with pytest.raises(SettingsInvalid, match=message):
        ftp_listener(**wrong)


def test_options_survive_the_way_to_the_serving_process() -> None:
    """They go there as plain values and come out as they were."""
    options = FtpOptions(
        passive_ports=(5000, 6000),
        masquerade_address="192.0.2.1",
        masquerade_networks=(("10.0.0.0/8", "192.0.2.2"),),
    )
    sent = ftp_listener(
        passive_ports=options.passive_ports,
        masquerade_address=options.masquerade_address,
        masquerade_networks=options.masquerade_networks,
    ).options
    assert msgspec.convert(json.loads(json.dumps(sent)), FtpOptions) == options


def test_options_of_another_shape_are_refused() -> None:
    """A mistaken type is an error, not a setting."""
    with pytest.raises(ValueError, match="passive_ports"):
        msgspec.convert({"passive_ports": "5000-6000"}, FtpOptions)
