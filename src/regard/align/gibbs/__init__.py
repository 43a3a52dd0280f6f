"""The sampling aligner: collapsed Gibbs over IBM 1, the HMM and the HMM with fertilities, under Dirichlet priors.

After Östling & Tiedemann (2016), "Efficient word alignment with Markov chain Monte Carlo". Where a table is never
estimated but integrated out, a rare word is not fitted to the one sentence it stands in; the prior of 0.001 a
translation says that a word has few. ``beliefs`` are the priors and the joint probability, ``tally`` the counts of
links, ``draw`` one sweep, ``marginals`` what the chains believe in the end, ``sampler`` all of it over a corpus.
"""
