"""A report as other things read it: a terminal, a page, a code review."""
