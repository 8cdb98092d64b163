"""Measures our server by HTTP and HTTPS beside nginx and our FTP: `python -m benchmarks.http_servers`.

See docs/benchmarks.md. nginx has one worker, as we have one process, and sends with sendfile.
"""

import argparse
import contextlib
import json
import math
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import http_subjects, isolation, measures, report
from benchmarks.measures import Bench, Crowd, Load
from benchmarks.summary import Spread, Summary, Target
from benchmarks.workers import MeasureFailed, Worker
from flashferry.lab.experiment.harness import put, targets_table

if TYPE_CHECKING:
    from benchmarks.subjects import Subject

_MODULE = "benchmarks.http_servers"
_RESULTS = Path(__file__).parent / "results"
_DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"
_CLIENT = Path(__file__).with_name("http_client.py")
_CROWD = 400
_OURS, _FTP, _NGINX = "flashferry http", "flashferry ftp", "nginx http"
_OURS_TLS, _NGINX_TLS = "flashferry https", "nginx https"
# Each load moves 2 GiB, so that the kernel's 10 ms ticks of processor time are right within a few percent; by TLS a
# quarter of it, which takes as long.
_LOADS = (Load(clients=1, path="large.bin"), Load(clients=4, path="middle.bin"))
_TLS_LOADS = (Load(clients=1, path="middle.bin"), Load(clients=4, path="small.bin"))
_SIZES_BYTES = {"large.bin": 2 << 30, "middle.bin": 512 << 20, "small.bin": 128 << 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpBench(Bench):
    """What every measurement needs, with clients that speak what the server does."""

    def worker(self, op: str, subject: "Subject", credentials: list[tuple[str, str]], **more: Any) -> Worker:
        """Start a client process."""
        scheme = getattr(subject, "scheme", "ftp")
        if scheme == "ftp":
            return Bench.worker(self, op, subject, credentials, **more)
        order = {"op": op, "host": http_subjects.HOST, "port": subject.port, "scheme": scheme}
        return Worker({**order, "credentials": credentials, **more}, self.ground.client_cpus, script=_CLIENT)


def _measure(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    started_s = time.monotonic()
    served = directory / "served"
    served.mkdir(mode=0o755)
    directory.chmod(0o755)
    for name, size_bytes in _SIZES_BYTES.items():
        with (served / name).open("wb") as file:
            file.truncate(size_bytes)
    ground = isolation.prepare(options.congestion_control)
    makers, missing = http_subjects.available()
    bench = HttpBench(ground=ground, directory=served)
    notices = [*ground.notices, *missing]

    def attempt(what: str, measure: "Callable[[], None]") -> None:
        report.print_progress(f"{time.monotonic() - started_s:5.0f} s  {what}")
        try:
            measure()
        except (MeasureFailed, OSError) as error:
            notices.append(f"{what}: {error}")

    seen: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        running = []
        for make in makers.values():
            subject = make(served)
            stack.callback(subject.close)
            measures.pin(bench, subject)
            for path in _SIZES_BYTES:
                subject.credentials(path, 1)
            seen[subject.name] = measures.congestion_control(bench, subject, "small.bin")
            running.append(subject)
        for repeat in range(options.repeats):
            turned = running[repeat % len(running) :] + running[: repeat % len(running)]
            for number in range(len(_LOADS)):
                for subject in turned:
                    load = (_TLS_LOADS if subject.name in (_OURS_TLS, _NGINX_TLS) else _LOADS)[number]
                    what = f"repeat {repeat + 1}: {subject.name}, {load.clients} clients"
                    attempt(what, partial(measures.throughput, bench, subject, load, repeat))
    for repeat in range(min(options.repeats, options.memory_repeats)):
        for name, make in makers.items():
            with contextlib.closing(make(served)) as subject:
                measures.pin(bench, subject)
                subject.credentials("middle.bin", 1)
                crowd = Crowd(counts=(_CROWD,), path="middle.bin", transfer=True)
                attempt(f"repeat {repeat + 1}: {name}, memory", partial(measures.memory, bench, subject, crowd, repeat))
    return {
        "schema": "flashferry.benchmarks.http_servers/1",
        "command": " ".join(("python -m", _MODULE, *sys.argv[1:])),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "host": {"kernel": platform.release(), "machine": platform.machine(), "python": platform.python_version()},
        "nginx": http_subjects.nginx_version(),
        "congestion_controls": seen,
        "in_a_namespace": ground.namespace,
        "took_s": round(time.monotonic() - started_s),
        "notices": notices,
        "targets": [asdict(target) for target in targets(Summary(bench.figures))],
        "figures": [asdict(figure) for figure in bench.figures],
    }


def targets(summary: Summary) -> list[Target]:
    """Return what we want to hold."""
    cpu, throughput = "cpu_s_per_gb", "throughput_bytes_per_s"
    found = []
    for text, measure, clients, other, ours, least, most in (
        ("HTTP: processor time per GB at 4 clients at most 1.5 of nginx with sendfile", cpu, 4, _NGINX, _OURS, 0, 1.5),
        ("HTTP: processor time per GB at 1 client at most 1.5 of nginx with sendfile", cpu, 1, _NGINX, _OURS, 0, 1.5),
        ("HTTP: throughput at 4 clients at least 1.0 of our FTP", throughput, 4, _FTP, _OURS, 1.0, math.inf),
        ("HTTPS: processor time per GB at 4 clients at most 1.5 of nginx", cpu, 4, _NGINX_TLS, _OURS_TLS, 0, 1.5),
    ):
        ratio = summary.ratio(measure, clients, other, ours)
        told = "not measured" if ratio is None else f"{ratio:.2f}"
        found.append(Target(text=text, found=told, met=None if ratio is None else least <= ratio <= most))
    return found


def to_markdown(found: dict[str, Any]) -> str:
    """Return the tables."""
    figures = [measures.Figure(**figure) for figure in found["figures"]]
    summary, names = Summary(figures), list(found["congestion_controls"])
    host, seen = (
        found["host"],
        ", ".join(f"{name} {word or '?'}" for name, word in found["congestion_controls"].items()),
    )
    where = "in a network namespace of its own" if found["in_a_namespace"] else "on the host's loopback"
    about = (
        f"`{found['command']}`, {found['at'][:10]}, {found['took_s']} s, Linux {host['kernel']} {host['machine']}, "
        f"Python {host['python']}, nginx {found['nginx'] or 'none'}, {where}, servers and clients on processors apart."
    )
    lines = [
        about,
        f"Congestion control seen: {seen}. Medians, in brackets least and most.",
        "By TLS the client decrypts, on the other processor.",
        *(f"Note: {notice}." for notice in found["notices"]),
        "",
        f"| measure | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    rows: list[tuple[str, Callable[[str], Spread | None], float, int]] = []
    for title, unit, measure, scale, digits in (
        ("throughput", "MB/s", "throughput_bytes_per_s", 1e6, 0),
        ("processor time", "s/GB", "cpu_s_per_gb", 1, 3),
    ):
        for clients, word in ((1, "1 client"), (4, "4 clients")):
            rows.append((f"{title}, {word}, {unit}", partial(_spread, summary, measure, clients), scale, digits))
    rows.append((f"memory per slow session at {_CROWD}, kB", partial(_memory, summary), 1000, 1))
    for title, find, scale, digits in rows:
        cells = [spread.show(scale, digits) if (spread := find(name)) else "-" for name in names]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    lines += ["", targets_table((each["text"], each["found"], each["met"]) for each in found["targets"])]
    return "\n".join(lines) + "\n"


def _spread(summary: Summary, measure: str, clients: int, name: str) -> Spread | None:
    return summary.spread(name, measure, clients)


def _memory(summary: Summary, name: str) -> Spread | None:
    return summary.per_session(name, "transferring", _CROWD)


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="repeats of everything (default: 5)")
    parser.add_argument("--memory-repeats", type=int, default=3, help="repeats of the memory of sessions (default: 3)")
    parser.add_argument("--congestion-control", default="cubic", metavar="NAME", help="for all alike (default: cubic)")
    parser.add_argument("--update-docs", action="store_true", help="put the table into docs/benchmarks.md too")
    options = parser.parse_args(arguments)
    isolation.enter_namespace(_MODULE, arguments)
    with tempfile.TemporaryDirectory(prefix="ferry-bench-") as directory:
        found = _measure(options, Path(directory))
    markdown = to_markdown(found)
    _RESULTS.mkdir(parents=True, exist_ok=True)
    (_RESULTS / "http_servers.json").write_text(json.dumps(found, indent=1) + "\n")
    if options.update_docs:
        put(_DOCUMENT, "http_servers", markdown)
    print(markdown)
    return 1 if any(target["met"] is False for target in found["targets"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
