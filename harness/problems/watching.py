"""What sees each operator that torch runs while it is entered."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode of one's own.

    Of others torch tells its compiler at the first operator, which takes a second of processor time
    to import. Nothing is compiled here.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Call(NamedTuple):
    """A call of an operator.

    Attributes:
        func: The operator.
        args, kwargs: What it was given.
        result: What it gave.
        key: The same for all calls of it with the same shapes; None where that is not known.
    """

    func: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    result: Any
    key: Hashable | None = None


class WatchingShapes(Watching):
    """A mode for a call on the meta device, where nothing but shapes is worked out.

    torch does so in Python, in half a millisecond for many an operator, and a recurrent model calls
    a hundred thousand. Nearly all of them have shapes that another call had: those are not worked
    out again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[Hashable, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            key = (func, *map(_described, args), *map(_described, kwargs.items()))
        except _UnlikeOthersError:
            result = func(*args, **kwargs)
            self.called(Call(func, args, kwargs, result))
            return result
        known = self._known.get(key)
        if known is None:
            result = func(*args, **kwargs)
            # What an operator does to its operand's own shape it has to do again.
            is_changed = _writes(func) and _described(args[0]) != key[1]
            if _makes_anew(func) or (_writes(func) and result is args[0] and not is_changed):
                self._known[key] = _WRITTEN if _writes(func) else _each(_shape_of, result)
        elif known is _WRITTEN:
            result = args[0]
        else:
            result = _each(_of_shape, known)
        self.called(Call(func, args, kwargs, result, key))
        return result

    def called(self, call: Call) -> None:
        """Take note of a call."""


_WRITTEN = object()


class _UnlikeOthersError(Exception):
    """An argument cannot be told from others by its shape, and what is no tensor by its value."""


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
    # 1 and 1.0 are equal, and give other types.
    return type(value), value


class _Shape(tuple[Any, ...]):
    """A tensor's, its strides, and its type."""


def _each(function: Callable[[Any], Any], result: Any) -> Any:
    """Of what an operator gives, which is one thing or several."""
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
    """Whether an operator's results are neither views of its operands nor operands themselves."""
    schema = func._schema
    return all(each.alias_info is None for each in (*schema.arguments, *schema.returns))


@lru_cache(maxsize=1 << 12)
def _writes(func: Any) -> bool:
    """Whether it writes to its first operand alone, and gives that back."""
    schema = func._schema
    written = [place for place, each in enumerate(schema.arguments) if each.alias_info is not None]
    return bool(schema.is_mutable) and written == [0] and len(schema.returns) == 1
