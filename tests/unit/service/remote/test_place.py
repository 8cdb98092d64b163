"""Where a token may be sent, and where one is taken from."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked
from flashferry.service.client.client import ServicePlace, checked_token, checked_url, token_in


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://service.example", "https://service.example"),
        (" https://service.example:8443/ ", "https://service.example:8443"),
        ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
        ("http://127.0.0.1:8020", "http://127.0.0.1:8020"),
        ("http://[::1]:8020/", "http://[::1]:8020"),
        ("http://localhost:8020", "http://localhost:8020"),
    ],
)
def test_an_address_to_which_a_token_may_be_sent(given, url):
    """By TLS, or without leaving the host."""
    assert checked_url(given) == url


@pytest.mark.parametrize(
    "given",
    [
        *("service.example", "", "https://", "ftp://service.example", "https://a@service.example", "https://x/api/v1"),
        *("https://x?y", "https://x#y", "https://x:99999", "https://x:y", "https://[::1", "https://x\ny", "//x"),
        *("http://service.example", "http://127.0.0.1.example", "http://10.0.0.1", "http://localhost.example"),
    ],
)
def test_an_address_to_which_none_is_sent(given):
    """Nothing but a host and a port; no plain HTTP to anywhere else, whatever its name begins with."""
    with pytest.raises(ConfigInvalid, match="--service: expected https") as caught:
        checked_url(given)
    assert caught.value.hint


def test_an_address_without_a_scheme():
    """Is told both forms that are taken."""
    with pytest.raises(ConfigInvalid, match=r"or http://127\.0\.0\.1:PORT for a service on this host, found"):
        checked_url("127.0.0.1:18027")


@pytest.mark.parametrize("given", ["", "  ", "two words", "a\r\nX: y", "ä", "x" * 5000])
def test_what_is_no_token(given):
    """One word of ASCII: nothing else comes into a header."""
    with pytest.raises(ConfigInvalid, match="expected one word"):
        checked_token(given, "https://x")


def test_a_token_is_masked_wherever_it_turns_up():
    """Also in what the service or a library says of it, and in the place's own words."""
    token = checked_token("ffy_kQ7vWm2ZbT9c\n", "https://x")
    assert token not in masked(f"Bearer {token}")
    assert token not in repr(ServicePlace(url="https://x", token=token))


def test_a_tokens_file_is_its_owners(tmp_path):
    """One that others may read is refused; so is one that is not there, and what is no file."""
    file = tmp_path / "token"
    file.write_text("ffy_abcdef0123\n")
    file.chmod(0o600)
    assert token_in(file, "https://x") == "ffy_abcdef0123"
    file.chmod(0o640)
    with pytest.raises(ConfigInvalid, match="others may"):
        token_in(file, "https://x")
    for wrong in (tmp_path / "none", tmp_path):
        with pytest.raises(ConfigInvalid, match="cannot be read"):
            token_in(wrong, "https://x")


def test_a_file_of_certificates_that_is_none(tmp_path):
    """Is told with its name, before anything is asked."""
    for file in (tmp_path / "none", tmp_path / "empty"):
        (tmp_path / "empty").write_text("")
        with pytest.raises(ConfigInvalid, match="--service-ca"):
            ServicePlace(url="https://x", token="t", ca=file).trust()
