"""Search for changes that a submission makes to its process, such as to torch's settings.

A change cannot affect the supervisor. It is reported because a submission that makes such a change
is written to influence this evaluator or another. The search runs beside the submission, so the
harness does not trust its findings.
"""

from __future__ import annotations

import builtins
import gc
import json
import operator
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType

import torch
from torch import _compile

from harness.finding import Finding

_MODULES = (
    torch,
    torch.cuda,
    torch.nn.functional,
    torch.testing,
    torch.autograd,
    builtins,
    gc,
    json,
    os,
    statistics,
    time,
)
# Importing torch's compiler, as `torch.library.custom_op` and `torch.compile` do, wraps this
# function and sets this variable of the environment. Neither change is a finding.
_WRAPPED_BY_COMPILER = ("torch", "manual_seed")
_CACHE_OF_COMPILER = "TORCHINDUCTOR_CACHE_DIR"
_PACKAGE = __name__.partition(".")[0]
_code_of = operator.attrgetter("__code__")
_CLASSES = (torch.Tensor, torch.nn.Module, torch.nn.ConvTranspose1d, torch.Generator)


def _flag(holder: str, name: str) -> Callable[[], object]:
    return lambda: getattr(getattr(torch.backends, holder), name)


# Settings that make other code less precise or slower, or change its meaning.
_GRAVE: Mapping[str, Callable[[], object]] = {
    "torch.backends.cuda.matmul.allow_tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
    "torch.backends.cudnn.allow_tf32": _flag("cudnn", "allow_tf32"),
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": lambda: (
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    ),
    "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision,
    "torch.backends.cudnn.enabled": _flag("cudnn", "enabled"),
    "the default dtype": torch.get_default_dtype,
    "the default device": torch.get_default_device,
    "the current stream": lambda: torch.cuda.current_stream().cuda_stream,
    "the current device": torch.cuda.current_device,
}
# Settings that submissions often change, without harm.
_LIGHT: Mapping[str, Callable[[], object]] = {
    "torch.backends.cudnn.benchmark": _flag("cudnn", "benchmark"),
    "torch.backends.cudnn.deterministic": _flag("cudnn", "deterministic"),
    "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled,
    "torch.get_num_threads()": torch.get_num_threads,
    "torch.is_grad_enabled()": torch.is_grad_enabled,
}


class StateWatch:
    """A comparison of the process's state, such as torch's settings, with an earlier state.

    Each call of `changes` compares the present state with the state at the last call. The object
    must be made before the submission is imported.
    """

    def __init__(self) -> None:
        """Remember the present state."""
        self._modules = {module.__name__: sys.modules.get(module.__name__) for module in _MODULES}
        holders: list[tuple[str, object]] = [(m.__name__, m) for m in _MODULES]
        holders += [(f"{c.__module__}.{c.__name__}", c) for c in _CLASSES]
        holders += [
            (f"torch.cuda.{name}", getattr(torch.cuda, name)) for name in ("Event", "Stream")
        ]
        self._functions = [_Functions(name, holder) for name, holder in holders]
        self._own_functions = [_Functions(name, holder) for name, holder in _own()]
        self._settings = _read({**_GRAVE, **_LIGHT})
        self._environment = dict(os.environ)
        self._random = torch.random.get_rng_state()
        self._threads = set(threading.enumerate())

    def changes(self, when: str, *, random: bool = False, thorough: bool = True) -> list[Finding]:
        """Return a finding for each change of the process's state since the last call.

        Args:
            when: When the change happened, for messages, such as "during import".
            random: Whether to report a use of torch's random generator, too.
            thorough: Whether to examine the hundreds of modules of the harness itself, too. If not,
                the next thorough call finds a change in these modules, if the change lasts.
        """
        found = [
            *self._replaced(when, thorough),
            *self._set(when),
            *self._environment_changes(when),
        ]
        threads = set(threading.enumerate())
        if threads - self._threads:
            found.append(Finding("state", f"left a thread running {when}"))
        self._threads |= threads
        state = torch.random.get_rng_state()
        if random and not torch.equal(state, self._random):
            found.append(
                Finding(
                    "state", f"drew numbers from torch's random generator {when}", severity="info"
                )
            )
        self._random = state
        return found

    def _replaced(self, when: str, thorough: bool) -> Iterator[Finding]:
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                self._modules[name] = sys.modules.get(name)
                yield Finding("state", f"replaced the module {name} {when}")
        for functions in (*self._functions, *(self._own_functions if thorough else ())):
            if not functions.are_as_remembered():
                for name in functions.replaced():
                    yield Finding("state", f"replaced {name} {when}")

    def _set(self, when: str) -> Iterator[Finding]:
        before, self._settings = self._settings, _read({**_GRAVE, **_LIGHT})
        for name, value in self._settings.items():
            if value != before[name]:
                message = f"changed {name} from {before[name]} to {value} {when}"
                yield Finding("state", message, severity="error" if name in _GRAVE else "warning")

    def _environment_changes(self, when: str) -> Iterator[Finding]:
        before, self._environment = self._environment, dict(os.environ)
        names = sorted(
            name
            for name in {*before, *self._environment}
            if before.get(name) != self._environment.get(name) and name != _CACHE_OF_COMPILER
        )
        if names:
            listed = ", ".join(names)
            yield Finding("state", f"changed the environment {when}: {listed}", severity="info")


class _Functions:
    """A record of a module's or class's functions, as they were when last examined.

    A function has changed if another object replaces it, or if it has another code object.
    Comparisons use `is`, because an untrusted class may define `==`.
    """

    def __init__(self, name: str, holder: object) -> None:
        self._name = name
        self._now: Mapping[str, object] = vars(holder)
        # An inherited function is replaced when the class gets one of the same name.
        self._inherited = [vars(base) for base in getattr(holder, "__mro__", ())[1:]]
        self._known = {key: _known(value) for key, value in self._now.items() if callable(value)}
        self._remember()

    def are_as_remembered(self) -> bool:
        """Return whether no attribute of the module or class has changed.

        This test is quick, because it is repeated for hundreds of modules after a forward call.
        """
        return (
            len(self._now) == len(self._keys)
            and all(map(operator.is_, self._now, self._keys))
            and all(map(operator.is_, self._now.values(), self._values))
            and all(map(operator.is_, map(_code_of, self._coded), self._codes))
        )

    def replaced(self) -> Iterator[str]:
        """Yield the full names of the functions that have changed since the last call."""
        now, known = self._now, self._known
        for key in [key for key, before in known.items() if not _is(now.get(key), before)]:
            is_wrapped = (self._name, key) == _WRAPPED_BY_COMPILER and _wraps(
                now.get(key), known[key]
            )
            known[key] = _known(now.get(key))
            if not is_wrapped:
                yield f"{self._name}.{key}"
        for key in [key for key in now if key not in known and callable(now[key])]:
            known[key] = _known(now[key])
            if any(key in base for base in self._inherited):
                yield f"{self._name}.{key}"
        self._remember()

    def _remember(self) -> None:
        """Store names, values and code of the functions for `are_as_remembered`."""
        self._keys, self._values = list(self._now), list(self._now.values())
        self._coded = [value for value in self._values if isinstance(value, FunctionType)]
        self._codes = [value.__code__ for value in self._coded]


def _known(value: object) -> tuple[object, object]:
    """Return a function and its code object, to recognise the function later."""
    return value, getattr(value, "__code__", None)


def _is(value: object, known: tuple[object, object]) -> bool:
    """Return whether a value is the function in `known`, and still has the same code object."""
    # `==` would call a method that an untrusted class may define.
    return all(now is before for now, before in zip(_known(value), known, strict=True))


def _wraps(value: object, known: tuple[object, object]) -> bool:
    """Return whether a value is torch's own wrapper around the function in `known`."""
    code = getattr(value, "__code__", None)
    inside = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    is_torch_own = any(code is constant for constant in _compile._disable_dynamo.__code__.co_consts)
    return is_torch_own and any(_is(each, known) for each in inside)


def _own() -> Iterator[tuple[str, object]]:
    """Yield the name and object of each loaded harness module, and of each class defined in one."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == _PACKAGE:
            yield name, module
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    yield f"{name}.{value.__name__}", value


def _read(settings: Mapping[str, Callable[[], object]]) -> dict[str, str]:
    """Return the value of each setting as text, by the setting's name."""
    values = {}
    for name, read in settings.items():
        try:
            values[name] = str(read())
        except Exception as error:  # torch refuses to read some combinations of its settings
            values[name] = str(error)
    return values
