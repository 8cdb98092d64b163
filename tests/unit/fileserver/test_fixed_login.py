"""Fixed credentials: what they may be, who guesses, and that no secret shows."""

from pathlib import Path

import pytest

from flashferry.core.codec import decode, encode, to_json
from flashferry.fileserver.errors import SettingsInvalid
from flashferry.fileserver.fixed_login import FixedGrant, FixedLogin, FixedLogins, admit
from flashferry.fileserver.settings import Limits
from flashferry.fileserver.ticket_accounts import Refusal
from flashferry.images.image import ImageFile
from flashferry.images.safe_open import FileIdentity

WORD = "Bench-2026.word"
IMAGE = ImageFile(
    name="a.bin",
    size_bytes=10,
    md5="",
    sha512="",
    path=Path("/images/a.bin"),
    identity=FileIdentity(device=1, inode=2, size_bytes=10, mtime_ns=3, ctime_ns=4),
)


def _fixed(**more: tuple[str, ...]) -> FixedGrant:
    return admit(FixedLogin(username="lab", password=WORD, **more), (IMAGE,))


@pytest.fixture
def fixed_logins() -> FixedLogins:
    return FixedLogins(Limits(failed_logins=3, ban_s=60))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"password": "short"}, "a password of 8 to 64 letters, digits and ._~-, .* found 5 characters"),
        ({"password": "x" * 65}, "found 65 characters"),
        ({"password": "with@sign1"}, "which a URL carries unchanged"),
        ({"password": "pässword1"}, "which a URL carries unchanged"),
        ({"username": ""}, "a user of 1 to 64"),
        ({"username": "a:b"}, "a user of 1 to 64"),
        ({"source_addresses": ("10.0.0.0/99",)}, "expected an IP address or network"),
    ],
)
def test_impossible_credentials_are_refused(wrong: dict[str, object], message: str) -> None:
    """What a copy line could not carry, or is guessed too soon, is an error that does not quote it."""
    with pytest.raises(SettingsInvalid, match=message) as raised:
        FixedLogin(**({"username": "lab", "password": WORD} | wrong))
    assert "sign1" not in str(raised.value)


def test_secrets_do_not_show() -> None:
    """Neither repr nor the public form has the password; the serving process gets a salted hash alone."""
    login, fixed = FixedLogin(username="lab", password=WORD), _fixed()
    assert WORD not in repr(login) + repr(fixed) + str(to_json(login)) + str(encode(fixed))
    assert fixed.password_hash_hex not in repr(fixed) + str(to_json(fixed))
    assert admit(login, ()).password_hash_hex != fixed.password_hash_hex
    assert decode(FixedGrant, encode(fixed)) == fixed


def test_a_transfer_gets_a_ticket_nobody_can_log_in_with() -> None:
    """Each has a number of its own, one try, and neither user nor password."""
    first, second = _fixed().grant(IMAGE), _fixed().grant(IMAGE)
    assert first.ticket_id != second.ticket_id
    assert (first.username, first.password_hash_hex, first.request.tries) == ("", "", 1)


def test_images_are_found_by_exact_name() -> None:
    """Nothing near it is found."""
    fixed = _fixed()
    assert fixed.image("a.bin") == IMAGE
    assert [fixed.image(name) for name in ("A.bin", "./a.bin", "", "a.bi")] == [None] * 4


def test_guesses_lock_an_address_out(fixed_logins: FixedLogins) -> None:
    """After three wrong passwords the right one is refused for a minute, from that address alone."""
    fixed = _fixed()
    for _ in range(3):
        assert fixed_logins.refusal(fixed, "guess", "192.0.2.1", 0.0) is Refusal.WRONG_PASSWORD
    assert fixed_logins.refusal(fixed, WORD, "192.0.2.1", 59.0) is Refusal.LOCKED_OUT
    assert fixed_logins.refusal(fixed, WORD, "192.0.2.2", 59.0) is None
    # The refused attempt was no guess: it does not put the end off.
    assert fixed_logins.refusal(fixed, WORD, "192.0.2.1", 61.0) is None


def test_a_login_clears_its_address(fixed_logins: FixedLogins) -> None:
    """Two mistyped passwords before the right one are forgotten."""
    fixed = _fixed()
    for word in ("x", "x", WORD, "x", "x"):
        refusal = fixed_logins.refusal(fixed, word, "192.0.2.1", 0.0)
        assert (refusal is None) is (word == WORD)
    assert fixed_logins.refusal(fixed, WORD, "192.0.2.1", 0.0) is None


def test_sources_bind(fixed_logins: FixedLogins) -> None:
    """From elsewhere the right password is refused, and counts as a guess."""
    fixed = _fixed(source_addresses=("10.0.0.0/8",))
    assert fixed_logins.refusal(fixed, WORD, "10.1.2.3", 0.0) is None
    assert [fixed_logins.refusal(fixed, WORD, "192.0.2.1", 0.0) for _ in range(4)] == [Refusal.WRONG_SOURCE] * 3 + [
        Refusal.LOCKED_OUT
    ]
