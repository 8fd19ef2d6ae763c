"""Count the shared memory wavefronts of the accesses in tests/simulator/wavefronts.cu on a GPU.

    python benchmarks/shared_wavefronts.py FILE    on a machine with a GPU and ncu

For loads and for stores, and for each pattern of addresses, the program writes three numbers of
wavefronts to FILE: at 4, 8 and 16 bytes a thread. It also writes the value of each of ncu's metrics
in the same form. tests/simulator/wavefronts.json was made in this way.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import nsight
from gpu_machine import describe_gpu

from harness.compiler.toolchain import find_cuda_compiler

SOURCE = Path("tests/simulator/wavefronts.cu")
SIZES = (4, 8, 16)
METRICS = {
    kind: (
        f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{short}.sum",
        f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{short}.sum",
        f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{short}.sum",
        f"smsp__inst_executed_op_shared_{short}.sum",
    )
    for kind, short in (("load", "ld"), ("store", "st"))
}
"""Candidate metrics. The first one of each kind that ncu can measure is the wavefronts."""


def main(target: Path) -> None:
    """Build wavefronts.cu, run it under ncu, and write the counts to `target`."""
    patterns = re.findall(r"case \d+:.*// (.+)", SOURCE.read_text())
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "wavefronts"
        compiler = str(find_cuda_compiler().nvcc)
        options = ["-DWITH_HOST", "-arch=sm_90", "-O3"]
        subprocess.run([compiler, *options, str(SOURCE), "-o", str(program)], check=True)
        wanted = [metric for metrics in METRICS.values() for metric in metrics]
        known = nsight.supported([str(program), "1"], wanted)
        launches = iter(nsight.measure([str(program), str(len(patterns))], known))
    # The program launches its kernels in this order.
    values = {
        (kind, nbytes, pattern): next(launches).values
        for kind in METRICS
        for nbytes in SIZES
        for pattern in patterns
    }

    def table(kind: str, metric: str) -> dict[str, list[int]]:
        return {
            pattern: [int(values[kind, nbytes, pattern][metric]) for nbytes in SIZES]
            for pattern in patterns
        }

    measured = {kind: [m for m in metrics if m in known] for kind, metrics in METRICS.items()}
    found = {
        "machine": describe_gpu(),
        "wavefronts": {kind: table(kind, metrics[0]) for kind, metrics in measured.items()},
        "metrics": {m: table(kind, m) for kind, metrics in measured.items() for m in metrics},
    }
    text = json.dumps(found, indent=1)
    # Write each pattern on one line.
    text = re.sub(r"\[\s+(\d+),\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2, \3]", text)
    target.write_text(f"{text}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
