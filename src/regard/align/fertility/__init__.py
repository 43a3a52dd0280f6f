"""IBM Models 3, 4 and 5: each word of the generating side first says how many words it stands for.

P(f, a | e) no longer falls apart word by word, so sums run over the neighbourhood of the best alignment that climbing
finds, and over every alignment where a pair of sentences has few.
"""
