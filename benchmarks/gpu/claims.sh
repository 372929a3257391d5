#!/usr/bin/env bash
# One run of all claims on the GPU at hand; OUT/claims.json has its raw turns, OUT/machine.txt tells which machine it was.
# From the root of the checkout:
#
#     benchmarks/gpu/claims.sh OUT [SPEC ...]           # none: all of examples/claims
#
# A run that was cut short goes on with the same command on the same machine. Runs, each on a machine of its own, are
# copied to benchmarks/results/h200/claims_1.json, claims_2.json, ... in the order in which they were made; then, without
# a GPU,
#
#     perf claims benchmarks/results/h200/claims_?.json --out docs/claims.md
#
# Any number of them: all are judged together and every two compared. A claim's runs are those whose spec is that of the
# last file that has the claim.
out=$(realpath -m "$1")
shift
source "$(dirname "$(realpath "$0")")/../gpu_environment.sh"
mkdir -p "$out"
specs=("$@")
[ ${#specs[@]} -gt 0 ] || specs=(examples/claims/*.yaml)
if [ -e "$out/claims/plan.json" ]; then
  python3 -m stepscope sweep --resume --out "$out/claims" >>"$out/sweep.log" 2>&1
else
  python3 -m stepscope sweep "${specs[@]}" --out "$out/claims" >"$out/sweep.log" 2>&1
fi
python3 -m stepscope claims "$out/claims" --store "$out/claims.json"
nvidia-smi --query-gpu=name,uuid,driver_version --format=csv,noheader >"$out/machine.txt"
cat /proc/sys/kernel/random/boot_id >>"$out/machine.txt"
