"""Looking at a model's heads: what `regard inspect MODEL --text FILE` prints, writes and serves."""
