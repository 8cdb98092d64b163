"""Build the wheel, install it into clean environments away from the checkout and check that nothing of it is missing.

A file missing from the wheel works in an editable install and breaks for users; it shows only here, and so does an
import whose distribution is not declared. What the product does is for `make test` to find.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGES = ("flashferry", "tasks", "ftpserver", "inventory", "templates")
MANUAL = "flashferry/manual/"
"""Where the wheel has the pages of docs/."""
ALL_EXTRAS = ("cml", "lab", "remote", "scp", "service", "sites")
FOREIGN = ("flashferry/lab/experiment/", "flashferry/lab/testing.py", "inventory/examples/")
"""What runs beside tools of others that the wheel does not ask for: peers of experiments, pytest."""

IMPORTS = """\
import importlib, sys
failed = []
for name in sys.stdin.read().split():
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f"{name}: {type(error).__name__}: {error}")
sys.exit("\\n".join(failed) or 0)
"""


def run(*command: str | Path, cwd: Path, text: str | None = None) -> None:
    """Run a command and end with its exit code where it fails."""
    print("+", *(str(part) for part in command if "\n" not in str(part)), flush=True)
    environment = os.environ | {"PYTHONSAFEPATH": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, check=False, text=True, input=text)
    if done.returncode:
        sys.exit(done.returncode)


def tracked_files() -> frozenset[str]:
    """Return the files of our packages that git tracks, data included, and of docs/, by their names in the wheel."""
    done = subprocess.run(
        ["git", "ls-files", "-z", *PACKAGES, "docs/*.md"], cwd=CHECKOUT, check=True, capture_output=True, text=True
    )
    return frozenset(re.sub("^docs/", MANUAL, name) for name in done.stdout.split("\0") if name)


def check_names(wheel: Path) -> None:
    """End where the wheel has not exactly the files that git tracks."""
    with zipfile.ZipFile(wheel) as inside:
        names = {name for name in inside.namelist() if not name.endswith("/")}
    ours, tracked = {name for name in names if name.startswith(tuple(f"{one}/" for one in PACKAGES))}, tracked_files()
    problems = [f"missing: {name}" for name in sorted(tracked - ours)]
    problems += [f"not tracked by git: {name}" for name in sorted(ours - tracked)]
    if problems:
        sys.exit("expected the files of git ls-files in the wheel, found\n" + "\n".join(problems))


def normal(name: str) -> str:
    """Return a distribution's name as all its spellings have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(wanted: Iterable[str], extras: Iterable[str]) -> Iterator[metadata.Distribution]:
    """Yield what requirements of the wheel bring, and what those ask for, from what the checkout has installed."""
    from packaging.requirements import Requirement

    ahead = [(Requirement(line), tuple(extras)) for line in wanted]
    seen: set[tuple[str, str]] = set()
    while ahead:
        one, asked = ahead.pop()
        if one.marker and not any(one.marker.evaluate({"extra": extra}) for extra in ("", *asked)):
            continue
        fresh = [extra for extra in ("", *one.extras) if (normal(one.name), extra) not in seen]
        seen.update((normal(one.name), extra) for extra in fresh)
        if fresh:
            found = metadata.distribution(one.name)
            yield found
            ahead += [(Requirement(line), tuple(one.extras)) for line in found.requires or ()]


def lend(site: Path, distributions: Iterable[metadata.Distribution]) -> None:
    """Let an environment use some distributions of the checkout's, and no other."""
    for one in distributions:
        for top in {file.parts[0] for file in one.files or () if file.parts[0] not in {"..", "__pycache__"}}:
            if not (site / top).exists() and not top.endswith(".pth"):
                (site / top).symlink_to(Path(str(one.locate_file(top))))


def installed(folder: Path, wheel: Path, extras: tuple[str, ...]) -> Path:
    """Return the Python of an environment that has the wheel, and of others what the wheel asks for."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--no-deps", "--no-compile", wheel, cwd=folder)
    (site,) = folder.glob("lib/python*/site-packages")
    (own,) = metadata.distributions(name="flashferry", path=[str(site)])
    lend(site, declared(own.requires or (), extras))
    return python


def modules() -> tuple[str, ...]:
    """Return the names of our modules, but for those that run beside others' tools."""
    files = [Path(name) for name in sorted(tracked_files()) if name.endswith(".py") and not name.startswith(FOREIGN)]
    dotted = (".".join(one.with_suffix("").parts).removesuffix(".__init__") for one in files)
    return tuple(one for one in dotted if not one.endswith(".__main__") and "-" not in one)


def main() -> None:
    """Build, install, import; everything lives in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="flashferry-wheel-") as name:
        scratch = Path(name)
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", scratch / "dist", cwd=CHECKOUT)
        (wheel,) = (scratch / "dist").glob("*.whl")
        check_names(wheel)
        bare = installed(scratch / "bare", wheel, ())
        program = bare.with_name("flashferry")
        for words in (("--version",), ("--help",), ("stage", "--help"), ("doctor", "--json")):
            run(program, *words, cwd=scratch)
        full = installed(scratch / "full", wheel, ALL_EXTRAS)
        run(full, "-c", IMPORTS, cwd=scratch, text="\n".join(modules()))


if __name__ == "__main__":
    main()
