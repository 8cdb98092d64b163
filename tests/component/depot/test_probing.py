"""`depot probe` against a real sshd on the loopback: what it measures, what it leaves behind, what it refuses."""

import getpass
import json
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import typer

from flashferry.cli.command_line import App
from flashferry.cli.depot_probe import probe
from flashferry.cli.options.shared import DEPOT_PASSWORD_VARIABLE
from flashferry.core.errors import ConfigInvalid
from flashferry.depot.probing.figures import Trial
from flashferry.depot.probing.methods import Method
from flashferry.depot.probing.path import FarShell
from flashferry.depot.probing.web import WebSource
from flashferry.lab.experiment.bulk.play import Sshd
from flashferry.store.probe_choices import BulkPaths
from tests.needs import lacking, need_root
from tests.patience import until

CIPHERS = ("aes128-gcm@openssh.com", "aes128-ctr")
MACS = ("hmac-sha2-256", "umac-64@openssh.com")
PASSWORD = "a-word-nobody-may-see"


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    need_root("an sshd")
    missing = [name for name in ("sshd", "ssh", "scp", "sftp", "unshare") if not shutil.which(name, path=_everywhere())]
    if missing:
        lacking(f"{', '.join(missing)} not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Sshd(tmp_path_factory.mktemp("sshd"), address="127.0.0.1", port=port, ciphers=CIPHERS, macs=MACS) as running:
        yield running


def _everywhere() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return what runs the verb; the depot's group is not part of this test."""
    app = App()
    app.command("probe")(probe)
    app.command("another")(lambda: None)

    def words(*given: str) -> int:
        arguments = ["probe", "--state-dir", str(tmp_path / "state"), "--folder", str(tmp_path), *given]
        monkeypatch.setattr(sys, "argv", ["flashferry", "depot", *arguments])
        try:
            return app(arguments, standalone_mode=False) or 0
        except typer.Exit as leaving:
            return leaving.exit_code

    return words


def at(sshd: Sshd) -> tuple[str, ...]:
    access = sshd.access()
    return ("--ssh", access.shown, "--identity", access.identity, "--known-hosts", access.known_hosts)


@pytest.mark.soak
def test_a_path_is_measured_kept_shown_and_written(sshd, run, tmp_path, capsys, monkeypatch):
    """From the ceilings to a block that ssh takes; nothing of the sample is left at either end."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert run(*at(sshd), "--method", "scp", "--size-mb", "2", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    groups = {group["name"]: group for group in document["found"]["groups"]}
    assert {row["key"] for row in groups["ways"]["rows"]} == {f"scp {cipher}" for cipher in CIPHERS}
    assert all(row["trials"] == 3 and not row["error"] for group in groups.values() for row in group["rows"])
    assert {row["key"].split(" ")[1] for row in groups["macs"]["rows"]} == {"aes128-ctr"}
    assert {row["key"].rpartition(" ")[2] for row in groups["compression"]["rows"]} >= {"compressed"}
    assert all(row["far_cpu"] is not None for row in groups["ways"]["rows"])
    assert document["found"]["ceilings"]["write_far_bytes_per_s"] > 0
    assert "only SSH reaches the source" in " ".join(document["found"]["ceilings"]["notes"])
    assert document["found"]["shrinking"]["ratio"] < 1.05
    (kept,) = BulkPaths.read(tmp_path / "state").by_name.values()
    assert set(kept.ciphers) == set(CIPHERS)
    assert kept.source == sshd.access().shown
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert not list(Path("/tmp").glob("ferry-probe-*"))
    block = tmp_path / "depot.conf"
    assert run("--show", *at(sshd), "--write", str(block)) == 0
    printed = capsys.readouterr()
    assert "best: scp" in printed.out
    assert "Host 127.0.0.1" in printed.err
    assert f"Ciphers {','.join(kept.ciphers)}" in block.read_text()


@pytest.mark.soak
def test_bare_tcp_pipes_and_sftp_are_measured_where_asked_for(sshd, run, capsys):
    """With a port of the source the link has a ceiling, and nc a way."""
    for name in ("nc", "gzip", "python3"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    wanted = ("--method", "sftp", "--size-mb", "1", "--raw-port", port, "--pipes", "--block-size", "4096", "--json")
    assert run(*at(sshd), *wanted) == 0
    found = json.loads(capsys.readouterr().out)["found"]
    assert found["ceilings"]["link_bytes_per_s"] > 0
    pipes = {row["key"]: row for group in found["groups"] if group["name"] == "pipes" for row in group["rows"]}
    assert {"nc bs=4096", "nc gzip bs=4096"} <= pipes.keys()
    assert all(row["trials"] == 3 for row in pipes.values()), pipes


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_nothing_stays_at_the_source(sshd, is_killed):
    """Neither folder nor listener, whether the session ends in order or its line breaks."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with FarShell(sshd.access()) as far:
        folder = Path(far.folder)
        far.start(f"cat /dev/zero | nc -l {port}", port=port)
        assert folder.is_dir()
        assert is_open(port)
        if is_killed:
            far._process.kill()
    until(lambda: not folder.exists(), "no folder at the source")
    until(lambda: not is_open(port), "no listener at the source")


def is_open(port: int) -> bool:
    """Tell whether something listens on a port, without connecting to it."""
    listening = f":{port:04X} 00000000:0000 0A"
    return listening in Path("/proc/net/tcp").read_text()


def test_an_unknown_host_key_is_refused(sshd, run, tmp_path):
    """Nobody is asked, and nothing is added to any known_hosts."""
    empty = tmp_path / "known"
    empty.write_text("")
    with pytest.raises(ConfigInvalid, match="its host key is not known here"):
        run(*at(sshd)[:4], "--known-hosts", str(empty))
    assert empty.read_text() == ""


def test_another_host_key_is_refused(sshd, run, tmp_path):
    """Somebody else may stand there."""
    other = tmp_path / "known"
    place = sshd.known_hosts.read_text().split()[0]
    other.write_text(f"{place} {' '.join((sshd.folder / 'login_key.pub').read_text().split()[:2])}\n")
    with pytest.raises(ConfigInvalid, match="found another one"):
        run(*at(sshd)[:4], "--known-hosts", str(other))


def test_a_key_that_is_not_let_in_is_refused(sshd, run):
    """The host's own key is no login there."""
    words = list(at(sshd))
    words[3] = str(sshd.folder / "host_key")
    with pytest.raises(ConfigInvalid, match="the login was refused"):
        run(*words)


def test_a_host_that_is_not_there_is_refused(sshd, run):
    """Its port is closed."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ConfigInvalid, match="nothing listens there"):
        run("--ssh", f"{getpass.getuser()}@127.0.0.1:{port}", *at(sshd)[2:])


def test_no_cipher_in_common_is_refused_with_both_lists(sshd, run, tmp_path, monkeypatch):
    """Ours are made to be one that the source does not have."""
    ours = tmp_path / "bin"
    ours.mkdir()
    fake = ours / "ssh"
    fake.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "-Q cipher" ] && {{ echo 3des-cbc; exit; }}\nexec {shutil.which("ssh")} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ours}:{os.environ['PATH']}")
    with pytest.raises(ConfigInvalid, match=r"expected a cipher that both ends have, found none: .*aes128-gcm"):
        run(*at(sshd))


def test_a_program_that_the_source_lacks_is_refused_where_it_was_asked_for(sshd, run, monkeypatch, tmp_path):
    """By name and end, and before any copy."""
    monkeypatch.setattr("flashferry.depot.probing.path._COPY_TOOLS", ("scp", "sftp-server", "dd"))
    with pytest.raises(ConfigInvalid, match="--method rsync: expected rsync at both ends, found none"):
        run(*at(sshd), "--method", "rsync", "--size-mb", "1")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "expected a source, found none"),
        (("--ssh", "-oProxyCommand=x"), "expected .USER@.HOST"),
        (("--ssh", "u@h:99999"), "expected .USER@.HOST"),
        (("--ssh", "u@h x"), "expected .USER@.HOST"),
        (("--ssh", "u@h", "--identity", "/nowhere"), "--identity /nowhere: expected a file"),
        (("--ssh", "u@h", "--method", "ftp"), "expected one of http, scp, sftp, rsync"),
        (("--ssh", "u@h", "--method", "http"), "expected --from URL with it"),
        (("--from", "ftp://h/x"), "expected http://HOST/FILE"),
        (("--from", "http://u:secretword@h/x"), "expected an address without a password"),
        (("--from", "http://u@h/x"), "expected an address without a password"),
        (("--from", "http://h"), "expected http://HOST/FILE"),
        (("--from", "http://h/x y"), "expected http://HOST/FILE"),
        (("--from", "http://h/x#y"), "expected http://HOST/FILE"),
        (("--from", "http://h/x", "--ca", "/dev/null"), "expected an https source with it"),
        (("--from", "https://h/x", "--ca", "/nowhere"), "expected certificates in PEM"),
        (
            ("--from", "http://127.0.0.1:9/x"),
            "expected 127.0.0.1 to answer at port 9, found: connection refused",
        ),
        (("--from", "http://127.0.0.1:9/x", "--write", "x"), "expected --ssh with it"),
        (("--show", "--ssh", "u@h"), "no probe of it is known here"),
        (("--ssh", "u@h", "--folder", "/nowhere/at/all"), "expected a folder to copy into"),
    ],
)
def test_wrong_words_are_one_sentence(run, words, told):
    """Before anybody is asked anything."""
    with pytest.raises(ConfigInvalid, match=told) as raised:
        run(*words)
    assert "secretword" not in str(raised.value)


class Source(BaseHTTPRequestHandler):
    """A source that lets its clients choose the congestion control, and checks the login."""

    data = os.urandom(3_000_000)
    controls: frozenset[str] = frozenset()
    asked: list[str]

    def do_GET(self) -> None:
        first, last = (int(word) for word in self.headers["Range"].removeprefix("bytes=").split("-"))
        if self.headers["Authorization"] != "Basic dTphLXdvcmQtbm9ib2R5LW1heS1zZWU=":
            self.send_error(401)
            return
        part = self.data[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(self.data)}")
        self.send_header("Content-Length", str(len(part)))
        asked = self.headers["Flashferry-Congestion-Control"] or ""
        if asked in self.controls:
            self.send_header("Flashferry-Congestion-Control", asked)
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(params=[frozenset(), frozenset({"bbr", "cubic"})], ids=["one", "both"])
def source(request: pytest.FixtureRequest) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), type("S", (Source,), {"controls": request.param}))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/image.bin"
    server.shutdown()
    thread.join()
    server.server_close()


def test_http_is_measured_under_each_control_that_the_source_offers(
    source, run, capsys, monkeypatch, request, tmp_path
):
    """Where it offers none it is measured as it sends, and that is said; the password is nowhere in it."""
    monkeypatch.setenv(DEPOT_PASSWORD_VARIABLE, PASSWORD)
    assert run("--from", source, "--user", "u", "--size-mb", "2", "--json") == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)["found"]
    keys = {row["key"] for group in found["groups"] for row in group["rows"]}
    is_both = "both" in request.node.name
    assert keys == ({"http bbr", "http cubic"} if is_both else {"http"})
    assert ("lets no client choose" in " ".join(found["notes"])) is not is_both
    assert PASSWORD not in printed.out + printed.err
    assert next(iter(BulkPaths.read(tmp_path / "state").by_name.values())).source == source


def test_a_wrong_password_is_refused(source, run, monkeypatch):
    """In a sentence, without it."""
    monkeypatch.setenv(DEPOT_PASSWORD_VARIABLE, "another-word")
    with pytest.raises(ConfigInvalid, match=r"the source did not take user u's password \(401\)") as raised:
        run("--from", source, "--user", "u")
    assert "another-word" not in str(raised.value)


def web_source(url: str) -> WebSource:
    return WebSource(url=url, user="u", password=PASSWORD)


def test_a_disk_that_is_full_is_no_fault_of_the_source(source):
    """It is told with the file that could not be written."""
    trial = web_source(source).copy(Method(name="http"), 1, size_bytes=1_000_000, target=Path("/dev/full"))
    assert trial.error == "/dev/full: cannot be written: No space left on device"


def test_a_copy_by_http_is_broken_off_while_it_runs(source, tmp_path):
    """As soon as it is asked to, and not at its end."""
    asked = iter(range(100))
    trial = web_source(source).copy(
        Method(name="http"), 1, size_bytes=3_000_000, target=tmp_path / "copy", interrupted=lambda: next(asked) > 2
    )
    assert "interrupted" in trial.error
    assert (tmp_path / "copy").stat().st_size < 3_000_000


def test_nobody_is_followed_with_a_login(source, monkeypatch):
    """As a sync follows nobody."""
    monkeypatch.setattr(Source, "do_GET", lambda self: (self.send_response(302), self.end_headers()))
    with pytest.raises(ConfigInvalid, match="it sends us elsewhere"):
        web_source(source).size_bytes()


def test_the_whole_in_place_of_a_part_is_refused(source, monkeypatch):
    """What would be timed is not what was asked for."""
    monkeypatch.setattr(Source, "do_GET", lambda self: (self.send_response(200), self.end_headers()))
    with pytest.raises(ConfigInvalid, match=r"expected a part of the file \(206\), found 200"):
        web_source(source).size_bytes()


def test_ctrl_c_in_the_midst_is_no_failure(source, run, capsys, monkeypatch):
    """A copy that was ended for it is in no row and in no note; the sentence says so, and the status is 130."""
    monkeypatch.setenv(DEPOT_PASSWORD_VARIABLE, PASSWORD)

    def ended(self, method, number, **_: object) -> Trial:
        os.kill(os.getpid(), signal.SIGINT)
        return Trial(key=method.key, number=number, size_bytes=1, error="ended with -9: no word")

    monkeypatch.setattr(WebSource, "copy", ended)
    assert run("--from", source, "--user", "u", "--size-mb", "2") == 130
    printed = capsys.readouterr()
    assert "interrupted: the copy under way is ended; nothing is kept" in printed.err
    assert printed.out == ""


def test_ctrl_c_while_it_begins_is_no_refusal(source, run, capsys, monkeypatch):
    """What the interruption breaks is not put down to the source."""
    monkeypatch.setenv(DEPOT_PASSWORD_VARIABLE, PASSWORD)

    def broken(_self: WebSource) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        raise ConfigInvalid("the login was ended", hint="Try it by hand")

    monkeypatch.setattr(WebSource, "size_bytes", broken)
    assert run("--from", source, "--user", "u", "--json") == 130
    found = json.loads(capsys.readouterr().out)["found"]
    assert (found["groups"], found["is_whole"]) == ([], False)
