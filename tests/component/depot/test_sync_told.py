"""What a sync says of a source that was never reached, of an image that it replaces, and of an interruption."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flashferry import api
from flashferry.cli.depot_sync import _row, outcome_line
from flashferry.depot.catalogue.part import HeldState
from flashferry.depot.sync.filling import SourceRefused, SourceUnreachable
from flashferry.depot.sync.source import Login, Source
from tests.component.depot.test_bad_sources import DATA, MANIFEST, NAME, WORD, Scripted, answer, manifest
from tests.patience import PATIENCE_S


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    found = Scripted()
    yield found
    found.close()


def late() -> Callable[[], bool]:
    """Return what ends a sync that waits though it should not: it is told as interrupted then."""
    until_s = time.monotonic() + PATIENCE_S
    return lambda: time.monotonic() > until_s


def sync(url: str, folder: Path, *, user: str = "branch", **more) -> api.SyncResult:
    source = Source(url=url, login=Login(username=user, password=WORD) if user else None, stall_s=PATIENCE_S)
    request = api.SyncRequest(source=source, catalogue=folder / "catalogue", give_up_s=600)
    return api.depot_sync(request, **{"interrupted": late()} | more)


def test_a_source_that_was_never_reached_is_not_waited_for(scripted: Scripted, tmp_path: Path) -> None:
    """A typing error in the address is told at once, with address and port."""
    scripted.close()
    told = f"expected 127.0.0.1 to answer at port {scripted.port}, found: connection refused"
    with pytest.raises(SourceUnreachable, match=told) as caught:
        sync(f"http://127.0.0.1:{scripted.port}", tmp_path)
    assert "A source that never answered is not waited for" in (caught.value.hint or "")


def test_a_host_that_nobody_knows_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its name, and the port that would have been asked."""

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(SourceUnreachable, match=r"expected centre\.test to answer at port 443, found: name or service"):
        sync("https://centre.test", tmp_path)


@pytest.mark.parametrize("first", ["503 Service Unavailable", "200 OK"])
def test_a_source_that_answered_once_is_waited_for(scripted: Scripted, tmp_path: Path, first: str) -> None:
    """It says that it is busy, or breaks off in the midst of its list: it is there, and asked again."""
    scripted.small["catalogue.json"] = answer(first, Content_Length="500")
    told: list[str] = []

    def on_progress(progress: api.SyncProgress) -> None:
        told.append(progress.text)
        scripted.small.pop("catalogue.json", None)

    result = sync(f"http://127.0.0.1:{scripted.port}", tmp_path, on_progress=on_progress)
    assert "tried again in" in told[0]
    assert [one.name for one in result.images if one.synced] == [NAME]


def test_a_wrong_path_is_told_as_a_question_about_the_url(scripted: Scripted, tmp_path: Path) -> None:
    """Waiting would not help: nobody reads a new image there."""
    scripted.small["foo/catalogue.json"] = answer("404 Not Found")
    with pytest.raises(SourceRefused, match=r"catalogue.json: the source has no such file \(404\)") as caught:
        sync(f"http://127.0.0.1:{scripted.port}/foo", tmp_path)
    assert (caught.value.hint or "").startswith("Is the URL right?")


def test_a_source_that_wants_a_login_is_told(scripted: Scripted, tmp_path: Path) -> None:
    """Where none was given, it is not called a wrong password."""
    scripted.small["catalogue.json"] = answer("401 Unauthorized")
    with pytest.raises(SourceRefused, match=r"the source wants a login, found none \(401\)"):
        sync(f"http://127.0.0.1:{scripted.port}", tmp_path, user="")


def test_a_proven_image_that_is_replaced_is_told(scripted: Scripted, tmp_path: Path) -> None:
    """With both digests, for people and for programs; one that was there is not called replaced."""
    url = f"http://127.0.0.1:{scripted.port}"
    for _ in range(2):
        (first,) = sync(url, tmp_path).images
        assert "place" not in outcome_line(first)
        assert _row(first)["replaced_sha512"] is None
    scripted.data, scripted.manifest = DATA[::-1], manifest(DATA[::-1])
    (second,) = sync(url, tmp_path).images
    before, now = MANIFEST.sha512[:16], scripted.manifest.sha512[:16]
    told = f"It took the place of another proven image of that name: SHA-512 {before} before, {now} now"
    assert told in outcome_line(second)
    assert _row(second)["replaced_sha512"] == MANIFEST.sha512


def test_an_interruption_is_no_failure_and_says_what_is_here(scripted: Scripted, tmp_path: Path) -> None:
    """Also what is not verified yet: a chunk is long where the line is slow."""
    scripted.answers = [lambda *_: answer("200 OK", DATA, ETag=MANIFEST.tag)[: -len(DATA) + 4000]]
    scripted.is_held = True
    moved: list[int] = []
    result = sync(
        f"http://127.0.0.1:{scripted.port}",
        tmp_path,
        on_progress=lambda progress: moved.append(progress.done_bytes),
        interrupted=lambda: bool(moved) and moved[-1] == 4000,
    )
    assert result.exit_code is api.ExitCode.INTERRUPTED
    (one,) = result.images
    assert outcome_line(one) == f"{NAME}: under way: 4.0 kB here, of them 0 B verified"
    row = _row(one)
    assert (row["outcome"], row["here_bytes"], row["verified_bytes"]) == ("interrupted", 4000, 0)
    (held,) = api.depot_list(catalogue=tmp_path / "catalogue")
    assert (held.state, held.here_bytes, held.verified_bytes) == (HeldState.PARTIAL, 4000, 0)


def test_an_interruption_before_any_image_is_no_failure(scripted: Scripted, tmp_path: Path) -> None:
    """While it is asked what the source offers."""
    result = sync(f"http://127.0.0.1:{scripted.port}", tmp_path, interrupted=lambda: True)
    assert (result.images, result.exit_code) == ((), api.ExitCode.INTERRUPTED)
