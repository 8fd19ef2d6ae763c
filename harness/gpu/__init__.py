"""A real GPU through its driver: memory, streams, device times, clocks.

The simulated device is in simulator/. The servers that processes share are in system/shared.py.
"""
