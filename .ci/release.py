"""Build what a release consists of: wheel, sdist, list of components and licences, checksums.

The checked-out commit is built twice, in two folders; files that differ in a byte are no release. The components are
those that the wheel requires with every extra, as the checkout's environment has them pinned, in CycloneDX 1.6. The
files go to dist/, whose earlier content is replaced once all of them are built.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from wheel_test import ALL_EXTRAS, CHECKOUT, installed, run


def git(*arguments: str) -> str:
    """Return what git prints."""
    return subprocess.run(["git", *arguments], cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout.strip()


def build(folder: Path, *, commit: str) -> dict[str, bytes]:
    """Return the sdist of a commit and the wheel that is built from it, by file name."""
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=CHECKOUT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "--extract"], cwd=folder, check=True, input=archive)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", cwd=folder)
    return {path.name: path.read_bytes() for path in sorted((folder / "dist").iterdir())}


def differences(first: dict[str, bytes], second: dict[str, bytes]) -> list[str]:
    """Return the names of files that two builds do not have alike."""
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def obstacles(changelog: str, version: str, *, uncommitted: str) -> list[str]:
    """Return what must be mended before a release is built."""
    found = []
    if uncommitted:
        found.append(f"expected a clean checkout, found changes:\n{uncommitted}")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        found.append(f'expected "## {version} (YYYY-MM-DD)" in CHANGELOG.md: write what users get and the day')
    return found


def components(scratch: Path, wheel: Path, listing: Path) -> None:
    """Write the components of the wheel with every extra, and their licences."""
    tools = scratch / "tools"
    run(sys.executable, "-m", "venv", tools, cwd=scratch)
    pins = CHECKOUT / "requirements-release.txt"
    run(tools / "bin" / "pip", "install", "--quiet", "--require-hashes", "--requirement", pins, cwd=scratch)
    python = installed(scratch / "full", wheel, ALL_EXTRAS)
    run(
        *(tools / "bin" / "cyclonedx-py", "environment", "--output-reproducible", "--spec-version", "1.6"),
        *("--pyproject", CHECKOUT / "pyproject.toml", "--output-file", listing, python),
        cwd=scratch,
    )


def main() -> None:
    """Build into dist/, or end with what must be mended first."""
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    if found := obstacles(changelog, version, uncommitted=git("status", "--porcelain")):
        sys.exit("\n".join(found))
    with tempfile.TemporaryDirectory(prefix="flashferry-release-") as name:
        scratch = Path(name)
        first, second = (build(scratch / folder, commit="HEAD") for folder in ("one", "another"))
        if differ := differences(first, second):
            sys.exit(f"expected the same bytes from two builds, found differences in {', '.join(differ)}")
        out = scratch / "one" / "dist"
        (wheel,) = out.glob("*.whl")
        components(scratch, wheel, out / f"flashferry-{version}.cdx.json")
        sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(out.iterdir())]
        (out / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
        shutil.rmtree(CHECKOUT / "dist", ignore_errors=True)
        shutil.copytree(out, CHECKOUT / "dist")
    print("".join(sums), end="")


if __name__ == "__main__":
    main()
