"""A service with a folder of images, and people who operate, administer and look."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from flashferry.service.settings import ImageSettings, ServiceSettings
from tests.served import Served, Token, serve

IMAGES = "/api/v1/images"
CONTENT = b"CW_BEGINCW_IMAGE$C2960X-UNIVERSALK9-M$CW_END" * 50


def sha512_of(content: bytes) -> str:
    return hashlib.sha512(content).hexdigest()


@pytest.fixture
def served(tmp_path: Path) -> Served:
    made = serve(tmp_path / "state", ServiceSettings(images=ImageSettings(most_bytes=10**6, reserve_bytes=0)))
    made.person("op", "operator@AMS")
    made.person("chief", "admin")
    made.person("viv", "viewer@LIM")
    made.service.images.mkdir()
    return made


@pytest.fixture
def op(served: Served) -> Token:
    return served.token("op")


@pytest.fixture
def chief(served: Served) -> Token:
    return served.token("chief")


@pytest.fixture
def send(served: Served, op: Token) -> Callable[..., httpx.Response]:
    """Return what sends a piece of an image."""

    def send(name: str, content: bytes, offset: int = 0, by: Token = op) -> httpx.Response:
        return served.call("PATCH", f"{IMAGES}/{name}", by, content=content, headers={"Upload-Offset": str(offset)})

    return send


@pytest.fixture
def announce(served: Served, op: Token) -> Callable[..., httpx.Response]:
    """Return what announces an image."""

    def announce(name: str, size_bytes: int, sha512: str = "", by: Token = op) -> httpx.Response:
        return served.call("POST", IMAGES, by, json={"name": name, "size_bytes": size_bytes, "sha512": sha512})

    return announce


@pytest.fixture
def upload(announce, send) -> Callable[..., dict]:
    """Return what sends a whole image and returns what is held of it."""

    def upload(name: str, content: bytes = CONTENT, sha512: str = "") -> dict:
        assert announce(name, len(content), sha512).status_code == 201
        answer = send(name, content)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return upload
