"""Foundations of every room: errors, units, files, foreign input, kernels, threads, processes, plug-ins."""
