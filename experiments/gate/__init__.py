"""The paired gate: two arms resident in processes of their own take turns, launch by launch, and are judged.

    arms ──► programs ──► processes ──► launches (blocks A B | B A) ──► series ──► verdicts, fresh launches ──► result
    points of a spec ─────────────────────────┘      └── watch: what the machine did meanwhile

And the gate against stored results: `results` and `sweeps` read them, `stored` judges the new one.
"""
