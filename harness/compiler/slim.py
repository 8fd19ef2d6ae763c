"""Selection of the sources that are compiled with the slim headers instead of torch's headers.

nvcc reads torch's headers twice for each source, for the device and for the host, and has no
precompiled headers. g++ compiles pybind11 again for each extension. The slim headers
(`include/slim/`) declare only the parts of torch that the host code of kernels uses, and bindings
to Python as load_inline writes them. With the slim headers a build takes a third of the time. The
slim headers call functions of the worker's simulated `cuda` device (`simulator/native/slim.cpp`,
`bindings.cpp`).

The selection scans the source's text. A wrong choice costs only time, because a source that fails
with the slim headers is compiled again with torch's own.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from torch.utils import cpp_extension

from harness.compiler.flags import (
    OVERLAY,
    Extension,
    is_cuda_source,
    torch_language_standard,
)

FOLDER = OVERLAY / "slim"
OLDER = "-std=c++17"
"""The language standard that is tried before torch's own."""

# The include guards of headers that every CUDA source reads and hardly any uses: of CUDA's textures
# and surfaces, and of the special functions in libstdc++'s <cmath>.
_WITHOUT_TEXTURES = (
    "-D__TEXTURE_INDIRECT_FUNCTIONS_H__",
    "-D__SURFACE_INDIRECT_FUNCTIONS_H__",
)
_WITHOUT_SPECIAL_FUNCTIONS = "-D_GLIBCXX_BITS_SPECFUN_H"

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
# torch's headers, and headers that need torch's real ones beside them.
_TORCHS = re.compile(r"(torch|ATen|c10|caffe2|pybind11|thrust|cub)/|Python\.h|numpy/")
_NAME = re.compile(
    r"\b(?:torch|at|c10|caffe2)((?:\s*::\s*\w+)+)|\b((?:TORCH|AT|C10|PYBIND11|DISPATCH)_\w+)"
)
_NAMESPACE = re.compile(r"\b(?:thrust|cub|py|pybind11)\s*::")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_MEMBER = re.compile(r"(?:\.|->)\s*(?:template\s+)?(\w+)\s*[(<]")
_FUNCTION = re.compile(r"(?<![.>\w])(\w+)\s*\(")
_TENSORS_MEMBER = re.compile(r"\b(\w+)\([^;{}]*\) const\b")
# Small headers of torch that work together with the slim ones.
_ALONGSIDE = frozenset({"c10/util/Half.h", "c10/util/BFloat16.h"})
_TENSORS = ("TensorBase.h", "TensorBody.h")
# A source with none of these words uses no type of 16 bits.
_HALF = re.compile(r"half|fp16|bf16|bfloat", re.IGNORECASE)
_STANDARD = re.compile(r"\bstd\s*::\s*(\w+)")
# A source with none of these words reads no texture and no surface.
_TEXTURE = re.compile(r"\b(?:tex|surf)|[tT]exture|[sS]urface")
# A source with one of these may mean something else in another version of C++.
_LANGUAGE_STANDARD = re.compile(r"\b__(?:cplusplus|cpp_\w+|has_include)\b")
# Uses of the standard library that may need a header which the small ones do not include.
_ALL_OF_STANDARD = re.compile(r"using\s+namespace\s+std\b|\bstd\s*::\s*(?:min|max)\s*\(\s*\{")
# Names of the standard library that the slim headers declare without <algorithm>.
_SMALL = re.compile(
    r"abs|accumulate|array|ceil|exp2?|fabs|floor|fmax|fmin|fmod|forward|gcd|get|u?int(?:8|32|64)_t"
    r"|invalid_argument|iota|is_same(?:_v)?|lcm|log2?|logic_error|make_tuple|max|min|move"
    r"|numeric_limits"
    r"|nullopt|optional|out_of_range|pair|pow|round|runtime_error|size_t|sqrt|string|swap|tanh|tie"
    r"|to_string|tuple|vector"
)
# The slim headers lay out these types differently from torch. A C++ source compiled with torch's
# headers must not pass them to or from a CUDA source compiled with the slim ones.
_OWN_TYPES = re.compile(
    r"\b(TensorOptions|TypeMeta|Scalar|CUDAStream|CUDAGuard|DeviceGuard|OptionalCUDAGuard)\b"
)


def sources(extension: Extension) -> frozenset[str]:
    """Return the names of an extension's sources that are to be compiled with the slim headers.

    If any CUDA source cannot use the slim headers, the result is empty. Otherwise the result has
    the names of all CUDA sources, and perhaps of some C++ sources.
    """
    # CUDA sources may pass types of the slim headers to each other, so all use the same headers.
    texts = {name: _COMMENT.sub(" ", text) for name, text in extension.sources}
    slim = {name for name, text in texts.items() if _has_all_of(text)}
    cuda = {name for name in texts if is_cuda_source(name)}
    is_possible = (
        cuda
        and cuda <= slim
        # The extension's own headers are not scanned, and may use anything of torch.
        and not any(
            (Path(folder) / name).is_file()
            for folder in extension.include_paths
            for text in texts.values()
            for name in _INCLUDE.findall(text)
        )
        and not any(_OWN_TYPES.search(texts[name]) for name in texts.keys() - cuda)
    )
    return frozenset(slim if is_possible else ())


def definitions(source: str) -> list[str]:
    """Return flags that leave out large headers which a source does not seem to use.

    If a source needs a header after all, it is compiled again with torch's headers.
    """
    code = _COMMENT.sub(" ", source)
    is_small = all(map(_SMALL.fullmatch, _STANDARD.findall(code)))
    is_small = is_small and not _ALL_OF_STANDARD.search(code)
    return [
        *([] if _HALF.search(code) else ["-DHARNESS_WITHOUT_HALF"]),
        *(["-DHARNESS_WITHOUT_ALGORITHM"] if is_small else []),
        *([] if _TEXTURE.search(code) else _WITHOUT_TEXTURES),
        _WITHOUT_SPECIAL_FUNCTIONS,
    ]


def may_be_older(extension: Extension) -> bool:
    """Return whether an extension's sources are worth a try as C++17.

    Since release 2.13, torch's language standard is C++20, in which the standard library's headers
    are larger. A source that compiles as C++17 means the same, unless it asks for
    the standard.
    """
    return torch_language_standard() != OLDER and not any(
        _LANGUAGE_STANDARD.search(_COMMENT.sub(" ", text)) for _, text in extension.sources
    )


def _has_all_of(source: str) -> bool:
    """Return whether the slim headers declare all names of torch that a source seems to use."""
    included = filter(_TORCHS.match, _INCLUDE.findall(source))
    if not all(name in _ALONGSIDE or (FOLDER / name).is_file() for name in included):
        return False
    code = _STRING.sub(" ", source)
    if _NAMESPACE.search(code):
        return False
    names = {word for pair in _NAME.findall(code) for word in _words_of(" ".join(pair))}
    # If the source calls a function of that name too, the member is assumed to be its own.
    members = set(_MEMBER.findall(code)) - set(_FUNCTION.findall(code))
    return names <= _words() and not members & _missing_members()


def _words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", _COMMENT.sub(" ", text)))


@functools.cache
def _words() -> set[str]:
    """Return all words in the slim headers' text, a superset of the names that they declare.

    A superset is enough: if a name is missing after all, the source is compiled again with torch's
    headers.
    """
    paths = [*FOLDER.rglob("*.h"), *(_torchs() / name for name in _ALONGSIDE)]
    return set().union(*(_words_of(path.read_text()) for path in paths))


@functools.cache
def _missing_members() -> set[str]:
    """Return the names of members that torch's tensor class has and the slim tensor class lacks."""
    texts = [(_torchs() / "ATen/core" / name).read_text() for name in _TENSORS]
    return set(_TENSORS_MEMBER.findall("\n".join(texts))) - _words()


def _torchs() -> Path:
    return Path(cpp_extension.include_paths("cpu")[0])
