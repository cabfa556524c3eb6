"""Run the whole test suite: two lanes side by side, longest files first, one retry, and a report.

pytest and xdist run the tests. This package decides which tests run where and when, and says what came of them.
"""
