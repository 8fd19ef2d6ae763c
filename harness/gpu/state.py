"""The state of a GPU, read through NVML: clock, power, temperature, and throttling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pynvml
import torch


@dataclass(frozen=True)
class GpuState:
    """The state of a GPU at one moment.

    Attributes:
        clock_mhz: Clock of the multiprocessors in MHz.
        power_watts: Power draw in watts.
        temperature_celsius: Temperature of the chip in degrees Celsius.
        reasons: Reasons why the clock is not higher, in words; idling is left out.
    """

    clock_mhz: float
    power_watts: float
    temperature_celsius: float
    reasons: tuple[str, ...] = ()

    @property
    def is_throttled(self) -> bool:
        """True if heat or the power supply slows the GPU down.

        The ordinary power limit does not count, because heavy kernels reach it, and it affects all
        timed programs alike.
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
    """Return the words for the bits of NVML's mask of reasons why a clock is not higher.

    >>> reasons_in(0x1 | 0x4 | 0x20)
    ('heat, by the driver', 'power limit')
    """
    return tuple(words for bit, words in _REASONS.items() if bits & bit)


class Monitor:
    """Context manager that reads the state of the GPU that torch uses, through NVML."""

    def __enter__(self) -> Monitor:
        pynvml.nvmlInit()
        uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
        self._gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return self

    def __exit__(self, *_: object) -> None:
        pynvml.nvmlShutdown()

    def driver(self) -> str:
        """Return the version of the GPU's driver."""
        return str(pynvml.nvmlSystemGetDriverVersion())

    def state(self) -> GpuState:
        """Return the present state of the GPU."""
        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._gpu)
        return GpuState(
            clock_mhz=float(pynvml.nvmlDeviceGetClockInfo(self._gpu, pynvml.NVML_CLOCK_SM)),
            power_watts=pynvml.nvmlDeviceGetPowerUsage(self._gpu) / 1000,
            temperature_celsius=float(
                pynvml.nvmlDeviceGetTemperature(self._gpu, pynvml.NVML_TEMPERATURE_GPU)
            ),
            reasons=reasons_in(reasons),
        )


def describe_gpu() -> dict[str, str | float]:
    """Return the GPU's name, driver and clock, and the versions of CUDA, torch and cuDNN."""
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
