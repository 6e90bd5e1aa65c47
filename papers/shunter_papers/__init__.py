"""Reproductions: the comparison of a paper as data, run here, beside what the paper claims.

    tiresias ─▶ experiments: scenes × variants × contenders ─▶ tables ─▶ claims, plots

One module for each paper says what is compared; the others know no paper.
"""

__all__: list[str] = []
