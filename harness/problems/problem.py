"""Loader of reference files in KernelBench's format: `Model`, `get_inputs()`, `get_init_inputs()`.

References are trusted and imported; submissions never are. The loader does not allocate the
reference's own inputs, which can be gigabytes. Their shapes are read on torch's meta device.
"""

import ast
import hashlib
import importlib.util
import inspect
import json
import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, wraps
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from harness.problems.configuration import (
    ConstructorCall,
    InputSpec,
    Number,
    forward_arguments,
)
from harness.problems.constants import constants_of, with_constants
from harness.problems.default_device import on_default_device
from harness.problems.families import FamilyError, family_of, named
from harness.problems.families.family import Family
from harness.problems.missing_packages import why_missing
from harness.problems.watching import OperatorCall, WatchingShapes
from harness.system.errors import HarnessError


class ProblemError(HarnessError, ValueError):
    """Error for a reference file that cannot be used; the message is one line with the remedy."""


# torch has one default generator for the process. Without the lock, two threads that construct
# models would both draw from it.
_TORCH_GENERATOR = threading.Lock()

MOST_NUMBERS = 1 << 26
"""Limit of the numbers in weights and inputs that the trusted side makes without a GPU.

The oracle keeps some ten copies of them, most in float64: 4 GB at this limit.
"""


@dataclass(frozen=True)
class Problem:
    """A loaded reference.

    Attributes:
        name: The file's stem.
        path: Absolute path of the file.
        content_hash: SHA-256 of the file's bytes, in hexadecimal.
        model: The reference's `Model` class.
        arguments: Constructor arguments of `Model` by name: those of `get_init_inputs()`, and
            `Model`'s defaults for all others.
        defaults: `Model`'s defaults by name; a parameter that is missing here is required.
        inputs: Shapes and dtypes of the tensors that `get_inputs()` returns.
        family: The family: it makes cases and error bounds for references of this kind.
        init_inputs: The result of `get_init_inputs()`, as positional and keyword arguments.
            KernelBench calls `Model` and `ModelNew` with exactly these arguments.
        constants: The integers in the file from which `inputs` or `arguments` are made, by name
            (`constants.constants_of`).
        numbers: The values of `get_inputs()` that are not tensors, by their position.
        get_inputs: The file's `get_inputs`, called so that devices named in it are ignored.
        tree: The file's syntax tree.
        outputs: Number of tensors that forward returns in a tuple or a list; None if it returns one
            tensor.
        output_dtypes: The dtypes of the outputs as the file computes them; empty if unknown.
    """

    name: str
    path: Path
    content_hash: str
    model: type[nn.Module]
    arguments: Mapping[str, object] = field(hash=False)
    defaults: Mapping[str, object] = field(hash=False)
    inputs: tuple[InputSpec, ...]
    family: Family = field(hash=False)
    init_inputs: ConstructorCall = field(hash=False)
    constants: Mapping[str, int] = field(hash=False)
    numbers: Mapping[int, Number] = field(hash=False)
    get_inputs: Callable[[], Sequence[object]] = field(compare=False, repr=False)
    tree: ast.Module = field(compare=False, repr=False)
    outputs: int | None = None
    output_dtypes: tuple[torch.dtype, ...] = ()

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of `Model`'s constructor parameters, in order."""
        return tuple(self.arguments)

    @property
    def input_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the tensors that `get_inputs()` returns."""
        return tuple(spec.shape for spec in self.inputs)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of forward's tensor parameters, in order; numbered names for those in `*args`."""
        _, *parameters = inspect.signature(self.model.forward).parameters
        names = [name for place, name in enumerate(parameters) if place not in self.numbers]
        rest = range(len(names), len(self.inputs))
        return (*names[: len(self.inputs)], *(f"input {place + 1}" for place in rest))

    @property
    def output_dtype(self) -> torch.dtype:
        """The dtype of the first output if it is known and floating point; else float32."""
        dtype = next(iter(self.output_dtypes), torch.float32)
        return dtype if dtype.is_floating_point else torch.float32

    def build(self, arguments: Mapping[str, object], seed: int | None = None) -> nn.Module:
        """Return a new `Model`; torch's random generator keeps its state.

        Args:
            arguments: The constructor's arguments, by name.
            seed: Seed of the initialisation; None for an arbitrary one.
        """
        with _seeded(seed):
            return self.model(**arguments)

    def make_inputs(self, seed: int) -> Sequence[Tensor]:
        """Return the tensors of `get_inputs`; torch's random generator keeps its state.

        Args:
            seed: Seed of the inputs.

        Raises:
            Exception: An exception of the reference.
        """
        with _seeded(seed):
            return [value for value in self.get_inputs() if isinstance(value, Tensor)]

    def forward_arguments(self, tensors: Sequence[Tensor]) -> list[Any]:
        """Return all inputs of forward: the given tensors, and the reference's own numbers."""
        return forward_arguments(tensors, self.numbers)

    def each_output(self) -> tuple["Problem", ...]:
        """Return one reference for each output, whose forward returns that output alone.

        A reference with one output returns itself. The harness judges each output separately.
        """
        return (self,) if self.outputs is None else _each_output(self, self.outputs)

    def at(self, constants: Mapping[str, int]) -> "Problem":
        """Return the reference with other values for its constants.

        Args:
            constants: Values by the names of `constants`; empty for the reference itself.

        Raises:
            ProblemError: The file is not a reference with these values.
        """
        changed = {n: v for n, v in constants.items() if self.constants.get(n) != v}
        return _at(self, tuple(sorted(changed.items()))) if changed else self


@contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    with _TORCH_GENERATOR, torch.random.fork_rng(devices=[]):
        if seed is not None:
            # torch.manual_seed would also queue a call, with its traceback, for each GPU.
            torch.default_generator.manual_seed(seed)
        yield


def count_weights(model: type[nn.Module], arguments: Mapping[str, object]) -> int:
    """Return the number of elements in a model's weights, without allocating the weights.

    The number is 0 if the model cannot be built on the meta device.
    """
    try:
        with torch.device("meta"), _seeded(None):
            weights = model(**arguments).state_dict().values()
    except Exception:  # a reference may fail on the meta device and work elsewhere
        return 0
    return sum(weight.numel() for weight in weights)


def load(path: Path | str) -> Problem:
    """Import a reference file and return its model, inputs, constants and family as a `Problem`.

    Args:
        path: A Python file in KernelBench's format.

    Returns:
        The problem.

    Raises:
        ProblemError: The file is missing, fails on import, or is not in KernelBench's format.
    """
    path = Path(path).resolve()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ProblemError(
            f"{path}: cannot be read ({error.strerror}); give the path of a reference file"
        ) from error
    _check_text(path, content)
    content_hash = hashlib.sha256(content).hexdigest()
    module = _import(path, content_hash)
    tree = ast.parse(content)
    problem = _of_module(module, path, content_hash, tree, constants_of(tree), None)
    return _with_outputs(problem)


@lru_cache(maxsize=256)
def _at(problem: Problem, changed: tuple[tuple[str, int], ...]) -> Problem:
    # The changed file is executed as a module of its own, as an import of it would be.
    values = dict(changed)
    tree = with_constants(problem.tree, values)
    module = ModuleType(f"_harness_reference_{problem.content_hash[:16]}_{changed}")
    module.__file__ = str(problem.path)
    # torch looks up a class's module there, as in `_import`.
    sys.modules[module.__name__] = module
    try:
        exec(compile(tree, problem.path, "exec"), vars(module))  # noqa: S102 - as an import does
    except Exception as error:
        why = f"fails with other sizes ({_first_line(error)})"
        raise _problem_error(error, problem.path, why) from error
    constants = {**problem.constants, **values}
    at = _of_module(module, problem.path, problem.content_hash, tree, constants, problem.family)
    if problem.outputs is None:
        at = replace(at, output_dtypes=problem.output_dtypes)
    else:
        # The number of outputs may itself depend on a constant.
        at = _with_outputs(at)
    weakref.finalize(at, _forget, module)
    return at


def _forget(module: ModuleType) -> None:
    """Remove a module from sys.modules once the problem that it defines no longer exists.

    A process that checks many references would otherwise keep the classes of every configuration.
    Each trace changes attributes of `nn.Module`, which takes time for each subclass of `nn.Module`.
    """
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


@lru_cache(maxsize=256)
def _each_output(problem: Problem, count: int) -> tuple[Problem, ...]:
    return tuple(
        replace(
            problem,
            model=_with_one_output(problem.model, place),
            outputs=None,
            output_dtypes=problem.output_dtypes[place : place + 1],
        )
        for place in range(count)
    )


def _with_one_output(model: type[nn.Module], place: int) -> type[nn.Module]:
    @wraps(model.forward)
    def forward(self: nn.Module, *given: Any) -> Any:
        return model.forward(self, *given)[place]

    return type(model.__name__, (model,), {"forward": forward, "__module__": model.__module__})


def _of_module(
    module: ModuleType,
    path: Path,
    content_hash: str,
    tree: ast.Module,
    constants: Mapping[str, int],
    family: Family | None,
) -> Problem:
    """Return the problem that a module defines; its family is recognised if `family` is None."""
    model = _model_class(module, path)
    call, arguments, defaults = _bind(model, module, path)
    inputs, numbers = _input_specs(module, path)
    return Problem(
        name=path.stem,
        path=path,
        content_hash=content_hash,
        model=model,
        arguments=MappingProxyType(arguments),
        defaults=MappingProxyType(defaults),
        inputs=inputs,
        family=family or _family(model, arguments, inputs, path),
        init_inputs=call,
        constants=MappingProxyType(dict(constants)),
        numbers=MappingProxyType(numbers),
        get_inputs=partial(on_default_device, module.get_inputs),
        tree=tree,
    )


def _problem_error(error: Exception, path: Path, why: str) -> ProblemError:
    """Return the error for an exception of a reference; `why` is the reason in its message.

    If a missing package caused the exception, the message is about the package instead.
    """
    return ProblemError(f"{path}: {why_missing(error, path.parent) or why}")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _check_text(path: Path, content: bytes) -> None:
    """Check that a file is text, because the import's own error for other files is misleading.

    Raises:
        ProblemError: The file is neither UTF-8 nor in the encoding that it declares.
    """
    try:
        is_text = "\0" not in importlib.util.decode_source(content)
    except (SyntaxError, UnicodeDecodeError):
        is_text = False
    if not is_text:
        raise ProblemError(f"{path}: is not UTF-8; save it as UTF-8")


def _import(path: Path, content_hash: str) -> ModuleType:
    # The module stays in sys.modules, because torch.compile looks up a model's globals there. Its
    # name contains a digest of path and content, so that references with one stem stay separate.
    key = hashlib.sha256(f"{path}\0{content_hash}".encode()).hexdigest()[:16]
    name = f"_harness_reference_{key}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ProblemError(f"{path}: is not a Python file; a reference ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _problem_error(
            error,
            path,
            f"fails when imported ({_first_line(error)}); run it with python to see where",
        ) from error
    return module


def _model_class(module: ModuleType, path: Path) -> type[nn.Module]:
    for name in ("Model", "get_inputs", "get_init_inputs"):
        if not callable(getattr(module, name, None)):
            raise ProblemError(
                f"{path}: has no {name}; a reference defines Model, get_inputs and get_init_inputs"
            )
    model = module.Model
    if not (isinstance(model, type) and issubclass(model, nn.Module)):
        raise ProblemError(f"{path}: Model is not a torch.nn.Module; derive it from nn.Module")
    return model


def _init_inputs(module: ModuleType, path: Path) -> ConstructorCall:
    """Return the arguments that get_init_inputs() gives: a list, a dict, or [[...], {...}]."""
    try:
        given = module.get_init_inputs()
    except Exception as error:
        why = f"get_init_inputs() fails ({_first_line(error)}); correct the reference"
        raise _problem_error(error, path, why) from error
    if isinstance(given, Mapping):
        return ConstructorCall((), given)
    if not isinstance(given, list | tuple):
        raise ProblemError(
            f"{path}: get_init_inputs() returns {type(given).__name__}; return a list or a dict"
        )
    if len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], Mapping):
        return ConstructorCall(tuple(given[0]), given[1])
    return ConstructorCall(tuple(given))


def _bind(
    model: type[nn.Module], module: ModuleType, path: Path
) -> tuple[ConstructorCall, dict[str, object], dict[str, object]]:
    """Return get_init_inputs() as a call, all arguments by name, and the defaults of `Model`."""
    call = _init_inputs(module, path)
    # nn.Module's own signature is (*args, **kwargs), but it accepts no arguments.
    takes_any = model.__init__ is nn.Module.__init__
    signature = inspect.Signature() if takes_any else inspect.signature(model)
    try:
        bound = signature.bind(*call.positional, **call.named)
    except TypeError as error:
        raise ProblemError(
            f"{path}: get_init_inputs() does not fit Model{signature} ({error}); make them agree"
        ) from error
    named = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            named[name] = parameter
        # A *args or **kwargs parameter matters only if the call passes something to it.
        elif name in bound.arguments:
            raise ProblemError(
                f"{path}: Model takes {parameter}, so its parameters have no names; write them out"
            )
    try:
        json.dumps(bound.arguments)
    except TypeError as error:
        raise ProblemError(
            f"{path}: get_init_inputs() returns something JSON cannot hold ({error}); "
            "use numbers, strings, booleans, None and lists of them"
        ) from error
    defaults = {
        name: parameter.default
        for name, parameter in named.items()
        if parameter.default is not parameter.empty and _fits_json(parameter.default)
    }
    # A default that JSON cannot hold, such as a class, is not passed: each class uses its own.
    given = {**defaults, **bound.arguments}
    return call, {name: given[name] for name in named if name in given}, defaults


def _fits_json(value: object) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def _input_specs(module: ModuleType, path: Path) -> tuple[tuple[InputSpec, ...], dict[int, Number]]:
    try:
        with torch.device("meta"):
            given = on_default_device(module.get_inputs)
    except Exception as error:
        raise _problem_error(
            error,
            path,
            f"get_inputs() fails on torch's meta device ({_first_line(error)}); "
            "create tensors with torch's factory functions, and do not read their values",
        ) from error
    if not isinstance(given, list | tuple):
        raise ProblemError(f"{path}: get_inputs() must return a list of tensors")
    for value in given:
        if not isinstance(value, Tensor | int | float):
            raise ProblemError(
                f"{path}: get_inputs() returns {type(value).__name__} among its inputs; "
                "only tensors and numbers are supported, so make it an init argument"
            )
    tensors = tuple(
        InputSpec(tuple(value.shape), str(value.dtype).removeprefix("torch."))
        for value in given
        if isinstance(value, Tensor)
    )
    if given and not tensors:
        raise ProblemError(f"{path}: get_inputs() returns no tensor; make numbers init arguments")
    numbers = {i: value for i, value in enumerate(given) if not isinstance(value, Tensor)}
    return tensors, numbers


class _RandomOperatorFinder(WatchingShapes):
    """A dispatch mode that finds operators which draw random numbers.

    Attributes:
        name: Name of the first operator that draws random numbers; empty if there was none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.name = ""

    def called(self, call: OperatorCall) -> None:
        # Attention operators have the tag, but draw only for dropout, which is an operator of its
        # own.
        name = call.func.overloadpacket.__name__
        if torch.Tag.nondeterministic_seeded in call.func.tags and "attention" not in name:
            self.name = self.name or name


def _raised_with_values(problem: Problem, on_meta: Exception) -> Exception | None:
    """Return the exception that forward raises on the CPU after it failed on the meta device.

    The result is None if forward succeeds on the CPU. A call with very many numbers is not made: it
    would take long, and most shape errors show on the meta device. For such a call, the result is
    `on_meta`, or None if `on_meta` is a NotImplementedError.
    """
    numbers = sum(math.prod(spec.shape) for spec in problem.inputs)
    if numbers + count_weights(problem.model, problem.arguments) > MOST_NUMBERS:
        return None if isinstance(on_meta, NotImplementedError) else on_meta
    try:
        with torch.no_grad():
            inputs = problem.make_inputs(0)
            problem.build(problem.arguments, seed=0)(*problem.forward_arguments(inputs))
    except Exception as error:  # the exception is the result
        return error
    return None


def _with_outputs(problem: Problem) -> Problem:
    """Check that forward accepts the inputs and returns deterministic tensors, on the meta device.

    Returns:
        The problem with the number and dtypes of its outputs; unchanged if forward fails on the
        meta device.

    Raises:
        ProblemError: Forward does not take the inputs, draws random numbers, or returns other
            things than tensors.
    """
    path = problem.path
    count = len(problem.inputs) + len(problem.numbers)
    try:
        inspect.signature(problem.model.forward).bind(None, *(None,) * count)
    except TypeError as error:
        raise ProblemError(
            f"{path}: get_inputs() returns {count} inputs, which forward does not take ({error}); "
            "make them agree"
        ) from error
    chance = _RandomOperatorFinder()
    try:
        with torch.device("meta"), torch.no_grad():
            model = problem.build(problem.arguments)
            inputs = [torch.empty(s.shape, dtype=getattr(torch, s.dtype)) for s in problem.inputs]
            with chance:
                output = model(*problem.forward_arguments(inputs))
    except Exception as error:  # a reference may fail on the meta device and work with values
        if missing := why_missing(error, path.parent):
            raise ProblemError(f"{path}: {missing}") from error
        if "meta" not in str(error).lower() and (raised := _raised_with_values(problem, error)):
            raise ProblemError(
                f"{path}: forward raises an exception with its own inputs "
                f"({_first_line(raised)}); correct the reference"
            ) from raised
        return problem
    if chance.name:
        raise ProblemError(
            f"{path}: forward draws random numbers ({chance.name}), so two calls return "
            "different outputs; remove that, for example with Model.eval() or a rate of 0"
        )
    if isinstance(output, Tensor):
        return replace(problem, output_dtypes=(output.dtype,))
    given = output if isinstance(output, list | tuple) else [output]
    others = [type(each).__name__ for each in given if not isinstance(each, Tensor)]
    if others or not given:
        raise ProblemError(
            f"{path}: forward returns {others[0] if others else 'nothing'}; have it return one "
            "tensor, or a tuple or list of nothing but tensors"
        )
    return replace(problem, outputs=len(given), output_dtypes=tuple(each.dtype for each in given))


def _family(
    model: type[nn.Module],
    arguments: Mapping[str, object],
    inputs: Sequence[InputSpec],
    path: Path,
) -> Family:
    if count_weights(model, arguments) > MOST_NUMBERS:
        # The model is not made. No reference of a more special family is that large.
        return named("any_reference")
    rng = torch.random.get_rng_state()
    try:
        instance = model(**arguments)
    except Exception as error:
        why = f"Model cannot be built with its own arguments ({_first_line(error)})"
        raise _problem_error(error, path, why) from error
    finally:
        torch.random.set_rng_state(rng)
    try:
        return family_of(instance, arguments, inputs)
    except FamilyError as error:
        raise ProblemError(f"{path}: {error}") from error
    except Exception as error:
        why = f"Model fails on a small input ({_first_line(error)})"
        raise _problem_error(error, path, why) from error
