"""The state of a GPU: clock, power, temperature, and throttling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pynvml
import torch


@dataclass(frozen=True)
class State:
    """The state of a GPU at one moment.

    Attributes:
        clock_mhz: Clock of the multiprocessors.
        power_watts: Power draw.
        temperature_celsius: Temperature of the chip.
        reasons: The reasons why its clock is not higher, apart from idling.
    """

    clock_mhz: float
    power_watts: float
    temperature_celsius: float
    reasons: tuple[str, ...] = ()

    @property
    def is_throttled(self) -> bool:
        """True if heat or the power supply slows the GPU down.

        The ordinary power limit does not count. Heavy kernels reach it, and it affects all
        contenders alike.
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
    """Return NVML's reasons for a clock, in words.

    >>> reasons_in(0x1 | 0x4 | 0x20)
    ('heat, by the driver', 'power limit')
    """
    return tuple(words for bit, words in _REASONS.items() if bits & bit)


class Monitor:
    """Context manager that reads the state of the GPU that torch uses."""

    def __enter__(self) -> Monitor:
        pynvml.nvmlInit()
        uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
        self._gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return self

    def __exit__(self, *_: object) -> None:
        pynvml.nvmlShutdown()

    def driver(self) -> str:
        """Return the driver's version."""
        return str(pynvml.nvmlSystemGetDriverVersion())

    def state(self) -> State:
        """Return the GPU's state now."""
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
    """Return the GPU that torch uses, and the versions and clock that its times depend on."""
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
