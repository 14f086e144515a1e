#!/usr/bin/env bash
# How much of the code that reads foreign bytes the fuzz corpus reaches: a table with the branches of each decoder. Exit
# status 1 when one has less than 80 %.
# usage: scripts/coverage.sh [--corpus FOLDER]...    FOLDER/TARGET is added to the corpus, as libFuzzer left it
set -euo pipefail
cd "$(dirname "$0")/.."

least=80
decoders=(probe/wire/{decode,decode_steps,reader,schedule,queue_pairs,kernel_profiles,text}.c
	probe/auth/seal.c coordinator/record/reader.c
	coordinator/report/{import_csv,import_batch,import_pairs}.c
	probe/ring/ring_reader.c probe/sources/{ring_deliver,verbs_source}.c
	probe/attach/{elf_file,elf_symbols,elf_paths,symbols,loader_cache}.c
	probe/attach/{environment_text,launcher_environment,launcher_daemon,mpi_objects,communicator_memory}.c
	probe/attach/{launcher_command,torchrun_command,host_list}.c
	probe/sources/{cgroup_place,cgroup,psi,launcher_delays}.c
	coordinator/watch/view_text.c
	probe/options.c coordinator/coordinator_options.c probe/config/alert_limits.c
	probe/sources/{nvml,netlink_dump,tcp_dump}.c)
corpora=()
while (($#)); do
	[[ $1 == --corpus && -n ${2:-} ]] || {
		echo "usage: $0 [--corpus FOLDER]..." >&2
		exit 2
	}
	corpora+=("$2")
	shift 2
done

build=build-coverage
cmake -S . -B "$build" -G Ninja -DSLOWRANK_FUZZ=ON -DCMAKE_C_COMPILER=clang \
	-DCMAKE_C_FLAGS="-fprofile-instr-generate -fcoverage-mapping" \
	-DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g1 -DNDEBUG" >/dev/null
ninja -C "$build" --quiet fuzz_tests
"$build"/tests/fuzz_make_seeds "$build"/tests/fuzz

objects=()
profiles=()
for program in tests/fuzz/fuzz_*.c; do
	target=${program#tests/fuzz/fuzz_} && target=${target%.c}
	folders=("$build/tests/fuzz/$target")
	for corpus in tests/fuzz/corpus "${corpora[@]}"; do
		[[ ! -d $corpus/$target ]] || folders+=("$corpus/$target")
	done
	LLVM_PROFILE_FILE=$build/$target.profraw "$build/tests/fuzz_$target" -runs=0 -max_len=1048576 -rss_limit_mb=4096 \
		-close_fd_mask=3 "${folders[@]}" >"$build/$target.log" 2>&1 || {
		cat "$build/$target.log" >&2
		exit 1
	}
	profiles+=("$build/$target.profraw")
	objects+=(-object "$build/tests/fuzz_$target")
done
llvm-profdata merge -sparse "${profiles[@]}" -o "$build/all.profdata"

below=0
seen=0
printf '%-46s %7s %9s\n' file lines branches
while read -r file lines branches; do
	[[ " ${decoders[*]} " == *" $file "* ]] || continue
	printf '%-46s %6s%% %8s%%\n' "$file" "$lines" "$branches"
	seen=$((seen + 1))
	((${branches%.*} >= least)) || below=$((below + 1))
done < <(llvm-cov export --summary-only -instr-profile="$build/all.profdata" "${objects[@]}" |
	jq -r --arg here "$PWD/" '.data[0].files[] | [(.filename | sub(".*/\\.\\./"; "") | ltrimstr($here)),
	(.summary.lines.percent * 10 | round / 10), (.summary.branches.percent * 10 | round / 10)] | @tsv')
((seen == ${#decoders[@]})) || echo "coverage: only $seen of ${#decoders[@]} files are in the programs" >&2
echo "$seen files, $below below $least % of branches"
exit $((below > 0 || seen < ${#decoders[@]}))
