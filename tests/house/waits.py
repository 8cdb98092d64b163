"""How tests wait, as their files show it: limits, lives, sleeps, and assertions on clocks (docs/testing.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from flashferry.core.values import replace

LEAST_S = 60.0
"""Shortest limit on a wait, in seconds. Zero is no wait and is allowed."""

_LIMIT = re.compile(r"^within(_s)?$|(^|_)((timeout|patience|deadline)(_s)?|(limit|longest)(_[a-z0-9]+)*_s)$")
_LIVES = "ban|data_connect|drain|fall_back_after|give_up|give_up_after|idle|lifetime|return|stall|stall_after"
_LIFE = re.compile(rf"^({_LIVES})_s$")
"""What the product gives up after: a test process that stands still for some seconds must not meet it."""

_WAITS = frozenset(
    {"acquire", "communicate", "create_connection", "fail_after", "join", "move_on_after", "poll", "result", "select"}
    | {"settimeout", "stop", "timeout", "until", "wait", "wait_final", "wait_for"}
)
_CLOCKS = frozenset(
    f"{name}{unit}" for name in ("monotonic", "perf_counter", "process_time", "thread_time") for unit in ("", "_ns")
)
_SLEEPERS = frozenset({"time", "asyncio", "anyio", "trio"})
_OF_INTEREST = re.compile(
    r"\bsleep\(|wait_for_timeout|\bnew_context\(|\bTimer\("
    r"|(?:monotonic|perf_counter|process_time|thread_time|\btime\.time)(?:_ns)?\(\)"
    r"|(?:timeout|patience|within|deadline|(?:limit|longest)\w*_s)(?:_s)?\s*(?::[^=\n]*)?=\s*(?!=|PATIENCE_S\b)"
    r"|(?:TIMEOUT|PATIENCE|WITHIN|DEADLINE|(?:LIMIT|LONGEST)\w*_S)(?:_S)?\b.*="
    rf"|\b(?:{'|'.join(sorted(_WAITS))})\(.*\d"
    rf"|\b(?:{_LIVES}|deadline|limit)_s\"?\s*[:=]\s*\S"
)
"""What a file has that is worth parsing: most have none of it."""

_EXPIRES = re.compile(r"raises\([^)]*Timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One place of a test's file that depends on a time.

    Attributes:
        name: The limit's name, the call that has it, `sleep`, or `clock`: what an exception is listed by.
        line: Its line.
        message: What was found and what to do.
    """

    name: str
    line: int
    message: str


def findings(source: str) -> tuple[Finding, ...]:
    """Return each short limit, sleep, and assertion on a clock of a file's text, in order of lines.

    A limit is a number of seconds above zero: given to a wait, as an argument or a default of such a name, assigned to
    such a name, under such a name in a dictionary, or added to a clock; so is a life, such as a ticket's. A name at the
    top of the file stands for its number. A limit inside `pytest.raises` of a time-out is none: its expiry is what the
    test asserts.
    """
    if not _OF_INTEREST.search(source):
        return ()
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    numbers = _numbers(tree)
    found: list[Finding] = []
    for node in nodes:
        if isinstance(node, ast.Call):
            found += _in_call(node, numbers)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found += _in_defaults(node.args, numbers)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            found += _in_assignment(node, numbers)
        elif isinstance(node, ast.Dict):
            found += _in_dictionary(node, numbers)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_clock(node.left):
            found += _limit("deadline", node.right, numbers, node.lineno)
    if any(_is_clock(node) for node in nodes):
        found += _clock_assertions(nodes)
    expiring = _expiring_lines(nodes) if found else frozenset[int]()
    kept = {one for one in found if one.line not in expiring or one.name in {"sleep", "clock"}}
    return tuple(sorted(kept, key=lambda one: (one.line, one.name)))


def _limit(name: str, value: ast.expr, numbers: Mapping[str, float], line: int) -> Iterator[Finding]:
    """Yield a finding where a value may be a number of seconds above zero and below the least."""
    values = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
    for one in values:
        number = _number(one, numbers)
        if number is not None and 0 < number < LEAST_S:
            message = (
                f"{name}: expected a limit of at least {LEAST_S:.0f} s, found {number:g} s; use PATIENCE_S or until"
            )
            yield Finding(name=name, line=line, message=message)


def _in_call(call: ast.Call, numbers: Mapping[str, float]) -> Iterator[Finding]:
    name = _name(call.func)
    if _is_sleep(call.func):
        if not (call.args and _number(call.args[0], numbers) == 0):
            yield Finding(name="sleep", line=call.lineno, message="sleep: expected a wait for an event; use until")
        return
    if name == "Timer":
        message = "Timer: expected an act at an event, found one after a time; act where the event is seen"
        yield from (replace(one, message=message) for one in _limit(name, call.args[0], numbers, call.lineno))
    elif name == "new_context":
        message = "new_context: expected pages with the one patience, found Playwright's 30 s; use context_of"
        yield Finding(name=name, line=call.lineno, message=message)
    for keyword in call.keywords:
        if keyword.arg and _is_limit(keyword.arg):
            yield from _limit(keyword.arg, keyword.value, numbers, call.lineno)
    if name in _WAITS:
        for value in call.args:
            yield from _limit(name, value, numbers, call.lineno)


def _in_defaults(given: ast.arguments, numbers: Mapping[str, float]) -> Iterator[Finding]:
    positional = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(reversed(positional), reversed(given.defaults), strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    for argument, default in pairs:
        if default is not None and _is_limit(argument.arg):
            yield from _limit(argument.arg, default, numbers, argument.lineno)


def _in_assignment(node: ast.Assign | ast.AnnAssign, numbers: Mapping[str, float]) -> Iterator[Finding]:
    for target, value in _assigned(node):
        if _is_limit(_name(target).lower()):
            yield from _limit(_name(target), value, numbers, node.lineno)


def _in_dictionary(node: ast.Dict, numbers: Mapping[str, float]) -> Iterator[Finding]:
    """Yield the limits among a dictionary's entries: options of a bench, by their names."""
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and _is_limit(key.value):
            yield from _limit(key.value, value, numbers, key.lineno)


def _is_limit(name: str) -> bool:
    return bool(_LIMIT.search(name) or _LIFE.search(name))


def _clock_assertions(nodes: Iterable[ast.AST]) -> Iterator[Finding]:
    """Yield assertions on a clock, or on a name that was calculated from one in the same function."""
    for function in nodes:
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = list(ast.walk(function))
            asserted = [node for node in inner if isinstance(node, ast.Assert)]
            if asserted and any(_is_clock(node) for node in inner):
                clocks = _names_of_clocks(inner)
                for node in asserted:
                    if any(_is_of_clock(part, clocks) for part in ast.walk(node.test)):
                        message = "clock: expected an assertion on order or events, found one on a clock"
                        yield Finding(name="clock", line=node.lineno, message=message)


def _names_of_clocks(nodes: Iterable[ast.AST]) -> Set[str]:
    clocks: set[str] = set()
    for node in sorted((one for one in nodes if isinstance(one, ast.Assign)), key=lambda one: one.lineno):
        clocks |= {_name(target) for target, value in _assigned(node) if _is_of_clock(value, clocks)}
    return clocks


def _expiring_lines(nodes: Iterable[ast.AST]) -> Set[int]:
    """Return the lines of blocks in which a time-out is expected."""
    lines: set[int] = set()
    for node in nodes:
        if isinstance(node, (ast.With, ast.AsyncWith)):
            contexts = [ast.unparse(item.context_expr) for item in node.items]
            if any(_EXPIRES.search(one) for one in contexts):
                lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _is_of_clock(node: ast.AST, clocks: Set[str]) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_of_clock(node.left, clocks) or _is_of_clock(node.right, clocks)
    return _is_clock(node) or (isinstance(node, ast.Name) and node.id in clocks)


def _is_clock(node: ast.AST) -> bool:
    """Tell whether it is a call of a clock: `time.monotonic()`, `perf_counter()`, `time.time()`."""
    if not isinstance(node, ast.Call):
        return False
    name = _name(node.func)
    return name in _CLOCKS or (name in {"time", "time_ns"} and _name(getattr(node.func, "value", None)) == "time")


def _is_sleep(function: ast.expr) -> bool:
    """Tell whether it takes time: the `sleep` of a clock that is handed in need not."""
    if isinstance(function, ast.Attribute):
        is_real = function.attr == "sleep" and _name(function.value) in _SLEEPERS
        return is_real or function.attr == "wait_for_timeout"
    return _name(function) == "sleep"


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target with its value; those of a tuple one by one."""
    if node.value is None:
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _numbers(tree: ast.Module) -> Mapping[str, float]:
    """Return the names at the top of a file that stand for a number."""
    known: dict[str, float] = {}
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target, value in _assigned(node):
                number = _number(value, known)
                if number is not None:
                    known[_name(target)] = number
    return known


def _number(value: ast.expr, numbers: Mapping[str, float]) -> float | None:
    """Return the number that an expression stands for, or None."""
    if isinstance(value, ast.Constant):
        return value.value if type(value.value) in (int, float) else None  # type: ignore[return-value]
    if isinstance(value, ast.Name):
        return numbers.get(value.id)
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        number = _number(value.operand, numbers)
        return None if number is None else -number
    if isinstance(value, ast.BinOp):
        left, right = _number(value.left, numbers), _number(value.right, numbers)
        if left is not None and right is not None:
            return _calculated(value.op, left, right)
    return None


def _calculated(operator: ast.operator, left: float, right: float) -> float | None:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    return left / right if isinstance(operator, ast.Div) and right else None


def _name(node: ast.AST | None) -> str:
    """Return the last name of a dotted one, or an empty text."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
