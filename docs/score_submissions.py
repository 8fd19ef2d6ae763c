"""Score every submission of a folder: python docs/score_submissions.py submissions."""

import sys
from pathlib import Path

import harness

if __name__ == "__main__":
    with harness.Client(options=harness.Options(grid="own")) as client:
        kernels = sorted(Path(sys.argv[1]).glob("*.py"))
        reference = Path("reference/conv_transpose1d.py")
        for future in harness.as_completed(client.map(kernels, reference)):
            report = future.result()
            score = harness.reward(report)
            print(report.submission, report.verdict, score.precision, score.value, report.message)
