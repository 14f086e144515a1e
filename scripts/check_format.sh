#!/usr/bin/env bash
# Checks that .clang-format made the layout of every C file in git; names those that are otherwise, and exits with 1.
# Exit 77: this is no git tree, or clang-format 14 (Debian 12's) is missing. Other versions lay some things out otherwise.
# usage: scripts/check_format.sh [--fix]    --fix: formats them
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run -Werror)
[[ ${1:-} == --fix ]] && mode=(-i)
format=$(command -v clang-format-14 || command -v clang-format || true)
[[ $format && $("$format" --version) == *"version 14."* ]] || {
	echo "check_format: no clang-format 14"
	exit 77
}
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || {
	echo "check_format: not in git"
	exit 77
}

git ls-files -z -- '*.c' '*.h' | xargs -0 "$format" "${mode[@]}"
