"""The kernels, in Triton's language. Importing one imports triton; nothing here is imported until an engine runs."""
