"""Use of a real GPU through the CUDA driver: memory, streams, device times, clocks.

The simulated GPU is in simulator/. The device process, which runs kernels on either, is in device/.
"""
