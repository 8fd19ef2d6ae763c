"""Parameter cases: the configurations that a submission is checked with.

The cases are the problem's own configuration (the sizes in the reference's file) and variations of
it that the problem's family makes. The variations are edges, which are always included, and a
covering array over everything that the submission's constructor takes. Further cases have sizes
around the integers in the submission's text, and a few are random.
"""

import hashlib
import json
import math
import random
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch

from harness.problems.configuration import Configuration, ConstructorCall
from harness.problems.construction import call_by_name, own_call
from harness.problems.discovery import Submission, taken_by
from harness.problems.families.interfaces import Sizes
from harness.problems.problem import MOST_NUMBERS, Problem, count_weights
from harness.problems.sizes import ProblemSizes
from harness.system.device import Device

Label = Literal[
    "native", "reduced", "grid", "corner", "aimed", "random", "layout", "vast", "search"
]
OWN: tuple[Label, ...] = ("native", "reduced")
"""Labels of the problem's own configuration: unchanged, and cut down for the simulator."""
Grid = Literal["own", "quick", "full"]

_RANDOM_CASES = 3
# So few that each block of a persistent kernel processes several tiles.
_FEW_MULTIPROCESSORS = 2

# The prefix of the ids of cases from a search. It is needed because a grid's case of the same sizes
# may omit arguments. It also means that a mistyped id of a grid's case is not taken for another
# case.
_SEARCHED = "search-"
# Of a configuration whose work is about half, the least and the largest share of the work.
_HALF = (0.25, 0.75)
_ALIGNED = 8

_REDUCED_BATCH = 2
_REDUCED_LENGTH = 64


@dataclass(frozen=True, kw_only=True)
class Case(Configuration):
    """One configuration to check.

    Attributes:
        id: Short, readable, unique among the cases of one problem, and the same in every run.
        label: Origin of the case. `native` or `reduced`: the problem's own configuration, unchanged
            or cut down for the simulator. `grid`: the covering array. `corner`: an edge. `aimed`:
            sizes around the integers in the submission's text. `random`: drawn from the seed.
            `layout`: inputs in other memory layouts. `vast`: very large inputs, of which only a few
            parts exist. `search`: found by a search.
        seed: Seed of the weights, the inputs and the order of the calls of this case.
        family: Name of the problem's family.
        constructor_call: The call that constructs `ModelNew`.
        multiprocessors: Number of multiprocessors that the simulated device reports; None for its
            usual number.
    """

    id: str
    label: Label
    seed: int
    family: str
    constructor_call: ConstructorCall
    multiprocessors: int | None = None

    @property
    def left_to_defaults(self) -> frozenset[str]:
        """Names of the case's arguments that the constructor call omits, so that defaults apply."""
        call = self.constructor_call
        return frozenset(tuple(self.arguments)[len(call.positional) :]).difference(call.named)


def cases_for(
    problem: Problem,
    submission: Submission,
    grid: Grid = "quick",
    device: Device = "simulator",
    *,
    seed: int = 0,
) -> tuple[Case, ...]:
    """Return the cases that a submission is checked with for a problem.

    Args:
        problem: The reference.
        submission: A submission that fits the problem (`discovery.fits`).
        grid: "own" is the problem's own configuration (the sizes in its file) alone, "quick" also
            covers all pairs of parameter values, "full" all triples.
        device: The device that runs the cases. For the simulator, the problem's own configuration
            is cut down to a small batch and length.
        seed: The main seed, from which the cases' seeds and the random sizes derive; the ids of the
            cases do not depend on it.

    Returns:
        The cases, the problem's own configuration first.
    """
    taken = taken_by(submission, problem)
    sizes = ProblemSizes(problem, frozenset(taken))
    own = _own_case(problem, submission, taken, sizes, device, seed)
    if grid == "own":
        return (own,)
    cases = {_key(own): own}
    for label, configuration in _varied(problem, submission, grid, taken, sizes, own):
        case = _varied_case(problem, submission, label, configuration, seed)
        # The first case of each configuration stays, so corners keep their label.
        cases.setdefault(_key(case), case)
    others = (
        *_with_few_multiprocessors(problem, submission, taken, own, seed),
        *_random_cases(problem, submission, taken, sizes, seed),
        *_with_other_layouts(problem, submission, tuple(cases.values()), taken, sizes, seed),
        *(_vast_cases(problem, submission, taken, seed) if device == "simulator" else ()),
    )
    return (*cases.values(), *others)


def _with_few_multiprocessors(
    problem: Problem,
    submission: Submission,
    taken: Mapping[str, object],
    own: Case,
    seed: int,
) -> Iterator[Case]:
    """Yield cases on a device with one or two multiprocessors, for persistent kernels.

    Nothing is yielded unless the submission queries the number of multiprocessors. A persistent
    kernel starts one block for each multiprocessor. With few blocks, a block's loop makes several
    iterations even on a small input.
    """
    if not submission.counts_multiprocessors:
        return
    native, family = _native(problem, own), problem.family
    wanted = [
        (_FEW_MULTIPROCESSORS, each)
        for each in family.many_tiles(taken, native, submission.numbers)
    ]
    if submission.multiplies_matrices:
        wanted += [(1, each) for each in family.many_turns(taken, native, submission.numbers)]
    for count, configuration in wanted:
        case = _varied_case(problem, submission, "aimed", configuration, seed)
        name = f"{case.id}-on-{count}"
        yield replace(case, id=name, seed=_seed(seed, name), multiprocessors=count)


def _native(problem: Problem, own: Case) -> Configuration:
    """Return the problem's own configuration at the sizes in the reference's file, not cut down."""
    return Configuration(
        arguments=own.arguments, input_shapes=problem.input_shapes, input_dtypes=own.input_dtypes
    )


def _random_cases(
    problem: Problem,
    submission: Submission,
    taken: Mapping[str, object],
    sizes: Sizes,
    seed: int,
) -> Iterator[Case]:
    chance, family = random.Random(_seed(seed, "random")), problem.family  # noqa: S311 - the secret
    for number in range(_RANDOM_CASES):
        configuration = family.drawn(taken, chance) or family.drawn_sizes(sizes, chance)
        if configuration:
            case = _varied_case(problem, submission, "random", configuration, seed)
            name = f"random-{number + 1}"
            call = call_by_name(problem, submission, configuration.arguments, case.id)
            yield replace(case, id=name, seed=_seed(seed, name), constructor_call=call)


def _with_other_layouts(
    problem: Problem,
    submission: Submission,
    cases: Sequence[Case],
    taken: Mapping[str, object],
    sizes: Sizes,
    seed: int,
) -> Iterator[Case]:
    """Yield layout cases: the first `grid` case and the problem's `reduced` case.

    Both are yielded again with other memory layouts of their inputs. A `grid` case belongs to the
    covering array; the `reduced` case is the reference's configuration, cut down. Nothing is
    yielded if the family has no other layouts.
    """
    if not problem.family.arrangements:
        return
    plain = next((case for case in cases if case.label == "grid"), None)
    own = _own_case(problem, submission, taken, sizes, "simulator", seed)
    for case in (plain, own):
        if case:
            name = f"{case.id}-layouts"
            yield replace(case, id=name, label="layout", seed=_seed(seed, name))


def _vast_cases(
    problem: Problem, submission: Submission, taken: Mapping[str, object], seed: int
) -> Iterator[Case]:
    """Yield cases with very large inputs, of which only a few parts exist in memory (vast.py)."""
    for configuration in problem.family.vast(taken):
        case = _varied_case(problem, submission, "vast", configuration, seed)
        name = f"{case.id}-vast"
        yield replace(case, id=name, seed=_seed(seed, name))


def _varied(
    problem: Problem,
    submission: Submission,
    grid: Grid,
    taken: Mapping[str, object],
    sizes: Sizes,
    own: Case,
) -> Iterator[tuple[Label, Configuration]]:
    family = problem.family
    strength = 2 if grid == "quick" else 3
    for configuration in family.corners(taken):
        yield "corner", configuration
    if submission.may_use_shared_memory:
        for configuration in family.shared_memory_corners(taken):
            yield "aimed", configuration
    for configuration in family.covering(taken, strength):
        yield "grid", configuration
    for configuration in family.sized(sizes, strength):
        yield "grid", configuration
    for configuration in family.aimed(taken, _native(problem, own), submission.numbers):
        yield "aimed", configuration


def case_again(
    problem: Problem,
    submission: Submission,
    case_id: str,
    label: Label,
    arguments: Mapping[str, object],
    input_shapes: tuple[tuple[int, ...], ...],
    constants: Mapping[str, int],
    *,
    seed: int,
) -> Case:
    """Rebuild a case from the fields that a report stores; `seed` is the report's main seed."""
    return Case(
        id=case_id,
        label=label,
        arguments=arguments,
        input_shapes=input_shapes,
        input_dtypes=tuple(spec.dtype for spec in problem.inputs),
        constants=constants,
        numbers=dict(problem.at(constants).numbers),
        seed=_seed(seed, case_id),
        family=problem.family.name,
        constructor_call=call_by_name(problem, submission, arguments, case_id),
    )


def searched_case(problem: Problem, configuration: Configuration, seed: int) -> Case:
    """Return the case in which a search tries a configuration outside the grid.

    Its constructor call passes every argument by keyword.
    """
    name = _SEARCHED + problem.family.spell(configuration)
    return Case(
        **{field.name: getattr(configuration, field.name) for field in fields(Configuration)},
        id=name,
        label="search",
        seed=_seed(seed, name),
        family=problem.family.name,
        constructor_call=ConstructorCall((), dict(configuration.arguments)),
    )


def at_numbers(problem: Problem, case: Case, numbers: Sequence[int]) -> Case:
    """Return a case with some sizes among `numbers`; the case's seed decides which.

    If the family does not know which sizes are valid, the case itself is returned.

    Args:
        problem: The reference.
        case: One of its cases.
        numbers: Integers with which the submission's kernels compare their parameters.
    """
    chance = random.Random(f"{case.seed} numbers")  # noqa: S311 - the seed is the secret
    configuration = problem.family.at_numbers(case, case.arguments, numbers, chance)
    if configuration is None:
        return case
    call = ConstructorCall((), dict(configuration.arguments))
    return replace(case, **vars(configuration), constructor_call=call)


def half_as_large(problem: Problem, case: Case, seed: int) -> Case | None:
    """Return a case like another one, with one of its sizes halved; None if none is found.

    Args:
        problem: The reference.
        case: One of its cases.
        seed: The report's main seed.
    """
    family = problem.family
    least, most = (share * family.work(case) for share in _HALF)
    smaller = (
        each for each in family.simpler(case, case.arguments) if least <= family.work(each) <= most
    )
    # The size of an input explains the work of a slow kernel more often than a filter's does.
    half = min(smaller, key=_numbers, default=None) or _with_half_a_constant(problem, case)
    return searched_case(problem, half, seed) if half else None


def _numbers(configuration: Configuration) -> int:
    return sum(map(math.prod, configuration.input_shapes))


def _with_half_a_constant(problem: Problem, case: Case) -> Configuration | None:
    """Return a case's configuration with its largest constant halved; None if there is none.

    The remainder modulo 8 stays, since kernels have other paths for aligned sizes. The result is
    None if the reference refuses the size, or if its inputs shrink to less than a quarter.
    """
    sizes = ProblemSizes(problem, frozenset(case.arguments))
    constants = {**sizes.constants, **case.constants}
    name = max(constants, key=lambda each: constants[each], default=None)
    if name is None:
        return None
    half = constants[name] // 2
    half += (constants[name] - half) % _ALIGNED
    smaller = sizes.configuration({**constants, name: half})
    return smaller if smaller and _numbers(smaller) >= _HALF[0] * _numbers(case) else None


def case_called(problem: Problem, submission: Submission, name: str, seed: int) -> Case | None:
    """Return a search's case with the id `name`; None if `name` is not an id of a search."""
    taken = taken_by(submission, problem)
    spelled = name.removeprefix(_SEARCHED)
    configuration = problem.family.spelled(spelled, taken) if spelled != name else None
    return None if configuration is None else searched_case(problem, configuration, seed)


def _varied_case(
    problem: Problem,
    submission: Submission,
    label: Label,
    configuration: Configuration,
    seed: int,
) -> Case:
    name = problem.family.spell(configuration)
    return Case(
        **vars(configuration),
        id=name,
        label=label,
        seed=_seed(seed, name),
        family=problem.family.name,
        constructor_call=call_by_name(problem, submission, configuration.arguments, name),
    )


def _own_case(
    problem: Problem,
    submission: Submission,
    taken: Mapping[str, object],
    sizes: Sizes,
    device: Device,
    seed: int,
) -> Case:
    label: Label = "native" if device == "cuda" else "reduced"
    small = None if device == "cuda" else next(problem.family.cut_down(sizes), None)
    if small is not None:
        arguments, shapes, constants = small.arguments, small.input_shapes, small.constants
    else:
        arguments, constants = dict(taken), {}
        shapes = problem.input_shapes if device == "cuda" else _reduced_shapes(problem)
    case = case_again(problem, submission, label, label, arguments, shapes, constants, seed=seed)
    call = own_call(problem.at(constants), submission, arguments)
    return replace(case, constructor_call=call)


def own_and_smaller(problem: Problem, case: Case) -> Iterator[Case]:
    """Yield the problem's `reduced` case, then the same case at smaller sizes for slow kernels.

    Args:
        problem: The reference.
        case: The "reduced" case of `cases_for(problem, ...)`.

    Yields:
        The reduced case, then cases with smaller sizes and the same id. Nothing if the problem's
        family does not cut down the constants of the file (`Family.cut_down`).
    """
    for small in problem.family.cut_down(ProblemSizes(problem, frozenset(case.arguments))):
        yield _own_at(problem, case, small)


def at_native_size(problem: Problem, case: Case) -> Case:
    """Return the case that was cut down for the simulator, at the sizes in the reference's file.

    The id stays `reduced`, but the label becomes `native`.
    """
    native = Configuration(
        arguments={name: problem.arguments[name] for name in case.arguments},
        input_shapes=problem.input_shapes,
        input_dtypes=case.input_dtypes,
        numbers=dict(problem.numbers),
    )
    return replace(_own_at(problem, case, native), label="native")


def _own_at(problem: Problem, case: Case, size: Configuration) -> Case:
    """Return the problem's own case at the sizes of another configuration.

    If the case makes KernelBench's constructor call, so does the result; else the result passes all
    arguments as keywords.
    """
    is_kernelbenchs = case.constructor_call == problem.at(case.constants).init_inputs
    named = ConstructorCall((), dict(size.arguments))
    call = problem.at(size.constants).init_inputs if is_kernelbenchs else named
    return replace(case, **vars(size), constructor_call=call)


def _key(case: Case) -> str:
    """Return a key that is equal for two cases that check the same configuration."""
    return json.dumps([case.arguments, case.input_shapes, dict(case.constants)], sort_keys=True)


def fresh_seed() -> int:
    """Return a random seed of 63 bits, too many to find by trial.

    A submission could otherwise find the seed, because its process receives values derived from it.
    """
    return secrets.randbits(63)


def _seed(seed: int, case_id: str) -> int:
    # A hash: a seed that the worker learns reveals neither the main seed nor other cases' seeds.
    digest = hashlib.sha256(f"{seed}/{case_id}".encode()).digest()
    return int.from_bytes(digest[:6])


def _reduced_shapes(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Return the problem's input shapes, cut down as far as `Model` allows.

    The batch is cut to 2, and other sizes to 64. If a call of `Model` on the CPU fails with these
    shapes, others with fewer cuts are tried. A call on the meta device is not enough: some
    operators there accept sizes that do not fit the weights.
    """
    whole = problem.input_shapes
    if count_weights(problem.model, problem.arguments) > MOST_NUMBERS:
        # The case will be left out, so the model is not made.
        return whole
    batch = tuple((min(s[0], _REDUCED_BATCH), *s[1:]) if s else s for s in whole)
    last = tuple((*s[:2], *(min(n, _REDUCED_LENGTH) for n in s[2:])) for s in batch)
    every = tuple(tuple(min(n, _REDUCED_LENGTH) for n in s) for s in batch)
    square = tuple(tuple(min(n, _REDUCED_LENGTH) for n in s) for s in whole)
    return next(
        (shapes for shapes in (every, square, last, batch) if _runs(problem, shapes)), whole
    )


def _runs(problem: Problem, shapes: Sequence[tuple[int, ...]]) -> bool:
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            model = problem.model(**problem.arguments)
            specs = zip(shapes, problem.inputs, strict=True)
            tensors = [torch.zeros(s, dtype=getattr(torch, spec.dtype)) for s, spec in specs]
            model(*problem.forward_arguments(tensors))
    except Exception:  # a reference may raise anything for sizes that it does not support
        return False
    return True
