"""Execution of torch's operators on tensors of the device, by torch's own kernels.

A worker sends an operator's name and arguments. Only listed operators run here; their arguments are
checked, and each call is added to the record of work. The lists exist because torch's kernels were
written for arguments that torch's Python API has checked. Some kernels write outside their tensors
if the sizes, strides or enum values are hostile.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from harness.device import gpu_only
from harness.device.choices import Descriptors
from harness.device.executor import DeviceMemory
from harness.device.operator_names import (
    COMPLEX,
    INT32,
    JOINED,
    NEGATED,
    SCALED,
    TRUNCATED,
    WIDE,
    is_known,
    is_library,
)
from harness.device.place import Place
from harness.device.record import CHOSEN, FROM_HOST, TO_HOST, Record
from harness.device.tensors import put, tensor_at
from harness.device.values import (
    Argument,
    DeviceArgument,
    Malformed,
    OnDevice,
    Reader,
    bytes_told,
    encode,
)
from harness.device.vast import is_vast_output, zero_output
from harness.problems.vast import Vast
from harness.simulator.hardware.errors import LibraryCall, UnsupportedCall
from harness.simulator.layout.scalar_types import DTYPES

_NAME = re.compile(r"aten::(\w+)", re.ASCII)
_OVERLOAD = re.compile(r"\w*", re.ASCII)

# Operators that never run here: they take memory or files other than tensors, work on objects of
# the host alone, or trust their arguments too much for untrusted ones.
_REFUSED = re.compile(
    r"from_file|set_|resize|storage|pin_memory|record_stream|sparse|nested|mkldnn|quant|vulkan"
    r"|cudnn|from_blob|dlpack|share_memory|_pack_padded|coalesce|backward|lstm|gru|rnn|nnpack"
    r"|scaled_mm|weight_norm|convert_indices|^_stack$|^__upsample|powsum|fftfreq|slow_conv3d"
    r"|reflection_pad3d|batch_norm_legit|foreach_copy|native_channel_shuffle|_cumm(ax|in)_helper",
)
# Operators that make a tensor from numbers alone.
_MAKING = re.compile(r"(arange|empty|eye|full|linspace|logspace|ones|rand|range|tri[lu]_|zeros)")
# Operators whose results have sizes that depend on values, so that the sizes carry information.
_TELLING = re.compile(
    r"bincount|::_?index$|masked_select|nonzero|repeat_interleave|unique|::where$"
)
# Operators in which torch waits for the device, because it needs values on the host.
_WAITING = re.compile(rf"{_TELLING.pattern}|item|local_scalar|equal$|is_nonzero|index_put")
# Operators that fill a vast output with zeros, though most of it is not in memory.
_ZEROING = ("aten::zero_", "aten::fill_")
_MEMORY_FORMATS = range(4)
_STRIDED = 0

LEAST_OF_A_CALL = 8
"""Least bytes of information from the host that a call counts as, unless it launches a kernel.

The choice of the tensors or of the memory that a call uses is information, too.
"""

# Arguments of operators that make their result; overloads with `out` take these from `out` instead.
_OF_RESULTS = ("dtype", "layout", "device", "pin_memory")
_NUMBER = (bool, int, float, complex)
_WIDE_DTYPES = (torch.int64, torch.float64, torch.complex128)


class Operators:
    """An executor of torch's operators on the tensors in one device's memory.

    Attributes:
        vast: Description of the vast input of the present step; None if no input is vast.
    """

    def __init__(self, memory: DeviceMemory, record: Record) -> None:
        self._memory = memory
        self._record = record
        self._descriptors = Descriptors(memory)
        self.vast: Vast | None = None

    def run(self, message: bytes) -> bytes:
        """Run the operator that a message names, and return its results as bytes.

        Raises:
            Malformed: The message does not have the format of an operator's call.
            LibraryCall: The operator is not allowed, and it sums products or is unknown.
            UnsupportedCall: The operator is not allowed, but it is known not to sum products.
            Exception: The operator itself raised it.
        """
        reader = Reader(message)
        name, overload = reader.value(), reader.value()
        arguments = []
        while not reader.is_at_end:
            arguments.append(reader.value())
        op = _operator(name, overload, self._memory.torch_device)
        if self.vast and name in _ZEROING and self._has_zeroed(name, arguments, self.vast):
            return encode([Argument(0)])
        call = _Call(self._memory, op, arguments)
        # The first two words are the operator's own names.
        bits = self._descriptors.told((name, overload), reader.addresses, reader.words[2:])
        least = LEAST_OF_A_CALL * call.choices
        self._record.add_bytes(CHOSEN, max(least, -(-bits.choices // 8)))
        self._record.add_bytes(FROM_HOST, reader.told + -(-bits.values // 8))
        try:
            with self._memory.queueing(waits=call.waits):
                results = call.copy() if name == "aten::copy_" else call.run()
        finally:
            # An operator may have written some of its results before it raises.
            call.record(self._record, name)
        self._record.add_bytes(TO_HOST, bytes_told(results) + call.bytes_of_shapes())
        return encode(results)

    def _has_zeroed(self, name: str, arguments: Sequence[object], vast: Vast) -> bool:
        """Fill a vast output with zeros if the call is to do so; return whether it was."""
        target, *rest = arguments or (None,)
        is_zero = not rest or (isinstance(rest[0], _NUMBER) and rest[0] == 0)
        if not isinstance(target, OnDevice) or not is_zero:
            return False
        if not is_vast_output(self._memory, target.place, vast):
            return False
        zero_output(self._memory, target.place, vast)
        self._record.add("operator", name, math.prod(target.place.shape))
        self._record.add_bytes(CHOSEN, LEAST_OF_A_CALL)
        return True


def _operator(name: object, overload: object, device: torch.device) -> Any:
    """Return torch's overload of an operator if it may run on `device`.

    Raises what `Operators.run` raises.
    """
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if not found or not isinstance(overload, str) or not _OVERLOAD.fullmatch(overload):
        raise Malformed("an invalid operator name")
    try:
        op = getattr(getattr(torch.ops.aten, found[1]), overload or "default")
    except AttributeError:
        raise Malformed(f"an operator {found[0]}.{overload}, which torch does not have") from None
    # The harness's own operators check their arguments.
    is_ours = device.type == "cpu" and found[1] in gpu_only.OPERATORS
    if is_ours or (
        is_known(found[1]) and not _REFUSED.search(found[1]) and _takes_tensors(op, found[1])
    ):
        return op
    raise LibraryCall(found[0]) if is_library(found[1]) else UnsupportedCall(f"operator {found[0]}")


def _without_out(op: Any) -> Any:
    """Return the overload to run for `op`: the one without `out` arguments, if `op` has any.

    The caller then copies the results to the `out` tensors. The overloads with `out` do not run,
    because many of them trust the sizes and strides of the tensors that they write to.

    Raises:
        UnsupportedCall: No overload without `out` has the same arguments and results.
    """
    wanted = [_signature(each) for each in op._schema.arguments if not _is_out(each)]
    if len(wanted) == len(op._schema.arguments):
        return op
    packet = op.overloadpacket
    for name in packet.overloads():
        other = getattr(packet, name)
        has_as_many = len(other._schema.returns) == len(op._schema.returns)
        has = [_signature(each) for each in other._schema.arguments if each.name not in _OF_RESULTS]
        if has_as_many and has == [each for each in wanted if each[0] not in _OF_RESULTS]:
            return other
    raise UnsupportedCall(f"operator {op._schema.name}.{op._overloadname}")


def _is_out(argument: Any) -> bool:
    return bool(argument.kwarg_only and argument.alias_info and argument.alias_info.is_write)


def _signature(argument: Any) -> tuple[str, str, bool]:
    return argument.name, str(argument.type), argument.alias_info is not None


def _takes_tensors(op: Any, name: str) -> bool:
    """Return whether an operator takes or makes tensors, not only numbers."""
    is_making = _MAKING.match(name) is not None
    return is_making or any("Tensor" in str(each.type) for each in op._schema.arguments)


def _mark_of_copy(target: Tensor, source: Tensor) -> str:
    """Return the mark of a copy that computes, or "" for one that only moves or rounds numbers."""
    if target.is_neg() != source.is_neg():
        return NEGATED
    is_to_integers = not (target.is_floating_point() or target.is_complex())
    is_truth = target.dtype is torch.bool
    return TRUNCATED if source.is_floating_point() and is_to_integers and not is_truth else ""


class _Call:
    """One call of an operator, with its arguments converted to the types that torch takes."""

    def __init__(self, memory: DeviceMemory, op: Any, arguments: Sequence[object]) -> None:
        self._memory = memory
        self._op = op
        self._schema = op._schema
        if len(arguments) != len(self._schema.arguments):
            raise Malformed(f"{len(arguments)} arguments for {op}")
        self._tensors: list[Tensor] = []
        self._places: list[Place | None] = []
        self._results: list[Tensor] = []
        self._has_list = any(isinstance(each, list) and _has_tensor(each) for each in arguments)
        self._arguments = [
            _converted_enum(str(argument.real_type), self._resolved(each))
            for argument, each in zip(self._schema.arguments, arguments, strict=True)
        ]
        # The worker sends a number for a tensor that torch has made from a number.
        for number, argument in enumerate(self._schema.arguments):
            if isinstance(self._arguments[number], _NUMBER) and "Tensor" in str(argument.type):
                self._arguments[number] = self._wrapped(self._arguments[number])
        self._outs = [
            _index(self._tensors, value)
            for argument, value in zip(self._schema.arguments, self._arguments, strict=True)
            if _is_out(argument)
        ]
        if "::_fft_" in self._schema.name:
            _check_dimensions(self._arguments)
        self._of_kernels = any(
            memory.is_of_kernels(place) for place in self._places if place and not place.is_empty
        )

    @property
    def choices(self) -> int:
        """Number of choices that the host makes in this call, for the record of information.

        If the call takes a list of tensors, each of its tensors is a choice: their selection and
        order carry information. Any other call is one choice.
        """
        return max(1, len(self._tensors)) if self._has_list else 1

    @property
    def waits(self) -> bool:
        """True if torch waits for the device in this call: for values, or to copy from the host."""
        is_copy = self._schema.name == "aten::copy_"
        # A tensor of the host without dimensions becomes an argument of a kernel, unless the call
        # copies it. Any other tensor of the host is copied to the device.
        is_from_host = any(
            place is None and (is_copy or tensor.dim())
            for place, tensor in zip(self._places, self._tensors, strict=True)
        )
        return is_from_host or bool(_WAITING.search(self._schema.name))

    def run(self) -> list[object]:
        """Run the operator, and return its results in the form that `values.encode` takes."""
        op = _without_out(self._op)
        positional = [
            value
            for argument, value in zip(self._schema.arguments, self._arguments, strict=True)
            if not argument.kwarg_only
        ]
        named = {
            argument.name: value
            for argument, value in zip(self._schema.arguments, self._arguments, strict=True)
            if argument.kwarg_only and not _is_out(argument)
        }
        if self._outs and any(each.name == "dtype" for each in op._schema.arguments):
            named["dtype"] = named.get("dtype") or self._tensors[self._outs[0]].dtype
        with torch.no_grad():
            returned = op(*positional, **named)
        values = returned if isinstance(returned, tuple) else (returned,)
        if not self._schema.returns:
            values = ()
        if self._outs:
            return [self._out(*pair) for pair in zip(self._outs, values, strict=True)]
        return [self._result(value) for value in values]

    def copy(self) -> list[object]:
        """Run `copy_`, and return its result; a copy of unwritten elements counts as unwritten."""
        target, source = self._places[:2]
        to, values = self._tensors[:2]
        if target is None:
            raise Malformed("a copy to the host")
        to.copy_(values)
        if not to.numel():
            return [Argument(0)]
        self._memory.mark_copy(target, source, tuple(values.shape))
        return [Argument(0)]

    def record(self, record: Record, name: str) -> None:
        """Add the call to the record of work, under the operator's name."""
        tensors = [*self._tensors, *self._results]
        counts = [tensor.numel() for tensor in tensors]
        elements = sum(counts) if self._has_list else max(counts, default=0)
        if name == "aten::copy_":
            record.add("operator", name + _mark_of_copy(*tensors[:2]), tensors[0].numel())
            return
        output = self._results[0] if self._results else None
        factors = [each for at, each in enumerate(self._tensors) if at not in self._outs]
        multiplied = products(name, factors, output) if output is not None else 0
        # Further results, such as the indices of a maximum, hold no products.
        dtype = output.dtype if output is not None else None
        if dtype in _WIDE_DTYPES:
            name += WIDE
        elif dtype is torch.int32:
            name += INT32
        if any(tensor.is_complex() for tensor in tensors):
            # A complex product takes four real ones.
            name += COMPLEX
            elements *= 4
        elif self._is_scaled():
            name += SCALED
        elif self._is_joining():
            name += JOINED
        record.add("operator", name, elements, multiplied, is_of_kernels=self._of_kernels)

    def bytes_of_shapes(self) -> int:
        """Return how many bytes of information about values the host learns from results' shapes.

        An example is the number of rows that `nonzero` returns.
        """
        if not _TELLING.search(self._schema.name):
            return 0
        return sum(bytes_told(each.shape) for each in self._results)

    def _is_joining(self) -> bool:
        """Return whether the call combines values with those already in its target, as by a sum."""
        return any(
            (argument.name == "accumulate" and value is True)
            or (argument.name == "reduce" and value is not None)
            for argument, value in zip(self._schema.arguments, self._arguments, strict=True)
        )

    def _is_scaled(self) -> bool:
        """Return whether the call also multiplies by an argument `alpha` other than 1."""
        return any(
            argument.name == "alpha" and isinstance(value, int | float | complex) and value != 1
            for argument, value in zip(self._schema.arguments, self._arguments, strict=True)
        )

    def _resolved(self, value: object) -> object:
        """Convert an argument to the form that torch takes; store its tensors and their places."""
        match value:
            case OnDevice():
                tensor = tensor_at(self._memory, value.place)
                if value.is_conjugated:
                    tensor = tensor.conj()
                if value.is_negated:
                    tensor = torch._neg_view(tensor)
                self._places.append(value.place)
                self._tensors.append(tensor)
                return tensor
            case Tensor():
                self._places.append(None)
                self._tensors.append(value)
                return value
            case DeviceArgument():
                return self._memory.torch_device
            case list():
                return [self._resolved(each) for each in value]
        return value

    def _wrapped(self, number: object) -> Tensor:
        """Return a number as a tensor, for an argument that must be a tensor.

        The dtype follows torch's type promotion: the common dtype of the call's tensors, unless
        the number's kind (bool, integer, real, complex) is wider.
        """
        alone = torch.tensor(number)
        if not self._tensors:
            return alone
        dtype = self._tensors[0].dtype
        for tensor in self._tensors[1:]:
            dtype = torch.promote_types(dtype, tensor.dtype)
        is_wider = _kind(alone.dtype) > _kind(dtype)
        return alone if is_wider else alone.to(dtype)

    def _out(self, number: int, value: Tensor) -> object:
        """Write a result to an `out` argument; return the entry for the worker's answer.

        Args:
            number: Index of the `out` argument among the call's tensors.
            value: The result.

        Raises:
            Malformed: The `out` argument is not a tensor.
            RuntimeError: The result cannot be cast to the dtype of the `out` argument.
        """
        if number < 0:
            raise Malformed("an output that is not a tensor")
        dtype = self._tensors[number].dtype
        if not torch.can_cast(value.dtype, dtype):
            raise RuntimeError(
                f"result type {value.dtype} can't be cast to the output type {dtype}"
            )
        self._results.append(value)
        return self._written(number, value.to(dtype))

    def _result(self, value: object) -> object:
        """Return a result in the form that `values.encode` takes.

        A new tensor is copied to the device's memory.
        """
        if isinstance(value, list | tuple):
            return [self._result(each) for each in value]
        if not isinstance(value, Tensor):
            return value
        self._results.append(value)
        number = _index(self._tensors, value)
        if number < 0:
            place = put(self._memory, value.resolve_conj().resolve_neg())
            self._mark(place)
            return place
        return self._written(number, value)

    def _written(self, number: int, value: Tensor) -> Argument:
        """Store a tensor argument's new value; return the entry for the worker's answer.

        The argument moves to new memory if its shape has changed. `number` is the argument's index
        among the call's tensors.
        """
        place = self._places[number]
        if place is None:
            return Argument(number)
        if place.shape == tuple(value.shape):
            mine = tensor_at(self._memory, place)
            if mine.data_ptr() != value.data_ptr():
                with self._memory.uncounted():
                    mine.copy_(value)
            self._mark(place)
            return Argument(number)
        moved = put(self._memory, value)
        self._mark(moved)
        return Argument(number, moved)

    def _mark(self, place: Place) -> None:
        """Record who wrote a result: kernels, if they wrote any of the call's arguments."""
        if not place.is_empty:
            self._memory.mark(place, of_kernels=self._of_kernels)


def _converted_enum(kind: str, value: object) -> object:
    """Check an argument whose number means a dtype, a layout or a memory format.

    torch does not check such numbers. The number of a dtype is converted to the dtype; any other
    value is returned unchanged.

    Raises:
        Malformed: The number is not that of a known dtype, or of a supported layout or memory
            format.
    """
    if value is None or not isinstance(value, int):
        return value
    if "ScalarType" in kind:
        if value not in DTYPES:
            raise Malformed(f"an unknown element type {value}")
        return DTYPES[value]
    if ("Layout" in kind and value != _STRIDED) or (
        "MemoryFormat" in kind and value not in _MEMORY_FORMATS
    ):
        raise Malformed(f"an unknown layout {value}")
    return value


def _check_dimensions(arguments: Sequence[object]) -> None:
    """Check the dimensions of a Fourier transform, which torch itself does not check.

    Raises:
        IndexError: A dimension does not exist, or is given twice.
    """
    tensor, dimensions = arguments[:2]
    if isinstance(tensor, Tensor) and isinstance(dimensions, list):
        known = range(tensor.dim())
        if len(set(dimensions)) < len(dimensions) or not all(each in known for each in dimensions):
            raise IndexError(
                f"dimensions {dimensions} of a tensor that has {tensor.dim()} dimensions"
            )


def _kind(dtype: torch.dtype) -> int:
    """Return a dtype's kind as a rank: 0 bool, 1 integer, 2 real, 3 complex."""
    if dtype.is_complex:
        return 3
    if dtype.is_floating_point:
        return 2
    return int(dtype is not torch.bool)


def _has_tensor(values: Sequence[object]) -> bool:
    return any(isinstance(each, Tensor | OnDevice) for each in values)


def _index(tensors: Sequence[Tensor], one: object) -> int:
    """Return the index at which `tensors` contains the object `one` (by identity), or -1."""
    return next((i for i, each in enumerate(tensors) if each is one), -1)


def products(name: str, tensors: Sequence[Tensor], output: Tensor) -> int:
    """Compute from tensors' shapes how many products an operator sums; 0 if it sums none.

    >>> left, right = torch.empty(2, 3), torch.empty(3, 5)
    >>> products("aten::mm", [left, right], torch.empty(2, 5))
    30
    """
    if len(tensors) < 2:
        return 0
    has: Callable[[str], bool] = name.__contains__
    if has("conv"):
        # Each element of the output sums one product for each weight of its filter. In a transposed
        # convolution, each element of the input is multiplied by all weights of its channel.
        weight = tensors[1]
        each = weight.numel() // max(weight.shape[0], 1) if weight.dim() else 1
        return each * (tensors[0].numel() if has("transpose") else output.numel())
    if has("mm") or has("mv") or has("dot") or has("linear"):
        # A matrix that is added comes before the two that are multiplied.
        left = tensors[-2]
        return left.shape[-1] * output.numel() if left.dim() else 0
    return 0
