"""Who comes in, and with what."""

from __future__ import annotations

import pytest

from flashferry.lab.cml.controller import Access
from flashferry.lab.cml.definitions import Refused
from tests.unit.lab.cml.conftest import ADMIN, STRANGER, HandClock


@pytest.fixture
def access(clock: HandClock) -> Access:
    return Access([ADMIN, STRANGER], clock=clock, lifetime_s=lambda: 60.0)


def test_a_token_has_three_parts_and_knows_its_owner(access: Access) -> None:
    """Clients tell a token from a user name by that shape."""
    token = access.token("stranger", "other")
    assert len(token.split(".")) == 3
    assert access.user(f"Bearer {token}") == STRANGER


@pytest.mark.parametrize(("name", "password"), [("admin", "wrong"), ("nobody", "standin"), (None, None)])
def test_a_wrong_password_is_a_403(access: Access, name: object, password: object) -> None:
    """Not a 401, which would make clients log in again."""
    with pytest.raises(Refused) as refusal:
        access.token(name, password)
    assert refusal.value.status == 403


def test_a_token_is_a_401_when_it_is_old_revoked_forged_or_missing(access: Access, clock: HandClock) -> None:
    """And nothing of it stands in the refusal."""
    old = access.token("admin", "standin")
    clock.now += 60
    revoked = access.token("admin", "standin")
    access.revoke(f"Bearer {revoked}")
    for header in (f"Bearer {old}", f"Bearer {revoked}", "Bearer a.b.c", "Bearer", None, f"Basic {old}"):
        with pytest.raises(Refused) as refusal:
            access.user(header)
        assert refusal.value.status == 401
        assert old not in refusal.value.description
