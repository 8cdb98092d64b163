"""Completion, in real shells: verbs, options, their values, files, device names; fast, and nothing of a name is run."""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from flashferry.cli.completion.bash import bash_script
from flashferry.cli.completion.fish import fish_script
from flashferry.cli.completion.tables import sentence, tables
from flashferry.cli.completion.zsh import zsh_script
from flashferry.cli.tree import Command, Kind, command_tree
from tests.patience import PATIENCE_S

SHELLS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
HOSTS = """\
---
xe1: {hostname: 192.0.2.1}
"xe2":
  hostname: 192.0.2.2
'ios1': {hostname: 192.0.2.3}
# gone: {}
$(touch pwned): {hostname: 192.0.2.4}
`touch pwned`: {hostname: 192.0.2.4}
"""


@pytest.fixture(scope="module")
def tree() -> Command:
    return command_tree()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory, tree: Command) -> Path:
    """A folder with the scripts, an inventory, and files whose names want quotes."""
    folder = tmp_path_factory.mktemp("completion")
    for name, make in SHELLS.items():
        (folder / f"script.{name}").write_text(make(tree))
    (folder / "inventory").mkdir()
    (folder / "inventory" / "hosts.yaml").write_text(HOSTS)
    (folder / "inventory" / "groups.yaml").write_text("north: {}\nsouth: {}\n")
    work = folder / "work"
    (work / "sub").mkdir(parents=True)
    for name in ("an image.bin", "x$(touch pwned).bin"):
        (work / name).touch()
    return folder


def needs(shell: str) -> str:
    if (found := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed")
    return found


def environment(ground: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(ground),
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "FLASHFERRY_INVENTORY": str(ground / "inventory"),
    }


def run(argv: Sequence[str], ground: Path) -> str:
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=ground / "work",
        env=environment(ground),
    )
    assert done.stderr == ""
    return done.stdout


def of_bash(ground: Path, lines: Sequence[str]) -> list[set[str]]:
    """Return what bash's function offers behind each line, whose last word is the one to be completed."""
    script = [f"source {shlex.quote(str(ground / 'script.bash'))}"]
    for line in lines:
        # As bash has it: --option=value is three words.
        words = [part for word in line.split(" ") for part in re.split(r"(=)", word) if part or not word]
        words += [""] if line.endswith("=") else []
        script.append(f"COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1}; _flashferry")
        script.append("printf '%s\\n' \"${COMPREPLY[@]}\"; echo ---")
    said = run([needs("bash"), "--norc", "--noprofile", "-c", "\n".join(script)], ground)
    return [set(part.split("\n")) - {""} for part in said.split("---\n")[:-1]]


def of_fish(ground: Path, lines: Sequence[str]) -> list[set[str]]:
    """Return the same of fish, which says it by itself; of `--option=value` the value alone."""
    script = [f"source {shlex.quote(str(ground / 'script.fish'))}"]
    script += [f"complete -C {shlex.quote(line)}; echo ---" for line in lines]
    said = run([needs("fish"), "--no-config", "-c", "\n".join(script)], ground)
    parts = [part.split("\n") for part in said.split("---\n")[:-1]]
    return [{re.sub(r"^--[\w-]+=", "", one.partition("\t")[0]) for one in part} - {""} for part in parts]


def of_zsh(ground: Path, lines: Sequence[str]) -> list[set[str]]:
    """Return the same of zsh's function, with stand-ins of what zsh offers candidates by."""
    script = [
        "_describe() { [[ $1 == -o ]] && shift; local -a told; told=(${(P)2}); print -l -- ${told%%:*}; }",
        "compadd() { shift; print -l -- ${(P)1}; }",
        "compset() { :; }",
        "_files() { print -l -- FILES$1; }",
        f"source {shlex.quote(str(ground / 'script.zsh'))}",
    ]
    for line in lines:
        words = line.split(" ")
        script.append(f"words=({shlex.join(words)}) CURRENT={len(words)}; _flashferry; print -- ---")
    said = run([needs("zsh"), "-f", "-c", "\n".join(script)], ground)
    return [set(part.split("\n")) - {""} for part in said.split("---\n")[:-1]]


ASKED: dict[str, Callable[[set[str]], bool]] = {
    "flashferry ": lambda found: {"check", "stage", "completion", "service"} <= found,
    "flashferry run ": lambda found: {"list", "pause", "approve"} <= found and "stage" not in found,
    "flashferry service user ": lambda found: {"add", "grant"} <= found,
    "flashferry stage --": lambda found: {"--image", "--host", "--dry-run"} <= found and "--listen" not in found,
    "flashferry service user add --": lambda found: "--role" in found and "--image" not in found,
    "flashferry stage --host-keys ": lambda found: found == {"accept-new", "strict"},
    "flashferry stage --image x.bin --tune ": lambda found: found == {"auto", "always", "never"},
    "flashferry stage --host-keys=": lambda found: found == {"accept-new", "strict"},
    "flashferry report --format ": lambda found: {"junit", "html"} <= found,
    "flashferry run pause ": lambda found: found == {"latest"},
    "flashferry completion ": lambda found: found == {"bash", "zsh", "fish"},
    "flashferry stage --host ": lambda found: found == {"xe1", "xe2", "ios1"},
    "flashferry stage -H ": lambda found: found == {"xe1", "xe2", "ios1"},
    "flashferry stage --host=": lambda found: found == {"xe1", "xe2", "ios1"},
    "flashferry stage -i ../inventory --group ": lambda found: found == {"north", "south"},
    "flashferry stage -i nowhere --group ": lambda found: found == set(),
    "flashferry stage --inventory=../inventory -g ": lambda found: found == {"north", "south"},
    "flashferry history ": lambda found: found == {"xe1", "xe2", "ios1"},
    "flashferry history xe1 ": lambda found: found == set(),
    "flashferry stage --md5 ": lambda found: found == set(),
    "flashferry stage --json --host-keys ": lambda found: found == {"accept-new", "strict"},
}
"""Lines, and what has to be said of what may stand at their end, not yet begun with."""


@pytest.mark.parametrize("shell", [of_bash, of_zsh, of_fish], ids=["bash", "zsh", "fish"])
def test_what_may_stand_there_is_offered(ground, shell):
    """In each shell the same: verbs, options of this verb alone, values that there are, names of the inventory."""
    lines = [f"{line}" for line in ASKED]
    offered = dict(zip(ASKED, shell(ground, lines), strict=True))
    assert {line: found for line, found in offered.items() if not ASKED[line](found)} == {}
    assert not (ground / "work" / "pwned").exists()


def test_every_command_and_option_is_in_every_script(ground, tree):
    """A verb that is added is completed without anybody's doing."""
    for name in SHELLS:
        text = (ground / f"script.{name}").read_text()
        for one in tree:
            for option in one.options:
                assert all(word in text for word in option.names), (name, one.words)
    for one, table in zip(tree, tables(tree), strict=True):
        assert {word for word, _ in table.verbs} == {below.name for below in one.commands}
        assert dict(table.values).keys() & {word for word, _ in table.flags} == {
            word for option in one.options if option.value is not None for word in option.names
        }


def test_values_are_of_the_kind_that_the_help_shows(tree):
    """A file where a file is wanted, a folder where a folder is; a flag takes none."""
    kinds = {
        (" ".join(one.path), option.names[-1]): option.value.kind if option.value else None
        for one in tree
        for option in one.options
    }
    assert kinds["stage", "--image"] is Kind.FILE
    assert kinds["stage", "--state-dir"] is Kind.FOLDER
    assert kinds["stage", "--depot"] is Kind.FILE
    assert kinds["stage", "--host"] is Kind.DEVICE
    assert kinds["init", "--host"] is Kind.ANY
    assert kinds["stage", "--dry-run"] is None
    assert kinds["stage", "--retries"] is Kind.ANY
    assert all(kind is None for (_, name), kind in kinds.items() if name in {"--json", "--help"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Only print what would be sent. Changes nothing.", "Only print what would be sent"),
        (f"{'word ' * 15}: and {'more ' * 10}.", ("word " * 15).strip() + " "),
        ("", ""),
    ],
)
def test_a_candidate_is_told_in_a_sentence(text, told):
    """What stands beside it in a list, without a full stop."""
    assert sentence(text).strip() == told.strip()


def typed(argv: Sequence[str], lines: Sequence[str], ground: Path) -> str:
    """Return what a shell at a terminal shows for lines that are typed."""
    ours, its = pty.openpty()
    with subprocess.Popen(
        argv,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        cwd=ground / "work",
        env=environment(ground) | {"PS1": "$ "},
    ) as process:
        os.close(its)
        os.write(ours, "".join(f"{line}\n" for line in lines).encode())
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:
            pass  # how a terminal says that nobody is there any more
        process.wait(PATIENCE_S)
    os.close(ours)
    return shown.decode(errors="replace").replace("\r", "")


AT_TERMINAL = {
    "flashferry stag\t": ["flashferry", "stage"],
    "flashferry stage --image an\t": ["flashferry", "stage", "--image", "an image.bin"],
    "flashferry stage --image x\t": ["flashferry", "stage", "--image", "x$(touch pwned).bin"],
    "flashferry stage --host i\t": ["flashferry", "stage", "--host", "ios1"],
    "flashferry run pau\tla\t": ["flashferry", "run", "pause", "latest"],
}
"""What is typed, and the words that the shell then has."""


@pytest.mark.parametrize(
    ("shell", "more", "before"),
    [
        ("bash", ("--norc", "--noprofile", "-i"), ()),
        ("zsh", ("-f", "-i"), ("autoload -U compinit; compinit -u -D; bindkey -e",)),
    ],
    ids=["bash", "zsh"],
)
def test_at_a_terminal_words_are_completed_as_the_shell_quotes_them(ground, shell, more, before):
    """TAB at a real prompt; then the line is handed to `printf`, and the words are what is meant."""
    lines = [*before, f"source {shlex.quote(str(ground / f'script.{shell}'))}"]
    # Ctrl-A: to the beginning of the line.
    lines += [f"{line}\x01printf '<%s>' begin " for line in AT_TERMINAL]
    shown = typed([needs(shell), *more], [*lines, "exit"], ground)
    for words in AT_TERMINAL.values():
        assert "".join(f"<{word}>" for word in ("begin", *words)) in shown, words
    assert not (ground / "work" / "pwned").exists()
