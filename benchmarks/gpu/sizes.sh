#!/usr/bin/env bash
# `perf sizes` on the GPU at hand: chosen by the first half of Azure's conversation trace, judged and run on the second,
# at eight times the load and at the trace's own. From the root of the checkout, with the trace:
#
#     benchmarks/gpu/sizes.sh OUT TRACE            # OUT/sizes_x8.txt and OUT/sizes_x1.txt
#
# All of the second half is run: about a minute each. A load that is interrupted, or over its limit, keeps what is known.
out=$(realpath -m "$1")
trace=$(realpath "$2")
source "$(dirname "$(realpath "$0")")/../gpu_environment.sh"
mkdir -p "$out"
while read -r name speed limit steps; do
  timeout --signal=INT --kill-after=20 120 python3 -m stepscope sizes "$trace" --speed "$speed" --limit "$limit" \
    --run "$steps" --device cuda >"$out/sizes_$name.txt" 2>"$out/sizes_$name.log"
  echo "sizes_$name: exit $?" | tee -a "$out/exits.txt"
done <<'LOADS'
x8 8 1000 6400
x1 1 200 11700
LOADS
