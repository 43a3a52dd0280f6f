"""What the benchmarks share: how to time, to measure memory, to name a peer, and to print."""
