#!/usr/bin/env bash
# Our runner under nsys (whole graphs, then node by node) and under torch.profiler, each imported, compared with what
# its own probe recorded and given away clean; NVIDIA's tables of the same two exports beside them. About a minute:
#
#     DEBS=FOLDER benchmarks/gpu/captures.sh OUT        # from the root of the checkout; MODES=torch for one of them
#
# Where an nsys leaves a stream without a report (the one inside Nsight Compute does), its importer needs libdw.so.1 and
# libelf.so.1: DEBS may name a folder with Debian's libdw1 and libelf1. OUT/MODE/{scrub.*,diff.txt,stats_*.csv} and
# OUT/MODE/run/recording become tests/data/captures/h200.
out=$(realpath -m "$1")
here=$(dirname "$(realpath "$0")")
source "$here/../gpu_environment.sh"
mkdir -p "$out"
for deb in "${DEBS:-/none}"/lib*.deb; do [ -f "$deb" ] && dpkg -x "$deb" "$out/libraries"; done
libraries=$(dirname "$(find "$out/libraries" -name libdw.so.1 2>/dev/null | head -1)" 2>/dev/null)
export LD_LIBRARY_PATH=$libraries:$LD_LIBRARY_PATH
read -r nsys importer < <(python3 -c "
from stepscope.instrumentation.sources.nsys.tools import find_tools
print(find_tools().nsys, find_tools().importer)")

capture() { # MODE OPTIONS...
  local mode=$1
  shift
  timeout 60 python3 -m stepscope capture "$@" --spec "$here/captures.yaml" --out "$out/$mode" >"$out/$mode.txt" 2>"$out/$mode.err"
  echo "capture $mode: exit code $?, $SECONDS s"
}

beside() { # MODE: NVIDIA's tables of the same capture
  local report=$out/$1/capture.nsys-rep
  [ -f "$report" ] || "$importer" -i "$out/$1/capture.qdstrm" -o "$report"
  "$nsys" export -t sqlite -f true -o "$out/$1/capture.sqlite" "$report"
  for table in cuda_api_sum cuda_gpu_kern_sum cuda_gpu_mem_time_sum nvtx_pushpop_sum nvtx_gpu_proj_sum; do
    "$nsys" stats --force-export=false -r $table -f csv -o "$out/$1/stats" "$out/$1/capture.sqlite"
  done
}

finish() { # MODE FILE: the two views of the run, and the copy that can be given away
  python3 -m stepscope diff "$out/$1/run/recording" "$out/$1/$2" --agree >"$out/$1/diff.txt" 2>&1
  echo "diff $1: exit code $?"
  python3 -m stepscope import "$out/$1/$2" -o "$out/$1/imported" --scrub-copy "$out/$1/scrub.${2#capture.}" \
    >"$out/$1/scrub.txt" 2>&1
  echo "scrubbed $1: exit code $?, $(stat -c %s "$out/$1/scrub.${2#capture.}") bytes"
}

for mode in ${MODES:=graph node torch}; do
  case $mode in
    torch) capture torch --profiler torch ;;
    *) capture "$mode" --graph-trace "$mode" ;;
  esac
done
for mode in $MODES; do
  case $mode in
    torch) finish torch capture.json.gz & ;;
    *) { beside "$mode" >"$out/$mode.log" 2>&1; finish "$mode" capture.sqlite; } & ;;
  esac
done
wait
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
"$nsys" --version
tar czf "$out.tgz" -C "$out" --exclude='*.nsys-rep' --exclude='*.qdstrm' --exclude=libraries .
echo "$out.tgz: $SECONDS s"
