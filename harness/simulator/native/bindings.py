"""Python declarations of the functions in the simulator's C files."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.simulator.instructions.operation import Array, UnknownForm

_POINTER = ctypes.c_void_p

OUT_OF_BOUNDS, MISALIGNED, UNINITIALISED = 1, 2, 3
"""The values of `fault` in access.h."""
UNWRITTEN, PENDING, BY_KERNEL = 0, 2, 0x81
"""The values of a byte's shadow in access.h."""
READS, LOOKS, WRITES, WAITED_READS, WAITED_WRITES = range(5)
"""The kinds of accesses of rows that race.c records. A look is a read that is checked but not
recorded, because another reader stands for it. WAITED_READS and WAITED_WRITES move a copy's source
or target to another agent, such as the thread that has waited for it."""

_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64
_SITE = (_POINTER, _POINTER, _POINTER, _U64, _POINTER, _U32)
_ROWS = (_POINTER, _U32, _U64, _POINTER, _POINTER, _U64, _U64, _POINTER, _POINTER)
_ACCESS = {
    "sim_load": (*_SITE, _POINTER, _POINTER, _POINTER, _POINTER),
    "sim_store": (*_SITE, _U32, _POINTER, _POINTER, _POINTER, _POINTER),
    "sim_atomic": (*_SITE, _U32, _U32, _POINTER, _POINTER, _POINTER),
    "sim_read_rows": _ROWS,
    "sim_write_rows": (*_ROWS, _U32),
}
_ROW_STATES = {
    "sim_settle_rows": (_POINTER, _U32, _U64, _POINTER, _POINTER, _U64),
    "sim_race_rows": (*_ROWS, _U32),
    "sim_profile_rows": (_POINTER, _U32, _U64, _POINTER, _POINTER, _U64, _U32, _U32),
}
_ORDER = {
    "sim_race_warp_sync": (_POINTER, _POINTER, _U64),
    "sim_race_fence": (_POINTER, _POINTER, _U64),
    "sim_race_block_fence": (_POINTER, _POINTER, _U64),
    "sim_race_barrier": (_POINTER, _POINTER, _U64, _U32),
    "sim_race_touched": (_POINTER, _U64, _U32, _POINTER),
}


class Native:
    """The simulator's C functions, with their argument types declared for ctypes.

    Args:
        library: The shared object that `library.build_machine_library` builds.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self._vectors: dict[str, Any] = {}
        for name, arguments in _ACCESS.items():
            function = getattr(library, name)
            function.argtypes = arguments
            function.restype = ctypes.c_int64
        self.load = library.sim_load
        self.store = library.sim_store
        self.atomic = library.sim_atomic
        self.read_rows = library.sim_read_rows
        self.write_rows = library.sim_write_rows
        for name, arguments in (*_ORDER.items(), *_ROW_STATES.items()):
            function = getattr(library, name)
            function.argtypes = arguments
            function.restype = None
        self.settle_rows = library.sim_settle_rows
        self.race_rows = library.sim_race_rows
        self.profile_rows = library.sim_profile_rows
        self.warp_sync = library.sim_race_warp_sync
        self.fence = library.sim_race_fence
        self.block_fence = library.sim_race_block_fence
        self.race_barrier = library.sim_race_barrier
        self.race_touched = library.sim_race_touched

    def vector(self, name: str, inputs: int) -> Any:
        """Return a function of arithmetic.c, with its argument types declared for ctypes.

        The function computes one operation for many threads. Its arguments are the number of
        threads, the pointer and the stride of each input, and the pointer of the result.

        Args:
            name: The function's name without the prefix `sim_`.
            inputs: Number of inputs.

        Raises:
            UnknownForm: arithmetic.c has no function of this name.
        """
        if name not in self._vectors:
            try:
                function = self.library[f"sim_{name}"]
            except AttributeError:
                raise UnknownForm(name) from None
            function.argtypes = (_U64, *((_POINTER, _U32) * inputs), _POINTER)
            function.restype = None
            self._vectors[name] = function
        return self._vectors[name]

    def on_arrays(self, name: str, *leading: int) -> Callable[..., None]:
        """Return a function of arithmetic.c as a Python function `function(*inputs, output)`.

        Inputs and output are arrays with one element for each thread, in any memory layout. If an
        input has only one element, all threads use this element.

        Args:
            name: The function's name without the prefix `sim_`.
            leading: Integer arguments that the C function takes before the inputs.

        Raises:
            UnknownForm: arithmetic.c has no function of this name.
        """
        try:
            function = self.library[f"sim_{name}"]
        except AttributeError:
            raise UnknownForm(name) from None
        function.restype = None

        def call(*arrays: Array) -> None:
            *inputs, out = (np.ascontiguousarray(a) for a in arrays)
            arguments: list[Any] = [_U64(out.size), *map(_U32, leading)]
            for a in inputs:
                arguments += [_POINTER(a.ctypes.data), _U32(int(a.size == out.size))]
            function(*arguments, _POINTER(out.ctypes.data))
            if out is not arrays[-1]:
                np.copyto(arrays[-1], out)

        return call
