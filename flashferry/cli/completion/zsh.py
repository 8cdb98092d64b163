"""Completion for zsh: a script to be sourced, or to lie in a folder of `fpath` as `_flashferry`. Pure."""

from __future__ import annotations

import shlex

from flashferry.cli.completion.tables import ANY_PLACE, Offered, by_value, tables
from flashferry.cli.tree import Command

_ENGINE = r"""
# Names of an inventory's file, the keys at the beginning of its lines.
_flashferry_names() {
    local file=${inventory/#\~\//$HOME/}/$1
    local -a found
    [[ -f $file ]] || return 1
    found=(${(f)"$(sed -n "s/^[\"']\{0,1\}\([A-Za-z0-9][A-Za-z0-9._-]*\)[\"']\{0,1\}:.*/\1/p" "$file" 2> /dev/null)"})
    compadd -a found
}

_flashferry() {
    local where='' option='' word kind inventory=$FLASHFERRY_INVENTORY cur=$words[CURRENT]
    local -i at=2 place=0
    local -a verbs flags choices
    _flashferry_at ''
    while (( at < CURRENT )); do
        word=$words[at]
        (( at++ ))
        if [[ -n $option ]]; then
            [[ $option == -i || $option == --inventory ]] && inventory=${(Q)word}
            option=''
        elif [[ $word == --*=* ]]; then
            [[ $word == --inventory=* ]] && inventory=${(Q)word#*=}
        elif [[ $word == -* ]]; then
            _flashferry_value "$where" "$word" && option=$word
        elif (( place == 0 && ${${(@)verbs%%:*}[(Ie)$word]} )); then
            where=${where:+$where }$word
            _flashferry_at "$where"
        else
            (( place++ ))
        fi
    done
    if [[ -z $option && $cur == --*=* ]]; then
        option=${cur%%=*}
        compset -P '*='
    fi
    if [[ -n $option ]]; then
        _flashferry_value "$where" "$option" || return 1
    elif [[ $cur == -* ]]; then
        _describe -o option flags
        return
    elif (( $#verbs )); then
        _describe command verbs
        return
    else
        (( place++ ))
        _flashferry_value "$where" "$place" || _flashferry_value "$where" ANY_PLACE || return 1
    fi
    (( $#choices )) && compadd -a choices
    case $kind in
        file) _files ;;
        folder) _files -/ ;;
        device) _flashferry_names hosts.yaml ;;
        group) _flashferry_names groups.yaml ;;
    esac
}

if [[ $funcstack[1] == _flashferry ]]; then
    _flashferry "$@"
elif (( $+functions[compdef] )); then
    compdef _flashferry flashferry
fi
"""


def zsh_script(tree: Command) -> str:
    """Return the script."""
    found = tables(tree)
    return "\n".join(
        (
            "#compdef flashferry",
            "# Completion of flashferry for zsh, made by 'flashferry completion zsh' and for that release.",
            "",
            "_flashferry_at() {",
            "    verbs=() flags=()",
            '    case "$1" in',
            *(_at(one) for one in found),
            "    esac",
            "}",
            "",
            "_flashferry_value() {",
            "    kind='' choices=()",
            '    case "$1 $2" in',
            *_values(found),
            "        (*) return 1 ;;",
            "    esac",
            "}",
            _ENGINE.replace("ANY_PLACE", shlex.quote(ANY_PLACE)),
        )
    )


def _at(one: Offered) -> str:
    verbs, flags = (
        " ".join(shlex.quote(f"{word}:{told}") for word, told in entries) for entries in (one.verbs, one.flags)
    )
    return f"        ({shlex.quote(one.where)}) verbs=({verbs}) flags=({flags}) ;;"


def _values(found: tuple[Offered, ...]) -> list[str]:
    """Return a line for each kind of value, with all options and places that take it."""
    return [
        f"        ({'|'.join(map(shlex.quote, places))}) kind={kind} choices=({' '.join(map(shlex.quote, words))}) ;;"
        for (kind, words), places in by_value(found).items()
    ]
