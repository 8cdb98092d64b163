"""Completion for fish: a script to be sourced, or to lie among fish's completions as `flashferry.fish`. Pure."""

from __future__ import annotations

from flashferry.cli.completion.tables import ANY_PLACE, Offered, by_value, tables
from flashferry.cli.tree import Command

_ENGINE = r"""
# Names of an inventory's file, the keys at the beginning of its lines.
function __flashferry_names --argument-names inventory file
    set -l path (string replace -r '^~(?=/)' -- $HOME $inventory)/$file
    test -f "$path"; or return
    string match -rg -- '^["\']?([A-Za-z0-9][A-Za-z0-9._-]*)["\']?:' < $path
end

function __flashferry
    set -l tokens (commandline -opc)
    set -l cur (commandline -ct)
    set -l where ''
    set -l option ''
    set -l before ''
    set -l place 0
    set -l inventory "$FLASHFERRY_INVENTORY"
    for word in $tokens[2..]
        if test -n "$option"
            contains -- $option -i --inventory; and set inventory $word
            set option ''
        else if string match -q -- '--*=*' $word
            set -l parts (string split -m 1 = -- $word)
            test "$parts[1]" = --inventory; and set inventory $parts[2]
        else if string match -q -- '-*' $word
            __flashferry_value "$where" $word > /dev/null; and set option $word
        else if test $place = 0; and contains -- $word (__flashferry_verbs "$where" | string split -f 1 \t)
            set where (string trim -- "$where $word")
        else
            set place (math $place + 1)
        end
    end
    if test -z "$option"; and string match -q -- '--*=*' $cur
        set -l parts (string split -m 1 = -- $cur)
        set option $parts[1]
        set before "$option="
        set cur $parts[2]
    end
    set -l found
    if test -n "$option"
        set found (__flashferry_value "$where" $option); or return
    else if string match -q -- '-*' $cur
        __flashferry_flags "$where"
        return
    else if test -n "$(__flashferry_verbs "$where")"
        __flashferry_verbs "$where"
        return
    else
        set found (__flashferry_value "$where" (math $place + 1))
        or set found (__flashferry_value "$where" ANY_PLACE)
        or return
    end
    set -l kind $found[1]
    set -e found[1]
    switch $kind
        case file
            set -a found (__fish_complete_path $cur)
        case folder
            set -a found (__fish_complete_directories $cur '')
        case device
            set -a found (__flashferry_names "$inventory" hosts.yaml)
        case group
            set -a found (__flashferry_names "$inventory" groups.yaml)
    end
    for word in $found
        printf '%s\n' "$before$word"
    end
end

complete -c flashferry -f -a '(__flashferry)'
"""


def fish_script(tree: Command) -> str:
    """Return the script."""
    found = tables(tree)
    return "\n".join(
        (
            "# Completion of flashferry for fish, made by 'flashferry completion fish' and for that release.",
            "",
            *_listing("verbs", [(one.where, one.verbs) for one in found if one.verbs]),
            *_listing("flags", [(one.where, one.flags) for one in found]),
            "function __flashferry_value",
            '    switch "$argv[1] $argv[2]"',
            *_values(found),
            "        case '*'",
            "            return 1",
            "    end",
            "end",
            _ENGINE.replace("ANY_PLACE", _quoted(ANY_PLACE)),
        )
    )


def _listing(name: str, entries: list[tuple[str, tuple[tuple[str, str], ...]]]) -> list[str]:
    """Return a function that prints words behind a command, each with what it does behind a tab."""
    lines = [f"function __flashferry_{name}", '    switch "$argv[1]"']
    for where, words in entries:
        lines.append(f"        case {_quoted(where)}")
        lines.append("            printf '%s\\n' " + " ".join(_quoted(f"{word}\t{told}") for word, told in words))
    return [*lines, "    end", "end", ""]


def _values(found: tuple[Offered, ...]) -> list[str]:
    """Return two lines for each kind of value, with all options and places that take it."""
    return [
        f"        case {' '.join(map(_quoted, places))}\n            printf '%s\\n' {' '.join((kind, *words))}"
        for (kind, words), places in by_value(found).items()
    ]


def _quoted(text: str) -> str:
    """Return a text as fish takes it: in single quotes a backslash escapes itself and the quote."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
