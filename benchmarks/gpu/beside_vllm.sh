#!/usr/bin/env bash
# Our whole decode step beside vLLM 0.26's in one call on one machine: each side builds while the others do, and measures
# alone under a lock. From the root of the checkout, with the payload of ../shared/peers/vllm_on_gpu in .vllm/ (its
# archives, setup.sh and bench.py; 43.8 MB, so take only the wheels of msgspec and nvtx along):
#     bash benchmarks/gpu/beside_vllm.sh OUT
# About two minutes: 5 s to unpack, 60 s until vLLM is built, 20 s to measure.
out=${1:?folder for the results}
mkdir -p "$out" /tmp/beside/bar /tmp/beside/vllm
for runner in 1 2; do
  ( . .vllm/setup.sh
    exec python3 .vllm/bench.py --tag "v$runner" --runner "$runner" --out /tmp/beside/vllm --tasks thr \
      --barrier /tmp/beside/bar --n 3 ) > "/tmp/beside/v$runner.log" 2>&1 &
  [ "$runner" = 1 ] && until [ -f /tmp/vs/.ok ]; do sleep 1; done  # one of them unpacks
done
source benchmarks/gpu_environment.sh
python3 benchmarks/gpu/step_against_vllm.py measure --out "$out/ours.json" --barrier /tmp/beside/bar --n 3
wait
tail -n 2 /tmp/beside/v1.log /tmp/beside/v2.log
python3 benchmarks/gpu/step_against_vllm.py compare --ours "$out/ours.json" \
  --vllm /tmp/beside/vllm/v1.json /tmp/beside/vllm/v2.json --out "$out/step_against_vllm.json"
