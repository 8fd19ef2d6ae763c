"""Which sources need nothing of torch but what the slim headers have.

nvcc reads torch's headers twice for each source, for the device and for the host, and has no
precompiled ones. g++ compiles pybind11 once more for each extension. The slim headers
(`include/slim/`) declare what kernels' host code uses of torch, and how it is bound to Python, and
take a third of the time. They call functions of a worker's `cuda` device
(`simulator/native/slim.cpp`, `bindings.cpp`).

The question is asked of the text, and a wrong answer costs only time: what does not compile with
them is compiled again with torch's own.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from torch.utils import cpp_extension

from harness.compiler.flags import OVERLAY, Extension, is_cuda_source

FOLDER = OVERLAY / "slim"

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
# Headers that are torch's, and those with which torch's would have to be the real ones.
_TORCHS = re.compile(r"(torch|ATen|c10|caffe2|pybind11|thrust|cub)/|Python\.h|numpy/")
_NAME = re.compile(
    r"\b(?:torch|at|c10|caffe2)((?:\s*::\s*\w+)+)|\b((?:TORCH|AT|C10|PYBIND11|DISPATCH)_\w+)"
)
_NAMESPACE = re.compile(r"\b(?:thrust|cub|py|pybind11)\s*::")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_MEMBER = re.compile(r"(?:\.|->)\s*(?:template\s+)?(\w+)\s*[(<]")
_FUNCTION = re.compile(r"(?<![.>\w])(\w+)\s*\(")
_TENSORS_MEMBER = re.compile(r"\b(\w+)\([^;{}]*\) const\b")
# Small headers of torch's, which the slim ones get along with.
_ALONGSIDE = frozenset({"c10/util/Half.h", "c10/util/BFloat16.h"})
_TENSORS = ("TensorBase.h", "TensorBody.h")
# They are not laid out as torch's are: no function of a C++ source may take or return one.
_OWN_TYPES = re.compile(
    r"\b(TensorOptions|TypeMeta|Scalar|CUDAStream|CUDAGuard|DeviceGuard|OptionalCUDAGuard)\b"
)


def sources(extension: Extension) -> frozenset[str]:
    """Names of an extension's sources that are to be compiled with the slim headers.

    These are all of its CUDA sources or none, and C++ sources beside them.
    """
    texts = {name: _COMMENT.sub(" ", text) for name, text in extension.sources}
    slim = {name for name, text in texts.items() if _has_all_of(text)}
    cuda = {name for name in texts if is_cuda_source(name)}
    is_possible = (
        cuda
        and cuda <= slim
        # A header of the extension's own may use any of torch's.
        and not any(
            (Path(folder) / name).is_file()
            for folder in extension.include_paths
            for text in texts.values()
            for name in _INCLUDE.findall(text)
        )
        and not any(_OWN_TYPES.search(texts[name]) for name in texts.keys() - cuda)
    )
    return frozenset(slim if is_possible else ())


def _has_all_of(source: str) -> bool:
    included = filter(_TORCHS.match, _INCLUDE.findall(source))
    if not all(name in _ALONGSIDE or (FOLDER / name).is_file() for name in included):
        return False
    code = _STRING.sub(" ", source)
    if _NAMESPACE.search(code):
        return False
    names = {word for pair in _NAME.findall(code) for word in _words_of(" ".join(pair))}
    # One that the source has a function of is its own.
    members = set(_MEMBER.findall(code)) - set(_FUNCTION.findall(code))
    return names <= _words() and not members & _missing_members()


def _words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", _COMMENT.sub(" ", text)))


@functools.cache
def _words() -> set[str]:
    """Every word of the headers: what they declare is among them."""
    paths = [*FOLDER.rglob("*.h"), *(_torchs() / name for name in _ALONGSIDE)]
    return set().union(*(_words_of(path.read_text()) for path in paths))


@functools.cache
def _missing_members() -> set[str]:
    """What torch's tensors have, and the slim ones have not."""
    texts = [(_torchs() / "ATen/core" / name).read_text() for name in _TENSORS]
    return set(_TENSORS_MEMBER.findall("\n".join(texts))) - _words()


def _torchs() -> Path:
    return Path(cpp_extension.include_paths("cpu")[0])
