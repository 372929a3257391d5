"""The slow, obvious runner: a dictionary of lists, from which every small array of a step is spelt out in loops.

It shares no code with the runner. Which row a request has is part of it, for each way of keeping the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from .requests import Turn


@dataclass
class Arrays:
    """What a step must look like; lists of numbers, by the name of what they are compared with."""

    req_ids: list[str]
    host: dict[str, list]
    device: dict[str, list]
    tables: list[list[list[int | None]]]
    slots: list[list[list[int]]]  # of each group, of each rank


class Rows:
    """Who stands in which row of the step."""

    def __init__(self, config) -> None:
        self.state, self.reorder = config.batch_state, config.reorder
        self.decode = 1 + config.num_drafts
        self.rows: list[str | None] = []

    def of_step(self, delta, turns: dict[str, Turn]) -> list[str]:
        if self.state == "stable_slots":
            order = list(enumerate(delta.num_scheduled_tokens.items()))
            order.sort(key=lambda entry: (0 if entry[1][1] == self.decode else entry[1][1] + 1, entry[0]))
            return [req_id for _, (req_id, _) in order]
        arriving = [new.req_id for new in delta.new_requests] + list(delta.cached.req_ids)
        gone = set(delta.finished_req_ids) | set(delta.preempted_req_ids) | set(delta.cached.resumed_req_ids)
        stays = [name if name in turns and name not in gone else None for name in self.rows]
        rows: list[str | None] = [] if self.state == "rebuild" else stays
        for name in arriving:
            if name not in rows:
                if None in rows:
                    rows[rows.index(None)] = name
                else:
                    rows.append(name)
        while None in rows:
            last = rows.pop()
            if last is not None:
                rows[rows.index(None)] = last
        self.rows = self._decodes_first(rows, turns) if self.reorder == "decode_first" else rows
        return list(self.rows)

    def _decodes_first(self, rows, turns):
        """Regions in order; who stands in its region already stays, the others fill the places region by region."""
        regions = [self._region(turns[name]) for name in rows]
        wanted = sorted(regions)
        moving = [name for name, has, should in zip(rows, regions, wanted, strict=True) if has != should]
        moving.sort(key=lambda name: self._region(turns[name]))
        return [
            name if has == should else moving.pop(0)
            for name, has, should in zip(rows, regions, wanted, strict=True)
        ]

    def _region(self, turn: Turn) -> int:
        if turn.believed == 0:
            return 3
        if turn.count > self.decode:
            return 2
        return 0 if turn.believed >= turn.prompt else 1


def spell_out(config, groups, order: list[str], turns: dict[str, Turn]) -> Arrays:
    """The arrays of a step whose rows are `order`."""
    starts, rows, offsets, ids, where, thought = [0], [], [], [], [], []
    lengths, thought_lengths, discard, prefilling = [], [], [], []
    for row, name in enumerate(order):
        turn = turns[name]
        starts.append(starts[-1] + turn.count)
        for offset in range(turn.count):
            rows.append(row)
            offsets.append(offset)
            ids.append(turn.ids[offset])
            where.append(turn.start + offset)
            thought.append(turn.believed + offset)
        lengths.append(turn.start + turn.count)
        thought_lengths.append(turn.believed + turn.count)
        discard.append(not turn.shows)
        prefilling.append(turn.believed < turn.prompt)
    last = [max(end - 1, 0) for end in starts[1:]]
    tables = [[kernel_blocks(config, group, turns[name].blocks[index], turns[name]) for name in order]
              for index, group in enumerate(groups)]  # fmt: skip
    slots = [
        [
            [slot_of(config, group, tables[index][row], place, rank) for row, place in zip(rows, where, strict=True)]
            if group.has_slots else []
            for rank in range(config.dcp)
        ]
        for index, group in enumerate(groups)
    ]
    host = {
        "query_start_loc": starts, "req_indices": rows, "query_pos": offsets, "positions": thought,
        "seq_lens": thought_lengths, "logits_indices": last, "discard": discard, "is_prefilling": prefilling,
    }  # fmt: skip
    device = {"input_ids": ids, "positions_gpu": where, "logits_indices_gpu": last}
    device |= {"query_start_loc_gpu": starts, "seq_lens_gpu": lengths}
    return Arrays(list(order), host, device, tables, slots)


def kernel_blocks(config, group, blocks: list[int], turn: Turn) -> list[int | None]:
    """As kernels name them. Below the window null for certain as far as the host knows it, and None, which is anything,
    where only the device knows that nobody looks there any more.
    """
    parts = group.block_size // group.kernel_block_size
    out: list[int | None] = []
    for place, block in enumerate(blocks):
        for part in range(parts):
            if place < border(group, turn.believed - config.num_drafts):
                out.append(0)
            elif place < border(group, turn.start):
                out.append(None)
            else:
                out.append(block * parts + part)
    return out


def border(group, computed: int) -> int:
    """The first manager block that a query behind `computed` tokens sees."""
    return 0 if group.window is None else max(computed - group.window + 1, 0) // group.block_size


def slot_of(config, group, blocks: list[int | None], position: int, rank: int) -> int:
    block, within = blocks[position // group.kernel_block_size], position % group.kernel_block_size
    round_, place = divmod(within, config.dcp * config.dcp_interleave)
    if not block or place // config.dcp_interleave != rank:
        return -1
    own = round_ * config.dcp_interleave + place % config.dcp_interleave
    return block * (group.kernel_block_size // config.dcp) + own
