"""The gate's statistics: is the head slower than the base, on machines whose steps are noisy?

    blocks of two resident arms ──► a figure per launch ──► stage 1 ──► fresh launches ──► verdict of a point
    (A B | B A | ...)               (median over pairs)     flag?       confirm            ──► verdict of the suite

Pure: arrays and records in, verdicts out. A verdict has a reason code; what was not measured never passes.
"""
