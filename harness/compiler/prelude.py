"""A precompiled <torch/extension.h> for the C++ sources of extensions.

load_inline's bindings are a few lines after <torch/extension.h>, which g++ takes ten seconds to
parse. GCC stores the parsed header in a file of some 240 MB, and reuses it for the same options:
https://gcc.gnu.org/onlinedocs/gcc/Precompiled-Headers.html.
"""

from __future__ import annotations

import re
from pathlib import Path

from harness.compiler import flags
from harness.compiler.cache import Cache, Product, digest
from harness.compiler.compiler import Compiler, CompileTimeout
from harness.compiler.flags import Extension, Target
from harness.compiler.job import Job
from harness.compiler.ninja import CompileError, Step
from harness.compiler.toolchain import Toolchain

HEADER = "prelude.h"
_PRECOMPILED = f"{HEADER}.gch"
_TEXT = "#include <torch/extension.h>\n"
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]torch/extension\.h[>"]', re.MULTILINE)

# Each list of options needs a header file of its own. A list with other flags than these is too
# rare to be worth one.
_USUAL_FLAG = re.compile(r"-O\w*|-std=[\w+]+|-W[\w-]+|-w")


def begins(text: str) -> bool:
    """Return whether a C++ source includes <torch/extension.h>, the header that is precompiled."""
    return bool(_INCLUDED.search(text))


def find_or_make(
    extension: Extension,
    toolchain: Toolchain,
    target: Target,
    cache: Cache,
    compiler: Compiler,
    overlay: list[str],
) -> Path | None:
    """Return the path of the precompiled header for g++'s `-include`, or None if it cannot be used.

    Args:
        extension: The extension; only its compiler options matter.
        toolchain: nvcc and the C++ compiler.
        target: The device and architecture.
        cache: Store of finished builds.
        compiler: Object that runs the compiler.
        overlay: Digests of the light headers, for the cache key.

    Raises:
        OSError: The header cannot be written to the cache.
    """
    is_usual = all(map(_USUAL_FLAG.fullmatch, extension.cpp_flags))
    # An include path of the extension may have another header of that name. Clang's precompiled
    # headers have another format.
    if not is_usual or extension.include_paths or "clang" in toolchain.host.version:
        return None
    plain = Extension("", (), extension.cpp_flags, with_cuda=extension.with_cuda)
    command = flags.prelude_command(plain, toolchain, target, HEADER, _PRECOMPILED)
    key = digest((_TEXT, *command, flags.torch_version(), toolchain.host.version, *overlay))

    def build(folder: Path) -> Product:
        (folder / HEADER).write_text(_TEXT)
        job = Job(
            files=((HEADER, _TEXT),),
            attempts=((Step(_PRECOMPILED, command, (HEADER,)),),),
            then=(),
            product=_PRECOMPILED,
        )
        result = compiler.run(job)
        (folder / _PRECOMPILED).write_bytes(result.product or b"")
        return Product(folder / _PRECOMPILED)

    try:
        return cache.get_or_build(key, build).library.with_name(HEADER)
    except (CompileError, CompileTimeout):
        # The extension compiles without it, only more slowly. The failure is not stored, because
        # another submission may have more time left.
        return None
