"""The table of commands: what is shown of them in a log, and what none of them can do."""

from ftpserver.commands import COMMANDS, masked_command


def test_commands_are_masked_where_they_may_hold_secrets() -> None:
    """USER, PASS and everything unknown lose their argument; the rest is shown, without control characters."""
    assert masked_command("PASS", "secret") == "PASS ***"
    assert masked_command("USER", "name") == "USER ***"
    assert masked_command("HUNTER2SECRET", "x") == "HUNTER2S ***"
    assert masked_command("RETR", "a\x1b[31m.bin") == "RETR a?[31m.bin"
    assert len(masked_command("RETR", "x" * 5000)) < 120


def test_no_command_reaches_a_file_system() -> None:
    """Every command of the table works without a permission, that is without a path of the server's."""
    assert {command["perm"] for command in COMMANDS.values()} == {None}
    assert not {"STOR", "DELE", "LIST", "SITE", "STAT", "HELP"} & COMMANDS.keys()
