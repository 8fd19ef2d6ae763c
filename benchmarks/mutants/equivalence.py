"""Detection of mutants that compile to the same code as the original submission.

This is trivial compiler equivalence (Papadakis et al., ICSE 2015). Device code is compared as PTX
without its source locations, and host code as the bytes of its sections. Mutants with different
code may still be equivalent.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

from harness.compiler.builder import Builder
from harness.compiler.cache import Cache
from harness.compiler.compiler import Compiler
from harness.compiler.extension import ExtensionLoader
from harness.compiler.flags import Extension
from harness.evaluate import Request, settings_for
from harness.sandbox.confined import places
from harness.simulator.ptx.fatbinary import device_code_of, images_in

# nvcc names the members of an anonymous namespace after the file's content, which differs.
_UNIQUE = re.compile(rb"_GLOBAL__N__[0-9a-f]{8}_|_cu_[0-9a-f]{8}(_\d+)?")
_PLACES = re.compile(r"^\s*(\.loc|\.file|//).*$", re.MULTILINE)
_SECTIONS = (".text", ".rodata", ".data")


class _Built(BaseException):
    """Stop the import of a submission as soon as its extension is built.

    The exception carries the bytes of the shared object. It is a BaseException, so that a
    submission's `except Exception` does not catch it.
    """

    def __init__(self, library: bytes) -> None:
        super().__init__()
        self.library = library


def digest_of(submission: Path) -> str:
    """Return a digest of the code in a submission's compiled extension.

    The extension is built if it is not in the cache.

    Raises:
        subprocess.CalledProcessError: The submission does not compile, or builds nothing at import.
    """
    # This needs a process of its own, because it replaces load_inline there.
    program = [sys.executable, "-m", "mutants.equivalence", str(submission.resolve())]
    root = Path(__file__).parent.parent
    path = os.pathsep.join([str(root), str(root.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return done.stdout.strip()


def _digest_here(submission: Path) -> str:
    settings = settings_for(Request(submission, submission, "simulator"))
    sources = places(settings.submission)
    del sources[settings.submission]
    compiler = Compiler(settings.toolchain, settings.readable, sources)
    builder = Builder(settings.toolchain, Cache(settings.cache), settings.target, compiler)

    def build(extension: Extension) -> bytes:
        raise _Built(builder.build(extension).library.read_bytes())

    ExtensionLoader(settings.submission, build).install()
    try:
        runpy.run_path(str(settings.submission))
    except _Built as built:
        return _digest(built.library)
    raise ValueError(f"{submission}: builds no extension when it is imported")


def _digest(library: bytes) -> str:
    state = hashlib.sha256()
    for image in images_in(library):
        state.update(_UNIQUE.sub(b"_", _PLACES.sub("", device_code_of(image).ptx).encode()))
    elf = ELFFile(io.BytesIO(library))
    for name in _SECTIONS:
        section = elf.get_section_by_name(name)
        state.update(_UNIQUE.sub(b"_", section.data()) if section else b"")
    return state.hexdigest()


if __name__ == "__main__":
    print(_digest_here(Path(sys.argv[1])))
