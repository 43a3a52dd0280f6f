"""Benchmarks, run by `regard bench`; what a file here holds is said in `regard.cli.bench`."""
