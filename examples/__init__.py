"""Small experiments on attention, one short file each, in the order in which they are best read.

Each file holds one function of the same name. It runs the experiment and returns its numbers by name; the first line of
the file says what is done, the function's own text what it shows. ``regard intuition`` runs them all and prints them.
"""

EXPERIMENTS = (
    "four_line_read",
    "saturation",
    "argmax_gradient",
    "temperature",
    "square_root",
    "sparse_zeros",
    "gumbel_noise",
    "wrong_axis",
    "unmasked_padding",
    "half_overflow",
    "nothing_in_particular",
)
