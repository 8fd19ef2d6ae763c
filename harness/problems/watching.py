"""Dispatch modes that observe each operator which torch runs while the mode is entered."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A base class for dispatch modes that avoids the import of torch's compiler.

    At the first operator in an ordinary mode, torch excludes the mode's handler from compilation.
    This imports the compiler, which takes a second of processor time. The harness compiles nothing.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class OperatorCall(NamedTuple):
    """A call of an operator.

    Attributes:
        func: The operator.
        args: Positional arguments.
        kwargs: Keyword arguments.
        result: Result of the operator.
        key: A key that is equal for calls of the operator with equal shapes and numbers; None if an
            argument has no key.
    """

    func: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    result: Any
    key: Hashable | None = None


class WatchingShapes(Watching):
    """A mode for calls on the meta device, which compute only shapes, with a cache of results.

    torch computes many operators' shapes in Python, in half a millisecond each. A recurrent model
    calls a hundred thousand operators, and nearly all repeat the shapes of an earlier call. The
    cache is keyed by the operator, the shapes, strides and dtypes of its tensors, and its other
    arguments. Results that are views are not cached, because they have to share storage with an
    argument.

    Args:
        known: A cache of results that several modes share; None for a new cache.
    """

    def __init__(self, known: dict[Hashable, Any] | None = None) -> None:
        super().__init__()
        self._known = {} if known is None else known

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            key = (func, *map(_described, args), *map(_described, kwargs.items()))
        except _UnlikeOthersError:
            result = func(*args, **kwargs)
            self.called(OperatorCall(func, args, kwargs, result))
            return result
        known = self._known.get(key)
        if known is None:
            result = func(*args, **kwargs)
            # An in-place operator that changes its operand's shape has to run each time.
            is_changed = _writes(func) and _described(args[0]) != key[1]
            if _makes_anew(func) or (_writes(func) and result is args[0] and not is_changed):
                self._known[key] = _WRITTEN if _writes(func) else _each(_shape_of, result)
        elif known is _WRITTEN:
            result = args[0]
        else:
            result = _each(_of_shape, known)
        self.called(OperatorCall(func, args, kwargs, result, key))
        return result

    def called(self, call: OperatorCall) -> None:
        """Handle an operator call; does nothing unless a subclass overrides it."""


_WRITTEN = object()


class _UnlikeOthersError(Exception):
    """Error for an argument without a cache key: a tensor outside meta, or an unhashable value."""


def _described(value: Any) -> Hashable:
    if isinstance(value, Tensor):
        if not value.is_meta:
            raise _UnlikeOthersError
        return value.shape, value.stride(), value.dtype
    if isinstance(value, list | tuple):
        return tuple(map(_described, value))
    try:
        hash(value)
    except TypeError as error:
        raise _UnlikeOthersError from error
    # 1 and 1.0 are equal, but results have different dtypes.
    return type(value), value


class _Shape(tuple[Any, ...]):
    """A tensor's shape, strides and dtype, which replace the tensor in a cache of results."""


def _each(function: Callable[[Any], Any], result: Any) -> Any:
    """Apply a function to each value in an operator's result, which is one value or several."""
    if isinstance(result, list | tuple) and not isinstance(result, _Shape):
        return type(result)(_each(function, value) for value in result)
    return function(result)


def _shape_of(value: Any) -> Any:
    is_tensor = isinstance(value, Tensor)
    return _Shape((value.shape, value.stride(), value.dtype)) if is_tensor else value


def _of_shape(value: Any) -> Any:
    if not isinstance(value, _Shape):
        return value
    shape, stride, dtype = value
    return torch.empty_strided(shape, stride, dtype=dtype, device="meta")


@lru_cache(maxsize=1 << 12)
def _makes_anew(func: Any) -> bool:
    """Return whether an operator's results are neither its operands nor views of them."""
    schema = func._schema
    return all(each.alias_info is None for each in (*schema.arguments, *schema.returns))


@lru_cache(maxsize=1 << 12)
def _writes(func: Any) -> bool:
    """Return whether an operator writes only to its first operand, and returns that operand."""
    schema = func._schema
    written = [place for place, each in enumerate(schema.arguments) if each.alias_info is not None]
    return bool(schema.is_mutable) and written == [0] and len(schema.returns) == 1
