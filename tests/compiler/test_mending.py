"""Compiler errors that may disappear with other headers, and errors that no header changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.compiler.builder import Builder
from harness.compiler.cache import Cache
from harness.compiler.compiler import Compiler
from harness.compiler.flags import Extension, Target, cuda_command
from harness.compiler.mending import other_headers_may_help
from harness.compiler.ninja import CompileError
from harness.compiler.toolchain import find_toolchain


@pytest.mark.parametrize(
    "source", ["code.cpp", pytest.param("code.cu", marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("int answer() { return 1 }", False),
        ("int answer(int x = 1);\nint answer(int x = 1) { return x; }", False),
        ("#include <no/such/header.h>\n", False),
        ("int answer() { return nobody_has_ever_declared_this(1); }", False),
        ("float answer() { return FLT_MAX; }", True),
        ("int answer() { return nobody_has_ever_declared_this(hasMKL()); }", True),
        ("int answer() { return torch::empty(1); }", True),
        ("struct S { int x; };\nint answer(S s) { return s.y; }", True),
    ],
)
def test_other_headers_are_tried_where_they_may_help(
    tmp_path: Path, source: str, code: str, *, expected: bool
) -> None:
    """Other headers are tried only after errors that they may solve.

    A syntax error, or a name that no header has, is reported without a second compilation.
    """
    toolchain = find_toolchain()
    extension = Extension("small", ((source, code),))
    target = Target("simulator")
    builder = Builder(toolchain, Cache(tmp_path), target, Compiler(toolchain))
    with pytest.raises(CompileError) as refused:
        builder.build(extension)
    command = cuda_command(extension, toolchain, target, "code.cu", headers="full")
    assert other_headers_may_help(refused.value.output, command) is expected, refused.value.output
