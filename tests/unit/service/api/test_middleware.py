"""Each request in the log: who, what, how it ended; no token, no query, and no line that somebody else makes."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from flashferry.core.log_file import logging_to
from flashferry.core.redaction import forget_secrets, keep_secret
from flashferry.service.api.middleware import log_path
from flashferry.service.settings import LogSettings, ServiceSettings
from tests.served import serve


@pytest.fixture
def served(tmp_path):
    made = serve(tmp_path / "state", ServiceSettings(log=LogSettings(has_access=True)))
    made.person("vera", "viewer")
    return made


@pytest.fixture
def told(tmp_path, served):
    """Return what calls a route and returns the log's lines of it, as text and as objects of JSON."""

    def call(*words, **more) -> tuple[str, dict]:
        found = []
        for is_json in (False, True):
            path = tmp_path / f"log-{is_json}"
            path.unlink(missing_ok=True)
            with logging_to(path, is_json=is_json):
                served.call(*words, **more)
            lines = [line for line in path.read_text().splitlines() if "service.access" in line]
            assert len(lines) == 1, lines
            found += lines
        return found[0].split(": ", 1)[1], json.loads(found[1])

    return call


def test_a_request_is_a_line(told, served):
    """From where, who, method, path, status, duration."""
    line, found = told("GET", "/api/v1/plans?title=x", served.token("vera"), address="192.0.2.7")
    assert line.split(" ")[:5] == ["192.0.2.7", "vera", "GET", "/api/v1/plans", "200"]
    assert line.endswith(" ms")
    assert {key: found[key] for key in ("address", "actor", "method", "path", "status")} == {
        "address": "192.0.2.7", "actor": "vera", "method": "GET", "path": "/api/v1/plans", "status": 200,
    }  # fmt: skip
    assert found["ms"] >= 0


def test_who_said_nothing_is_anonymous(told):
    """And what was refused is told, too; as is what there is not."""
    assert told("GET", "/tonight")[0].split(" ")[1:5] == ["anonymous", "GET", "/tonight", "401"]
    assert told("GET", "/nothing")[0].split(" ")[1:5] == ["anonymous", "GET", "/nothing", "404"]


TOKEN = "ffy_" + "s3cret-" * 6


def test_no_secret_gets_there(told, served):
    """Neither a header, a cookie, a query, a body, nor a token that somebody put into a path."""
    served.call("GET", "/me", served.token("vera"))
    browser = served.browser("vera")
    calls = (
        {"words": ("GET", f"/tonight?token={TOKEN}&code=s3cret-code")},
        {"words": ("GET", f"/{TOKEN}/x")},
        {"words": ("GET", f"/{quote('/' + TOKEN, safe='')}")},
        {"words": ("GET", "/me"), "headers": {"Authorization": f"Bearer {TOKEN}", "Cookie": "a=s3cret-cookie"}},
        {"words": ("POST", "/api/v1/login"), "json": {"name": "vera", "password": "s3cret-password"}},
        {"words": ("GET", "/me", browser)},
    )
    for call in calls:
        line, found = told(*call.pop("words"), **call)
        for text in (line, json.dumps(found)):
            assert "s3cret" not in text
            assert browser.session_id not in text
            assert browser.csrf not in text


def test_a_known_secret_in_a_path_is_masked():
    """Whatever it was put there for."""
    keep_secret("hunter2hunter2")
    assert log_path("/devices/hunter2hunter2") == "/devices/***"
    forget_secrets()


@pytest.mark.parametrize(
    "path",
    [
        "/%0a2026-11-23T20:00:00.000Z%20INFO%20flashferry.service.access:%20192.0.2.1%20root%20GET%20/",
        "/%0d%0a%1b[2J",
        "/%e2%80%a8%e2%80%ae%00",
        "/a%20200%201.0%20ms",
        "/%ff%fe",
    ],
)
def test_no_path_forges_a_line_or_a_word(told, path):
    """It stands there as a URL has it: in signs without blanks."""
    line, found = told("GET", path)
    assert line.isprintable()
    assert len(line.split(" ")) == 7
    assert line.split(" ")[4] == "404"
    assert found["path"].isprintable()
    assert " " not in found["path"]


def test_a_long_path_is_cut():
    """A log is not for whoever sends the longest."""
    assert len(log_path("/" + "a" * 10_000)) < 500


def test_without_being_asked_for_nothing_is_told(tmp_path):
    """The usual: a proxy in front has a log of its own."""
    served = serve(tmp_path / "state")
    with logging_to(tmp_path / "log"):
        served.call("GET", "/healthz")
    assert (tmp_path / "log").read_text() == ""


def test_a_single_role_that_is_missing_is_named_alone(served):
    """Not as one of some roles."""
    answer = served.call("GET", "/audit", served.browser("vera"), headers={"Accept": "text/html"})
    assert "expected the role auditor, found viewer" in answer.text.lower()
