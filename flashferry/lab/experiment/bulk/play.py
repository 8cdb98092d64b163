"""Series played on the ground: each copy kept in a file as it ends, so that what is there is not done again."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashferry.core.codec import CodecError, decode, to_json
from flashferry.depot.probing.copying import Copier, Sample
from flashferry.depot.probing.figures import Ceilings, Row, Trial
from flashferry.depot.probing.methods import Method
from flashferry.depot.probing.rounds import Measured, in_rounds
from flashferry.lab.errors import LabError
from flashferry.lab.experiment.bulk.studies import Series
from flashferry.lab.experiment.bulk.testbed import FAR_ADDRESS, NO_AES, PORT, RAW_PORT, LocalFar, Sshd, Testbed
from flashferry.lab.experiment.ledger import JsonLines

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
    """Where and when copies took place.

    Attributes:
        at: The day, in UTC.
        kernel: Of Linux.
        processors: How many.
        ssh: Version of ssh and OpenSSL.
        load: Load average at the beginning of each series.
        link: Bytes per second of a bare TCP stream, before each series.
        speeds: What `openssl speed` gave, bytes per second by our names.
        masked_speeds: The same without AES instructions.
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
    """Return what one processor does of each cipher and digest, bytes per second in blocks of 16 KiB; what it can.

    Args:
        environment: What is set for it besides.
        names: Of which, by SSH's names, or OpenSSL's where SSH has none; none: all that SSH knows.
    """
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
    """What came of an experiment.

    Attributes:
        rows: Of each series, in the order of its methods.
        conditions: Where and when.
        link_bytes_per_s: Median of the bare streams; None: there was none.
        is_whole: Whether nothing is left to do.
    """

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
    found: dict[str, Measured] = {}
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
        known = _with_speeds(known)
        _keep(folder, known)
    link = sorted(known.link)[len(known.link) // 2] if known.link else None
    for one in series:
        found[one.name] = _from_ledger(one, ledger, rounds)
    is_whole = not any(_left(one, ledger, rounds) for one in series)
    rows = {name: tuple(each.rows(Ceilings(link_bytes_per_s=link))) for name, each in found.items()}
    return Played(rows=rows, conditions=known, link_bytes_per_s=link, is_whole=is_whole)


def _with_nothing(series: Series) -> list[Method]:
    nothing = {one.of_nothing.key: one.of_nothing for one in series.methods}
    return [*series.methods, *nothing.values()]


def _left(series: Series, ledger: TrialLedger, rounds: int) -> bool:
    requested = [(one.key, number) for one in _with_nothing(series) for number in range(1, rounds + 1)]
    return any(ledger.get(series.name, *one) is None for one in requested)


def _from_ledger(series: Series, ledger: TrialLedger, rounds: int) -> Measured:
    trials = [
        trial
        for one in _with_nothing(series)
        for number in range(1, rounds + 1)
        if (trial := ledger.get(series.name, one.key, number)) is not None
    ]
    return Measured(methods=series.methods, trials=tuple(trials))


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


def _with_speeds(known: Conditions) -> Conditions:
    return replace(known, speeds=openssl_speeds(), masked_speeds=openssl_speeds(NO_AES))


def _kept_conditions(folder: Path) -> Conditions:
    try:
        return decode(Conditions, json.loads((folder / "conditions.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return conditions_here()
    except (OSError, ValueError, CodecError) as error:
        raise LabError(f"{folder / 'conditions.json'}: {error}; give another folder by --output.") from None


def _keep(folder: Path, known: Conditions) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conditions.json").write_text(json.dumps(to_json(known), indent=1) + "\n", encoding="utf-8")
