#!/usr/bin/env bash
# Every check of `perf verify` on a GPU with three seeds, and every mutant; what does not disturb one another runs side
# by side. Checks of times have the GPU for themselves; checks that use none run meanwhile; the rest shares it.
#
#     benchmarks/gpu/verify_all.sh OUT      # about two minutes; OUT/*.txt are what `perf verify` printed
out=$1
mkdir -p "$out"
seeds="--seed 1 --seed 2 --seed 3"
host="phases exceptions integers torn killed clock bounds queues bound optimum held_out waste modelled invariants chunks"
pinned="possible sources tables_possible tables_observed observed allocations pageable"

check() { # NAME ARGUMENTS...
  local name=$1
  shift
  python3 -m stepscope verify "$@" --device cuda >"$out/$name.txt" 2>&1
  echo "$? $SECONDS s: $name"
}

for seed in 1 2 3; do check "host-$seed" $host --seed "$seed" & done
check host-mutants $host --quick --mutant all &
check times spans corridor copies cells perturbed measured $seeds
check answers tokens arrangements $seeds &
check pinned recapture calls $pinned $seeds &
check mutants-clock spans corridor recapture calls --quick --mutant all &
check mutants-copies copies cells perturbed --quick --mutant all &
check mutants-pinned $pinned --quick --mutant all &
check mutants-padding measured tokens arrangements --quick --mutant all &
wait
