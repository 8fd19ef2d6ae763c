"""Requests for builds, which a worker sends to the supervisor while it does a step."""

from __future__ import annotations

import threading
from dataclasses import asdict

from harness.compiler.extension import ExtensionBuildError
from harness.compiler.flags import Extension
from harness.messages.channel import Channel


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
            self._channel.send({"ask": "build", **asdict(extension)})
            answer = self._channel.receive()
        if "error" in answer.header:
            raise ExtensionBuildError(extension.name, answer.header["error"])
        return answer.tensors[0].numpy().tobytes()
