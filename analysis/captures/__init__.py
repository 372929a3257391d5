"""Figures of imported captures: one set of definitions for Nsight Systems and for PyTorch profiler traces.

    figures = capture_figures(capture.tables, capture.meta)     # or (recording.tables, recording.meta)

`CaptureFigures` (figures.py) holds everything that a report shows; nothing here formats, plots or reads files.
"""
