"""Floating-point arithmetic of f32 and f64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.instructions.compare import flushed
from harness.simulator.instructions.operation import (
    DTYPES,
    Array,
    Builder,
    Operation,
    OperationContext,
    UnknownForm,
)
from harness.simulator.ptx.ptx import Instruction

FLOATS = frozenset({"f32", "f64"})
ROUNDINGS: Mapping[str, int] = MappingProxyType({"rn": 0, "rz": 1, "rm": 2, "rp": 3})
"""Rounding modes, and their numbers in arithmetic.c."""

_ROUNDED = MappingProxyType({"add": 0, "mul": 1, "fma": 2, "div": 3, "sqrt": 4})
CANONICAL_NAN = np.array(0x7FFFFFFF, np.uint32).view(np.float32)
"""The NaN that float32 arithmetic returns."""

# Beyond this divisor, `div.approx.f32` returns 0.
_LARGEST_DIVISOR = np.float32(2.0**126)
_TURNS_PER_RADIAN = float(np.float32(1 / (2 * np.pi)))

Function = Callable[..., object]


def saturated(a: Array) -> Array:
    """Return the numbers clamped to [0, 1], with 0 for NaN (`.sat`)."""
    return np.where(a > 0, np.minimum(a, 1), np.zeros(1, a.dtype)).astype(a.dtype)


def adjusted(function: Function, instruction: Instruction, kind: str) -> Function:
    """Return `function` with the effects of the instruction's `.ftz` and `.sat` added.

    The last argument of `function` is its output. `kind` is the PTX type of the numbers.
    """
    ftz = "ftz" in instruction.modifiers and kind == "f32"
    sat = "sat" in instruction.modifiers
    if not ftz and not sat:
        return function

    def compute(*arrays: Array) -> None:
        *inputs, out = arrays
        shape = np.broadcast_shapes(*(a.shape for a in inputs))
        result = np.empty(shape, out.dtype)
        function(*(flushed(a) if ftz else a for a in inputs), result)
        if ftz:
            result = flushed(result)
        np.copyto(out, saturated(result) if sat else result)

    return compute


def _float_type(instruction: Instruction, *allowed: str) -> str:
    *others, kind = instruction.modifiers
    if kind not in FLOATS or set(others) - {"rn", "rz", "rm", "rp", "ftz", "sat", *allowed}:
        raise UnknownForm
    return kind


def _rounding(instruction: Instruction) -> str:
    return next((m for m in instruction.modifiers if m in ROUNDINGS), "rn")


def _arithmetic(count: int) -> Builder:
    """Return a function that builds the `Operation` of add, sub, mul, fma, div, sqrt or rcp.

    The results of these instructions are rounded once. `count` is the number of operands.
    """

    def build(instruction: Instruction, context: OperationContext) -> Operation:
        kind = _float_type(instruction)
        rounding = _rounding(instruction)
        if rounding == "rn":
            return _nearest(instruction, context, kind, count)
        function = _directed(
            instruction.opcode.replace("mad", "fma"), ROUNDINGS[rounding], kind, context
        )
        return Operation((kind,) * count, (kind,), adjusted(function, instruction, kind))

    return build


def _nearest(
    instruction: Instruction, context: OperationContext, kind: str, count: int
) -> Operation:
    opcode = "fma" if instruction.opcode == "mad" else instruction.opcode
    plain: dict[str, Function] = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "sqrt": np.sqrt,
    }
    if opcode == "rcp":
        return Operation((kind,), (kind,), adjusted(_reciprocal(context, kind), instruction, kind))
    native = None if kind == "f64" and opcode in plain else f"{opcode}_{kind}"
    base = context.native(native) if native else plain[opcode]
    function = adjusted(base, instruction, kind)
    return Operation((kind,) * count, (kind,), function, native if function is base else None)


def _reciprocal(context: OperationContext, kind: str) -> Function:
    divide = context.native("div_f32") if kind == "f32" else np.divide
    return lambda a, out: divide(np.ones(1, a.dtype), a, out)


def _directed(opcode: str, rounding: int, kind: str, context: OperationContext) -> Function:
    one = np.ones(1, DTYPES[kind])
    if opcode == "sub":
        add = context.native(f"rounded_{kind}", _ROUNDED["add"], rounding)
        return lambda a, b, out: add(a, -b, one, out)
    if opcode == "rcp":
        divide = context.native(f"rounded_{kind}", _ROUNDED["div"], rounding)
        return lambda a, out: divide(one, a, one, out)
    native = context.native(f"rounded_{kind}", _ROUNDED[opcode], rounding)
    return {
        "fma": native,
        "sqrt": lambda a, out: native(a, one, one, out),
    }.get(opcode, lambda a, b, out: native(a, b, one, out))


def _of_turns(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a sine or cosine that first computes the number of turns, as the hardware does.

    The hardware multiplies by 1 / (2 pi) as float32, and rounds towards zero. So the error grows
    with the argument. The PTX ISA bounds it in [-pi, pi] only.
    """

    def compute(a: Array) -> Array:
        turns = a * _TURNS_PER_RADIAN
        nearest = turns.astype(np.float32)
        is_beyond = np.abs(nearest.astype(np.float64)) > np.abs(turns)
        toward_zero = np.where(is_beyond, np.nextafter(nearest, np.float32(0)), nearest)
        return function(2 * np.pi * (toward_zero.astype(np.float64) % 1.0))

    return compute


def _approximate(function: Callable[[Array], Array]) -> Builder:
    """Return a function that builds the `Operation` of `ex2.approx.f32` or a similar instruction.

    The simulator computes `function` in float64 and rounds once to f32. The relative error is then
    at most 2^-24, half a unit in the last place. The PTX ISA allows these larger errors:

    - rcp and sqrt: 1 ulp.
    - rsqrt and ex2: 2^-22.9 and 2^-22.5, relative.
    - tanh: 2^-11, relative; see `_coarse_tanh`.
    - lg2: 2^-22, absolute near 1, otherwise relative.
    - sin and cos: 2^-20.5, absolute in [-pi, pi]; see `_of_turns`.
    """

    def build(instruction: Instruction, _context: OperationContext) -> Operation:
        kind = _float_type(instruction, "approx")
        if kind == "f64":
            return _approximate_double(instruction, function)
        if kind != "f32" or "approx" not in instruction.modifiers:
            raise UnknownForm

        def compute(a: Array, out: Array) -> None:
            with np.errstate(all="ignore"):
                result = function(a.astype(np.float64)).astype(np.float32)
            np.copyto(out, np.where(np.isnan(result), CANONICAL_NAN, result))

        return Operation((kind,), (kind,), adjusted(compute, instruction, kind))

    return build


def _coarse_tanh(a: Array) -> Array:
    """Return tanh with about the error of `tanh.approx.f32` on a GPU.

    Measured on an H100 for a million numbers: numbers below 2^-8 are returned unchanged. Others
    have a relative error of up to 2^-16.5, or of 2^-18.5 from 2 on. Here they are rounded to 16 or
    18 bits, so that a kernel is not more precise than on a GPU.
    """
    fraction, exponent = np.frexp(np.tanh(a))
    units = np.where(np.abs(a) < 2.0, 2.0**16, 2.0**18)
    return np.where(np.abs(a) < 2.0**-8, a, np.ldexp(np.rint(fraction * units) / units, exponent))


def _approximate_double(instruction: Instruction, function: Callable[[Array], Array]) -> Operation:
    """Return the `Operation` of `rcp.approx.ftz.f64` or `rsqrt.approx{.ftz}.f64`.

    With `.ftz`, the low word of the operand is ignored, the low word of the result is zero, and
    subnormal numbers become zero (PTX ISA). The result's fraction then has 20 correct bits.
    Software divisions start from such a result.
    """
    opcode = instruction.opcode
    ftz = "ftz" in instruction.modifiers
    if opcode not in ("rcp", "rsqrt") or (opcode == "rcp" and not ftz):
        raise UnknownForm
    high = np.uint64(0xFFFFFFFF00000000)
    smallest = np.finfo(np.float64).tiny

    def flush(a: Array) -> Array:
        return np.where(np.abs(a) < smallest, np.copysign(0.0, a), a)

    def compute(a: Array, out: Array) -> None:
        with np.errstate(all="ignore"):
            if not ftz:
                np.copyto(out, function(a))
                return
            result = function(flush((a.view(np.uint64) & high).view(np.float64)))
        np.copyto(out, (flush(result).view(np.uint64) & high).view(np.float64))

    return Operation(("f64",), ("f64",), compute)


def _or_approximate(exact: Builder, approximate: Builder) -> Builder:
    def build(instruction: Instruction, context: OperationContext) -> Operation:
        chosen = approximate if "approx" in instruction.modifiers else exact
        return chosen(instruction, context)

    return build


def _div(instruction: Instruction, context: OperationContext) -> Operation:
    if not {"approx", "full"} & set(instruction.modifiers):
        return _arithmetic(2)(instruction, context)
    kind = _float_type(instruction, "approx", "full")
    if kind != "f32":
        raise UnknownForm
    divide = context.native("div_f32")
    if "full" in instruction.modifiers:
        return Operation((kind, kind), (kind,), adjusted(divide, instruction, kind))

    def compute(a: Array, b: Array, out: Array) -> None:
        divide(a, b, out)
        # The hardware multiplies by 1 / b, which is 0 where it would be subnormal (PTX ISA).
        is_large = (np.abs(b) > _LARGEST_DIVISOR) & np.isfinite(b)
        if is_large.any():
            with np.errstate(invalid="ignore"):
                np.copyto(out, a * np.copysign(np.float32(0), b), where=is_large)

    return Operation((kind, kind), (kind,), adjusted(compute, instruction, kind))


def _extremum(instruction: Instruction, context: OperationContext) -> Operation:
    kind = _float_type(instruction, "NaN", "xorsign", "abs")
    if len(instruction.operands) != 3 or {"xorsign", "abs"} & set(instruction.modifiers):
        raise UnknownForm
    extremum = context.native(f"{instruction.opcode}_{kind}")
    propagates = "NaN" in instruction.modifiers

    def compute(a: Array, b: Array, out: Array) -> None:
        shape = np.broadcast_shapes(a.shape, b.shape)
        result = np.empty(shape, a.dtype)
        extremum(np.broadcast_to(a, shape), np.broadcast_to(b, shape), result)
        if propagates:
            result[np.broadcast_to(np.isnan(a) | np.isnan(b), shape)] = CANONICAL_NAN
        np.copyto(out, result)

    if not propagates and "ftz" not in instruction.modifiers:
        name = f"{instruction.opcode}_{kind}"
        return Operation((kind, kind), (kind,), extremum, name)
    return Operation((kind, kind), (kind,), adjusted(compute, instruction, kind))


def _sign(instruction: Instruction, _context: OperationContext) -> Operation:
    """Return the `Operation` of abs or neg, which change only the sign bit."""
    kind = _float_type(instruction)
    function = np.negative if instruction.opcode == "neg" else np.absolute
    return Operation((kind,), (kind,), adjusted(function, instruction, kind))


def _copysign(instruction: Instruction, _context: OperationContext) -> Operation:
    kind = _float_type(instruction)
    if kind not in ("f32", "f64"):
        raise UnknownForm
    return Operation((kind, kind), (kind,), lambda sign, a, out: np.copysign(a, sign, out))


_TESTS: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
    }
)


def _testp(instruction: Instruction, _context: OperationContext) -> Operation:
    test, kind = instruction.modifiers
    if test not in _TESTS or kind not in ("f32", "f64"):
        raise UnknownForm
    return Operation((kind,), ("pred",), lambda a, out: np.copyto(out, _TESTS[test](a)))


OPERATIONS: Mapping[str, Builder] = MappingProxyType(
    {
        "add": _arithmetic(2),
        "sub": _arithmetic(2),
        "mul": _arithmetic(2),
        "fma": _arithmetic(3),
        "mad": _arithmetic(3),
        "div": _div,
        "sqrt": _or_approximate(_arithmetic(1), _approximate(np.sqrt)),
        "rcp": _or_approximate(_arithmetic(1), _approximate(np.reciprocal)),
        "rsqrt": _approximate(lambda a: 1 / np.sqrt(a)),
        "ex2": _approximate(np.exp2),
        "lg2": _approximate(np.log2),
        "sin": _approximate(_of_turns(np.sin)),
        "cos": _approximate(_of_turns(np.cos)),
        "tanh": _approximate(_coarse_tanh),
        "min": _extremum,
        "max": _extremum,
        "abs": _sign,
        "neg": _sign,
        "copysign": _copysign,
        "testp": _testp,
    }
)
"""Builders by opcode, for the floating-point types."""
