"""What Nsight Compute counts of the repository's submissions, for comparison with the simulator.

    python benchmarks/nsight_counters.py measure FILE    on a machine with a GPU and ncu
    python benchmarks/nsight_counters.py compare FILE    anywhere: prints a Markdown table

Each submission runs once in the reduced configuration of its first problem.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpu_machine import describe_gpu
from tabulate import tabulate

METRICS = {
    "load requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared load wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared store wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "fadd": "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "fmul": "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
    "ffma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "warp instructions": "smsp__inst_executed.sum",
}
PAIRS = {
    "flat_index": "conv_transpose1d",
    "grid3d": "conv_transpose1d",
    "grouped_bias": "conv_transpose1d",
    "dilated": "conv_transpose1d_dilated",
    "strided_dilated": "conv_transpose1d_strided_dilated",
}


def measure(target: Path) -> None:
    """Run each submission under ncu and keep the sums over its own kernels."""
    results = {}
    for submission, problem in PAIRS.items():
        script = [
            sys.executable,
            "benchmarks/run_once.py",
            f"submissions/{submission}.py",
            f"reference/{problem}.py",
        ]
        # The first run compiles, which ncu would slow down.
        subprocess.run(script, check=True)
        command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw"]
        command += ["--metrics", ",".join(METRICS.values()), *script]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        table = output[output.index('"ID"') :]
        rows = [row for row in csv.DictReader(io.StringIO(table)) if row["ID"]]
        own = [row for row in rows if "at::" not in row["Kernel Name"]]
        results[submission] = {
            "kernels": [row["Kernel Name"] for row in own],
            **{
                name: sum(float(row[metric].replace(",", "")) for row in own)
                for name, metric in METRICS.items()
            },
        }
    target.write_text(
        json.dumps({"machine": describe_gpu(), "submissions": results}, indent=1) + "\n"
    )


def simulated(submission: str, problem: str) -> dict[str, float]:
    """The same numbers from `harness profile`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        command = [sys.executable, "-m", "harness.cli", "profile", f"submissions/{submission}.py"]
        command += ["--problem", problem, "--json", str(path)]
        subprocess.run(command, check=True, capture_output=True)
        counters = [kernel["counters"] for kernel in json.loads(path.read_text())["kernels"]]
    accesses = [access for each in counters for access in each["accesses"]]

    def total(kind: str, space: str, what: str) -> float:
        wanted = (a for a in accesses if (a["kind"], a["space"]) == (kind, space))
        return float(sum(a[what] for a in wanted))

    return {
        "load requests": total("load", "global", "requests"),
        "load sectors": total("load", "global", "sectors"),
        "store requests": total("store", "global", "requests"),
        "store sectors": total("store", "global", "sectors"),
        "shared load wavefronts": total("load", "shared", "wavefronts"),
        "shared store wavefronts": total("store", "shared", "wavefronts"),
        "flop": float(sum(each["operations"].get("f32", 0) for each in counters)),
        "warp instructions": float(
            sum(sum(each["warp_instructions"].values()) for each in counters)
        ),
    }


def compare(source: Path) -> None:
    """Print measured and simulated numbers side by side."""
    measured: dict[str, Any] = json.loads(source.read_text())
    rows = []
    for submission, real in measured["submissions"].items():
        real["flop"] = real["fadd"] + real["fmul"] + 2 * real["ffma"]
        mine = simulated(submission, PAIRS[submission])
        for name, value in mine.items():
            ratio = f"{value / real[name]:.4f}" if real[name] else "-"
            rows.append([submission, name, int(real[name]), int(value), ratio])
    headers = ["submission", "counter", "Nsight Compute", "simulator", "ratio"]
    print(f"{measured['machine']}\n\n{tabulate(rows, headers, tablefmt='github')}")


if __name__ == "__main__":
    {"measure": measure, "compare": compare}[sys.argv[1]](Path(sys.argv[2]))
