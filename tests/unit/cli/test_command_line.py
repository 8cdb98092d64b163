"""What is the same in all verbs: names of options, their variables, groups in the help, errors as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_group
from typer.testing import CliRunner

from flashferry.cli.program import COMMANDS, build, command_named
from flashferry.model.exit_codes import VERB_MEANINGS, ExitCode
from flashferry.store.journal import Journal

SUBJECTS = {
    "port": ("--port", "FLASHFERRY_PORT", {"check", "probe", "stage", "serve"}),
    "address": ("--address", "FLASHFERRY_ADDRESS", {"check", "probe", "stage", "serve"}),
    "output": ("--output", "FLASHFERRY_OUTPUT", {"plan", "report", "lab experiment", "lab peers", "lab sweep"}),
    "state": (
        "--state-dir",
        "FLASHFERRY_STATE_DIR",
        {"check", "probe", "plan", "stage", "recover", "status", "history", "report", "serve", "run show"}
        | {"images list", "images hash"},
    ),
    "json": (
        "--json",
        "FLASHFERRY_JSON",
        {"check", "probe", "plan", "stage", "recover", "status", "history", "report", "serve", "doctor", "run show"}
        | {"images list", "images hash", "lab up"},
    ),
}
"""Each subject's one name, its one variable, and verbs that must have it."""


def verbs() -> Iterator[tuple[str, Any]]:
    """Yield every command's words and the command."""

    def below(command: Any, words: str) -> Iterator[tuple[str, Any]]:
        for name, one in getattr(command, "commands", {}).items():
            yield from below(one, f"{words} {name}")
        if not hasattr(command, "commands") or command.invoke_without_command:
            yield words, command

    for names in COMMANDS.values():
        for name in names:
            yield from below(command_named(name), name)


def options_of(command: Any) -> list[Any]:
    """Return a command's options."""
    return [one for one in command.params if one.param_type_name == "option"]


def ferry(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program itself."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "flashferry", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_has_one_name_and_one_variable_in_all_verbs(subject):
    """Who knows one verb knows the others; `lab exec --json` alone is another thing and has no variable."""
    name, variable, expected = SUBJECTS[subject]
    found = {words: option for words, command in verbs() for option in options_of(command) if name in option.opts}
    assert expected <= set(found)
    assert {words: one.envvar for words, one in found.items() if words != "lab exec"} == dict.fromkeys(
        set(found) - {"lab exec"}, variable
    )
    others = {option.opts[0] for _, command in verbs() for option in options_of(command) if option.envvar == variable}
    assert others == {name}


def test_no_short_name_stands_for_two_options():
    """`-o` is the output and `-h` the help, whatever the verb."""
    meanings: dict[str, set[str]] = {}
    for _, command in verbs():
        for option in options_of(command):
            for name in option.opts:
                if not name.startswith("--"):
                    meanings.setdefault(name, set()).add(next(one for one in option.opts if one.startswith("--")))
    assert meanings == {
        "-i": {"--inventory"},
        "-H": {"--host"},
        "-g": {"--group"},
        "-o": {"--output"},
        "-v": {"--verbose"},
    }


def test_a_name_that_begins_another_is_left_out_by_itself():
    """`--out` was cut out of `--output` once."""
    told = CliRunner().invoke(build(), ["plan", "-h"]).output
    assert "-o, --output FILE" in told


@pytest.mark.parametrize("words", [(), ("stage",), ("run",), ("run", "show"), ("lab", "up"), ("images", "list")])
def test_h_is_help_everywhere(words):
    """`-h` and `--help` print the same."""
    short, long = (CliRunner().invoke(build(), [*words, one]) for one in ("-h", "--help"))
    assert short.exit_code == long.exit_code == 0
    assert short.output == long.output
    assert "-h, --help" in short.output


def test_help_is_in_groups():
    """Options are read group by group, in one order for all verbs; commands stand in groups, and none is missing."""
    told = CliRunner().invoke(build(), ["stage", "--help-all"]).output
    heads = [line for line in told.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert heads == [
        "Options:",
        "Devices and logins:",
        "Image:",
        "TCP tuning:",
        "Our server:",
        "Waves and limits:",
        "Output and state:",
    ]
    told = CliRunner().invoke(build(), ["--help-all"]).output
    assert all(f"\n{group}:\n" in told for group in COMMANDS)
    assert all(f"\n  {name} " in told for names in COMMANDS.values() for name in names)
    assert "..." not in told.split("Options:")[1]


def test_a_report_is_not_written_over_a_plan(tmp_path):
    """The variable for the output file is one for all verbs; a plan that stands there is left."""
    plan = tmp_path / "night.json"
    plan.write_text('{\n "schema": "flashferry.plan/1"}')
    told = ferry("report", "latest", "--state-dir", str(tmp_path), "--format", "html", FLASHFERRY_OUTPUT=str(plan))
    assert told.returncode == 2
    assert "a plan stands there" in told.stderr
    assert plan.read_text() == '{\n "schema": "flashferry.plan/1"}'


def test_a_variable_for_reach_does_not_stop_a_plain_check(tmp_path):
    """A port in the environment is for those verbs that serve; typed without --reach it is a mistake."""
    words = ["check", "-i", str(tmp_path / "none")]
    told = ferry(*words, FLASHFERRY_PORT="2100")
    assert "--reach" not in told.stderr
    assert str(tmp_path / "none") in told.stderr
    assert "--address and --port are for --reach" in ferry(*words, "--port", "2100").stderr
    assert "--ssh-port is for --reach" in ferry(*words, "--ssh-port", "2200").stderr


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("stage", "--json", "--bogus"), {}),
        (("status", "--last", "x", "--json"), {}),
        (("nonsense", "--json"), {}),
        (("report", "--json"), {}),
        (("report", "latest", "--format", "json", "--bogus"), {}),
        (("status", "--bogus"), {"FLASHFERRY_JSON": "1"}),
    ],
)
def test_a_bad_option_is_told_as_json_where_json_is_asked_for(words, environment):
    """A program that reads standard output gets a document of the same form as with every other error."""
    done = ferry(*words, **environment)
    found = json.loads(done.stdout)
    assert done.returncode == found["exit_code"] == ExitCode.USAGE
    assert (found["schema"], found["meaning"]) == ("flashferry.error/1", ExitCode.USAGE.meaning)
    assert found["verb"] == words[0]
    assert found["error"]
    assert f"Error: {found['error']}" in done.stderr


def test_without_json_a_bad_option_prints_nothing_on_standard_output():
    """People read it on standard error, as ever."""
    done = ferry("stage", "--bogus")
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert "No such option: --bogus" in done.stderr


def test_json_is_short_for_the_form_of_a_report(tmp_path):
    """`report` takes --json as all verbs do; a typed form goes before the variable, and two typed forms are refused."""
    words = ("report", "latest", "--state-dir", str(tmp_path))
    assert "--json cannot be combined with --format csv" in ferry(*words, "--json", "--format", "csv").stderr
    assert "has no run yet" in ferry(*words, "--format", "csv", FLASHFERRY_JSON="1").stderr


def test_codes_mean_what_they_say_behind_each_verb():
    """What looks at devices does not say that they are as asked for, nor what ends there that devices were left."""
    assert ExitCode.OK.meaning_for("stage") == ExitCode.OK.meaning
    looking = ("check", "plan", "dry-run", "status", "history", "report", "doctor", "images", "run-list", "run")
    for verb in looking:
        assert ExitCode.OK.meaning_for(verb) != ExitCode.OK.meaning, verb
        assert "nothing was changed" in ExitCode.INTERRUPTED.meaning_for(verb), verb
    assert ExitCode.DEVICES_FAILED.meaning_for("run-show") == ExitCode.DEVICES_FAILED.meaning_for("run")
    meanings = [text for codes in VERB_MEANINGS.values() for text in codes.values()]
    assert all(len(text) < 100 and not text.endswith(".") for text in meanings)


def test_a_result_has_the_meaning_for_its_verb(tmp_path):
    """The head of every document."""
    done = ferry("run", "list", "--json", "--state-dir", str(tmp_path))
    assert json.loads(done.stdout)["meaning"] == "the journal was read"


def test_images_keep_their_digests_where_they_are_told(tmp_path: Path):
    """`--state-dir` holds for what `images hash` keeps, too."""
    (tmp_path / "a.bin").write_bytes(b"x" * 100)
    done = ferry("images", "hash", str(tmp_path / "a.bin"), "--json", "--state-dir", str(tmp_path / "state"))
    assert done.returncode == 0
    assert (tmp_path / "state" / "digests.json").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("state", "prune", "--older-than", "x"), "Error: --older-than: expected a whole number, found 'x'\n"),
        (("state", "prune", "--older-than", "0"), "Error: --older-than: expected 1 or more, found '0'\n"),
    ],
)
def test_a_wrong_value_is_told_in_our_words(words: tuple[str, ...], told: str):
    """What was expected and what was found, not the words of the check behind it."""
    done = ferry(*words)
    assert done.returncode == 2
    assert done.stderr.endswith(told)


def test_a_restore_says_where_to_and_what_next(tmp_path: Path):
    """The folder that was written, and the next command with it."""
    state, other = tmp_path / "state", tmp_path / "other"
    with Journal(state):
        pass
    archive = json.loads(ferry("state", "backup", str(tmp_path / "b"), "--state-dir", str(state), "--json").stdout)[
        "path"
    ]
    done = ferry("state", "restore", archive, "--state-dir", str(other), COLUMNS="400")
    shows = f"'flashferry status --state-dir {other}' shows which devices were being staged"
    expected = f"1 file restored into {other}; {shows}"
    assert done.stdout.strip() == expected


SAMPLES = ("", "x", "5", "-5", "0.5", "5.", "1_0", " 5", "nan", "inf", "1e3", "999999999999999999", "٣", "text", "json")


def test_plain_values_are_what_typer_makes_of_them():
    """Whatever is taken without typer's own conversion, which is slow to import, is what that returns."""
    for words, command in verbs():
        context = command.make_context(words, [], resilient_parsing=True)
        command.get_params(context)
        for option in options_of(command):
            for sample in (None, *SAMPLES):
                given = [sample] if sample is not None and (option.multiple or option.nargs == -1) else sample
                both = [_coerced(one, given, option, context) for one in (option, None)]
                assert both[0] == both[1], (words, option.name, sample)


def _coerced(option: Any, value: Any, kind: Any, context: Any) -> object:
    """Return what a value is converted to, with its type; typer's own conversion where no option is given."""
    runtime = option.get_runtime_param() if option is not None else type(kind).get_runtime_param(kind)
    try:
        found = runtime.coerce(value, param=kind, ctx=context)
    except typer.BadParameter as error:
        return str(error)
    return type(found), str(found)


def test_the_program_fits_on_one_screen():
    """24 lines of 80 columns show every command; `stage` shows what is needed first, and where the rest is."""
    told = CliRunner().invoke(build(), ["--help"], env={"COLUMNS": "80"}).output.splitlines()
    assert len(told) <= 24
    assert max(map(len, told)) < 80
    assert all(any(name in line for line in told) for names in COMMANDS.values() for name in names)
    first = CliRunner().invoke(build(), ["stage", "--help"], env={"COLUMNS": "80"}).output
    assert len(first.splitlines()) <= 24
    assert all(one in first for one in ("--inventory", "--host", "--image", "--plan", "--resume", "--dry-run"))
    assert "--help-all" in first
    assert "--max-failures" not in first
    assert "--max-failures" in CliRunner().invoke(build(), ["stage", "--help-all"]).output


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("stage", "--help"), ("status",)])
def test_output_that_cannot_be_written_is_one_sentence(words, tmp_path):
    """A full disk, and an output that was closed before the start: never a traceback."""
    line = f"{sys.executable} -P -m flashferry {' '.join(words)}"
    more = {"env": os.environ | {"FLASHFERRY_STATE_DIR": str(tmp_path)}, "capture_output": True, "text": True}
    full = subprocess.run(["sh", "-c", f"{line} >/dev/full"], check=False, **more)
    assert (full.returncode, full.stderr.count("\n")) == (ExitCode.INTERNAL, 1), full.stderr
    assert "could not be written to standard output: No space left on device" in full.stderr
    closed = subprocess.run(["sh", "-c", f"{line} >&-"], check=False, **more)
    assert (closed.returncode, closed.stderr) == (ExitCode.OK, "")


@pytest.mark.parametrize("family", ["nightly", "sites"])
def test_the_help_of_commands_imported_later_is_their_own(family):
    """A family whose commands are imported when called lists each with the first sentence of its own help."""
    group = get_group(import_module(f"flashferry.cli.{family}").app)
    assert group.later
    with group.make_context(family, ["x"], resilient_parsing=True) as context:
        for name, (_, sentence) in group.later.items():
            assert group.get_command(context, name).get_short_help_str(1000) == sentence
