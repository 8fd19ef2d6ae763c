"""Requests for builds, which a worker sends to the supervisor while it does a step."""

from __future__ import annotations

import threading

from harness.compiler.extension import ExtensionBuildError
from harness.compiler.flags import Extension
from harness.messages.channel import Channel
from harness.worker.steps import BUILT, Build


class Asking:
    """The client of the supervisor's `BuildService`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        # A submission may build in several threads, but only one request can be open at a time.
        self._lock = threading.Lock()

    def build(self, extension: Extension) -> bytes:
        """Return the bytes of an extension's shared object, which the supervisor builds.

        Raises:
            ExtensionBuildError: The extension does not compile.
        """
        with self._lock:
            self._channel.send(Build.of(extension))
            answer = self._channel.receive(BUILT)
        if answer.body.error is not None:
            raise ExtensionBuildError(extension.name, answer.body.error)
        return answer.tensors[0].numpy().tobytes()
