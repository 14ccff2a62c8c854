"""Tests of the package against the real server, real kernels and a mock of a model (`model.json`).

`tests/it/programs/python.rs` runs them: SPONDE_PROGRAM is the program, OPENAI_BASE_URL the mock.
"""
