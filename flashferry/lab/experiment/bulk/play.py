"""Two network namespaces joined by veth, an sshd of our own in one of them, files in memory at both ends.

The host's sshd, its configuration and its keys are not touched: ours has its own of each, on a port of its own. The
folder /run/sshd, which sshd insists on, the user `sshd`, where the host has none, and a home without start files exist
in a mount namespace of its process alone.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from flashferry.core.codec import CodecError, decode, to_json
from flashferry.depot.probing.copying import LISTENING, Copier, Sample, bare_tcp, has_children, reaped_s
from flashferry.depot.probing.figures import Ceilings, Row, Trial
from flashferry.depot.probing.methods import Method, SshAccess, names_in
from flashferry.depot.probing.path import Measured, in_rounds
from flashferry.lab.errors import LabError
from flashferry.lab.experiment.bulk.studies import Series
from flashferry.lab.experiment.harness import JsonLines, write
from flashferry.lab.namespaces import Interface, in_namespace, join_by_veth, probe_namespaces, set_up_interfaces

HERE_ADDRESS, FAR_ADDRESS = "10.98.0.1", "10.98.0.2"
PORT, RAW_PORT = 2222, 5201
NO_AES = {"OPENSSL_ia32cap": "~0x200000200000000:0"}
"""Has OpenSSL on x86 do without AES and carry-less multiplication, and without what is newer, as a plain board does."""

_PROGRAMS = ("sshd", "ssh", "scp", "ssh-keygen", "unshare", "nsenter")
_MEMORY = Path("/dev/shm")  # noqa: S108 -- the system's own folder in memory
_START_S = 10.0
_POLL_S = 0.02
_SETTLE_S = 3.0

_SSHD = """\
mount -t tmpfs none /run && mkdir -p -m 755 /run/sshd || exit 9
awk -F: -v OFS=: '$1 == "{user}" {{ $6 = "{folder}"; $7 = "/bin/sh" }} 1' /etc/passwd > {folder}/passwd
grep -q '^sshd:' {folder}/passwd ||
echo 'sshd:x:65530:65534::/run/sshd:/usr/sbin/nologin' >> {folder}/passwd
mount --bind {folder}/passwd /etc/passwd || exit 9
exec {sshd} -D -e -f {folder}/sshd_config
"""
"""The user's own start files are not read: while a slow one runs, sshd spins before a full pipe (0.15 s seen here)."""


def ssh_names(kind: str) -> tuple[str, ...]:
    """Return what the ssh here has of `cipher` or `mac`."""
    return names_in(subprocess.run(["ssh", "-Q", kind], capture_output=True, text=True, check=False).stdout)


def missing_programs() -> tuple[str, ...]:
    """Return which programs are wanted that are not here."""
    return tuple(name for name in _PROGRAMS if _found(name) is None)


def _found(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


class Sshd:
    """An OpenSSH server with configuration, port and keys of its own, for a with block.

    `prefix` stands before its command, such as what enters a namespace; empty `ciphers` and `macs` allow all.

    Raises LabError: it does not start.
    """

    def __init__(
        self,
        folder: Path,
        *,
        address: str,
        port: int,
        prefix: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        ciphers: tuple[str, ...] = (),
        macs: tuple[str, ...] = (),
    ) -> None:
        self.folder, self._address, self.port = folder, address, port
        self._prefix, self._environment = prefix, {**os.environ, **(environment or {})}
        self._ciphers, self._macs = ciphers or ssh_names("cipher"), macs or ssh_names("mac")
        self.pid = 0

    def __enter__(self) -> Sshd:
        self._write()
        script = _SSHD.format(folder=self.folder, sshd=_found("sshd"), user=getpass.getuser())
        self._log = (self.folder / "sshd.log").open("wb")
        self._process = subprocess.Popen(
            [*self._prefix, "unshare", "-m", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=self._environment,
        )
        self.pid = self._process.pid
        try:
            self._await()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _write(self) -> None:
        for name in ("host_key", "login_key"):
            path = self.folder / name
            if not path.exists():
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
        key = (self.folder / "host_key.pub").read_text(encoding="ascii").split()[:2]
        self.known_hosts.write_text(f"[{self._address}]:{self.port} {' '.join(key)}\n", encoding="ascii")
        sftp = next((str(path) for path in Path("/usr/lib").rglob("sftp-server")), "internal-sftp")
        template = Path(__file__).with_name("sshd_config").read_text(encoding="ascii")
        text = template.format(
            folder=self.folder,
            address=self._address,
            port=self.port,
            sftp=sftp,
            ciphers=",".join(self._ciphers),
            macs=",".join(self._macs),
        )
        (self.folder / "sshd_config").write_text(text, encoding="ascii")

    @property
    def known_hosts(self) -> Path:
        """The file that has its host key."""
        return self.folder / f"known_hosts_{self.port}"

    def access(self, prefix: tuple[str, ...] = ()) -> SshAccess:
        """Return how a client gets in; the words before its commands are given."""
        return SshAccess(
            host=self._address,
            user=getpass.getuser(),
            port=self.port,
            identity=str(self.folder / "login_key"),
            known_hosts=str(self.known_hosts),
            plain=True,
            prefix=prefix,
        )

    def _await(self) -> None:
        ends_s = time.monotonic() + _START_S
        while time.monotonic() < ends_s and self._process.poll() is None:
            if b"Server listening" in (self.folder / "sshd.log").read_bytes():
                return
            time.sleep(_POLL_S)
        log = (self.folder / "sshd.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise LabError(f"sshd did not start: {log[-1] if log else 'no word'}; see what its configuration lacks.")


class LocalFar:
    """The far end on this machine, whose processes and files are seen directly."""

    sees_commands = True

    def __init__(self, pid: int, prefix: tuple[str, ...] = ()) -> None:
        self._pid, self._prefix = pid, prefix
        self._commands: list[subprocess.Popen[bytes]] = []
        self._ended_s = 0.0

    def start(self, command: str, *, port: int) -> None:
        """Start a command that listens on a port; return when it does."""
        one = subprocess.Popen(
            [*self._prefix, "sh", "-c", command.replace("exec ", "")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._commands.append(one)
        subprocess.run([*self._prefix, "sh", "-c", LISTENING.format(port=port)], check=False)

    def cpu_s(self) -> float | None:
        """Return the processor time of all sessions and commands that have ended there."""
        ends_s = time.monotonic() + _SETTLE_S
        while has_children(self._pid) and time.monotonic() < ends_s:
            time.sleep(_POLL_S)
        listener = reaped_s(self._pid)
        self._collect()
        return None if listener is None else listener + self._ended_s

    def _collect(self) -> None:
        for one in list(self._commands):
            # What still listens is not waited for: a copy is to come.
            with suppress(ChildProcessError):
                pid, status, usage = os.wait4(one.pid, os.WNOHANG)
                if pid:
                    one.returncode = os.waitstatus_to_exitcode(status)
                    self._ended_s += usage.ru_utime + usage.ru_stime
                    self._commands.remove(one)

    def remove(self, path: str) -> None:
        """Remove a file there."""
        Path(path).unlink(missing_ok=True)

    def size_bytes(self, path: str) -> int | None:
        """Return the size of a file there, once the commands that write it have ended."""
        ends_s = time.monotonic() + _SETTLE_S
        while self._commands and time.monotonic() < ends_s:
            self._collect()
            time.sleep(_POLL_S)
        try:
            return Path(path).stat().st_size
        except OSError:
            return None

    def close(self) -> None:
        """End what still runs there."""
        for one in self._commands:
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()
        self._commands.clear()


class Testbed:
    """Both namespaces and a folder in memory, for a with block; `here` and `far` are the words that enter them.

    Raises LabError: it cannot be built here.
    """

    def __enter__(self) -> Testbed:
        able = probe_namespaces()
        if not able.may_run:
            raise LabError(able.reason)
        if missing := missing_programs():
            raise LabError(
                f"{', '.join(missing)}: not installed; apt install openssh-server openssh-client util-linux."
            )
        with ExitStack() as stack:
            place = _MEMORY if _MEMORY.is_dir() else None
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix="ferry-bulk-", dir=place))
            self.folder = Path(name)
            pids = [self._holder(stack) for _ in range(2)]
            _join(*pids)
            self.here, self.far = (("nsenter", f"--net=/proc/{pid}/ns/net") for pid in pids)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _holder(self, stack: ExitStack) -> int:
        """Start a process that keeps a namespace, and return its number."""
        one = subprocess.Popen(["unshare", "-n", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        stack.callback(one.wait)
        stack.callback(one.kill)
        own, ends_s = Path("/proc/self/ns/net").readlink(), time.monotonic() + _START_S
        while Path(f"/proc/{one.pid}/ns/net").readlink() == own:
            if time.monotonic() > ends_s:
                raise LabError("A network namespace was not made in time; try again when the machine has less to do.")
            time.sleep(_POLL_S)
        return one.pid

    def link_bytes_per_s(self, *, size_bytes: int = 2_000_000_000) -> float | None:
        """Return what a bare TCP stream carries between both."""
        running: list[subprocess.Popen[bytes]] = []

        def start(command: str) -> None:
            running.append(subprocess.Popen([*self.far, "sh", "-c", f"exec {command}"], stdout=subprocess.DEVNULL))

        try:
            return bare_tcp(
                self.here,
                start,
                FAR_ADDRESS,
                RAW_PORT,
                size_bytes=size_bytes,
                direction="push",
                far_python=sys.executable,
            )
        finally:
            for one in running:
                one.kill()
                one.wait()


def _join(here_pid: int, far_pid: int) -> None:
    with in_namespace(here_pid):
        join_by_veth("bulk0", "bulk1", far_pid)
        set_up_interfaces([Interface(name="lo"), Interface(name="bulk0", addresses=(f"{HERE_ADDRESS}/24",))])
    with in_namespace(far_pid):
        set_up_interfaces([Interface(name="lo"), Interface(name="bulk1", addresses=(f"{FAR_ADDRESS}/24",))])


SCHEMA = "flashferry.bulk-experiment/1"
_HOLE_PERIOD, _WORDS_BYTES = 64 << 10, 8 << 10
_BLOCK = 1 << 20
_SPEED_BYTES = 16_384

_SPEEDS = {
    "aes128-gcm@openssh.com": "aes-128-gcm",
    "aes256-gcm@openssh.com": "aes-256-gcm",
    "chacha20-poly1305@openssh.com": "chacha20-poly1305",
    "aes128-ctr": "aes-128-ctr",
    "aes192-ctr": "aes-192-ctr",
    "aes256-ctr": "aes-256-ctr",
    "aes128-cbc": "aes-128-cbc",
    "aes192-cbc": "aes-192-cbc",
    "aes256-cbc": "aes-256-cbc",
    "3des-cbc": "des-ede3-cbc",
    "hmac-md5": "md5",
    "hmac-sha1": "sha1",
    "hmac-sha2-256": "sha256",
    "hmac-sha2-512": "sha512",
}
"""What OpenSSL calls the work of a cipher or MAC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Date, machine and versions of a series, with bare TCP and `openssl speed` rates in bytes per second.

    `masked_speeds` are those without AES instructions.
    """

    at: str
    kernel: str
    processors: int
    ssh: str
    load: tuple[float, ...] = ()
    link: tuple[float, ...] = ()
    speeds: Mapping[str, float] | None = None
    masked_speeds: Mapping[str, float] | None = None

    def shown(self) -> str:
        """Say them in a sentence."""
        loads = f"load {min(self.load):.1f} to {max(self.load):.1f}" if self.load else "load not seen"
        return f"{self.at}, Linux {self.kernel}, {self.processors} processors, {loads}, {self.ssh}"


def conditions_here() -> Conditions:
    """Return what is known before anything is measured."""
    version = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=False).stderr.strip()
    return Conditions(
        at=time.strftime("%Y-%m-%d", time.gmtime()),
        kernel=platform.release(),
        processors=os.cpu_count() or 1,
        ssh=version,
    )


def openssl_speeds(environment: Mapping[str, str] | None = None, *, names: Sequence[str] = ()) -> dict[str, float]:
    """Return one processor's bytes per second of ciphers and digests (SSH's names; none for all), 16 KiB blocks."""
    found: dict[str, float] = {}
    for name in names or _SPEEDS:
        called = _SPEEDS.get(name, name)
        words = ["openssl", "speed", "-mr", "-seconds", "1", "-bytes", str(_SPEED_BYTES), "-evp", called]
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
            )
        except OSError:
            return found
        lines = [line for line in done.stdout.splitlines() if line.startswith("+F:")]
        if lines:
            found[name] = float(lines[-1].rsplit(":", 1)[1])
    return found


def _read_trial(values: Any) -> tuple[tuple[str, str, int], Trial]:
    trial = decode(Trial, values["trial"])
    return (str(values["series"]), trial.key, trial.number), trial


class TrialLedger(JsonLines[tuple[str, str, int], Trial]):
    """The copies of an experiment by series, method and round."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _read_trial)

    def get(self, series: str, key: str, number: int) -> Trial | None:
        """Return a copy that succeeded, or None."""
        found = self.runs.get((series, key, number))
        return found if found is not None and not found.error else None

    def add(self, series: str, trial: Trial) -> None:
        """Keep a copy."""
        self.keep((series, trial.key, trial.number), trial, {"series": series, "trial": to_json(trial)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Rows and conditions of an experiment; `link_bytes_per_s` is the median of bare TCP, None without one."""

    rows: Mapping[str, tuple[Row, ...]]
    conditions: Conditions
    link_bytes_per_s: float | None
    is_whole: bool

    def row(self, series: str, method: Method) -> Row | None:
        """Return the row of a method, if it has figures."""
        return next((one for one in self.rows.get(series, ()) if one.key == method.key and one.rate), None)

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "schema": SCHEMA,
            "conditions": to_json(self.conditions),
            "link_bytes_per_s": self.link_bytes_per_s,
            "is_whole": self.is_whole,
            "rows": {name: to_json(rows) for name, rows in self.rows.items()},
        }


def play(
    series: Sequence[Series],
    folder: Path,
    *,
    rounds: int,
    seed: int,
    log: Callable[[str], None],
    interrupted: Callable[[], bool],
) -> Played:
    """Do what of some series is not done yet, and return what all came to.

    Raises LabError: the lab cannot be built here, or the folder holds something else.
    """
    ledger = TrialLedger(folder / "results.jsonl")
    known = _kept_conditions(folder)
    missing = [one for one in series if _left(one, ledger, rounds)]
    if missing:
        with Testbed() as testbed:
            for one in missing:
                if interrupted():
                    break
                log(f"{one.name}: {len(one.methods)} methods, {rounds} rounds")
                known = _observed(known, testbed)
                _keep(folder, known)
                _play_one(one, testbed, ledger, rounds=rounds, seed=seed, log=log, interrupted=interrupted)
    if known.speeds is None and not interrupted():
        log("openssl speed, with AES instructions and without")
        known = replace(known, speeds=openssl_speeds(), masked_speeds=openssl_speeds(NO_AES))
        _keep(folder, known)
    link = sorted(known.link)[len(known.link) // 2] if known.link else None
    ceilings = Ceilings(link_bytes_per_s=link)
    measured = {
        one.name: Measured(methods=one.methods, trials=tuple(filter(None, _trials(one, ledger, rounds))))
        for one in series
    }
    rows = {name: tuple(one.rows(ceilings)) for name, one in measured.items()}
    is_whole = not any(_left(one, ledger, rounds) for one in series)
    return Played(rows=rows, conditions=known, link_bytes_per_s=link, is_whole=is_whole)


def _with_nothing(series: Series) -> list[Method]:
    nothing = {one.of_nothing.key: one.of_nothing for one in series.methods}
    return [*series.methods, *nothing.values()]


def _trials(series: Series, ledger: TrialLedger, rounds: int) -> Iterator[Trial | None]:
    for one in _with_nothing(series):
        yield from (ledger.get(series.name, one.key, number) for number in range(1, rounds + 1))


def _left(series: Series, ledger: TrialLedger, rounds: int) -> bool:
    return None in _trials(series, ledger, rounds)


def _play_one(
    series: Series,
    testbed: Testbed,
    ledger: TrialLedger,
    *,
    rounds: int,
    seed: int,
    log: Callable[[str], None],
    interrupted: Callable[[], bool],
) -> None:
    environment = NO_AES if series.is_masked else {}
    with Sshd(testbed.folder, address=FAR_ADDRESS, port=PORT, prefix=testbed.far, environment=environment) as sshd:
        far = LocalFar(sshd.pid, testbed.far)

        def copy(method: Method, number: int) -> Trial:
            if (known := ledger.get(series.name, method.key, number)) is not None:
                return known
            copier = Copier(
                access=sshd.access(testbed.here),
                far=far,
                direction="push",
                samples={method.data: _sample(testbed.folder, method.data, series.size_of(method))},
                target=str(testbed.folder / "copy"),
                port=RAW_PORT,
                environment={**os.environ, **environment},
                watched=(sshd.pid,),
                interrupted=interrupted,
            )
            trial = copier.copy(method, number)
            if number and not interrupted():
                ledger.add(series.name, trial)
            return trial

        try:
            in_rounds(series.methods, copy, rounds=rounds, seed=seed, report=log, interrupted=interrupted)
        finally:
            far.close()


def _sample(folder: Path, data: str, size_bytes: int) -> Sample:
    """Return a file in memory: random, with holes between words, or empty; made once."""
    path = folder / f"{data}-{size_bytes}"
    if not path.exists():
        with path.open("wb") as out:
            left = size_bytes
            while left > 0:
                out.write((os.urandom(_BLOCK) if data == "random" else _with_holes())[:left])
                left -= _BLOCK
    return Sample(source=str(path), size_bytes=size_bytes)


def _with_holes() -> bytes:
    """Return a MiB as a database's log has it: some words of random digits, and zeros up to the next 64 KiB."""
    words = os.urandom(_WORDS_BYTES // 2).hex().encode()
    return (words + bytes(_HOLE_PERIOD - _WORDS_BYTES)) * (_BLOCK // _HOLE_PERIOD)


def _observed(known: Conditions, testbed: Testbed) -> Conditions:
    link = testbed.link_bytes_per_s()
    links = (*known.link, link) if link else known.link
    return replace(known, load=(*known.load, round(os.getloadavg()[0], 2)), link=links)


def _kept_conditions(folder: Path) -> Conditions:
    try:
        return decode(Conditions, json.loads((folder / "conditions.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return conditions_here()
    except (OSError, ValueError, CodecError) as error:
        raise LabError(f"{folder / 'conditions.json'}: {error}; give another folder by --output.") from None


def _keep(folder: Path, known: Conditions) -> None:
    write(folder / "conditions.json", json.dumps(to_json(known), indent=1) + "\n")
