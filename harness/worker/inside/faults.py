"""Say what an exception of a submission means, in the words of a report.

Runs in the worker, so what it says is the worker's claim.
"""

from __future__ import annotations

import ctypes
import re
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from harness.compiler.extension import ExtensionBuildError
from harness.messages.kinds import ClaimedKind
from harness.simulator.hardware.errors import UnsupportedCall

# Shorter string literals turn up in messages that are not the submission's own.
_TELLING_LITERAL = 8
# A call through pybind11 that fails names its types and its arguments.
_MOST_OF_A_LINE = 1000


@dataclass(frozen=True)
class Fault:
    """Why a step of a submission did not end well."""

    kind: ClaimedKind
    message: str
    """One line."""
    detail: str = ""
    """The compiler's output, or the traceback within the submission."""

    def to_json(self) -> dict[str, Any]:
        """Plain data for a message."""
        return asdict(self)


# Told by a submission's own check of a call: then CUDA has refused, and not the submission.
_CUDA_ERROR = re.compile(
    r"CUDA error|\bcudaError[A-Z]|invalid configuration argument|(^|: )invalid argument$"
    r"|invalid (device (function|symbol|pointer|ordinal)|resource handle|pitch argument)"
    r"|too many (resources requested for|blocks in cooperative) launch|unspecified launch failure"
    r"|illegal (memory access|instruction) was encountered|misaligned address|device-side assert"
    r"|launch timed out|operation not supported|named symbol not found",
    re.MULTILINE,
)

# What CUDA says of a launch, and of cudaFuncSetAttribute, that asks for too much shared memory.
_LAUNCH_REFUSED = re.compile(r"\binvalid argument\b|\bcudaErrorInvalidValue\b")


def name_tensors_by_shape() -> None:
    """Have torch write a tensor as its dtype and shape: in a message its numbers hide the rest.

    pybind11 writes the arguments of a call that fits no signature, and submissions write tensors
    into their own exceptions.
    """

    def named(self: torch.Tensor, *, tensor_contents: object = None) -> str:
        del tensor_contents
        return f"tensor({str(self.dtype).removeprefix('torch.')} {list(self.shape)})"

    _tensor_str: Any = torch._tensor_str
    _tensor_str._str = named


def describe(error: BaseException, submission: Path) -> Fault:
    """What `error`, raised while the submission's code ran, means."""
    if isinstance(error, ExtensionBuildError):
        library = _missing_library(error.output)
        if library:
            return Fault("unsupported", library, error.output)
        return Fault("build", str(error).partition("\n")[0], error.output)
    if isinstance(error, UnsupportedCall):
        return Fault("unsupported", _one_line(error))
    undefined = _undefined_symbol(error)
    if undefined and not _OF_LIBRARIES.match(undefined):
        # What it calls of libraries has other names.
        why = f"its extension declares {undefined} and does not define it"
        return Fault("exception", why, _encodable(str(error)))
    missing = undefined or _missing_part(error)
    if missing:
        return Fault("unsupported", f"the harness's device has no {missing}")
    where = _own_frames(error, submission)
    detail = _encodable("".join(traceback.format_list(where)).rstrip())
    place = f" ({submission.name}:{where[-1].lineno}, in {where[-1].name})" if where else ""
    text = f"{type(error).__name__[:_MOST_OF_A_LINE]}: {_one_line(error)}{place}"
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return Fault("out of memory", text, detail)
    if _is_refusal(error, submission):
        return Fault("refusal", _one_line(error) or text, detail)
    if isinstance(error, Exception) and _LAUNCH_REFUSED.search(str(error)):
        return Fault("launch refused", text, detail)
    return Fault("exception", text, detail)


_LIBRARIES = "cublas|cudnn|cusparse|cusolver|cufft|curand|nvrtc|nccl|nvjpeg|cutlass|cute"


def _missing_library(output: str) -> str | None:
    """What a compiler says where the submission uses a library that is not here."""
    header = re.search(rf"fatal error: ((?:{_LIBRARIES})[\w./]*): No such file", output)
    if header:
        return f"there is no {header[1]}: of CUDA's libraries only the runtime is here"
    name = rf"((?:{_LIBRARIES})\w*)"
    # What the host compiler puts around names depends on the locale.
    unknown = re.search(rf'identifier "{name}" is undefined|\W{name}\W was not declared', output)
    if unknown:
        return f"the harness's device has no {unknown[1] or unknown[2]}"
    return None


_OF_LIBRARIES = re.compile(rf"_*(?:{_LIBRARIES}|cuda|cu[A-Z]|nv[a-zA-Z]|at::|c10::|torch::)")
"""How the names begin of functions that are CUDA's or torch's, not the submission's own."""

_PARTS_OF_TORCH = {
    "Torch not compiled with CUDA enabled": "such part of torch.cuda",
    "without ATen_cuda library": "CUDA generator for torch",
    "pin_memory=True requires a CUDA": "pinned memory for torch",
    "Cannot access accelerator device": "torch.accelerator",
}
"""What it is that a CPU-only torch means in these words."""


def _undefined_symbol(error: BaseException) -> str | None:
    """What a loader says where a library lacks a symbol."""
    symbol = re.search(r"undefined symbol: (\w+)", str(error))
    if not symbol or not isinstance(error, ImportError | OSError):
        return None
    name = demangled(symbol[1])
    return name if "(" in name else f"{name}()"


def _missing_part(error: BaseException) -> str | None:
    """What a CPU-only torch says where it lacks what CUDA has."""
    dummy = re.search(r"Tried to instantiate dummy base class (\w+)", str(error))
    if dummy:
        return f"torch.cuda.{dummy[1]}"
    attribute = re.search(r"module 'torch._C' has no attribute '(_cuda\w+)'", str(error))
    if isinstance(error, AttributeError) and attribute:
        return f"torch._C.{attribute[1]}()"
    for words, what in _PARTS_OF_TORCH.items():
        if words in str(error):
            return what
    return None


def demangled(symbol: str) -> str:
    """A C++ name as people write it, where it is one."""
    demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    demangle.restype = ctypes.c_void_p
    text = demangle(symbol.encode(), None, None, None)
    return ctypes.string_at(text).decode() if text else symbol


def _one_line(error: BaseException) -> str:
    is_key = isinstance(error, KeyError) and error.args
    try:
        text = str(error.args[0] if is_key else error)
    except Exception as own:  # a stranger's __str__
        text = f"its text cannot be had ({type(own).__name__[:_MOST_OF_A_LINE]})"
    return _encodable(" ".join(text.split())[:_MOST_OF_A_LINE])


def _encodable(text: str) -> str:
    """What a terminal and a file can hold: names of files may have bytes that are no characters."""
    return text.encode(errors="backslashreplace").decode()


def _own_frames(error: BaseException, submission: Path) -> list[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if Path(frame.filename) == submission]


def _is_refusal(error: BaseException, submission: Path) -> bool:
    """Whether the submission itself says no: its own `raise` or `assert`, or its TORCH_CHECK.

    An exception that some other code raised because of a mistake in the submission is not one, and
    neither is one that tells of an error of CUDA.
    """
    if _CUDA_ERROR.search(str(error)) or not isinstance(error, Exception):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or Path(frames[-1].filename) != submission:
        return False
    if re.match(r"(raise|assert)\b", frames[-1].line or ""):
        return True
    literals = re.findall(r'"((?:[^"\\\n]|\\.)+)"', submission.read_text(errors="replace"))
    return isinstance(error, RuntimeError) and any(
        literal in str(error) for literal in literals if len(literal) >= _TELLING_LITERAL
    )
