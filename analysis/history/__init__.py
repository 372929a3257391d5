"""Stored results over commits: where did a figure change, and between which two commits?

    results ──► series (a point, a metric, a machine) ──► proposed places ──► steps that are sure ──► commit ranges

Pure: results in, steps out. Machines are never mixed; a series that is too short or does not vary says so.
"""
