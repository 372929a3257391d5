#!/usr/bin/env bash
# Every check of `perf verify` on a GPU with three seeds, and every mutant. Checks of times have the machine to
# themselves; the others run side by side behind them.
#
#     bash benchmarks/gpu/verify_all.sh OUT          # eight minutes at most; OUT/*.txt are what `perf verify` printed
#     bash benchmarks/gpu/verify_all.sh OUT times    # the checks of times alone: seven minutes at most
#     bash benchmarks/gpu/verify_all.sh OUT rest     # all others, and the mutants: one minute
#
# A check that fails is read by its table; figures of the cells, round by round: python3 benchmarks/gpu/verify_cells.py.
out=${1:?folder for the tables}
stage=${2:-all}
case $stage in
all | times | rest) ;;
*)
  echo "verify_all.sh: stage $stage is not all, times or rest" >&2
  exit 2
  ;;
esac
mkdir -p "$out"
export PYTHONWARNINGS=ignore
seeds="--seed 1 --seed 2 --seed 3"
host="phases exceptions integers torn killed clock bounds queues bound optimum held_out waste modelled invariants chunks"
pinned="possible sources tables_possible tables_observed observed allocations pageable"

check() { # NAME ARGUMENTS...
  local name=$1
  shift
  python3 -m stepscope verify "$@" --device cuda >"$out/$name.txt" 2>&1
  echo "$? $SECONDS s: $name"
}

if [ "$stage" != rest ]; then
  check times cells perturbed spans corridor copies measured $seeds --seconds 12
fi
if [ "$stage" != times ]; then
  export OMP_NUM_THREADS=1 # or each of them takes all cores
  for seed in 1 2 3; do check "host-$seed" $host --seed "$seed" & done
  check host-mutants $host --quick --mutant all &
  check answers tokens arrangements $seeds &
  check pinned recapture calls $pinned $seeds &
  check mutants-clock spans corridor recapture calls --quick --mutant all &
  check mutants-copies copies cells perturbed --quick --mutant all &
  check mutants-pinned $pinned --quick --mutant all &
  check mutants-padding measured tokens arrangements --quick --mutant all &
  wait
fi
nvidia-smi --query-gpu=name,uuid,driver_version,clocks.sm --format=csv >"$out/gpu.txt" 2>&1
grep -hE "^(failed|SURVIVED)|[0-9]+ passed,|[0-9]+ killed," "$out"/*.txt
