"""Record what compute-sanitizer finds in the kernels of tests/simulator/defective.cu.

    python benchmarks/sanitizer_corpus.py FILE    on a machine with a GPU and compute-sanitizer

Every kernel runs under all four tools. For each kernel and tool, FILE gets whether the tool flagged
the kernel, the tool's first message, and the source line that its output names.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpu_machine import describe_gpu

from harness.compiler.toolchain import find_cuda_compiler

SOURCE = Path("tests/simulator/defective.cu")
# Most of a run is the start of the tool, so several run at a time.
_AT_A_TIME = 8
TOOLS = ("memcheck", "initcheck", "racecheck", "synccheck")
_MESSAGE = re.compile(r"^========= ((?:Error|Warning|Invalid|Uninitialized|Barrier|Potential).*)$")


def main(target: Path) -> None:
    """Build defective.cu, run each kernel under each tool, and write the findings to `target`."""
    names = re.findall(r"^KERNEL\((\w+)\) \{", SOURCE.read_text(), re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "defective"
        compiler = str(find_cuda_compiler().nvcc)
        options = ["-DWITH_HOST", "-lineinfo", "-O3", "-gencode=arch=compute_90a,code=sm_90a"]
        subprocess.run([compiler, *options, str(SOURCE), "-o", str(program)], check=True)
        runs = [(name, tool) for name in names for tool in TOOLS]
        with ThreadPoolExecutor(_AT_A_TIME) as threads:
            found = list(threads.map(lambda run: examine(program, *run), runs))
    results: dict[str, dict[str, object]] = {name: {} for name in names}
    for (name, tool), result in zip(runs, found, strict=True):
        results[name][tool] = result
    target.write_text(json.dumps({"machine": describe_gpu(), "kernels": results}, indent=1) + "\n")


def examine(program: Path, name: str, tool: str) -> dict[str, object]:
    """Run one kernel under one tool of compute-sanitizer, and return its findings as a dict.

    `flagged` says whether the tool flagged the kernel, `message` is its first message, and `line`
    is the source line.
    """
    command = ["compute-sanitizer", "--tool", tool, "--print-limit", "4", str(program), name]
    try:
        output = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False
        ).stdout
    except subprocess.TimeoutExpired:
        return {"flagged": None, "message": "no end within 60 s", "line": None}
    messages = [found[1] for line in output.splitlines() if (found := _MESSAGE.match(line))]
    summary = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", output)
    line = re.search(r"defective\.cu:(\d+)", output)
    return {
        "flagged": bool(summary and int(summary[1])),
        "message": messages[0] if messages else "",
        "line": int(line[1]) if line else None,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
