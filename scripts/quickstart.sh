#!/usr/bin/env bash
# Installs what is needed, builds slowrank, and runs it on a real MPI job of four ranks in which
# rank 2 is throttled by a real cgroup: the alert comes live, the report says who and why.
# Leaves quickstart-out/report.html (the job as a page for a browser), record.slr, report.json and report.txt there.
set -euo pipefail
export LC_ALL=C.UTF-8 # tools of the build are read
umask 022 # what root writes here is read by the user, and the other way round
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

as_root=()
if [[ $EUID -ne 0 ]]; then
	command -v sudo >/dev/null || {
		echo "quickstart: throttling a rank and looking into ranks need root: run it as root, or install sudo" >&2
		exit 2
	}
	as_root=(sudo -E)
	"${as_root[@]}" true # says what it has against it before anything is built
fi

out=quickstart-out
echo "the page to open in a browser when this is done: $PWD/$out/report.html"

say "installing what is needed"
scripts/install_dependencies.sh build demo

say "building"
cmake --preset default >/dev/null
ninja -C build --quiet slowrank slowrank_inject slowrank_verbs workload_mpi

"${as_root[@]}" rm -rf "$out"
mkdir -p "$out"
echo 'rank=2 kind=throttle first=150 last=450 size=60' >"$out/plan"

say "a job of 4 ranks, 600 steps of 20 ms; rank 2 is throttled from step 150 to 450"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"${as_root[@]}" build/slowrank run --record "$out/record.slr" --alerts "$out/alerts.jsonl" -- \
	mpirun.openmpi -n 4 --oversubscribe --mca mpi_yield_when_idle 1 --mca btl self,vader \
	build/workload_mpi --steps 600 --step-ms 20 --plan "$out/plan" --truth "$out/truth"

say "the report, again from the record"
# On a busy machine the record's end may be written after run has returned.
for ((tries = 0; tries < 40; tries++)); do
	build/slowrank report "$out/record.slr" -o "$out/report.txt" 2>/dev/null && break
	sleep 0.5
done
build/slowrank report "$out/record.slr" -o "$out/report.txt"
build/slowrank report "$out/record.slr" --format json -o "$out/report.json"
build/slowrank report "$out/record.slr" --format html -o "$out/report.html"

python3 - "$out/report.json" "$out/alerts.jsonl" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
alerts = [json.loads(line)["verdict"] for line in open(sys.argv[2])]

def names_the_fault(verdict):
    return (verdict["ranks"], verdict["class"], verdict["cause"]) == ([2], "host-slow", "cgroup-throttle")

named = [v for v in report["verdicts"] if names_the_fault(v)]
if not named or not any(names_the_fault(v) for v in alerts):
    sys.exit("\nquickstart: rank 2 was not named for its quota, live and in the report. If other work keeps this "
             "machine's CPUs busy (the report then says cpu-contention), try again when it is idle.")
print(f"\nslowrank named rank 2: host-slow, cgroup-throttle, {named[0]['slowdown']:.2f} x slower; "
      "the injected fault was a cgroup throttle of rank 2.")
PYTHON
echo "files: $out/report.html $out/record.slr $out/report.json $out/report.txt $out/alerts.jsonl"
