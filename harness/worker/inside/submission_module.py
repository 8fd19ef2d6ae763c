"""The module of a submission, which may read constants of its reference as if they were its own."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class SubmissionModule:
    """A submission's file as a module.

    KernelBench executes reference and submission in one namespace. Here the submission can read
    only the constants of the reference, as literals.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = _module_name(path)
        self._builtins = _Builtins({})
        self._read: set[str] = set()
        self._read_at_import: frozenset[str] = frozenset()
        self._module: Any = None

    def execute(self, constants: Mapping[str, str]) -> None:
        """Execute the file as a new module.

        `constants` are the reference's constants that the module may read: Python literals by name.
        """
        spec = importlib.util.spec_from_file_location(self._name, self._path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{self._path.name} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[self._name] = module
        self._read |= self._builtins.read
        self._module, self._builtins = None, _Builtins(constants)
        if constants:
            vars(module)["__builtins__"] = self._builtins
        try:
            spec.loader.exec_module(module)
        finally:
            self._read_at_import = frozenset(self._builtins.read)
        self._module = module

    def configure(self, constants: Mapping[str, str]) -> bool:
        """Give the module the reference's constants for another configuration.

        Returns:
            True if the file was executed again, because a constant that it read at import has
            changed.
        """
        known = self._builtins.constants
        is_as_imported = all(known[n] == constants.get(n) for n in self._read_at_import)
        if self._module is None or not is_as_imported:
            self.execute(constants)
            return True
        self._builtins.give(constants)
        return False

    def construct(self, *positional: object, **named: object) -> Any:
        """Return a new instance of the submission's `ModelNew`."""
        return self._module.ModelNew(*positional, **named)

    def names_read(self) -> list[str]:
        """Return the names of the reference's constants that the file has read so far."""
        return sorted(self._read | self._builtins.read)


class _Builtins(dict[str, Any]):
    """The `__builtins__` of a submission's module: Python's own, and the reference's constants.

    Python looks a name up here if the module does not define it, at import and in any function.

    Attributes:
        constants: Constants of the reference, as literals by name.
        read: Names of the constants that the module has read.
    """

    def __init__(self, constants: Mapping[str, str]) -> None:
        super().__init__(vars(builtins))
        self.read: set[str] = set()
        self.give(constants)

    def give(self, constants: Mapping[str, str]) -> None:
        """Replace the reference's constants."""
        self.constants = constants
        self._values = {name: ast.literal_eval(text) for name, text in constants.items()}

    def __missing__(self, name: str) -> Any:
        # A KeyError becomes Python's own NameError.
        value = self._values[name]
        self.read.add(name)
        return value


def _module_name(path: Path) -> str:
    """Return a name for the submission's module: the file's name, with a suffix if it is taken.

    The suffix prevents a file torch.py from replacing the module torch.
    """
    is_taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    return f"{path.stem}_of_submission" if is_taken else path.stem
