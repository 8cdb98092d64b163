"""`flashferry serve` and `flashferry images` as a person or a program uses them, on loopback."""

from __future__ import annotations

import ftplib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

FERRY = [sys.executable, "-P", "-m", "flashferry"]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "small.bin").write_bytes(os.urandom(200_000))
    return folder


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FERRY, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path / "state"))


@contextmanager
def serving(images: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Serve on a free loopback port; the process ends with the block."""
    command = [*FERRY, "serve", "--image-dir", str(images), "--listen", "127.0.0.1", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


@contextmanager
def serving_by_ssh(images: Path) -> Iterator[subprocess.Popen[str]]:
    """Serve by SCP alone."""
    given = ["--transports", "scp", "--ssh-port", "0", "--json"]
    command = [*FERRY, "serve", "--image-dir", str(images), "--listen", "127.0.0.1", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def fetched(line: str) -> bytes:
    """Do what a printed copy line says."""
    user, password, host, port, name = re.match(r"copy ftp://(\w+):(\w+)@([\d.]+):(\d+)/(\S+) ", line).groups()
    parts: list[bytes] = []
    with ftplib.FTP() as client:
        client.connect(host, int(port), timeout=PATIENCE_S)
        client.login(user, password)
        client.retrbinary(f"RETR {name}", parts.append)
    return b"".join(parts)


def test_the_printed_line_fetches_the_image_once(images):
    """The line works, its delivery is told with a verdict, and a new line is printed in its place."""
    with serving(images, "--json") as process:
        offer = json.loads(process.stdout.readline())
        (line,) = offer["copy"]
        assert line.endswith(" flash:small.bin")
        assert fetched(line) == (images / "small.bin").read_bytes()
        seen = []
        for text in process.stdout:
            seen.append(json.loads(text))
            if seen[-1]["event"] == "offer":
                break
        (done,) = [one for one in seen if one["event"] == "done"]
        assert done["progress"]["record"]["outcome"] == "delivered"
        assert done["progress"]["record"]["verdict"]["kind"] == "too short"
        assert seen[-1]["copy"] != offer["copy"]
        with pytest.raises(ftplib.error_perm, match="530"):
            fetched(line)


def by_curl(line: str, *more: str) -> bytes:
    """Do what a printed copy line says, by HTTP or HTTPS."""
    url = re.match(r"copy (https?://\S+) ", line)[1]
    done = subprocess.run(["curl", "-sS", "--fail", *more, url], capture_output=True, timeout=PATIENCE_S, check=True)
    return done.stdout


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate and its key, as an operator would."""
    made = folder / "c.pem", folder / "c.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "5", "-subj", "/CN=ferry"]
    command += ["-addext", f"subjectAltName={name}", "-out", str(made[0]), "-keyout", str(made[1])]
    subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
    made[1].chmod(0o600)
    return made


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl (apt install curl)")
def test_a_line_for_each_transport_fetches_the_image(images, tmp_path):
    """FTP, HTTP and HTTPS beside each other: what is typed for each works, and events say by what it was fetched."""
    paths = certificate(tmp_path, "IP:127.0.0.1")
    given = ("--transports", "ftp,http,https", "--http-port", "0", "--https-port", "0")
    with serving(images, "--json", *given, "--certificate", str(paths[0]), "--key", str(paths[1])) as process:
        for name in ("http", "https", "ftp"):
            while (offer := json.loads(process.stdout.readline()))["event"] != "offer":
                pass
            assert offer["transports"] == ["ftp", "http", "https"]
            assert offer["password"] is None
            line = offer["copy"][offer["transports"].index(name)]
            assert line.startswith(f"copy {name}://")
            found = fetched(line) if name == "ftp" else by_curl(line, "--cacert", str(paths[0]))
            assert found == (images / "small.bin").read_bytes()
            while (seen := json.loads(process.stdout.readline()))["event"] != "done":
                pass
            assert seen["progress"]["record"]["transport"] == seen["progress"]["transport"] == name


def test_by_ssh_the_password_is_told_apart_and_host_keys_are_shown(images):
    """A device asks for both: what to type stands beside the line, and what it shows can be compared."""
    pytest.importorskip("asyncssh", reason="needs the extra scp")
    with serving_by_ssh(images) as process:
        offer = json.loads(process.stdout.readline())
        assert offer["transports"] == ["scp"]
        assert offer["password"] not in offer["copy"][0]
        assert len(offer["password"]) == 16
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=PATIENCE_S)[1]
    assert "is to show one of these:" in said
    assert "  ssh-rsa: SHA256:" in said
    assert offer["password"] not in said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--transports", "gopher"), "--transports: expected ftp, http, scp, https or sftp, found 'gopher'"),
        (("--transports", ","), "--transports: expected at least one, found none"),
        (("--transports", "https"), "https: expected a certificate of our server that the devices trust, found none"),
        (("--http-port", "0"), "--http-port: expected http among the transports served, found ftp"),
        (("--ssh-port", "0"), "--ssh-port: expected scp or sftp among the transports served, found ftp"),
        (("--transports", "http", "--port", "0"), "--port: expected ftp among the transports served, found http"),
        (("--transports", "https", "--certificate", "c.pem"), "--certificate: expected --key with it, found none"),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_sentence(images, given, words):
    """Before anything is listened on."""
    found = run("serve", "--image-dir", images, "--listen", "127.0.0.1", *given)
    assert found.returncode == 2
    assert words in " ".join(found.stderr.split())
    assert "copy " not in found.stdout


def test_a_certificate_for_another_name_is_refused(images, tmp_path):
    """Devices are told an address that it is not for: one sentence with both."""
    paths = certificate(tmp_path, "IP:192.0.2.1")
    given = ("--transports", "https", "--https-port", "0", "--certificate", paths[0], "--key", paths[1])
    found = run("serve", "--image-dir", images, "--listen", "127.0.0.1", *given)
    assert found.returncode == 2
    assert "expected it to be for 127.0.0.1, which devices use, found 192.0.2.1" in " ".join(found.stderr.split())


def test_metrics_are_served_beside_the_images(images):
    """What was fetched is counted, and the port is free again when the server has ended."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with serving(images, "--json", "--metrics", str(port), "--cap-mbps", "80") as process:
        (line,) = json.loads(process.stdout.readline())["copy"]
        fetched(line)
        while '"event": "done"' not in process.stdout.readline():
            pass
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        assert 'flashferry_transfers_total{outcome="delivered",site="serve",verdict="too short"} 1.0' in text
        assert 'flashferry_acknowledged_bytes_total{site="serve"} 200000.0' in text
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_metrics_on_a_port_in_use_are_refused(images):
    """One sentence, and no server that nobody asked for without them."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = run("serve", "--image-dir", images, "--listen", "127.0.0.1", "--port", "0", "--metrics", port)
    assert found.returncode == 2
    assert f"--metrics {port}: cannot listen on 127.0.0.1 port {port}: Address already in use" in found.stderr
    assert "copy ftp://" not in found.stderr + found.stdout


WORD = "Bench-2026.word"


def test_a_fixed_login_fetches_every_image_again_and_again(images, monkeypatch):
    """Its password comes by environment, reaches no child and no output, and each transfer ends with a verdict."""
    monkeypatch.setenv("FLASHFERRY_SERVE_PASSWORD", WORD)
    (images / "other.bin").write_bytes(b"other")
    with serving(images, "--json", "--user", "lab") as process:
        line = json.loads(process.stdout.readline())["copy"][0]
        port = int(re.search(r":(\d+)/", line)[1])
        for name in ("small.bin", "other.bin", "small.bin"):
            parts: list[bytes] = []
            with ftplib.FTP() as client:
                client.connect("127.0.0.1", port, timeout=PATIENCE_S)
                client.login("lab", WORD)
                client.retrbinary(f"RETR {name}", parts.append)
            assert b"".join(parts) == (images / name).read_bytes()
        told = []
        while sum('"event": "done"' in text for text in told) < 3:
            told.append(process.stdout.readline())
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert children
        assert all(WORD.encode() not in Path(f"/proc/{child}/environ").read_bytes() for child in children)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert WORD not in "".join(told) + err
    assert "copy ftp://lab:PASSWORD@127.0.0.1" in err


def test_an_image_that_was_replaced_is_offered_anew(images):
    """Another file of the same name gets a new line, and that line fetches the new file."""
    with serving(images, "--json") as process:
        process.stdout.readline()
        newer = images.parent / "newer"
        newer.write_bytes(b"a newer release")
        os.utime(newer, (1e9, 1e9))
        newer.rename(images / "small.bin")
        offer = json.loads(process.stdout.readline())
        assert offer["event"] == "offer"
        assert fetched(offer["copy"][0]) == b"a newer release"


def test_events_carry_no_ticket(images):
    """Everything that is printed beside the copy lines is free of user and password."""
    with serving(images, "--json") as process:
        (line,) = json.loads(process.stdout.readline())["copy"]
        fetched(line)
        told = []
        for text in process.stdout:
            if '"offer"' in text:
                break
            told.append(text)
    user, password = re.match(r"copy ftp://(\w+):(\w+)@", line).groups()
    assert told
    assert user not in "".join(told)
    assert password not in "".join(told)


def test_ctrl_c_ends_it_with_the_prompt_back(images):
    """SIGINT without a running transfer ends the server at once and in good order."""
    with serving(images, "--json") as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--congestion-control", "vegas"), "expected one of auto, bbr, cubic, reno, system, found 'vegas'"),
        (("--passive-ports", "50000"), "expected FIRST-LAST such as 50000-50100, found '50000'"),
        (("--passive-ports", "50100-50000"), "in order"),
        (("--listen", "nowhere"), "expected an IP address"),
        (("--allow", "10.0.0.0/99"), "expected an IP address or network, found '10.0.0.0/99'"),
        (("--masquerade", "::1"), "expected an IPv4 address"),
        (("--cap-mbps", "10", "--link-mbps", "20"), "expected one of them"),
        (("--user", "lab"), "expected its password in FLASHFERRY_SERVE_PASSWORD, found nothing"),
        (("--sessions", "9999999"), "9999999 sessions take 40000028 descriptors, the hard limit is"),
    ],
)
def test_a_bad_option_is_one_clear_sentence(images, arguments, message):
    """What was expected and what was found, exit 2, before anything starts."""
    done = run("serve", "--image-dir", images, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_a_folder_without_images_is_one_clear_sentence(tmp_path, kind):
    """A folder that is missing or empty is named; nothing starts."""
    folder = tmp_path / kind
    if kind == "empty":
        folder.mkdir()
    for verb in (("serve", "--image-dir"), ("images", "list"), ("images", "hash")):
        done = run(*verb, folder)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert str(folder) in done.stderr


def test_a_port_in_use_is_one_clear_sentence(images):
    """The port is named, and what to do."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        done = run("serve", "--image-dir", images, "--listen", "127.0.0.1", "--port", port)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert str(port) in done.stderr


def test_images_are_listed_and_hashed(images):
    """Names, sizes and digests are those of the files."""
    import hashlib

    listed = json.loads(run("images", "list", images, "--json").stdout)["images"]
    assert listed == [{"name": "small.bin", "size_bytes": 200_000}]
    (hashed,) = json.loads(run("images", "hash", images, "--json").stdout)["images"]
    content = (images / "small.bin").read_bytes()
    assert hashed["md5"] == hashlib.md5(content, usedforsecurity=False).hexdigest()
    assert hashed["sha512"] == hashlib.sha512(content).hexdigest()


def test_doctor_names_every_thing_it_looked_at():
    """Each finding says what was found, and what is not good says what to do."""
    few = ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", *FERRY, "doctor", "--json"]
    shown = subprocess.run(
        few, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    findings = json.loads(shown.stdout)["findings"]
    assert {one["name"] for one in findings} >= {"congestion control bbr", "FTP port 21", "open files", "lab"}
    assert all(one["found"] for one in findings)
    wrong = [one for one in findings if not one["is_good"]]
    assert "open files" in [one["name"] for one in wrong]
    assert all(one["advice"] for one in wrong)


def test_version_and_help():
    """The version is the package's, and help lists every verb."""
    assert re.fullmatch(r"flashferry \d+\.\d+\.\d+\n", run("--version").stdout)
    out = run("--help").stdout
    assert all(verb in out for verb in ("check", "probe", "stage", "recover", "serve", "images", "doctor", "lab"))
