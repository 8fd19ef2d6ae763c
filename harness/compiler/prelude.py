"""The headers that each extension's C++ begins with, parsed once and for all.

The bindings that load_inline writes are a few lines below <torch/extension.h>, which g++ takes ten
seconds to read. GCC keeps what it has read in a file of some 240 MB and takes it up where the
options are the same: https://gcc.gnu.org/onlinedocs/gcc/Precompiled-Headers.html.
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

# One file for each list of options: for others than these it would hardly be used again.
_USUAL_FLAG = re.compile(r"-O\w*|-std=[\w+]+|-W[\w-]+|-w")


def begins(text: str) -> bool:
    """Whether a C++ source includes what the prelude has."""
    return bool(_INCLUDED.search(text))


def find_or_make(
    extension: Extension,
    toolchain: Toolchain,
    target: Target,
    cache: Cache,
    compiler: Compiler,
    overlay: list[str],
) -> Path | None:
    """A header for `-include` that an extension's C++ sources may begin with, or None for none.

    Args:
        extension: Whose options count; nothing else of it gets in.
        toolchain: What compiles.
        target: For what.
        cache: Where it is kept.
        compiler: Runs the compiler.
        overlay: Digests of the light headers.

    Raises:
        OSError: It cannot be stored.
    """
    is_usual = all(map(_USUAL_FLAG.fullmatch, extension.cpp_flags))
    # A folder of the extension's own may have another header of that name. Clang's are other files.
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
        # It does without, only more slowly. That is not kept: another submission's time may do.
        return None
