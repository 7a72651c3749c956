"""The one-shot evaluation in plain C beside the kernels, see `benchmarks.plain_c.__main__`."""
