"""All claims by name, in the order of their numbers. Those without findings wait for somebody to measure them."""

from __future__ import annotations

from types import MappingProxyType

from .claim import Claim, Claims
from .of_batches import E7, E8, E9, E15
from .of_copies import E1, E2, E3, E4, E5, E17
from .of_graphs import E13, E14

_LATER = (
    Claim("E6", "A pinned buffer that is allocated anew costs a few microseconds once the pool is warm, and a"
          " millisecond while it grows.", "`staging`: pinned_ring, fresh_pinned"),
    Claim("E10", "Closing holes after a mass departure costs one spike; holes with an index map cost none.",
          "`batch_state`: persistent, stable_slots"),
    Claim("E11", "Logits of all positions cost milliseconds and half a gigabyte in a prefill, and nothing in decode.",
          "`logits`: last_position, all_positions"),
    Claim("E12", "An explicit attention mask costs memory in proportion to queries times keys, and 2 to 10 times the"
          " time.", "`attention_mask`: implicit, explicit"),
    Claim("E16", "Metadata built for each layer costs in proportion to the layers; correcting drafts on the host costs"
          " a wait.", "`metadata_reuse`: shared, per_layer; `correction`: device, host"),
    Claim("E18", "A pinned token history costs locked memory and saves no time.", "`history`: pageable, pinned"),
    Claim("E19", "A dense table of prompt embeddings costs host memory and the time of a slice.",
          "`prompt_embeds`: sparse, dense_table"),
)  # fmt: skip

CLAIMS: Claims = MappingProxyType({
    claim.name: claim
    for claim in sorted(
        (E1, E2, E3, E4, E5, E7, E8, E9, E13, E14, E15, E17, *_LATER), key=lambda claim: int(claim.name[1:])
    )
})  # fmt: skip
