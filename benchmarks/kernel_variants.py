"""Print the tables of docs/kernels.md from recorded times of variants of kernels.

    python benchmarks/kernel_variants.py results/kernels_h200.json

The file has several runs of a program that launches kernels without the harness. For each run and
problem, a table lists all timed variants, fastest first. Some variants leave out their loads, their
stores or their multiplications. A last table for each run has counters of Nsight Compute.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_PROFILED = {
    "memory %": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "L2 %": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1 %": "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor cores %": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
}
_L2_LINK = "lts__ltcfabric2ltc_cycles_active.avg.pct_of_peak_sustained_elapsed"
_STORED_SECTORS = (  # bulk copies bypass L1, where the first run counted
    "lts__t_sectors_srcunit_tex_op_write.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
)
_STORE_REQUESTS = "lts__t_requests_srcunit_tex_op_write.sum"
_READ_BYTES = "dram__bytes_read.sum"


def main() -> None:
    """Print the tables for every run in the file on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    for run in json.loads(parser.parse_args().file.read_text())["runs"]:
        _print_run(run)


def _print_run(run: dict[str, Any]) -> None:
    print(f"# {run['title']}\n")
    print(f"{run['machine']}, {run['date']}; a copy reaches {run['copy_GBs']} GB/s\n")
    for problem, others in run["others"].items():
        print(f"## {problem}\n")
        variants = [each for each in run["variants"] if each["problem"] == problem]
        rows = [(name, "", other) for name, other in others.items()]
        rows += [(each["name"], _plan(each), each["time"]) for each in variants if each["time"]]
        rows.sort(key=lambda row: float(row[2]["median_ms"]))
        _table(
            ("variant", "tile, stages", "median ms", "quartiles"),
            ((name, plan, f"{t['median_ms']:.3f}", _quartiles(t)) for name, plan, t in rows),
        )
    print("## Profiles\n")
    _table(
        ("variant", "read GB", *_PROFILED, "L2 link %", "sectors per L2 write"),
        ((name, *_profile(values)) for name, values in run["profiles"].items()),
    )


def _plan(variant: dict[str, Any]) -> str:
    plan = variant["plan"]
    if plan is None:  # a submission itself, without a plan
        return ""
    tile = (
        f"{plan['block_outputs']} x {plan['positions']}, {plan['stages']} of"
        f" {plan['stage_channels']} channels"
    )
    ahead = [f"{plan['ahead']} ahead"] if "ahead" in plan else []
    return ", ".join([tile, f"{plan['consumers']} multiply", *ahead, *variant["flags"]])


def _quartiles(time: dict[str, Any]) -> str:
    low, _, high = time["quartiles_ms"]
    return f"{low:.3f} to {high:.3f}"


def _profile(values: dict[str, float]) -> Iterable[str]:
    yield f"{values[_READ_BYTES] / 1e9:.2f}"
    for metric in _PROFILED.values():
        yield f"{values[metric]:.0f}"
    yield f"{values[_L2_LINK]:.0f}" if _L2_LINK in values else ""
    sectors = next(values[name] for name in _STORED_SECTORS if name in values)
    yield f"{sectors / values[_STORE_REQUESTS]:.1f}"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


if __name__ == "__main__":
    main()
