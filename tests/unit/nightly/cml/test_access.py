"""A controller's address, its certificates and its version are looked at before anything is sent."""

from __future__ import annotations

import ssl

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked
from flashferry.nightly.cml.access import ControllerAccess, read_version, version_note, why_refused


def access(url: str = "https://cml.test", **more: object) -> ControllerAccess:
    given: dict[str, object] = {"username": "admin", "password": "a-lab's-password"} | more
    return ControllerAccess(url=url, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "whole"),
    [
        ("cml.test", "https://cml.test"),
        ("https://cml.test/", "https://cml.test"),
        ("https://cml.test:8443/api/v0/", "https://cml.test:8443"),
        ("[fd00::1]:8443", "https://[fd00::1]:8443"),
        (" 192.0.2.7 ", "https://192.0.2.7"),
    ],
)
def test_an_address_is_made_whole(given, whole):
    """However a person writes it, one address comes of it."""
    assert access(given).url == whole


@pytest.mark.parametrize(
    "given",
    [
        *("http://cml.test", "ftp://cml.test", "https://", "", "https://cml test", "https://cml.test:many"),
        *("https://[::1", "https://cml.test/labs", "https://cml.test?x=1", "https://cml.test#x"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(given):
    """In one sentence with what to do."""
    with pytest.raises(ConfigInvalid) as found:
        access(given)
    assert found.value.hint


def test_a_login_in_the_address_is_refused_and_not_repeated():
    """It would stand in every report."""
    with pytest.raises(ConfigInvalid) as found:
        access("https://admin:very-secret@cml.test")
    assert "very-secret" not in str(found.value)


@pytest.mark.parametrize("missing", ["username", "password"])
def test_half_a_login_is_refused(missing):
    """Cisco's client would ask on the terminal, or look into files."""
    with pytest.raises(ConfigInvalid, match=missing):
        access(**{missing: ""})


def test_the_password_is_masked_from_then_on():
    """Whatever quotes it; and a value's own text has none."""
    one = access()
    assert "a-lab's-password" not in masked("it said a-lab's-password") + repr(one)


@pytest.mark.parametrize(("content", "why"), [(None, "cannot be read"), ("no certificate", "no certificate in it")])
def test_certificates_that_cannot_be_used_are_told(tmp_path, content, why):
    """Before anything is sent."""
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigInvalid, match=why):
        access(ca_file=file).trust()


def test_trust_is_full_unless_told_otherwise():
    """Names count as well as signatures; without proof neither does."""
    full, none = access().trust(), access(is_verified=False).trust()
    assert (full.check_hostname, full.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert (none.check_hostname, none.verify_mode) == (False, ssl.CERT_NONE)


@pytest.mark.parametrize(
    ("text", "is_taken", "has_note", "has_keys"),
    [
        ("2.7.2+build.3", False, False, True),
        ("2.8.0", True, False, True),
        ("2.9.1+build.7", True, False, True),
        ("2.10.0", True, False, False),
        ("2.11.0+sso", True, True, False),
        ("2.12.0", True, True, False),
        ("3.0.0", False, True, False),
        ("1.9.9", False, False, True),
    ],
)
def test_versions_are_told_apart(text, is_taken, has_note, has_keys):
    """2.8 to 2.11 are taken, newer 2.x with a note, all else refused; keys of captures end with 2.9."""
    version = read_version(text)
    assert version is not None
    assert (why_refused(version) is None, version.has_capture_keys) == (is_taken, has_keys)
    if is_taken:
        assert (version_note(version) is not None) == has_note


@pytest.mark.parametrize("text", ["", "2.9", "nine", "2.9.x", "<html>"])
def test_what_is_no_version_is_none(text):
    """A web server of something else has none."""
    assert read_version(text) is None


def test_versions_have_an_order():
    """By numbers, not by letters."""
    older, newer = read_version("2.9.12"), read_version("2.10.1")
    assert older is not None
    assert newer is not None
    assert older < newer
