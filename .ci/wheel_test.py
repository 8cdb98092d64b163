"""Build the wheel, install it into clean environments away from the checkout and see that nothing of it is missing.

A file missing from the wheel's list works in an editable install and breaks for users; it shows only here, and so does
a dependency that somebody imports and nobody declares. What the product does is for `make test` to find: nothing of it
is another in a wheel that has every file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGES = ("flashferry", "tasks", "ftpserver", "inventory", "templates")
ALL_EXTRAS = ("cml", "lab", "remote", "scp", "service", "sites")
FOREIGN = ("flashferry/lab/experiment/", "flashferry/lab/testing.py", "inventory/examples/")
"""What runs beside tools of others that the wheel does not ask for: peers of experiments, pytest."""

TESTS = ("tests/unit/templates", "tests/unit/test_flashferry.py", "tests/unit/cli/test_doctor.py")
"""What is tested from the wheel: that its data is read, and that commands start without the checkout."""

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


def run(*command: str | Path, cwd: Path, said: str | None = None) -> None:
    """Run a command and end with its exit code where it fails."""
    print("+", *(str(part) for part in command if "\n" not in str(part)), flush=True)
    environment = os.environ | {"PYTHONSAFEPATH": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, check=False, text=True, input=said)
    if done.returncode:
        sys.exit(done.returncode)


def source_files() -> tuple[str, ...]:
    """Return what our packages have, data among it, by its place below the project's folder."""
    found = (path for package in PACKAGES for path in (CHECKOUT / package).rglob("*") if path.is_file())
    return tuple(sorted(str(path.relative_to(CHECKOUT)) for path in found if path.parent.name != "__pycache__"))


def holds_all(wheel: Path) -> None:
    """End where a file of ours is not in the wheel as it is in the checkout."""
    with zipfile.ZipFile(wheel) as inside:
        brought = set(inside.namelist())
        missing = [
            name
            for name in source_files()
            if name not in brought or inside.read(name) != (CHECKOUT / name).read_bytes()
        ]
        if not any(name.endswith("share/man/man1/flashferry.1") for name in brought):
            missing.append("the manual page")
    if missing:
        sys.exit("expected in the wheel as in the checkout, and not found: " + ", ".join(missing))


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
    files = [Path(name) for name in source_files() if name.endswith(".py") and not name.startswith(FOREIGN)]
    dotted = (".".join(one.with_suffix("").parts).removesuffix(".__init__") for one in files)
    return tuple(one for one in dotted if not one.endswith(".__main__") and "-" not in one)


def main() -> None:
    """Build, install, look; everything lives in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="flashferry-wheel-") as name:
        scratch = Path(name)
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", scratch / "dist", cwd=CHECKOUT)
        (wheel,) = (scratch / "dist").glob("*.whl")
        holds_all(wheel)
        bare = installed(scratch / "bare", wheel, ())
        program = bare.with_name("flashferry")
        for words in (("--version",), ("--help",), ("stage", "--help"), ("doctor", "--json")):
            run(program, *words, cwd=scratch)
        full = installed(scratch / "full", wheel, ALL_EXTRAS)
        run(full, "-c", IMPORTS, cwd=scratch, said="\n".join(modules()))
        shutil.copytree(CHECKOUT / "tests", scratch / "away" / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(CHECKOUT / "pyproject.toml", scratch / "away")
        # The tests' own tools, behind what the wheel asks for. A folder named in a .pth file has its own left alone.
        (site,) = (scratch / "full").glob("lib/python*/site-packages")
        (site / "tools.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        own = f"import flashferry as own; assert own.__file__.startswith({str(scratch)!r}), own"
        run(full, "-c", own, cwd=scratch)
        run(full, "-m", "pytest", "-q", *TESTS, cwd=scratch / "away")


if __name__ == "__main__":
    main()
