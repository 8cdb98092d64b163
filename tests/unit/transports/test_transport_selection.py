"""By which transports a copy is tried: what is allowed, asked for, and can be served."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.extras import extra_hint
from flashferry.core.values import replace
from flashferry.transports import TRANSPORTS, transport_selection
from flashferry.transports.transport_selection import (
    TransportRequest,
    allowed,
    candidates,
    check_asked,
    not_served_by,
    transport_request,
    unserved,
)
from inventory.transport_policy import AS_USUAL, AUTO, CLEAR_TEXT, ORDER, TransportPolicy
from tests.unit.transports.some_transports import named

NO_CERTIFICATE = {"https": ("expected a certificate", "Give it with --certificate")}


@pytest.fixture(autouse=True)
def all_five(monkeypatch):
    monkeypatch.setattr(transport_selection, "TRANSPORTS", named(*ORDER))
    monkeypatch.setattr(transport_selection, "transport_named", lambda name: named(name)[0])


def tried(policy: TransportPolicy, asked: str = AS_USUAL, fastest: str | None = None, **missing) -> list[str]:
    return [
        one.name for one in candidates("r1", policy, TransportRequest(asked=asked, missing=missing), fastest=fastest)
    ]


@pytest.mark.parametrize(
    ("policy", "asked", "fastest", "names"),
    [
        (TransportPolicy(), AS_USUAL, "scp", ["ftp"]),
        (TransportPolicy(clear_text=False), AS_USUAL, None, ["scp"]),
        (TransportPolicy(stated=("http", "scp")), AS_USUAL, None, ["http"]),
        (TransportPolicy(stated=("push", "sftp")), AS_USUAL, None, ["sftp"]),
        (TransportPolicy(), "http", None, ["http"]),
        (TransportPolicy(stated=("http", "scp")), "scp", None, ["scp"]),
        (TransportPolicy(), "scp,http", "http", ["scp", "http"]),
        (TransportPolicy(), AUTO, None, ["ftp", "http", "scp", "https", "sftp"]),
        (TransportPolicy(), AUTO, "scp", ["scp", "ftp", "http", "https", "sftp"]),
        (TransportPolicy(clear_text=False), AUTO, "ftp", ["scp", "https", "sftp"]),
        (TransportPolicy(stated=("sftp", "http")), AUTO, None, ["sftp", "http"]),
        (TransportPolicy(stated=("push", "sftp")), "push", None, ["push"]),
        (TransportPolicy(stated=("push", "sftp")), AUTO, None, ["sftp", "push"]),
        (TransportPolicy(stated=("push", "sftp")), AUTO, "push", ["push", "sftp"]),
        (TransportPolicy(stated=("push",)), AUTO, None, ["push"]),
    ],
)
def test_which_are_tried(policy, asked, fastest, names):
    """One alone unless `auto` is asked for; then the fastest first, and never one that is not allowed."""
    assert tried(policy, asked, fastest) == names


def test_no_choice_ever_falls_to_clear_text_where_it_is_forbidden():
    """Whatever was asked for, measured or stated: none of what may be tried is clear."""
    for stated in ((), ("scp", "http", "https", "ftp"), ("http", "sftp")):
        policy = TransportPolicy(stated=stated, clear_text=False)
        for fastest in (None, *ORDER):
            assert not CLEAR_TEXT & set(tried(policy, AUTO, fastest))


@pytest.mark.parametrize(
    ("policy", "asked", "sentence"),
    [
        (TransportPolicy(stated=("scp",)), "ftp", r"r1: --transport ftp is not among .*\(scp\)"),
        (
            TransportPolicy(clear_text=False),
            "http",
            "r1: --transport http carries clear text, which the inv",
        ),
        (TransportPolicy(stated=("scp",)), "scp,ftp", r"r1: --transport ftp is not among .*\(scp\)"),
        (TransportPolicy(), "ftp,https", "r1: transport https: expected a certificate"),
        (TransportPolicy(stated=("push",)), AS_USUAL, "r1: transports: .* found push alone"),
        (TransportPolicy(), "push", r"r1: --transport push is not among .*\(ftp, http"),
        (TransportPolicy(), "https", "r1: transport https: expected a certificate"),
        (TransportPolicy(stated=("https",)), AS_USUAL, "r1: transport https: expected a certificate"),
        (TransportPolicy(stated=("https",)), AUTO, r"none of those .* can be served \(https: expected a certificate"),
    ],
)
def test_what_cannot_be_had_is_told_with_the_device(policy, asked, sentence):
    """In one sentence, with what to do about it, before anything is touched."""
    with pytest.raises(ConfigInvalid, match=sentence) as caught:
        tried(policy, asked, **NO_CERTIFICATE)
    assert caught.value.hint


def test_auto_leaves_out_what_our_side_cannot_serve():
    """HTTPS without a certificate is no way to fail on every device first."""
    assert tried(TransportPolicy(), AUTO, **NO_CERTIFICATE) == ["ftp", "http", "scp", "sftp"]


def test_a_certificate_without_its_key_is_told(tmp_path):
    """And a key without its certificate: each in one sentence."""
    with pytest.raises(ConfigInvalid, match="--certificate: expected --key with it, found none"):
        transport_request(AUTO, certificate=tmp_path / "c.pem")
    with pytest.raises(ConfigInvalid, match="--key: expected --certificate with it, found none"):
        transport_request(AUTO, key=tmp_path / "k.pem")


def test_ssh_without_its_library_is_told(monkeypatch):
    """With the extra to install; nothing else is missing for it."""
    monkeypatch.setattr(transport_selection, "_SSH_LIBRARY", "no_such_library")
    missing = transport_request(AUTO).missing
    assert {"scp", "sftp"} <= set(missing)
    assert missing["scp"][1] == extra_hint("scp")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("tftp", r"--transport: expected ftp, .*sftp, push or auto, found 'tftp'"),
        ("ftp,tftp", "found 'tftp'"),
        ("ftp,auto", "found 'auto'"),
        ("ftp,ftp", "expected each once, found ftp twice"),
        ("ftp,", "found ''"),
        ("", "found ''"),
    ],
)
def test_a_word_that_is_no_transport_is_told(asked, sentence):
    """With those that there are."""
    with pytest.raises(ConfigInvalid, match=sentence):
        check_asked(asked)


def test_the_names_of_the_inventory_are_those_of_the_transports(monkeypatch):
    """In the same order, so that what is taken first is said in one place."""
    monkeypatch.undo()
    names = [one.name for one in TRANSPORTS]
    assert names == [name for name in ORDER if name in names]
    assert [one.name for one in allowed(TransportPolicy())] == names


def test_a_depot_serves_what_it_serves():
    """Where the host's depot serves, its certificate is its own affair, and what it lacks is no way to try."""
    of_all = transport_request(AUTO, not_served=not_served_by("the depot d", [one.name for one in TRANSPORTS]))
    assert "https" not in of_all.missing
    without = transport_request(AUTO, not_served=not_served_by("the depot d", ("ftp", "scp")))
    names = [one.name for one in candidates("r1", TransportPolicy(), without)]
    assert [name for name in names if name not in ("ftp", "scp")] == []
    with pytest.raises(ConfigInvalid, match="transport http: expected it at the depot d, which serves ftp, scp"):
        candidates("r1", TransportPolicy(), replace(without, asked="http"))
    assert any(
        told.startswith("not tried by https: expected it at the") for told in unserved(TransportPolicy(), without)
    )
