#!/usr/bin/env bash
# Source this on a machine with a GPU: makes the checkout importable as the package without installing it.
# WHEELS may name a folder of wheels for what the machine lacks.
view=$(mktemp -d)
if [ -d "${WHEELS:-.whl}" ]; then
  python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target "$view/site" "${WHEELS:-.whl}"/*.whl
fi
ln -s "$PWD" "$view/stepscope"
export PYTHONPATH="$view:$view/site" PYTHONUNBUFFERED=1
