"""A device's own lists, out of what our server says of a refusal."""

import pytest

from flashferry.run.probe import device_list


@pytest.mark.parametrize(
    ("text", "what", "names"),
    [
        (
            "SSH: no encryption algorithm in common: client aes128-ctr,aes256-ctr, server aes128-cbc",
            "cipher",
            ("aes128-ctr", "aes256-ctr"),
        ),
        ("SSH: no MAC algorithm in common: client hmac-sha1, server hmac-sha2-256", "mac", ("hmac-sha1",)),
        ("SSH: no MAC algorithm in common: client hmac-sha1, server hmac-sha2-256", "cipher", ()),
        ("SSH: no host key algorithm in common: client ssh-rsa, server ssh-ed25519", "cipher", ()),
        ("the device says: I/O error", "cipher", ()),
        ("", "mac", ()),
    ],
)
def test_the_devices_list_is_read_where_it_told_one(text: str, what: str, names: tuple[str, ...]) -> None:
    """Of ciphers or MACs, as asked; a refusal of something else, or another failure, tells none."""
    assert device_list(text, what) == names
