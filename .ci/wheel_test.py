"""Build the wheel, install it into a clean environment and run the unit tests from a copy outside the checkout.

A package missing from the wheel's list works in an editable install and breaks for users; it shows only here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path) -> None:
    """Run a command and end with its exit code where it fails."""
    print("+", *command, flush=True)
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=os.environ | {"PYTHONSAFEPATH": "1"}, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)


def borrowed(python: Path) -> None:
    """Let an environment use the packages of the checkout's, but for ours: that one is to come from the wheel.

    A folder that is named in a .pth file has its own .pth files left alone, the editable installation's among them.
    """
    (own,) = python.parent.parent.glob("lib/python*/site-packages")
    (own / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")


def main() -> None:
    """Build, install, test; everything lives in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="flashferry-wheel-") as name:
        scratch = Path(name)
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", scratch / "dist", cwd=CHECKOUT)
        (wheel,) = (scratch / "dist").glob("*.whl")
        venv.create(scratch / "env", with_pip=True)
        python = scratch / "env" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", wheel, cwd=scratch)
        borrowed(python)
        shutil.copytree(CHECKOUT / "tests", scratch / "away" / "tests")
        shutil.copy(CHECKOUT / "pyproject.toml", scratch / "away")
        own = f"import flashferry.lab as lab; assert lab.__file__.startswith({str(scratch / 'env')!r}), lab"
        run(python, "-c", own, cwd=scratch)
        run(scratch / "env" / "bin" / "flashferry", "--version", cwd=scratch)
        run(scratch / "env" / "bin" / "flashferry", "doctor", "--json", cwd=scratch)
        if not (scratch / "env" / "share" / "man" / "man1" / "flashferry.1").is_file():
            sys.exit("the wheel brought no manual page")
        spread = ("--numprocesses", "4", "--dist", "worksteal")
        run(python, "-m", "pytest", "-q", *spread, "tests/unit", cwd=scratch / "away")


if __name__ == "__main__":
    main()
