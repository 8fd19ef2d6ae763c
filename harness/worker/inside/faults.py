"""Conversion of a submission's exception into the answer that says why its step failed.

The conversion runs in the worker, so the harness does not trust the result.
"""

from __future__ import annotations

import ctypes
import re
import traceback
from pathlib import Path
from typing import Any

import torch

from harness.compiler.extension import ExtensionBuildError
from harness.compiler.ninja import first_error
from harness.simulator.hardware.errors import UnsupportedCall
from harness.system.texts import MOST_OF_A_DETAIL, MOST_OF_A_MESSAGE, shortened
from harness.worker.steps import Failed

# Shorter string literals also occur in messages that are not the submission's own.
_TELLING_LITERAL = 8
# pybind11's message for a failed call contains all types and arguments.
_MOST_OF_A_LINE = 1000


# Texts of CUDA's errors in a submission's own exception. It comes from the submission's check of a
# call, so CUDA has refused, not the submission.
_CUDA_ERROR = re.compile(
    r"CUDA error|\bcudaError[A-Z]|invalid configuration argument|(^|: )invalid argument$"
    r"|invalid (device (function|symbol|pointer|ordinal)|resource handle|pitch argument)"
    r"|too many (resources requested for|blocks in cooperative) launch|unspecified launch failure"
    r"|illegal (memory access|instruction) was encountered|misaligned address|device-side assert"
    r"|launch timed out|operation not supported|named symbol not found",
    re.MULTILINE,
)

# CUDA's error for a launch, or for cudaFuncSetAttribute, with too much shared memory.
_LAUNCH_REFUSED = re.compile(r"\binvalid argument\b|\bcudaErrorInvalidValue\b")


def name_tensors_by_shape() -> None:
    """Make torch print only a tensor's dtype and shape; many numbers would hide the message.

    Tensors are printed in two places: in pybind11's message for arguments that fit no signature,
    and in exceptions of submissions.
    """

    def named(self: torch.Tensor, *, tensor_contents: object = None) -> str:
        del tensor_contents
        return f"tensor({str(self.dtype).removeprefix('torch.')} {list(self.shape)})"

    _tensor_str: Any = torch._tensor_str
    _tensor_str._str = named


def describe(error: BaseException, submission: Path) -> Failed:
    """Return the answer for an exception that was raised while the submission's code ran.

    Messages refuse longer texts than those that the answer has.
    """
    failed = _described(error, submission)
    message = shortened(failed.message, MOST_OF_A_MESSAGE)
    return Failed(failed.kind, message, shortened(failed.detail, MOST_OF_A_DETAIL))


def _described(error: BaseException, submission: Path) -> Failed:
    if isinstance(error, ExtensionBuildError):
        library = _missing_library(error.output)
        if library:
            return Failed("unsupported", library, error.output)
        return Failed("build", str(error).partition("\n")[0], _around_first_error(error.output))
    if isinstance(error, UnsupportedCall):
        return Failed("unsupported", _one_line(error))
    undefined = _undefined_symbol(error)
    if undefined and not _OF_LIBRARIES.match(undefined):
        # Functions of libraries have other names.
        why = f"its extension declares {undefined} but does not define it"
        return Failed("exception", why, _encodable(str(error)))
    missing = undefined or _missing_part(error)
    if missing:
        return Failed("unsupported", f"the harness's device does not support {missing}")
    where = _own_frames(error, submission)
    detail = _encodable("".join(traceback.format_list(where)).rstrip())
    place = f" ({submission.name}:{where[-1].lineno}, in {where[-1].name})" if where else ""
    text = f"{type(error).__name__[:_MOST_OF_A_LINE]}: {_one_line(error)}{place}"
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return Failed("out of memory", text, detail)
    if _is_refusal(error, submission):
        return Failed("refusal", _one_line(error) or text, detail)
    if isinstance(error, Exception) and _LAUNCH_REFUSED.search(str(error)):
        return Failed("launch refused", text, detail)
    return Failed("exception", text, detail)


def _around_first_error(output: str) -> str:
    """Return a compiler's output; if it is too long, begin shortly before its first error."""
    if len(output) <= MOST_OF_A_DETAIL:
        return output
    place = max(0, output.find(first_error(output)))
    return output[max(0, place - MOST_OF_A_MESSAGE) :]


_LIBRARIES = "cublas|cudnn|cusparse|cusolver|cufft|curand|nvrtc|nccl|nvjpeg|cutlass|cute"


def _missing_library(output: str) -> str | None:
    """Return the message for a build that uses a library which the harness lacks.

    Return None for any other compiler output.
    """
    header = re.search(rf"fatal error: ((?:{_LIBRARIES})[\w./]*): No such file", output)
    if header:
        return (
            f"{header[1]} is not available: of CUDA's libraries, the harness has only the runtime"
        )
    name = rf"((?:{_LIBRARIES})\w*)"
    # The quotation marks that the host compiler puts around names depend on the locale.
    unknown = re.search(rf'identifier "{name}" is undefined|\W{name}\W was not declared', output)
    if unknown:
        return f"the harness's device does not support {unknown[1] or unknown[2]}"
    return None


_OF_LIBRARIES = re.compile(rf"_*(?:{_LIBRARIES}|cuda|cu[A-Z]|nv[a-zA-Z]|at::|c10::|torch::)")
"""Beginning of the names of CUDA's and torch's functions, which are not the submission's own."""

_PARTS_OF_TORCH = {
    "Torch not compiled with CUDA enabled": "this part of torch.cuda",
    "without ATen_cuda library": "a CUDA generator for torch",
    "pin_memory=True requires a CUDA": "pinned memory for torch",
    "Cannot access accelerator device": "torch.accelerator",
}
"""Parts of error messages of a CPU-only torch, each with the missing part of CUDA."""


def _undefined_symbol(error: BaseException) -> str | None:
    """Return the name of the function that a loader did not find; None for any other error."""
    symbol = re.search(r"undefined symbol: (\w+)", str(error))
    if not symbol or not isinstance(error, ImportError | OSError):
        return None
    name = demangled(symbol[1])
    return name if "(" in name else f"{name}()"


def _missing_part(error: BaseException) -> str | None:
    """Return the part of CUDA that a CPU-only torch lacks according to its error, or None."""
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
    """Return a C++ symbol as its name in the source; any other symbol is returned unchanged."""
    demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    demangle.restype = ctypes.c_void_p
    text = demangle(symbol.encode(), None, None, None)
    return ctypes.string_at(text).decode() if text else symbol


def _one_line(error: BaseException) -> str:
    """Return an exception's text as one line of limited length."""
    is_key = isinstance(error, KeyError) and error.args
    try:
        text = str(error.args[0] if is_key else error)
    except Exception as own:  # a stranger's __str__
        text = f"its message cannot be read ({type(own).__name__[:_MOST_OF_A_LINE]})"
    return _encodable(" ".join(text.split())[:_MOST_OF_A_LINE])


def _encodable(text: str) -> str:
    """Return text that can be encoded as UTF-8; other characters, as in file names, are escaped."""
    return text.encode(errors="backslashreplace").decode()


def _own_frames(error: BaseException, submission: Path) -> list[traceback.FrameSummary]:
    """Return those frames of an exception's traceback that are in the submission's file."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if Path(frame.filename) == submission]


def _is_refusal(error: BaseException, submission: Path) -> bool:
    """Return whether the submission refuses its input: by `raise`, `assert` or TORCH_CHECK.

    An exception from code outside the submission's file is not a refusal, but a mistake of the
    submission. An exception whose text has a CUDA error is not a refusal either.
    """
    if _CUDA_ERROR.search(str(error)) or not isinstance(error, Exception):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or Path(frames[-1].filename) != submission:
        return False
    if re.match(r"(raise|assert)\b", frames[-1].line or ""):
        return True
    # A TORCH_CHECK has no line of Python. Its message contains a string literal of the source.
    literals = re.findall(r'"((?:[^"\\\n]|\\.)+)"', submission.read_text(errors="replace"))
    return isinstance(error, RuntimeError) and any(
        literal in str(error) for literal in literals if len(literal) >= _TELLING_LITERAL
    )
