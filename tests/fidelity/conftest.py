"""Comparisons whose last digits do not depend on the CPU: one set of kernels for linear algebra."""

import os

# Read when numpy is first imported. A process that has it already keeps the kernels of its CPU.
os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")
