"""Compare Nsight Compute's counters of submissions on a GPU with the simulator's counters.

    python benchmarks/nsight_counters.py measure FILE    on a machine with a GPU and ncu
    python benchmarks/nsight_counters.py compare FILE    anywhere: prints a Markdown table

Each submission runs once, in the reduced configuration of one reference.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nsight
from gpu_machine import describe_gpu
from tabulate import tabulate

METRICS: Mapping[str, str] = MappingProxyType(
    {
        "load requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "store requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
        "store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
        "shared load requests": "smsp__inst_executed_op_shared_ld.sum",
        "shared load wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "shared load wavefronts, by instruction": (
            "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
        ),
        "shared load bank conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "shared store requests": "smsp__inst_executed_op_shared_st.sum",
        "shared store wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        "shared store wavefronts, by instruction": (
            "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
        ),
        "shared store bank conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        "shared wavefronts, by line": "memory_l1_wavefronts_shared",
        "shared wavefronts without conflicts, by line": "memory_l1_wavefronts_shared_ideal",
        "copy requests": "smsp__inst_executed_op_ldgsts.sum",
        "copy sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
        "copy wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
        "tf32 matrix operations": "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
        "f16 matrix operations": "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
        "fadd": "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
        "fmul": "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
        "ffma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "warp instructions": "smsp__inst_executed.sum",
    }
)
"""Metrics by title.

Some counters have several candidates, because the metrics' names do not say which one counts the
same as the simulator.
"""

SUBMISSIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "flat_index": ("submissions", "conv_transpose1d"),
        "grid3d": ("submissions", "conv_transpose1d"),
        "grouped_bias": ("submissions", "conv_transpose1d"),
        "dilated": ("submissions", "conv_transpose1d_dilated"),
        "strided_dilated": ("submissions", "conv_transpose1d_strided_dilated"),
        "tiled": ("tests/kernels", "conv_transpose1d_dilated"),
        "tensor_core": ("tests/kernels", "conv_transpose1d_dilated"),
        "hopper": ("tests/kernels", "conv_transpose1d_dilated"),
    }
)
"""Folder and problem of each submission."""


def measure(target: Path) -> None:
    """Run each submission under ncu; store each counter, summed over the submission's kernels."""
    results = {}
    for name, (folder, problem) in SUBMISSIONS.items():
        script = ["benchmarks/run_once.py", f"{folder}/{name}.py", f"reference/{problem}.py"]
        command = [sys.executable, *script]
        # The first run compiles, outside of ncu, which would slow it down.
        subprocess.run(command, check=True)
        # A kernel without matrix instructions may have no value for their metrics.
        metrics = nsight.supported(command, list(METRICS.values()))
        launches = nsight.measure(command, metrics)
        own = [launch for launch in launches if "at::" not in launch.kernel]
        results[name] = {
            "kernels": [launch.kernel for launch in own],
            **{
                title: sum(launch.values[metric] for launch in own)
                for title, metric in METRICS.items()
                if all(metric in launch.values for launch in own)
            },
        }
        print(f"{name}: {len(own)} launches, {len(results[name]) - 1} metrics", flush=True)
    target.write_text(
        json.dumps({"machine": describe_gpu(), "submissions": results}, indent=1) + "\n"
    )


def simulated(name: str) -> dict[str, float]:
    """Return the counters of a submission that `harness profile` finds, by the counter's title."""
    submission, problem = SUBMISSIONS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        command = [sys.executable, "-m", "harness", "profile", f"{submission}/{name}.py"]
        command += ["--problem", problem, "--json", str(path)]
        subprocess.run(command, check=True, capture_output=True)
        counters = [kernel["counters"] for kernel in json.loads(path.read_text())["kernels"]]
    accesses = [access for each in counters for access in each["accesses"]]

    def total(kind: str, space: str, what: str) -> float:
        wanted = (a for a in accesses if (a["kind"], a["space"]) == (kind, space))
        return float(sum(a[what] for a in wanted))

    numbers = {}
    for kind in ("load", "store"):
        numbers[f"{kind} requests"] = total(kind, "global", "requests")
        numbers[f"{kind} sectors"] = total(kind, "global", "sectors")
    for kind in ("load", "store"):
        wavefronts = total(kind, "shared", "wavefronts")
        ideal = total(kind, "shared", "ideal_wavefronts")
        numbers[f"shared {kind} requests"] = total(kind, "shared", "requests")
        numbers[f"shared {kind} wavefronts"] = wavefronts
        numbers[f"shared {kind} wavefronts, by instruction"] = wavefronts
        numbers[f"shared {kind} bank conflicts"] = wavefronts - ideal
    numbers["shared wavefronts, by line"] = (
        numbers["shared load wavefronts"] + numbers["shared store wavefronts"]
    )
    numbers["shared wavefronts without conflicts, by line"] = (
        numbers["shared wavefronts, by line"]
        - numbers["shared load bank conflicts"]
        - numbers["shared store bank conflicts"]
    )
    copy = "asynchronous copy"
    numbers["copy requests"] = total(copy, "global", "requests")
    numbers["copy sectors"] = total(copy, "global", "sectors")
    numbers["copy wavefronts"] = total(copy, "shared", "wavefronts")
    for kind in ("tf32", "f16"):
        numbers[f"{kind} matrix operations"] = float(
            sum(each["matrix_operations"].get(kind, 0) for each in counters)
        )
    numbers["flop"] = float(sum(each["operations"].get("f32", 0) for each in counters))
    numbers["warp instructions"] = float(
        sum(sum(each["warp_instructions"].values()) for each in counters)
    )
    return numbers


def compare(source: Path) -> None:
    """Print a Markdown table: the GPU's counters from a file, the simulator's, and their ratio."""
    measured: dict[str, Any] = json.loads(source.read_text())
    rows = []
    for name in (name for name in SUBMISSIONS if name in measured["submissions"]):
        real = measured["submissions"][name]
        if real.keys() >= {"fadd", "fmul", "ffma"}:
            real["flop"] = real["fadd"] + real["fmul"] + 2 * real["ffma"]
        for title, value in simulated(name).items():
            if title in real and (real[title] or value):
                ratio = f"{value / real[title]:.4f}" if real[title] else "-"
                rows.append([name, title, int(real[title]), int(value), ratio])
    headers = ["submission", "counter", "Nsight Compute", "simulator", "ratio"]
    print(f"{measured['machine']}\n\n{tabulate(rows, headers, tablefmt='github')}")


if __name__ == "__main__":
    {"measure": measure, "compare": compare}[sys.argv[1]](Path(sys.argv[2]))
