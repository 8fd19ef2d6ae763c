"""The worker's side of asking for builds, in the middle of a step."""

from __future__ import annotations

import threading
from dataclasses import asdict

from harness.compiler.extension import ExtensionBuildError
from harness.compiler.flags import Extension
from harness.messages.channel import Channel


class Asking:
    """The worker's side of `build_service.py`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        # A submission may build in several threads.
        self._lock = threading.Lock()

    def build(self, extension: Extension) -> bytes:
        """The extension's shared object.

        Raises:
            ExtensionBuildError: it does not compile.
        """
        with self._lock:
            self._channel.send({"ask": "build", **asdict(extension)})
            answer = self._channel.receive()
        if "error" in answer.header:
            raise ExtensionBuildError(extension.name, answer.header["error"])
        return answer.tensors[0].numpy().tobytes()
