"""Inside the stack's interpreter: how a kernel would be specialised, from a traced launch or by stated assumptions.

Covered: traced arguments put through Triton's own specialisation (alignment, equal to one, annotations); without a
trace, pointers are found by what is loaded and stored, constants come from the caller, defaults, autotune and
heuristics, and every guess is listed. Not covered: guesses about what a kernel means.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from probes.kernels.inside import Refused, find, first_line, innermost, wrappers

ASSUMED_DTYPE = "float32"
ASSUMED_INT = 1001
"""Neither one nor a multiple of 16: the compiler specialises on nothing."""
ASSUMED_RANGE = 64
ASSUMED_NUMBER = 16
_MEMORY = ("load", "store", "make_block_ptr", "make_tensor_descriptor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialised:
    """What `triton.compile` needs beside the function."""

    signature: dict[str, str]
    constants: dict[Any, Any]
    attributes: dict[Any, Any]
    options: Any


class Pointer:
    """Stands for a tensor where only type and alignment matter."""

    def __init__(self, dtype: str, aligned: bool = True) -> None:
        self.dtype = dtype
        self._address = 0 if aligned else 4

    def data_ptr(self) -> int:
        """An address with the alignment of the real one."""
        return self._address

    def ptr_range(self) -> int:
        """The size of what is behind it: unknown, taken as small."""
        return 0


def specialise(kernel: Any, arguments: Mapping[str, Any], options: Mapping[str, Any], backend: Any) -> Specialised:
    """The arguments as Triton's launcher would specialise them."""
    from triton.runtime.jit import create_function_from_signature

    values = {name: restored(argument) for name, argument in arguments.items()}
    unknown = sorted(set(values) - set(kernel.arg_names))
    if unknown:
        hint = f"parameters: {', '.join(kernel.arg_names)}"
        raise Refused("no-parameter", f"{kernel.__name__} has no parameter {', '.join(unknown)}", hint=hint)
    binder = create_function_from_signature(kernel.signature, kernel.params, backend)
    try:
        extra = {name: value for name, value in options.items() if name not in values}
        bound, specialization, given = binder(**values, **extra)
    except TypeError as error:
        raise Refused(
            "not-traceable", f"{kernel.__name__}: {first_line(error)}", hint="give --set or --call"
        ) from error
    known = {name: value for name, value in options.items() if value is not None}
    parsed, signature, constants, attributes = kernel._pack_args(backend, known, bound, specialization, given)
    return Specialised(signature=signature, constants=constants, attributes=attributes, options=parsed)


def restored(argument: Mapping[str, Any]) -> Any:
    """The argument that a description (`probes.kernels.launches.argument`) stands for."""
    kind = argument["kind"]
    if kind == "tensor":
        return Pointer(argument["dtype"], argument.get("aligned", True))
    if kind == "value":
        return argument["value"]
    if kind == "tuple":
        return tuple(restored(item) for item in argument["items"])
    if kind == "dtype":
        import triton.language as tl

        return tl.str_to_ty(argument["name"], None)
    return find(argument["reference"])


def assumed(kernel: Any, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Arguments, options and assumptions of a kernel that nobody called. `given` are values and dtypes by name."""
    jitted = innermost(kernel)
    use = Use.of(jitted)
    arguments: dict[str, Any] = {}
    notes: list[str] = []
    options: dict[str, Any] = {}
    tuned = _autotuned(kernel, notes, options)
    late = {name for wrapper in wrappers(kernel) if hasattr(wrapper, "values") for name in wrapper.values}
    for parameter in jitted.params:
        name = parameter.name
        if name in given:
            arguments[name] = as_argument(name, given[name], name in use.pointers)
        elif name in tuned:
            arguments[name] = {"kind": "value", "value": tuned[name]}
        elif name in late:
            continue
        else:
            arguments[name] = _guess(parameter, use, notes)
    _heuristics(kernel, arguments, notes)
    return arguments, options, notes


def as_argument(name: str, value: Any, pointer: bool) -> dict[str, Any]:
    """What a caller wrote for a parameter: a type name stands for a tensor of it, anything else is the value."""
    if isinstance(value, str) and (pointer or value.startswith("*")):
        return {"kind": "tensor", "dtype": TORCH_NAMES.get(value.lstrip("*"), value.lstrip("*")), "aligned": True}
    return {"kind": "value", "value": value}


TORCH_NAMES = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "u8": "uint8", "i1": "bool", "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How a kernel's source uses its parameters."""

    pointers: frozenset[str]
    ranges: frozenset[str]
    flags: frozenset[str]

    @classmethod
    def of(cls, jitted: Any) -> Use:
        """Read it from the source."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(jitted.fn)))
        parents: dict[str, set[str]] = {}
        used: set[str] = set()
        ranges: set[str] = set()
        flags: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        parents.setdefault(target.id, set()).update(_leftmost(node.value))
            elif isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if (called in _MEMORY or called.startswith("atomic_")) and (node.args or node.keywords):
                    used |= _leftmost(node.args[0] if node.args else node.keywords[0].value)
                elif called in ("arange", "zeros", "full"):
                    ranges |= {leaf.id for part in node.args for leaf in ast.walk(part) if isinstance(leaf, ast.Name)}
            elif isinstance(node, ast.If | ast.IfExp):
                flags |= {leaf.id for leaf in _truths(node.test)}
        names = frozenset(jitted.arg_names)
        return cls(pointers=names & _closure(used, parents), ranges=names & ranges, flags=names & flags)


def _truths(test: ast.expr) -> list[ast.Name]:
    if isinstance(test, ast.BoolOp):
        return [name for value in test.values for name in _truths(value)]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _truths(test.operand)
    return [test] if isinstance(test, ast.Name) else []


def _leftmost(node: ast.expr) -> set[str]:
    """Names that can be the base of an address: the first operand of sums, both arms of a choice."""
    while isinstance(node, ast.BinOp | ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(node, ast.BinOp):
            if not isinstance(node.op, ast.Add | ast.Sub):
                return set()
            left = _leftmost(node.left)
            return left or _leftmost(node.right)
        if isinstance(node, ast.Call):
            node = node.func.value if isinstance(node.func, ast.Attribute) and not _is_tl(node.func.value) else (
                node.args[0] if node.args else ast.Constant(value=None)
            )  # fmt: skip
        else:
            node = node.value
    if isinstance(node, ast.IfExp):
        return _leftmost(node.body) | _leftmost(node.orelse)
    return {node.id} if isinstance(node, ast.Name) else set()


def _is_tl(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("tl", "triton")


def _closure(names: set[str], parents: Mapping[str, set[str]]) -> set[str]:
    found, pending = set(names), list(names)
    while pending:
        for parent in parents.get(pending.pop(), ()):
            if parent not in found:
                found.add(parent)
                pending.append(parent)
    return found


def _autotuned(kernel: Any, notes: list[str], options: dict[str, Any]) -> dict[str, Any]:
    for wrapper in wrappers(kernel):
        if hasattr(wrapper, "configs"):
            config = wrapper.configs[0]
            notes.append(f"autotune: configuration 0 of {len(wrapper.configs)} ({config}); no device to time them")
            for name in ("num_warps", "num_stages", "num_ctas", "maxnreg"):
                if getattr(config, name, None) is not None:
                    options[name] = getattr(config, name)
            return dict(config.kwargs)
    return {}


def _heuristics(kernel: Any, arguments: dict[str, Any], notes: list[str]) -> None:
    for wrapper in wrappers(kernel):
        for name, rule in getattr(wrapper, "values", {}).items():
            if name in arguments:
                continue
            values = {key: restored(argument) for key, argument in arguments.items()}
            try:
                arguments[name] = {"kind": "value", "value": rule(values)}
            except Exception as error:
                raise Refused(
                    "not-traceable", f"the heuristic of {name} cannot be evaluated without a call: {first_line(error)}",
                    hint=f"give --set {name}=VALUE or --call MODULE:FUNCTION",
                ) from error  # fmt: skip
            notes.append(f"{name} = {arguments[name]['value']} by its heuristic")


def _guess(parameter: Any, use: Use, notes: list[str]) -> dict[str, Any]:
    name = parameter.name
    if parameter.has_default:
        notes.append(f"{name} = {parameter.default!r}, its default")
        return {"kind": "value", "value": getattr(parameter.default, "value", parameter.default)}
    if parameter.is_constexpr:
        if name in use.flags:
            value: Any = False
        else:
            value = ASSUMED_RANGE if name in use.ranges or "BLOCK" in name.upper() else ASSUMED_NUMBER
        notes.append(f"{name} = {value} is a guess")
        return {"kind": "value", "value": value}
    annotated = parameter.annotation_type
    if name in use.pointers or parameter.annotation.startswith("*"):
        notes.append(f"{name} is a pointer to {ASSUMED_DTYPE}, aligned to 16 bytes: a guess")
        return {"kind": "tensor", "dtype": ASSUMED_DTYPE, "aligned": True}
    if annotated.startswith(("fp", "bf")):
        return {"kind": "value", "value": 0.5}
    notes.append(f"{name} is an integer that is neither 1 nor a multiple of 16: a guess")
    return {"kind": "value", "value": ASSUMED_INT}
