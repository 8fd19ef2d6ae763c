"""Search for submission files, whose constructor parameters are read without an import.

A submission is untrusted, so all information about it is read from its text and syntax tree.
"""

import ast
import hashlib
import inspect
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from torch import nn

from harness.problems.names import why_no_name
from harness.problems.problem import Problem
from harness.problems.source_numbers import (
    counts_multiprocessors,
    multiplies_matrices,
    numbers_in,
)

_ENTRY = "ModelNew"
# A comment that makes Python decode the file in another way (PEP 263).
_COOKIE = re.compile(rb"#.*coding[:=]")
# Parsing takes a thousand times a file's size in memory. For an f-string it takes quadratic time,
# which is seconds at this size. Ordinary submissions have a tenth of it.
_MOST_BYTES = 1 << 18
# Limits the names in a message if thousands of files share one.
_MOST_NAMED = 3
# Base classes whose constructors take no arguments.
_PLAIN_BASES = frozenset({"object", "abc.ABC", "typing.Generic", "torch.nn.Module"})


class Kind(StrEnum):
    """The way in which a parameter of `ModelNew`'s constructor can be passed."""

    POSITIONAL_ONLY = "positional only"
    POSITIONAL_OR_KEYWORD = "positional or keyword"
    VAR_POSITIONAL = "*args"
    KEYWORD_ONLY = "keyword only"
    VAR_KEYWORD = "**kwargs"


@dataclass(frozen=True)
class ConstructorParameter:
    """One parameter of `ModelNew`'s constructor.

    Attributes:
        name: The parameter's name, without asterisks.
        kind: How the parameter can be passed.
        required: True if a call must pass the parameter.
        default: The default value if it is a literal; None if there is no default, or a computed
            one.
    """

    name: str
    kind: Kind = Kind.POSITIONAL_OR_KEYWORD
    required: bool = True
    default: object = None


@dataclass(frozen=True)
class Submission:
    """A submission: a file that defines the class `ModelNew`.

    Attributes:
        name: The file's stem; unique among the submissions that one call of `discover` returns.
        path: Absolute path of the file.
        content_hash: SHA-256 of the file's bytes, in hexadecimal.
        parameters: Parameters of `ModelNew`'s constructor, without self.
        may_use_shared_memory: False if the file has kernels (`__global__`) but no `__shared__`.
        numbers: Integers in the file's text that may be sizes (`source_numbers.numbers_in`).
        counts_multiprocessors: True if the file's text queries the device's number of
            multiprocessors.
        multiplies_matrices: True if the file's text uses tensor cores.
    """

    name: str
    path: Path
    content_hash: str
    parameters: tuple[ConstructorParameter, ...]
    may_use_shared_memory: bool = True
    numbers: tuple[int, ...] = ()
    counts_multiprocessors: bool = False
    multiplies_matrices: bool = False

    @property
    def accepts_any(self) -> bool:
        """True if the constructor takes any keyword (`**kwargs`)."""
        return any(parameter.kind is Kind.VAR_KEYWORD for parameter in self.parameters)

    def accepts(self, name: str) -> bool:
        """Return whether the constructor takes `name` as a keyword."""
        kinds = (Kind.POSITIONAL_OR_KEYWORD, Kind.KEYWORD_ONLY)
        named = any(p.name == name and p.kind in kinds for p in self.parameters)
        return named or self.accepts_any


@dataclass(frozen=True)
class Rejected:
    """A path that `discover` does not return as a submission, with the reason.

    Attributes:
        path: The file or folder.
        message: The reason, in one line.
        is_other: True if the file is readable and defines no `ModelNew`.
    """

    path: Path
    message: str
    is_other: bool = False


@dataclass(frozen=True)
class Discovery:
    """The result of `discover`; both tuples are sorted by path.

    Attributes:
        submissions: The usable submissions.
        rejected: The paths that contain no usable submission.
    """

    submissions: tuple[Submission, ...]
    rejected: tuple[Rejected, ...]


class UnreadableError(ValueError):
    """Error for a file without a readable `ModelNew`; the message is one line."""


class NoEntryError(UnreadableError):
    """Error for a readable file that does not define `ModelNew`."""


def discover(paths: Iterable[Path | str]) -> Discovery:
    """Find the submissions among files and folders.

    Folders are searched recursively for *.py. Hidden folders, __pycache__, virtual environments,
    conftest.py, and files that start with "_" or "test_" are skipped. A file that `paths` names
    itself is always read.

    Args:
        paths: Files and folders in any order; duplicates count once.

    Returns:
        The submissions, and the paths without a usable submission, each with the reason.
    """
    files = {_resolved(file) for path in paths for file in _files(Path(path))}
    submissions: list[Submission] = []
    rejected: list[Rejected] = []
    for file in sorted(files):
        try:
            submissions.append(_read(file))
        except UnreadableError as error:
            rejected.append(Rejected(file, str(error), isinstance(error, NoEntryError)))
    clashes = list(_clashes(submissions))
    clashing = {clash.path for clash in clashes}
    return Discovery(
        tuple(submission for submission in submissions if submission.path not in clashing),
        tuple(sorted([*rejected, *clashes], key=lambda item: item.path)),
    )


def taken_by(submission: Submission, problem: Problem) -> dict[str, object]:
    """Return the reference's own constructor arguments that the submission accepts, by name."""
    return {n: v for n, v in problem.arguments.items() if submission.accepts(n)}


def fits(submission: Submission, problem: Problem, problems: Iterable[Problem] = ()) -> str | None:
    """Return why a submission cannot be used for a problem, or None if it can be used.

    A submission that has the name of one of the problems is for that problem only.

    Constructor arguments are passed by name. A submission may lack a parameter of the problem's
    `Model` only if the problem leaves it at `Model`'s default. If the problem's family has a
    neutral value for the parameter (one without effect), that default must be the neutral value.

    Args:
        submission: The submission.
        problem: The problem.
        problems: All problems that the submission could be used for.

    Returns:
        The reason in one line, or None.
    """
    if submission.name != problem.name and submission.name in {each.name for each in problems}:
        return f"is named like {submission.name}, and is checked against that reference only"
    for parameter in submission.parameters:
        if not parameter.required:
            continue
        if parameter.kind is Kind.POSITIONAL_ONLY:
            return f"takes {parameter.name} by position only; init arguments are passed by name"
        if parameter.name not in problem.parameter_names:
            names = ", ".join(problem.parameter_names)
            return f"requires {parameter.name}, which {problem.name} does not have; it has {names}"
    for name, value in problem.arguments.items():
        if not submission.accepts(name) and _matters(problem, name, value):
            return f"does not take {name}, and {problem.name} needs {name}={value!r}"
    return None


def _matters(problem: Problem, name: str, value: object) -> bool:
    if name not in problem.defaults or value != problem.defaults[name]:
        return True
    neutral = problem.family.neutral
    return name in neutral and value != neutral[name]


def _resolved(path: Path) -> Path:
    """Return the absolute path, with symbolic links resolved unless the link is broken."""
    return Path(os.path.realpath(path)) if _exists(path) else path.absolute()


def _files(path: Path) -> Iterator[Path]:
    """Yield the files under a path that may be submissions, or the path itself if there are none.

    A path without such files is yielded so that the caller rejects it.
    """
    if not path.is_dir():
        yield path
        return
    empty = True
    for folder, subfolders, names in os.walk(path):
        here = Path(folder)
        subfolders[:] = sorted(name for name in subfolders if _is_searched(here / name))
        for name in sorted(names):
            if _may_be_submission(name):
                empty = False
                yield here / name
    if empty:
        yield path


def _is_searched(folder: Path) -> bool:
    hidden = folder.name.startswith(".") or folder.name == "__pycache__"
    return not hidden and not _exists(folder / "pyvenv.cfg")


def _exists(path: Path) -> bool:
    """Return whether a path exists; a path that is too long for the system does not exist."""
    try:
        return path.exists()
    except OSError:
        return False


def _may_be_submission(name: str) -> bool:
    return (
        name.endswith(".py") and not name.startswith(("_", "test_", ".")) and name != "conftest.py"
    )


def _clashes(submissions: Sequence[Submission]) -> Iterator[Rejected]:
    """Yield a rejection for every submission that shares its name with another one.

    The harness cannot know which of these submissions is meant.
    """
    by_name: dict[str, list[Path]] = {}
    for submission in submissions:
        by_name.setdefault(submission.name, []).append(submission.path)
    for name, paths in by_name.items():
        for path in paths if len(paths) > 1 else ():
            others = [str(other) for other in paths[: _MOST_NAMED + 1] if other != path]
            told = ", ".join(others[:_MOST_NAMED])
            left = len(paths) - 1 - len(others[:_MOST_NAMED])
            told += f" and {left} more" if left else ""
            yield Rejected(path, f"has the same name as {told}; rename one ({name})")


def _read(path: Path) -> Submission:
    """Read the submission in a file.

    Raises:
        UnreadableError: The file contains no usable submission; the message is the reason.
    """
    content = _content(path)
    why_not = why_no_name(path.stem)
    if why_not is not None:
        raise UnreadableError(why_not)
    try:
        parameters = _constructor(_ENTRY, _definitions(_parse(content).body), (), set())
    except RecursionError as error:
        raise UnreadableError("is nested too deeply to be read") from error
    digest = hashlib.sha256(content).hexdigest()
    # Without a kernel in the file, the kernels are in other files, and anything is possible.
    shared = b"__shared__" in content or b"__global__" not in content
    text = content.decode("utf-8-sig")
    return Submission(
        path.stem,
        path,
        digest,
        parameters,
        shared,
        numbers_in(text),
        counts_multiprocessors(text),
        multiplies_matrices(text),
    )


def _content(path: Path) -> bytes:
    if path.is_symlink():
        raise UnreadableError(f"is a link to {path.readlink()}, which does not exist")
    if not path.exists():
        raise UnreadableError("does not exist")
    if path.is_dir():
        raise UnreadableError("this folder holds no .py file that could be a submission")
    if path.suffix != ".py":
        raise UnreadableError("is not a Python file; a submission ends in .py")
    if not path.is_file():
        raise UnreadableError("is not a regular file, and cannot be read as one")
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise UnreadableError(f"is longer than {_MOST_BYTES >> 10} KiB, and is not read")
    return content


def mentions_model_new(path: Path) -> bool:
    """Return whether the first 256 KiB of a file contain the text `ModelNew`.

    The result is False for a path that is not a file.

    Raises:
        OSError: The file cannot be read.
    """
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return _ENTRY.encode() in file.read(_MOST_BYTES)


def _parse(content: bytes) -> ast.Module:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableError(
            f"is not UTF-8: byte 0x{content[error.start]:02x} in line {line}"
        ) from error
    try:
        with warnings.catch_warnings():
            # CUDA source in a plain string often holds escapes that Python warns about.
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
            runs = ast.parse(content) if _COOKIE.search(content) else tree
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        raise UnreadableError(f"does not parse{where}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        raise UnreadableError(f"does not parse: {reason}") from error
    if runs is not tree and ast.dump(runs) != ast.dump(tree):
        raise UnreadableError("declares an encoding; remove that line, and use UTF-8")
    return tree


@dataclass(frozen=True)
class _Import:
    """The full name that an imported name refers to: torch.nn for `from torch import nn`."""

    target: str


_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.expr | _Import


def _definitions(body: Sequence[ast.stmt]) -> dict[str, _Definition]:
    """Return the last definition of each name in some statements, by name.

    The body of an if has priority over its else branch, the body of a try over its handlers.
    """
    found: dict[str, _Definition] = {}
    for statement in body:
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found[statement.name] = statement
            case ast.Assign(targets=targets, value=value):
                found.update({t.id: value for t in targets if isinstance(t, ast.Name)})
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case ast.Import() | ast.ImportFrom():
                found.update(_imports(statement))
            case ast.If() | ast.Try() | ast.With():
                for branch in _branches(statement):
                    found.update(_definitions(branch))
    return found


def _imports(statement: ast.Import | ast.ImportFrom) -> dict[str, _Definition]:
    if isinstance(statement, ast.ImportFrom):
        module = "." * statement.level + (statement.module or "")
        return {a.asname or a.name: _Import(f"{module}.{a.name}") for a in statement.names}
    return {
        alias.asname or alias.name.partition(".")[0]: _Import(
            alias.name if alias.asname else alias.name.partition(".")[0]
        )
        for alias in statement.names
    }


def _branches(statement: ast.If | ast.Try | ast.With) -> list[list[ast.stmt]]:
    """Return the blocks of a compound statement; a later block's definitions have priority.

    The body of `if __name__ == "__main__"` is left out, since it does not run on import.
    """
    if isinstance(statement, ast.With):
        return [statement.body]
    if isinstance(statement, ast.If):
        # The harness imports the file, so code under `if __name__ == "__main__"` does not run.
        is_script = "__name__" in ast.unparse(statement.test)
        return [statement.orelse] if is_script else [statement.orelse, statement.body]
    handlers = [handler.body for handler in statement.handlers]
    return [*handlers, statement.body, statement.orelse, statement.finalbody]


def _constructor(
    name: str, names: Mapping[str, _Definition], seen: tuple[str, ...], without: set[str]
) -> tuple[ConstructorParameter, ...]:
    """Return the parameters of the constructor of the class that `name` refers to in this file.

    Args:
        name: The class's name in the file.
        names: The definition of each name.
        seen: The names that led to this one, to detect cycles.
        without: Base classes known to have no constructor; this call adds further ones. So each
            base is examined only once, although exponentially many paths can lead to a shared base.

    Raises:
        UnreadableError: The parameters cannot be read.
    """
    definition = names.get(name)
    if name in seen:
        raise UnreadableError(f"{_ENTRY} is defined in terms of itself")
    match definition:
        case ast.ClassDef():
            return _class_constructor(definition, names, (*seen, name), without)
        case ast.Name(id=other):
            return _constructor(other, names, (*seen, name), without)
        case ast.Attribute() | _Import():
            return _torch_constructor(_dotted(definition, names))
        case None if name == _ENTRY:
            raise NoEntryError(f"defines no {_ENTRY}; a submission is a file with that class")
        case None:
            return _torch_constructor(name)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            raise UnreadableError(f"{name} is a function; it must be a class")
        case _:
            shown = ast.unparse(definition)
            raise UnreadableError(f"{name} is computed ({shown:.60}); define it with class {name}")


def _class_constructor(
    node: ast.ClassDef, names: Mapping[str, _Definition], seen: tuple[str, ...], without: set[str]
) -> tuple[ConstructorParameter, ...]:
    if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        raise UnreadableError(
            f"class {node.name} has its constructor written by @dataclass; write __init__ out"
        )
    own = _definitions(node.body).get("__init__")
    if isinstance(own, ast.FunctionDef):
        return _parameters(own.args)
    if own is not None:
        raise UnreadableError(f"class {node.name}: __init__ is not a plain def; write it out")
    # As in Python, the constructor is that of the first base class which has one.
    for base in node.bases:
        target = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(target, ast.Name) and isinstance(
            names.get(target.id), ast.ClassDef | ast.Name
        ):
            if target.id in without:
                continue
            inherited = _constructor(target.id, names, seen, without)
            if not inherited:
                without.add(target.id)
        else:
            inherited = _torch_constructor(_dotted(target, names))
        if inherited:
            return inherited
    return ()


def _dotted(node: ast.expr | _Import, names: Mapping[str, _Definition]) -> str:
    """Return an expression's dotted name with imports resolved: torch.nn.Conv1d for nn.Conv1d."""
    match node:
        case _Import(target=target):
            return target
        case ast.Name(id=name):
            bound = names.get(name)
            return bound.target if isinstance(bound, _Import) else name
        case ast.Attribute(value=value, attr=attribute):
            return f"{_dotted(value, names)}.{attribute}"
        case _:
            return ast.unparse(node)


def _torch_constructor(dotted: str) -> tuple[ConstructorParameter, ...]:
    """Return the constructor parameters of a class that is defined outside the file.

    Only object, ABC, Generic, nn.Module and the modules of torch.nn are known.

    Raises:
        UnreadableError: The class is not a known one.
    """
    if dotted in _PLAIN_BASES:
        return ()
    prefix, _, name = dotted.rpartition(".")
    known = getattr(nn, name, None) if prefix in ("torch.nn", "torch.nn.modules.conv") else None
    if not (isinstance(known, type) and issubclass(known, nn.Module)):
        raise UnreadableError(
            f"{_ENTRY} takes its constructor from {dotted:.60}, which is not in this file; "
            "a submission is self-contained"
        )
    return tuple(
        ConstructorParameter(
            parameter.name,
            Kind[parameter.kind.name],
            parameter.default is parameter.empty and not str(parameter).startswith("*"),
            None if parameter.default is parameter.empty else parameter.default,
        )
        for parameter in inspect.signature(known).parameters.values()
    )


def _parameters(args: ast.arguments) -> tuple[ConstructorParameter, ...]:
    """Return the parameters of a method from its syntax tree, without self."""
    positional = [(arg, Kind.POSITIONAL_ONLY) for arg in args.posonlyargs]
    positional += [(arg, Kind.POSITIONAL_OR_KEYWORD) for arg in args.args]
    missing = len(positional) - len(args.defaults)
    defaults = [None] * missing + list(args.defaults)
    found = [_parameter(a, k, d) for (a, k), d in zip(positional, defaults, strict=True)][1:]
    if args.vararg:
        found.append(ConstructorParameter(args.vararg.arg, Kind.VAR_POSITIONAL, required=False))
    found += [
        _parameter(arg, Kind.KEYWORD_ONLY, default)
        for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg:
        found.append(ConstructorParameter(args.kwarg.arg, Kind.VAR_KEYWORD, required=False))
    return tuple(found)


def _parameter(arg: ast.arg, kind: Kind, default: ast.expr | None) -> ConstructorParameter:
    if default is None:
        return ConstructorParameter(arg.arg, kind)
    try:
        value: object = ast.literal_eval(default)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        value = None
    return ConstructorParameter(arg.arg, kind, required=False, default=value)
