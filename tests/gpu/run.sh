#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Real torchrun jobs on GPUs under slowrank, scored: see run.py, which takes all options.
# Beside the carried program of scripts/bundle.sh: SLOWRANK=FOLDER/slowrank tests/gpu/run.sh ...
set -eu
here=$(dirname "$(readlink -f "$0")")
program=${SLOWRANK:-$here/../../build/slowrank}
unset SLOWRANK
exec "${PYTHON:-python3}" "$here/run.py" --slowrank "$program" "$@"
