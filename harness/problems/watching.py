"""What sees each operator that torch runs while it is entered."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode of one's own.

    Of others torch tells its compiler at the first operator, which takes a second of processor time
    to import. Nothing is compiled here.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
