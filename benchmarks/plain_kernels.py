"""Check that right kernels are not accused, by computing references with plain CUDA kernels.

Run `python benchmarks/plain_kernels.py REFERENCES... --into FOLDER`. For each reference, it writes
a submission into the folder, in which every operator is a plain kernel (`plain/kernels.cu`), and
checks it on the simulator. All submissions share one extension, which is built once. At the end,
the program prints the number of submissions for each verdict and precision class.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from concurrent.futures import Future
from pathlib import Path

import harness

PARTS = Path(__file__).parent / "plain"
_MODEL = """

class ModelNew(Model):
    def forward(self, *inputs):
        with PlainKernels():
            return super().forward(*inputs)
"""


def write(reference: Path, folder: Path) -> Path:
    """Write the submission for a reference into `folder`, and return its path.

    The file has the kernels, then the operators that call them, and at the end the text of the
    reference. A build depends on the file name and on the line numbers of the kernels. Both are
    equal for all submissions, so that they share one build.
    """
    kernels, operators = ((PARTS / name).read_text() for name in ("kernels.cu", "operators.py"))
    before, _, behind = operators.partition('CUDA_SOURCE = ""')
    file = folder / reference.stem / "plain.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"{before}CUDA_SOURCE = r'''\n{kernels}'''{behind}\n{reference.read_text()}{_MODEL}"
    )
    return file


def tell(future: Future[harness.Report]) -> None:
    """Print a line with the problem, verdict, precision class and case counts of a report."""
    report = future.result()
    counts = dict(Counter(case.verdict for case in report.cases))
    print(report.problem, report.verdict, report.precision, counts, report.message, flush=True)


def main() -> None:
    """Check all references; print a line for each when it is finished, and then the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("references", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, required=True, help="where the submissions go")
    parser.add_argument("--grid", choices=("own", "quick", "full"), default="quick")
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    options = harness.Options(device="simulator", grid=given.grid, seed=given.seed)
    futures = []
    with harness.Client(options=options) as client:
        for reference in given.references:
            # The choice of cases takes seconds for some references. Others are checked meanwhile.
            future = client.submit(write(reference, given.into), reference)
            future.add_done_callback(tell)
            futures.append(future)
        reports = [future.result() for future in futures]
    print(json.dumps(Counter(f"{report.verdict} {report.precision}" for report in reports)))


if __name__ == "__main__":
    main()
