"""A worker for a baseline: it runs the reference, which is trusted, directly on the GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.messages.channel import Message
from harness.messages.kinds import BaselineKind
from harness.sandbox.confined import ProcessTree
from harness.system import interpreter
from harness.worker import answers
from harness.worker.supervisor import Deadlines, Step, TimeLeft, Worker


class BaselineWorker(Worker):
    """A worker that times the trusted reference, outside of any sandbox."""

    def __init__(self, reference: Path, kind: BaselineKind, deadlines: Deadlines) -> None:
        """Start a worker for one kind of baseline, such as `torch.compile`."""
        self._kind = kind
        super().__init__(reference, deadlines, TimeLeft(deadlines))

    def _start_process(self, descriptor: int) -> ProcessTree:
        words = [str(descriptor), str(self._file), self._kind]
        return ProcessTree(
            subprocess.Popen(
                interpreter.command("harness.worker.inside.baselines", *words),
                env=interpreter.environment(),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[descriptor],
                start_new_session=True,
            )
        )

    def _check(self, step: Step, nonce: str, answer: Message) -> None:
        del step
        answers.check_nonce(nonce, answer)
