"""How a GPU is doing: clocks, power, temperature, and whether it is being held back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pynvml
import torch


@dataclass(frozen=True)
class State:
    """One look at a GPU.

    Attributes:
        clock_mhz: Of the multiprocessors.
        power_watts: Drawn now.
        temperature_celsius: Of the chip.
        reasons: What keeps its clock from being higher, but for having nothing to do.
    """

    clock_mhz: float
    power_watts: float
    temperature_celsius: float
    reasons: tuple[str, ...] = ()

    @property
    def is_throttled(self) -> bool:
        """Whether heat or the power supply slow it down.

        The ordinary power limit does not count: heavy kernels reach it, and it hits all contenders
        alike.
        """
        return not _THROTTLING.isdisjoint(self.reasons)


_SLOWDOWNS: Mapping[int, str] = {
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "heat, by the driver",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "heat, by the hardware",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power supply",
    pynvml.nvmlClocksEventReasonHwSlowdown: "slowdown by the hardware",
}
_THROTTLING = frozenset(_SLOWDOWNS.values())
_REASONS: Mapping[int, str] = {
    **_SLOWDOWNS,
    pynvml.nvmlClocksEventReasonSwPowerCap: "power limit",
    pynvml.nvmlClocksEventReasonApplicationsClocksSetting: "clocks that were set",
    pynvml.nvmlClocksEventReasonSyncBoost: "another GPU of its group",
    pynvml.nvmlClocksEventReasonDisplayClockSetting: "display",
}


def reasons_in(bits: int) -> tuple[str, ...]:
    """NVML's reasons for a clock, in words.

    >>> reasons_in(0x1 | 0x4 | 0x20)
    ('heat, by the driver', 'power limit')
    """
    return tuple(words for bit, words in _REASONS.items() if bits & bit)


class Monitor:
    """Looks at the GPU that torch uses. Use as a context manager."""

    def __enter__(self) -> Monitor:
        pynvml.nvmlInit()
        uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
        self._gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return self

    def __exit__(self, *_: object) -> None:
        pynvml.nvmlShutdown()

    def driver(self) -> str:
        """The driver's version."""
        return str(pynvml.nvmlSystemGetDriverVersion())

    def state(self) -> State:
        """Look."""
        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._gpu)
        return State(
            clock_mhz=float(pynvml.nvmlDeviceGetClockInfo(self._gpu, pynvml.NVML_CLOCK_SM)),
            power_watts=pynvml.nvmlDeviceGetPowerUsage(self._gpu) / 1000,
            temperature_celsius=float(
                pynvml.nvmlDeviceGetTemperature(self._gpu, pynvml.NVML_TEMPERATURE_GPU)
            ),
            reasons=reasons_in(reasons),
        )


def describe_gpu() -> dict[str, str | float]:
    """The GPU that torch uses, and what times on it depend on."""
    with Monitor() as monitor:
        state = monitor.state()
        return {
            "name": torch.cuda.get_device_name(),
            "driver": monitor.driver(),
            "cuda": torch.version.cuda or "",
            "torch": torch.__version__,
            "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
            "clock_mhz": state.clock_mhz,
        }
