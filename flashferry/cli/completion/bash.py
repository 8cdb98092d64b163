"""Completion for bash: a script that needs no other program but sed, and that only for names of an inventory. Pure."""

from __future__ import annotations

import shlex

from flashferry.cli.completion.tables import ANY_PLACE, Offered, by_value, tables
from flashferry.cli.tree import Command

_ENGINE = r"""
# Names of an inventory's file, the keys at the beginning of its lines. They are compared, and never expanded: a name is
# anybody's text.
_flashferry_names() {
    local file=${inventory//[\"\'\\]/}/$1 name
    [[ $file == '~/'* ]] && file=$HOME/${file:2}
    [[ -f $file ]] || return
    while IFS= read -r name; do
        [[ $name == "$cur"* ]] && COMPREPLY+=("$name")
    done < <(sed -n "s/^[\"']\{0,1\}\([A-Za-z0-9][A-Za-z0-9._-]*\)[\"']\{0,1\}:.*/\1/p" "$file" 2> /dev/null)
}

_flashferry() {
    local IFS=$' \t\n' cur=${COMP_WORDS[COMP_CWORD]} at=1 where='' option='' place=0 word
    local verbs flags kind choices inventory=${FLASHFERRY_INVENTORY-}
    COMPREPLY=()
    _flashferry_at ''
    while ((at < COMP_CWORD)); do
        word=${COMP_WORDS[at]}
        at=$((at + 1))
        if [[ -n $option ]]; then
            # bash has --option=value in three words.
            [[ $word == = ]] && continue
            [[ $option == -i || $option == --inventory ]] && inventory=$word
            option=''
        elif [[ $word == -* ]]; then
            _flashferry_value "$where" "$word" && option=$word
        elif ((place == 0)) && [[ " $verbs " == *" $word "* ]]; then
            where=${where:+$where }$word
            _flashferry_at "$where"
        else
            place=$((place + 1))
        fi
    done
    [[ $cur == = ]] && cur=''
    if [[ -n $option ]]; then
        _flashferry_value "$where" "$option"
    elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
        return
    elif [[ -n $verbs ]]; then
        COMPREPLY=($(compgen -W "$verbs" -- "$cur"))
        return
    else
        _flashferry_value "$where" "$((place + 1))" || _flashferry_value "$where" ANY_PLACE || return 0
    fi
    [[ -n $choices ]] && COMPREPLY=($(compgen -W "$choices" -- "$cur"))
    # What bash itself does with files quotes their names as they need it.
    case $kind in
        file) compopt -o default 2> /dev/null ;;
        folder) compopt -o dirnames 2> /dev/null ;;
        device) _flashferry_names hosts.yaml ;;
        group) _flashferry_names groups.yaml ;;
    esac
    return 0
}

complete -F _flashferry flashferry
"""


def bash_script(tree: Command) -> str:
    """Return the script."""
    found = tables(tree)
    engine = _ENGINE.replace("ANY_PLACE", shlex.quote(ANY_PLACE))
    return "\n".join(
        (
            "# Completion of flashferry for bash, made by 'flashferry completion bash' and for that release.",
            "",
            "_flashferry_at() {",
            '    verbs="" flags=""',
            '    case "$1" in',
            *(_at(one) for one in found),
            "    esac",
            "}",
            "",
            "_flashferry_value() {",
            '    kind="" choices=""',
            '    case "$1 $2" in',
            *_values(found),
            "        *) return 1 ;;",
            "    esac",
            "}",
            engine,
        )
    )


def _at(one: Offered) -> str:
    verbs, flags = (shlex.quote(" ".join(word for word, _ in entries)) for entries in (one.verbs, one.flags))
    return f"        {shlex.quote(one.where)}) verbs={verbs} flags={flags} ;;"


def _values(found: tuple[Offered, ...]) -> list[str]:
    """Return a line for each kind of value, with all options and places that take it."""
    return [
        f"        {'|'.join(map(shlex.quote, places))}) kind={kind} choices={shlex.quote(' '.join(words))} ;;"
        for (kind, words), places in by_value(found).items()
    ]
