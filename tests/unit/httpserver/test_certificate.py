"""A certificate and its key: each fault one sentence, before anything is served."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from flashferry.fileserver import SettingsInvalid
from flashferry.httpserver import check_certificate, http_listener, https_listener

Pair = Callable[..., tuple[Path, Path]]


def complaint(certificate: Path, key: Path, *told: str) -> SettingsInvalid:
    with pytest.raises(SettingsInvalid) as found:
        check_certificate(certificate, key, addresses=told)
    assert found.value.hint
    return found.value


def test_a_good_pair_is_taken(pair: Pair, tmp_path: Path) -> None:
    """For each of its names: address, name, any name below another one, and its common name, as IOS has it."""
    certificate, key = pair(tmp_path)
    check_certificate(
        certificate, key, addresses=("192.0.2.1", "ferry.example", "FERRY.example", "a.hq.example", "ferry")
    )


@pytest.mark.parametrize("told", ["192.0.2.2", "hq.example", "a.b.hq.example", "other.example", "2001:db8::1"])
def test_another_name_is_refused(pair: Pair, tmp_path: Path, told: str) -> None:
    """With both: what devices are told, and what the certificate is for."""
    error = complaint(*pair(tmp_path), told)
    assert f"expected it to be for {told}, which devices use, found ferry.example, *.hq.example, 192.0.2.1" in (
        error.message
    )


def test_a_missing_file_is_named(pair: Pair, tmp_path: Path) -> None:
    """The certificate's, or the key's."""
    certificate, key = pair(tmp_path)
    assert "certificate" in complaint(tmp_path / "none.pem", key).message
    assert re.match(
        r"key .*none.key: expected a file that can be read", complaint(certificate, tmp_path / "none.key").message
    )


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o660])
def test_a_key_that_others_can_read_is_refused(pair: Pair, tmp_path: Path, mode: int) -> None:
    """Or write; a group may read it, as Debian has it for its group of keys."""
    certificate, key = pair(tmp_path)
    key.chmod(mode)
    assert f"expected a file that others cannot read, found mode {mode:04o}" in complaint(certificate, key).message
    key.chmod(0o640)
    check_certificate(certificate, key)


def test_another_s_key_is_refused(pair: Pair, tmp_path: Path) -> None:
    """Both files are named."""
    certificate, _ = pair(tmp_path)
    _, key = pair(tmp_path, "b")
    assert re.search(r"key .*b\.key: expected that of the certificate .*a\.pem", complaint(certificate, key).message)


def test_a_locked_key_is_refused(pair: Pair, tmp_path: Path) -> None:
    """Nobody is asked for its passphrase."""
    assert "without a passphrase" in complaint(*pair(tmp_path, passphrase=b"secret")).message


@pytest.mark.parametrize(("days", "words"), [((-30, -1), "expired at"), ((1, 30), "good from")])
def test_a_certificate_is_good_now(pair: Pair, tmp_path: Path, days: tuple[float, float], words: str) -> None:
    """One that expired, or that is not good yet, says when."""
    assert words in complaint(*pair(tmp_path, days=days)).message


@pytest.mark.parametrize("content", ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(pair: Pair, tmp_path: Path, content: str) -> None:
    """Whatever else is in its file."""
    _, key = pair(tmp_path)
    other = tmp_path / "x.pem"
    other.write_text(content)
    assert "certificate in PEM" in complaint(other, key).message


def test_what_is_no_key_is_refused(pair: Pair, tmp_path: Path) -> None:
    """Whatever else is in its file."""
    certificate, key = pair(tmp_path)
    key.write_text("hello")
    assert "PEM" in complaint(certificate, key).message


def test_a_listener_is_made_of_a_good_pair_alone(pair: Pair, tmp_path: Path) -> None:
    """HTTPS looks at both before anything is started; HTTP needs neither."""
    certificate, key = pair(tmp_path)
    listener = https_listener(certificate=certificate, key=key)
    assert (listener.transports, http_listener().transports) == (("https",), ("http",))
    with pytest.raises(SettingsInvalid):
        https_listener(certificate=key, key=key)
