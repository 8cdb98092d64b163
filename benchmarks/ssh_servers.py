"""Measures our SCP and SFTP beside OpenSSH's sshd: `python -m benchmarks.ssh_servers`; see docs/benchmarks.md.

Loopback, OpenSSH's own client, one copy at a time, the servers in turn, everything several times over. The processor
time is the server's, with all processes that it started, the login included; /proc counts it in ticks of 10 ms.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from benchmarks import procfs
from benchmarks.report import print_progress
from flashferry.fileserver import FileServer, Limits, ServerSettings, TicketRequest
from flashferry.lab.experiment.harness import put
from flashferry.sshserver import ssh_listener

_MODULE = "benchmarks.ssh_servers"
_RESULTS = Path(__file__).parent / "results"
_DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"
_SIZE_BYTES = 512 << 20
_IMAGE = "image.bin"
_SESSIONS = 400
_WINDOW_BYTES = 16_384
_MOST_CPU = 1.5
_CIPHERS = ("aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr")
_WAYS = (*((("scp", "-O"), cipher) for cipher in _CIPHERS), (("scp",), _CIPHERS[0]))
_CONFIG = """
HostKey {folder}/sshd_key
PidFile none
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
StrictModes no
AuthorizedKeysFile {folder}/login_key.pub
Subsystem sftp {sftp}
MaxStartups 1000
ListenAddress 127.0.0.1
Port {port}
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One copy.

    Attributes:
        server: Whose.
        way: The client's program with its flags.
        cipher: The cipher.
        rate: Bytes per second, login included.
        cpu: Processor seconds of the server per GB.
    """

    server: str
    way: str
    cipher: str
    rate: float
    cpu: float


class Ours:
    """Our server."""

    name = "flashferry"

    def __init__(self, folder: Path) -> None:
        listener = ssh_listener(host_keys=folder / "keys", listen_address="127.0.0.1")
        limits = Limits(failed_login_delay_s=0.01, idle_s=600)
        self._server = FileServer(ServerSettings(image_paths=(folder / _IMAGE,), listeners=(listener,), limits=limits))
        self._server.__enter__()
        self._folder = folder
        self.port, self.pid = self._server.port, self._server.pid
        self._server.image(_IMAGE)

    def credentials(self, **more: Any) -> tuple[str, str]:
        """Return user and password of a new ticket."""
        ticket = self._server.issue_ticket(TicketRequest(image_name=_IMAGE, **more))
        return ticket.username, ticket.password

    def login(self) -> tuple[str, list[str], dict[str, str]]:
        """Return the user, options and environment of a client's command."""
        username, password = self.credentials()
        ask = {"DISPLAY": "none", "SSH_ASKPASS": str(self._folder / "ask.sh"), "SSH_ASKPASS_REQUIRE": "force"}
        return f"{username}@127.0.0.1:{_IMAGE}", [], {**os.environ, **ask, "TICKET_PASSWORD": password}

    def close(self) -> None:
        """Stop it."""
        self._server.close()


class Sshd:
    """OpenSSH's server with a configuration, a port and a key of its own."""

    name = "sshd"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("sshd_key", "login_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        Path("/run/sshd").mkdir(exist_ok=True)
        self.port = random.randint(20_000, 30_000)
        sftp = next(Path("/usr/lib").rglob("sftp-server"))
        (folder / "sshd_config").write_text(_CONFIG.format(folder=folder, port=self.port, sftp=sftp))
        self._process = subprocess.Popen(
            ["/usr/sbin/sshd", "-D", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL
        )
        self.pid = self._process.pid
        time.sleep(0.5)

    def login(self) -> tuple[str, list[str], dict[str, str]]:
        """Return the user, options and environment of a client's command."""
        user = os.environ.get("USER") or "root"
        return f"{user}@127.0.0.1:{self._folder / _IMAGE}", ["-i", str(self._folder / "login_key")], {**os.environ}

    def close(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()


def _copy(server: "Ours | Sshd", way: Sequence[str], cipher: str, folder: Path) -> Figure:
    source, options, environment = server.login()
    settings = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", f"Ciphers={cipher}")
    common = [word for setting in settings for word in ("-o", setting)]
    target = str(folder / "taken.bin")
    before, begun_s = procfs.cpu_s(server.pid), time.monotonic()
    subprocess.run(
        [*way, "-q", "-F", "none", "-P", str(server.port), *common, *options, source, target],
        env=environment,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    took_s = time.monotonic() - begun_s
    # What a session of sshd took is known when its parent has waited for it.
    time.sleep(0.3)
    taken = procfs.cpu_s(server.pid) - before
    if Path(target).stat().st_size != _SIZE_BYTES:
        raise RuntimeError(f"{server.name}: the copy is not whole")
    return Figure(server.name, " ".join(way), cipher, _SIZE_BYTES / took_s, taken / (_SIZE_BYTES / 1e9))


def _speeds(servers: "Sequence[Ours | Sshd]", repeats: int, folder: Path) -> list[Figure]:
    figures = []
    for repeat in range(-1, repeats):
        for way, cipher in random.sample(_WAYS, len(_WAYS)):
            for server in random.sample(servers, len(servers)):
                print_progress(f"repeat {repeat + 1}: {server.name}, {' '.join(way)}, {cipher}")
                figure = _copy(server, way, cipher, folder)
                # The first round warms up.
                if repeat >= 0:
                    figures.append(figure)
    return figures


async def _hold(server: Ours, sessions: int) -> tuple[int, int, int]:
    """Return the memory of the server without a session, with so many logged in, and with as many slow copies."""
    empty = procfs.pss_bytes(server.pid, anonymous=True)
    connections, processes = [], []
    for _ in range(sessions):
        username, password = server.credentials(cap_bytes_per_s=20_000)
        connections.append(
            await asyncssh.connect(
                "127.0.0.1",
                server.port,
                username=username,
                password=password,
                known_hosts=None,
                config=None,
                client_keys=None,
                encryption_algs=[_CIPHERS[0]],
            )
        )
    idle = procfs.pss_bytes(server.pid, anonymous=True)
    for connection in connections:
        process = await connection.create_process(f"scp -f {_IMAGE}", encoding=None, window=_WINDOW_BYTES)
        process.stdin.write(b"\0\0")
        processes.append(process)
    for process in processes:
        await process.stdout.readexactly(40_000)
    busy = procfs.pss_bytes(server.pid, anonymous=True)
    for connection in connections:
        connection.abort()
    return empty, idle, busy


def _median(figures: Sequence[Figure], server: str, way: str, cipher: str, what: str) -> tuple[float, str]:
    values = [getattr(one, what) for one in figures if (one.server, one.way, one.cipher) == (server, way, cipher)]
    scale, digits = (1e6, 0) if what == "rate" else (1, 2)
    median, least, most = (value / scale for value in (statistics.median(values), min(values), max(values)))
    return median, f"{median:.{digits}f} ({least:.{digits}f}-{most:.{digits}f})"


def to_markdown(figures: Sequence[Figure], repeats: int, memory: tuple[int, int, int] | None, command: str) -> str:
    """Return the table."""
    version = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=False).stderr.strip()
    host = f"Linux {os.uname().release}, {os.cpu_count()} processors shared with other work"
    copies = f"{_SIZE_BYTES >> 20} MiB a copy, medians of {repeats} with least and most"
    lines = [
        f"`{command}`, {time.strftime('%Y-%m-%d', time.gmtime())}, {host}.",
        f"asyncssh {asyncssh.__version__}, {version}. {copies}.",
        "",
        "| client, cipher | MB/s, ours | sshd | CPU s/GB, ours | sshd | ours by sshd |",
        "|---|---|---|---|---|---|",
    ]
    for way, cipher in _WAYS:
        key = (" ".join(way), cipher)
        rates = [_median(figures, server, *key, "rate")[1] for server in (Ours.name, Sshd.name)]
        (ours, ours_text), (theirs, theirs_text) = (
            _median(figures, server, *key, "cpu") for server in (Ours.name, Sshd.name)
        )
        met = "" if ours / theirs <= _MOST_CPU else f", **above {_MOST_CPU}**"
        lines.append(
            f"| `{key[0]}` {cipher} | {' | '.join((*rates, ours_text, theirs_text))} | {ours / theirs:.2f}{met} |"
        )
    if memory is not None:
        empty, idle, busy = memory
        idle_kb, busy_kb = ((taken - empty) / _SESSIONS / 1000 for taken in (idle, busy))
        slow = f"a slow copy (20 kB/s, {_WINDOW_BYTES >> 10} KiB window)"
        held = f"{idle_kb:.0f} kB of anonymous memory each when logged in, {busy_kb:.0f} kB each in {slow}"
        lines += ["", f"{_SESSIONS} sessions of ours: {held}; {empty / 1e6:.0f} MB without any."]
    return "\n".join([*lines, ""])


@contextlib.contextmanager
def _servers(folder: Path) -> "Iterator[tuple[Ours, Sshd]]":
    folder.chmod(0o755)
    ask = folder / "ask.sh"
    ask.write_text('#!/bin/sh\necho "$TICKET_PASSWORD"\n')
    ask.chmod(0o700)
    with (folder / _IMAGE).open("wb") as file:
        file.truncate(_SIZE_BYTES)
    with contextlib.ExitStack() as stack:
        ours, theirs = Ours(folder), Sshd(folder)
        stack.callback(ours.close)
        stack.callback(theirs.close)
        yield ours, theirs


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="repeats of everything (default: 5)")
    parser.add_argument("--quick", action="store_true", help="speeds only, no sessions held")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="directory for the JSON file")
    parser.add_argument("--update-docs", action="store_true", help="put the table into docs/benchmarks.md too")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code: 1 where a target is missed."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="ferry-bench-", dir="/dev/shm") as name:
        folder = Path(name)
        with _servers(folder) as servers:
            figures = _speeds(servers, options.repeats, folder)
        memory = None
        if not options.quick:
            ours = Ours(folder)
            with contextlib.closing(ours):
                memory = asyncio.run(_hold(ours, _SESSIONS))
    command = " ".join(("python -m", _MODULE, *arguments))
    markdown = to_markdown(figures, options.repeats, memory, command)
    options.results.mkdir(parents=True, exist_ok=True)
    data = {
        "command": command,
        "figures": [[getattr(one, name) for name in one.__slots__] for one in figures],
        "memory": memory,
    }
    (options.results / "ssh_servers.json").write_text(json.dumps(data, indent=1) + "\n")
    if options.update_docs:
        put(_DOCUMENT, "ssh_servers", markdown)
    print(markdown)
    return 1 if "**above" in markdown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
