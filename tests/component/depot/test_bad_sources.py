"""Sources that misbehave: each is waited for, passed over or blamed in a sentence, and no wrong byte gets a name."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.depot.catalogue.part import CatalogueBusy, Part
from flashferry.depot.sync.filling import (
    SourceChanged,
    SourceRefused,
    SourceUnreachable,
    SourceWrong,
    SyncProgress,
    SyncStopped,
)
from flashferry.depot.sync.source import Login, Source
from flashferry.depot.sync.syncing import Offered, Synced, offered_by, sync_image
from flashferry.images.errors import ManifestInvalid
from flashferry.images.manifest import Manifest, ManifestBuilder, to_text
from tests.component.httpserver.conftest import make_certificate
from tests.patience import PATIENCE_S

CHUNK = 10_000
DATA = bytes(number * 7 % 251 for number in range(45_000))
NAME = "image.bin"
WORD = "s3cret-word"

Answer = Callable[[str, dict[str, str]], bytes]
"""Takes a path and the fields of a request; returns all that is answered."""


def manifest(data: bytes = DATA, name: str = NAME) -> Manifest:
    so_far = ManifestBuilder(CHUNK)
    so_far.feed(data)
    return so_far.end(name)[0]


MANIFEST = manifest()
WANTED = Offered(name=NAME, size_bytes=len(DATA), sha512=MANIFEST.sha512)


def answer(status: str, body: bytes = b"", **fields: str) -> bytes:
    named = {"Content-Length": str(len(body)), **{key.replace("_", "-"): value for key, value in fields.items()}}
    head = "".join(f"{key}: {value}\r\n" for key, value in named.items() if value)
    return f"HTTP/1.1 {status}\r\n{head}Connection: close\r\n\r\n".encode() + body


class Scripted:
    """A source that answers as a test says; right where it says nothing."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.answers: list[Answer] = []
        """What the next requests for the image get; then they get what is right."""
        self.small: dict[str, bytes] = {}
        """Whole answers by the names of small files."""
        self.data, self.manifest = DATA, MANIFEST
        self.is_held = False
        """Whether the connection of a scripted answer stays open behind it."""
        self._kept: list[socket.socket] = []
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        # First of all: what it keeps after this would be closed by nothing.
        self._thread.join(PATIENCE_S)
        self._listening.close()
        for one in self._kept:
            one.close()

    def _live(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with suppress(OSError), connection:
                if self._tls is None:
                    self._serve(connection)
                    continue
                with self._tls.wrap_socket(connection, server_side=True) as secure:
                    self._serve(secure)

    def _serve(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (some := connection.recv(4096)):
                return
            head += some
        line, *rest = head.decode().split("\r\n")
        fields = dict(one.split(": ", 1) for one in rest if ": " in one)
        path = line.split()[1]
        self.asked.append((path, fields))
        is_scripted = path == f"/{NAME}" and bool(self.answers)
        connection.sendall(self._answer(path, fields))
        if self.is_held and is_scripted:
            self._kept.append(connection.dup())
            return
        connection.shutdown(socket.SHUT_WR)
        connection.close()

    def _answer(self, path: str, fields: dict[str, str]) -> bytes:
        if path.removeprefix("/") in self.small:
            return self.small[path.removeprefix("/")]
        if path == f"/{NAME}.manifest.json":
            return answer("200 OK", to_text(self.manifest).encode())
        if path == "/catalogue.json":
            listed = [{"name": NAME, "size_bytes": len(self.data), "sha512": self.manifest.sha512}]
            return answer("200 OK", json.dumps({"schema": "flashferry.catalogue/1", "images": listed}).encode())
        return (self.answers.pop(0) if self.answers else self.right)(path, fields)

    def right(self, _path: str, fields: dict[str, str]) -> bytes:
        if "Range" not in fields:
            return answer("200 OK", self.data, ETag=self.manifest.tag)
        first, _, last = fields["Range"].removeprefix("bytes=").partition("-")
        return self.part(int(first), int(last) + 1 if last else len(self.data))

    def part(self, first: int, end: int, **fields: str) -> bytes:
        stated = {"Content_Range": f"bytes {first}-{end - 1}/{len(self.data)}", "ETag": self.manifest.tag, **fields}
        return answer("206 Partial Content", self.data[first:end], **stated)

    @property
    def ranges(self) -> list[str]:
        """What was asked for of the image."""
        return [fields.get("Range", "all") for path, fields in self.asked if path == f"/{NAME}"]


class Trial:
    """A source that misbehaves, and a catalogue."""

    def __init__(self, scripted: Scripted, folder: Path) -> None:
        self.scripted, self.catalogue = scripted, CatalogueFolder(folder / "catalogue")
        self.told: list[SyncProgress] = []
        self.stall_s = PATIENCE_S

    def source(self) -> Source:
        login = Login(username="branch", password=WORD)
        return Source(url=f"http://127.0.0.1:{self.scripted.port}", login=login, stall_s=self.stall_s)

    def sync(self, give_up_s: float = PATIENCE_S, **more) -> Synced:
        wanted = more.pop("wanted", WANTED)
        return sync_image(self.source(), wanted, self.catalogue, self.told.append, give_up_s=give_up_s, **more)

    def begun(self, chunks: int) -> None:
        """Have some chunks there, verified."""
        with self.catalogue.locked(), Part(self.catalogue.path, MANIFEST) as part:
            part.reserve()
            for number in range(chunks):
                first, end = MANIFEST.span(number)
                part.write(number, first, DATA[first:end])
                part.keep(number)

    def assert_synced(self) -> None:
        assert (self.catalogue.path / NAME).read_bytes() == DATA

    def refused(self, kind: type[FlashferryError], match: str, **more) -> FlashferryError:
        with pytest.raises(kind, match=match) as caught:
            self.sync(**({"give_up_s": 0.0} | more))
        assert not (self.catalogue.path / NAME).exists()
        assert WORD not in str(caught.value)
        return caught.value


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    scripted = Scripted()
    yield Trial(scripted, tmp_path)
    scripted.close()


def test_it_is_asked_as_our_server_wants_it(trial: Trial) -> None:
    """The login at once, the whole without a range, the rest from where it is missing, for this very image alone."""
    trial.begun(2)
    assert trial.sync().kept_bytes == 2 * CHUNK
    path, fields = trial.scripted.asked[-1]
    assert (path, fields["Range"], fields["If-Range"]) == (f"/{NAME}", "bytes=20000-", MANIFEST.tag)
    assert fields["Authorization"].startswith("Basic ")
    trial.assert_synced()


def test_the_whole_in_place_of_a_part(trial: Trial) -> None:
    """It is read from the beginning, and what is verified passed over."""
    trial.begun(2)
    trial.scripted.answers = [lambda *_: answer("200 OK", DATA, ETag=MANIFEST.tag)]
    synced = trial.sync()
    assert (synced.came_bytes, synced.wrong_chunks) == (len(DATA), 0)
    trial.assert_synced()


@pytest.mark.parametrize("size_bytes", [0, 1, 9_999, 10_000, 10_001, 44_999])
def test_a_body_that_breaks_off(trial: Trial, size_bytes: int) -> None:
    """It is gone on with to the byte."""
    trial.scripted.answers = [lambda *_: answer("200 OK", DATA, ETag=MANIFEST.tag)[: -(len(DATA) - size_bytes)]]
    synced = trial.sync()
    assert synced.breaks == 1
    assert trial.scripted.ranges == ["all", f"bytes={size_bytes}-" if size_bytes else "all"]
    trial.assert_synced()


def test_a_source_that_drips_bytes_for_ever(trial: Trial) -> None:
    """It is one that is away: each byte would else be waited for, and the catalogue held by that for weeks."""
    trial.stall_s, is_over = 1.0, threading.Event()
    trial.scripted.is_held = True
    trial.scripted.answers = [lambda *_: answer("200 OK", DATA, ETag=MANIFEST.tag)[: -len(DATA)]] * 1000

    def drip() -> None:
        while not is_over.wait(0.2):
            for one in tuple(trial.scripted._kept):
                with suppress(OSError):
                    one.send(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    until_s = time.monotonic() + PATIENCE_S

    def is_given_up() -> bool:
        return any("bytes came for 1 s" in one.text for one in trial.told)

    try:
        # A machine that stands still has not even a byte come for a second: that is a break as any other.
        with pytest.raises(SyncStopped):
            trial.sync(give_up_s=PATIENCE_S, interrupted=lambda: is_given_up() or time.monotonic() > until_s)
        assert is_given_up()
    finally:
        is_over.set()
        dripping.join()


def wrong(times: int, at: int) -> list[Answer]:
    data = DATA[:at] + bytes([DATA[at] ^ 1]) + DATA[at + 1 :]

    def bad(_path: str, fields: dict[str, str]) -> bytes:
        one = Scripted.__new__(Scripted)
        one.data, one.manifest = data, MANIFEST
        return one.right("", fields)

    return [bad] * times


def test_a_chunk_that_comes_wrong_is_fetched_again(trial: Trial) -> None:
    """It alone, twice."""
    trial.scripted.answers = wrong(2, 15_000)
    assert trial.sync().wrong_chunks == 2
    assert trial.scripted.ranges == ["all", "bytes=10000-19999", "bytes=10000-19999"]
    trial.assert_synced()
    assert any("chunk 1 is wrong" in one.text for one in trial.told)


def test_a_chunk_that_comes_wrong_three_times_is_the_source_s(trial: Trial) -> None:
    """It is blamed, with the place; what is right is kept."""
    trial.scripted.answers = wrong(9, 15_000)
    trial.refused(SourceWrong, r"source http://127.0.0.1:\d+: image.bin: expected chunk 1 \(bytes 10000-19999\)")
    assert len(trial.scripted.ranges) == 3
    assert trial.catalogue.list()[0].verified_bytes == len(DATA) - CHUNK


def test_a_manifest_that_contradicts_itself(trial: Trial) -> None:
    """Each chunk is right and the whole is not: it gets no name."""
    other = manifest(DATA[::-1])
    lie = Manifest(
        name=NAME, size_bytes=len(DATA), sha512=other.sha512, md5=other.md5, chunk_bytes=CHUNK, chunks=MANIFEST.chunks
    )
    trial.scripted.manifest = lie
    wanted = Offered(name=NAME, size_bytes=len(DATA), sha512=lie.sha512)
    trial.refused(SourceWrong, "though each chunk is what the manifest says", wanted=wanted)


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"Content_Range": "bytes 0-44999/45000"}, "expected bytes 20000-44999/45000, found 'bytes 0-44999/45000'"),
        ({"Content_Range": "bytes 20000-44999/99999"}, "found 'bytes 20000-44999/99999'"),
        ({"Content_Range": ""}, "found 'no range'"),
        ({"Content_Range": "bytes 20000-44999/45000", "Content_Length": "17"}, "and 17 bytes"),
        ({"Content_Length": ""}, "expected the bytes as they are"),
        ({"Content_Length": "-5"}, "expected the bytes as they are"),
        ({"Content_Encoding": "gzip"}, "expected the bytes as they are"),
        ({"Transfer_Encoding": "chunked"}, "expected the bytes as they are"),
    ],
)
def test_a_part_that_is_another_one(trial: Trial, stated: dict[str, str], told: str) -> None:
    """Nothing of it is written."""
    trial.begun(2)
    trial.scripted.answers = [lambda *_: trial.scripted.part(20_000, len(DATA), **stated)] * 2
    trial.refused(SourceWrong, told)
    assert trial.catalogue.list()[0].verified_bytes == 2 * CHUNK


@pytest.mark.parametrize("status", ["416 Range Not Satisfiable", "412 Precondition Failed"])
def test_an_image_that_changed_in_the_midst(trial: Trial, status: str) -> None:
    """What the source has now is told, and the old one is begun no further."""
    other = manifest(DATA[::-1])

    def change(*_: object) -> bytes:
        trial.scripted.data, trial.scripted.manifest = DATA[::-1], other
        return answer(status)

    trial.begun(2)
    trial.scripted.answers = [change]
    trial.refused(SourceChanged, r"expected 45000 bytes with SHA-512 .*, found 45000 bytes with ", give_up_s=PATIENCE_S)
    synced = trial.sync(wanted=Offered(name=NAME, size_bytes=len(DATA), sha512=other.sha512))
    assert synced.kept_bytes == 0
    assert (trial.catalogue.path / NAME).read_bytes() == DATA[::-1]


def test_another_tag_is_another_image(trial: Trial) -> None:
    """Though it is the same size; where its manifest is the one that is wanted still, it is asked again for a while."""
    trial.begun(2)
    trial.scripted.answers = [lambda *_: answer("200 OK", DATA, ETag='"other"')]
    assert trial.sync().breaks == 1
    trial.assert_synced()
    (trial.catalogue.path / NAME).unlink()
    trial.scripted.answers = [lambda *_: answer("200 OK", DATA, ETag='"other"')] * 9
    trial.refused(SourceChanged, 'found "other"')


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_nobody_is_followed(trial: Trial, status: str) -> None:
    """The login would go with us."""
    elsewhere = answer(status, Location=f"http://127.0.0.1:{trial.scripted.port}/elsewhere")
    trial.scripted.answers = [lambda *_: elsewhere]
    trial.refused(SourceRefused, "it sends us elsewhere")
    trial.scripted.small = {f"{NAME}.manifest.json": elsewhere}
    trial.refused(SourceRefused, "it sends us elsewhere")
    assert not any("elsewhere" in path for path, _ in trial.scripted.asked)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("401 Unauthorized", "the source did not take user branch's password \\(401\\)"),
        ("403 Forbidden", "the source does not let user branch in from here \\(403\\)"),
        ("404 Not Found", "the source has no such file \\(404\\)"),
        ("400 Bad Request", "expected the file, found 400"),
        ("204 No Content", "expected the file, found 204"),
    ],
)
def test_a_refusal_is_told_at_once(trial: Trial, status: str, told: str) -> None:
    """Nobody waits for a refusal to go away; it says what to look at."""
    trial.scripted.small = {f"{NAME}.manifest.json": answer(status)}
    error = trial.refused(SourceRefused, told, give_up_s=600)
    assert error.hint


@pytest.mark.parametrize("status", ["401 Unauthorized", "404 Not Found"])
def test_a_source_that_was_started_anew_is_given_time(trial: Trial, status: str) -> None:
    """In the midst of an image it knows neither logins nor images for a moment; who is never let in is refused."""
    trial.scripted.answers = [lambda *_: answer(status)]
    assert trial.sync().breaks == 1
    trial.assert_synced()


def test_who_is_kept_out_in_the_midst_is_told(trial: Trial) -> None:
    """Of another address than the login's, no time makes a difference."""
    trial.scripted.answers = [lambda *_: answer("403 Forbidden")]
    trial.refused(SourceRefused, "the source does not let user branch in from here \\(403\\)", give_up_s=600)


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable", "429 Too Many Requests"])
def test_a_source_in_trouble_is_asked_again(trial: Trial, status: str) -> None:
    """After a while, until time is over."""
    trial.scripted.answers = [lambda *_: answer(status)]
    assert trial.sync().breaks == 1
    trial.assert_synced()


@pytest.mark.parametrize("said", [b"", b"\0" * 100, b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 x\r\n\r\n", b"220 ftp\r\n"])
def test_what_is_no_http_is_told(trial: Trial, said: bytes) -> None:
    """It may be a proxy's bad moment: asked again, and told in the end."""
    trial.scripted.answers = [lambda *_: said] * 3
    trial.refused(SourceUnreachable, r"source http://127.0.0.1:\d+: ")


def test_a_source_that_says_nothing(trial: Trial) -> None:
    """It is given up after a while, and asked again."""
    trial.stall_s = 0.5
    half = answer("200 OK", DATA, ETag=MANIFEST.tag)[:-20_000]
    trial.scripted.answers = [lambda *_: half]
    trial.scripted.is_held = True
    synced = trial.sync()
    assert synced.breaks >= 1
    assert any("nothing came for" in one.text for one in trial.told)
    trial.assert_synced()


def test_nobody_there_is_waited_for(trial: Trial) -> None:
    """And told, once time is over, by what the system says."""
    trial.scripted.close()
    trial.refused(SourceUnreachable, "connection refused")


def test_it_ends_where_somebody_wants_it_to(trial: Trial) -> None:
    """In the midst of an image: what is verified is kept."""
    count = 0

    def interrupted() -> bool:
        nonlocal count
        count += 1
        return trial.catalogue.path.exists() and any(one.verified_bytes >= CHUNK for one in trial.catalogue.list())

    with pytest.raises(SyncStopped):
        trial.sync(interrupted=interrupted)
    assert trial.catalogue.list()[0].verified_bytes >= CHUNK
    trial.sync()
    trial.assert_synced()


MANIFESTS = {
    "another name": to_text(manifest(name="other.bin")),
    "a path": to_text(MANIFEST).replace(NAME, "../../etc/cron.d/x"),
    "no JSON": "<html>",
    "a list": "[]",
    "another schema": to_text(MANIFEST).replace("manifest/1", "manifest/9"),
    "a chunk less": to_text(MANIFEST).replace(f'"{MANIFEST.chunks[0]}",', ""),
}


@pytest.mark.parametrize("text", MANIFESTS.values(), ids=MANIFESTS)
def test_a_manifest_that_is_none(trial: Trial, text: str) -> None:
    """It is told, and nothing is made of it."""
    trial.scripted.small = {f"{NAME}.manifest.json": answer("200 OK", text.encode())}
    trial.refused(ManifestInvalid, r"image.bin.manifest.json: ")
    assert sorted(path.name for path in trial.catalogue.path.iterdir()) == [".lock"]
    assert trial.scripted.ranges == []


@pytest.mark.parametrize("size_bytes", [9 << 20, 10**17])
def test_a_small_file_that_is_large(trial: Trial, size_bytes: int) -> None:
    """It is not read."""
    head = answer("200 OK", Content_Length=str(size_bytes))
    trial.scripted.small = {f"{NAME}.manifest.json": head}
    trial.refused(SourceWrong, "expected 8388608 bytes at most")


CATALOGUES = (
    "",
    "{}",
    "[]",
    '{"schema": "flashferry.catalogue/2", "images": []}',
    '{"schema": "flashferry.catalogue/1", "images": {}}',
    '{"schema": "flashferry.catalogue/1", "images": [1]}',
    '{"schema": "flashferry.catalogue/1", "images": [{"name": "a.bin", "size_bytes": 1}]}',
    '{"schema": "flashferry.catalogue/1", "images": [{"name": "../a", "size_bytes": 1, "sha512": "%s"}]}' % ("0" * 128),
    '{"schema": "flashferry.catalogue/1", "images": [{"name": "a.x", "size_bytes": -1, "sha512": "%s"}]}' % ("0" * 128),
    '{"schema": "flashferry.catalogue/1", "images": [{"name": "a.bin", "size_bytes": 1, "sha512": "x"}]}',
)


@pytest.mark.parametrize("text", CATALOGUES)
def test_a_list_that_is_none(trial: Trial, text: str) -> None:
    """No name of it is believed."""
    trial.scripted.small = {"catalogue.json": answer("200 OK", text.encode())}
    with pytest.raises(SourceWrong, match=r"catalogue\.json: "):
        offered_by(trial.source())


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", ".lock", "catalogue.json", "a b"])
def test_a_name_that_is_none_is_not_asked_for(trial: Trial, name: str) -> None:
    """Whoever wanted it."""
    wanted = Offered(name=name, size_bytes=1, sha512="0" * 128)
    trial.refused(SourceRefused, "expected a name of letters", wanted=wanted)
    assert trial.scripted.asked == []


def test_two_at_once_are_refused(trial: Trial) -> None:
    """The second, at once."""
    with trial.catalogue.locked():
        trial.refused(CatalogueBusy, "expected no other process using it")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://host",
        "https://",
        "https://user:s3cret-word@host",
        "https://host:0",
        "https://host:99999",
        "https://ho st",
        "https://-host",
        "https://host/?x",
        "https://host/#x",
        "https://host/../x",
        "https://[::1",
        "host",
    ],
)
def test_a_url_that_is_none(url: str) -> None:
    """It is told before anybody is asked, and what may be a password in it is not shown."""
    with pytest.raises(ConfigInvalid, match="--from: expected") as caught:
        Source(url=url)
    assert WORD not in str(caught.value)


@contextmanager
def encrypted(folder: Path, **more) -> Iterator[tuple[Scripted, Path]]:
    certificate, key = make_certificate(folder, **more)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    scripted = Scripted(tls=context)
    try:
        yield scripted, certificate
    finally:
        scripted.close()


def test_a_certificate_that_is_right(tmp_path: Path) -> None:
    """The image comes by TLS as it does in clear."""
    with encrypted(tmp_path) as (scripted, ca):
        source = Source(url=f"https://127.0.0.1:{scripted.port}", ca=ca, stall_s=PATIENCE_S)
        synced = sync_image(source, WANTED, CatalogueFolder(tmp_path / "catalogue"))
    assert (synced.by, synced.came_bytes) == ("https", len(DATA))


@pytest.mark.parametrize(
    ("made", "has_ca", "told"),
    [
        ({}, False, "self-signed certificate"),
        ({"names": ("192.0.2.9",)}, True, "IP address mismatch"),
        ({"days": (-9.0, -1.0)}, True, "certificate has expired"),
        ({"days": (1.0, 9.0)}, True, "certificate is not yet valid"),
    ],
)
def test_a_certificate_that_is_wrong(tmp_path: Path, made: dict[str, object], has_ca: bool, told: str) -> None:
    """Not trusted, another's, over, not begun: refused at once, and no login is sent."""
    with encrypted(tmp_path, **made) as (scripted, ca):
        login = Login(username="branch", password=WORD)
        source = Source(
            url=f"https://127.0.0.1:{scripted.port}", ca=ca if has_ca else None, login=login, stall_s=PATIENCE_S
        )
        with pytest.raises(SourceRefused, match=told):
            sync_image(source, WANTED, CatalogueFolder(tmp_path / "catalogue"))
        assert scripted.asked == []


def test_a_ca_that_is_none(tmp_path: Path) -> None:
    """It is told before anybody is asked."""
    (tmp_path / "ca.pem").write_text("nothing")
    for path in (tmp_path / "ca.pem", tmp_path / "none.pem"):
        with pytest.raises(ConfigInvalid, match="expected certificates in PEM"):
            Source(url="https://127.0.0.1", ca=path)
    with pytest.raises(ConfigInvalid, match="expected an https source"):
        Source(url="http://127.0.0.1", ca=tmp_path / "ca.pem")


def test_clear_text_behind_https(trial: Trial) -> None:
    """Nobody shakes hands there."""
    source = Source(url=f"https://127.0.0.1:{trial.scripted.port}", stall_s=0.5)
    with pytest.raises(SourceUnreachable, match="no answer in time"):
        source.fetch_small("catalogue.json", 1000)
