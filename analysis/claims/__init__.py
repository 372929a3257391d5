"""What arms that took turns say of a claim: figures by launch, intervals over launches, verdicts, and runs beside each
other. Pure: points in, judgements out.
"""
