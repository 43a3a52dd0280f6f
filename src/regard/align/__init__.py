"""Word alignment, hard and soft: which word of a sentence answers to which of its translation.

Statistical translation asked the question that attention answers. Models 1 and 2 are attention as it stands: p(look at
i | word j) = softmax_i(log t(f_j|e_i) + log a(i|j)), a score plus a bias of position, learnt by counting. Nothing here
needs PyTorch, apart from ``soft`` and ``ranks``.
"""
