"""The requirements that `harness doctor` examines on this machine.

For each missing requirement, the module states what does not work, and a command to install it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch

from harness import preinstall
from harness.compiler.cache import Cache, default_root
from harness.compiler.toolchain import (
    ToolchainError,
    find_c_compiler,
    find_cuda_compiler,
    find_host_compiler,
    find_python_headers,
    find_toolchain,
)
from harness.compiler.tried import torch_note
from harness.devices import DeviceError, choose
from harness.gpu.release import cuda_here
from harness.preflight import prepare, require_writable, temporary_folder
from harness.sandbox import layers
from harness.system.errors import MachineError

_NOTHING_RUNS = "no submission can be evaluated"


@dataclass(frozen=True)
class Requirement:
    """One requirement of the harness, and its state on this machine.

    Attributes:
        name: Name of the requirement, for users.
        state: Description of what was found, such as a path and a version.
        remedy: Command that provides what is missing; empty if nothing is missing.
        is_optional: True if only some uses of the harness need it.
        cost: Description of what does not work; empty if everything works.
    """

    name: str
    state: str
    remedy: str = ""
    is_optional: bool = False
    cost: str = ""

    @property
    def is_fine(self) -> bool:
        """True if nothing is missing, or if the requirement is optional."""
        return not self.remedy or self.is_optional

    @property
    def line(self) -> str:
        """The requirement and its state in one line, for users."""
        mark = "LACKS" if not self.is_fine else "ok" if not self.is_optional else "part"
        cost = f"; {self.cost}" if self.cost else ""
        advice = f"; run: {self.remedy}" if self.remedy else ""
        return f"{mark:5} {self.name}: {self.state}{cost}{advice}"


def find_requirements() -> list[Requirement]:
    """Examine everything that the harness needs, and return the results."""
    return list(_requirements())


def _requirements() -> Iterator[Requirement]:
    yield Requirement("python", sys.version.split()[0])
    yield Requirement("torch", "; ".join(filter(None, (f"{torch.__version__}", torch_note()))))
    yield _host_compiler()
    yield _c_compiler()
    yield _python_headers()
    yield _cuda_compiler()
    yield _torch_build_needs()
    yield _folder("cache", default_root(), "XDG_CACHE_HOME")
    yield _folder("temporary folder", temporary_folder(), "TMPDIR")
    yield from _device()
    yield _program(
        "git", ("git",), "harness gate compares with recorded reports only", "apt-get install git"
    )
    yield _program(
        "browser",
        preinstall.BROWSERS,
        "tests of the report pages are skipped; writing the pages needs no browser",
        "apt-get install chromium",
    )
    yield _sandbox()


def _sandbox() -> Requirement:
    """Examine the sandbox's layers; the sandbox is optional, as only untrusted files need it."""
    states = layers.examine()
    holding = ", ".join(state.layer for state in states if not state.hole) or "nothing"
    missing = ", ".join(f"{state.layer} ({state.hole})" for state in states if state.hole)
    if not missing:
        return Requirement("sandbox", f"layers that hold: {holding}")
    reason, _, remedy = layers.why_open().partition("; run: ")
    parts = (f"layers that hold: {holding}", f"layers that do not hold: {missing}", reason)
    state = "; ".join(filter(None, parts))
    cost = "submissions run with a weaker sandbox or none; --untrusted is refused"
    return Requirement("sandbox", state, remedy, is_optional=True, cost=cost)


def _failed_requirement(name: str, error: Exception, cost: str = _NOTHING_RUNS) -> Requirement:
    """Return the state of a requirement whose examination raised an error with a remedy."""
    state, _, remedy = str(error).partition("; run: ")
    return Requirement(name, state, remedy, cost=cost)


def _host_compiler() -> Requirement:
    cuda = None
    with suppress(ToolchainError):  # _cuda_compiler() reports this error
        cuda = find_cuda_compiler(cuda_here())
    try:
        compiler = find_host_compiler(cuda)
    except ToolchainError as error:
        return _failed_requirement("C++ compiler", error)
    return Requirement("C++ compiler", f"{compiler.path} ({compiler.version})")


def _c_compiler() -> Requirement:
    try:
        compiler = find_c_compiler()
    except ToolchainError as error:
        return _failed_requirement("C compiler", error)
    return Requirement("C compiler", f"{compiler.path} ({compiler.version})")


def _python_headers() -> Requirement:
    try:
        return Requirement("Python headers", str(find_python_headers()))
    except ToolchainError as error:
        return _failed_requirement("Python headers", error)


def _cuda_compiler() -> Requirement:
    try:
        compiler = find_cuda_compiler(cuda_here())
    except ToolchainError as error:
        return _failed_requirement("nvcc", error)
    why = f"; {compiler.why}" if compiler.why else ""
    found = f"{compiler.version} from {compiler.home} ({compiler.origin}){why}"
    return Requirement("nvcc", found)


def _torch_build_needs() -> Requirement:
    if find_spec("setuptools") is None:
        return Requirement(
            "setuptools",
            "torch.utils.cpp_extension needs it",
            "pip install setuptools",
            cost=_NOTHING_RUNS,
        )
    return Requirement("setuptools", "present")


def _folder(name: str, folder: Path, variable: str) -> Requirement:
    """Examine whether a folder is writable, and how much free space its disk has."""
    try:
        require_writable(folder, variable)
    except MachineError as error:
        return _failed_requirement(name, error)
    free = shutil.disk_usage(folder).free / preinstall.GIB
    return Requirement(name, f"{folder} ({free:.1f} GB free)")


def _program(name: str, programs: tuple[str, ...], cost: str, remedy: str) -> Requirement:
    """Examine an optional program, which may be installed under any of several names."""
    found = next(filter(None, map(shutil.which, programs)), None)
    if found:
        return Requirement(name, found)
    return Requirement(name, f"{programs[0]} is not installed", remedy, is_optional=True, cost=cost)


def _device() -> Iterator[Requirement]:
    try:
        device = choose("auto")
    except DeviceError as error:
        yield _failed_requirement("device", error)
        return
    if device == "cuda":
        yield Requirement("device", f"cuda: {torch.cuda.get_device_name()}")
        return
    yield Requirement("device", "simulator: torch sees no GPU", cost="speeds are not measured")
    try:
        find_toolchain()
        prepare(Cache(default_root()))
    except ToolchainError:
        return  # _host_compiler() and _cuda_compiler() report this error
    except MachineError as error:
        yield _failed_requirement("simulator", error)
    else:
        yield Requirement("simulator", "its native code compiles with this torch and loads")
