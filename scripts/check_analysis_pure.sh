#!/usr/bin/env bash
# Checks that analysis/ is pure: its library refers to no function that does I/O, reads a clock, the
# environment or randomness, or starts a thread, and it holds no variable that can be written to.
# Prints what breaks this and exits with 1; 2 when there is no library to look at.
# usage: scripts/check_analysis_pure.sh [LIBRARY]    default: build/libslowrank_analysis.a
# (a build without sanitizers: those bring functions and variables of their own)
set -euo pipefail
library=${1:-$(dirname "$0")/../build/libslowrank_analysis.a}
[[ -r $library ]] || {
	echo "check_analysis_pure: no library $library: build it first (ninja -C build slowrank_analysis)" >&2
	exit 2
}

# Memory, strings, sorting, formatting into memory, arithmetic, and what the compiler adds.
allowed='malloc|calloc|realloc|reallocarray|free|mem(cpy|move|set|cmp|chr)|str(cmp|ncmp|len|nlen|chr|rchr|str|cpy|ncpy|cspn)
qsort|qsort_r|bsearch|v?snprintf|abs|labs|llabs
(sqrt|log|log1p|log2|log10|exp|expm1|exp2|pow|floor|ceil|round|trunc|rint|nearbyint|fabs|fmin|fmax|fmod|hypot|erf|erfc|cbrt|lround|llround|lrint|llrint|ldexp|frexp|lgamma|tgamma)f?
__(mem(cpy|move|set)|str(cpy|ncpy)|v?snprintf)_chk|__(assert_fail|stack_chk_fail)|__popcount[sdt]i2|__cpu_(model|features2|indicator_init)|_GLOBAL_OFFSET_TABLE_'
allowed="^($(tr '\n' '|' <<<"$allowed" | sed 's/|$//'))\$"

status=0
defined=$(nm --defined-only --extern-only "$library" 2>/dev/null | awk 'NF == 3 { print $3 }' | LC_ALL=C sort -u)
foreign=$(nm --undefined-only "$library" 2>/dev/null | awk '$1 == "U" || $1 == "w" { print $2 }' | LC_ALL=C sort -u |
	LC_ALL=C comm -23 - <(printf '%s\n' "$defined") | grep -vxE "$allowed" || true)
for symbol in $foreign; do
	nm --undefined-only -A "$library" 2>/dev/null |
		awk -v symbol="$symbol" '$NF == symbol { sub(/:[^:]*$/, "", $1); print $1 ": refers to " symbol "(), which is not pure" }'
	status=1
done

# Sections that can be written to; .data.rel.ro is constant but for relocation.
variables=$(objdump -t "$library" 2>/dev/null | awk '
	/file format/ { object = $1; sub(/:$/, "", object) }
	/ [O ] +(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ || / (\.data|\.bss|\.tdata|\.tbss|\*COM\*)[.\t]/ {
		for (i = 1; i <= NF; i++) {
			if ($i ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ && $i !~ /^\.data\.rel\.ro/ && $NF !~ /^\./ && $0 !~ / d  /)
				print object ": " $NF " can be written to (" $i ")"
		}
	}')
if [[ -n $variables ]]; then
	printf '%s\n' "$variables"
	status=1
fi
exit $status
