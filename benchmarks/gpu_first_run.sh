#!/usr/bin/env bash
# The first run on a card, in two commands of at most ten minutes:
#
#     bash benchmarks/gpu_first_run.sh kernels FOLDER
#     bash benchmarks/gpu_first_run.sh engines FOLDER
#
# FOLDER is what `gpu_carry.py` wrote. Results go into $OUT (results-gpu when unset) after every step: steps.txt with a
# line for each, log.txt with the end of what each printed, results-*.tgz with all of it and the tables, engines.json
# with tokens and throughput. A step that fails or runs out of its seconds does not stop the next.
#
# `--pretend` after FOLDER rehearses it without a card: rows are compiled for sm_90, kernels run in Triton's interpreter,
# and only what FOLDER brings and `gpu_machine.txt` lists is found. PYTHON names the interpreter.
set -u
call=${1:?kernels or engines} carry=$(cd "${2:?the folder that gpu_carry.py wrote}" && pwd) pretend=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
mkdir -p "${OUT:-results-gpu}"
out=$(cd "${OUT:-results-gpu}" && pwd)
work=$(mktemp -d)
results=$work/results
mkdir -p "$results/all"
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
slower=1 platform=cuda smi=nvidia-smi card=() tiny=() failed=0
if [ -n "$pretend" ]; then
    slower=40 platform=example_oot smi=echo card=(--pretend sm_90 --platform cuda) tiny=(--pretend)
fi

step() { # step NAME SECONDS COMMAND...
    local name=$1 most=$(($2 * slower)) begin=$SECONDS status
    echo "== $name" >>"$out/log.txt"
    timeout --kill-after=10 "$most" "${@:3}" >"$results/$name.txt" 2>&1
    status=$?
    [ $status = 0 ] || failed=1
    tail -c 20000 "$results/$name.txt" >>"$out/log.txt"
    printf '%2d:%02d  %4d of %4d s  status %3d  %s\n' $((begin / 60)) $((begin % 60)) $((SECONDS - begin)) "$most" \
        "$status" "$call: $name" | tee -a "$out/steps.txt"
    tar -C "$work" -czf "$out/.results" results && mv "$out/.results" "$out/results-$call.tgz"
}

unpack() { # unpack [ARGUMENTS]: what is carried, into the environment of the steps
    "$python" "$here/gpu_environment.py" "$work/site" --carry "$carry" "$@" \
        ${pretend:+--hide-all-but "$here/gpu_machine.txt"} >"$work/environment.sh"
    . "$work/environment.sh"
    if [ -f "$carry/triton_cache.zip" ]; then # of `gpu_cache.py`
        "$python" -m zipfile -e "$carry/triton_cache.zip" "$TRITON_CACHE_DIR"
        find "$TRITON_CACHE_DIR" -name '__grp__*' -exec sed -i "s#@CACHE@#$TRITON_CACHE_DIR#g" {} +
    fi
}

# gpu_all.py ends its processes kindly at its budget, before `timeout` would.
all() { # all NAME SECONDS ARGUMENTS...
    step "$1" "$2" "$python" "$here/gpu_all.py" --out "$results/all" --go-on --quick --budget $((($2 - 5) * slower)) \
        --kernel-limit $((85 * slower)) --row-limit $((30 * slower)) "${@:3}" "${card[@]}"
}

row() { # row NAME SECONDS NUMBER [PROGRAM...]: one row of attention, under a profiler
    step "$1" "$2" "${@:4}" "$python" "$here/gpu.py" --do rows --only attention --quick --row "$3" --repeats 5 "${card[@]}"
}

engine() { # engine NAME SECONDS ARGUMENTS...
    step "$1" "$2" "$python" "$here/gpu_engine.py" --model "$work/model" --out "$out/engines.json" "${@:3}" "${tiny[@]}"
}

case $call in
kernels)
    unpack --peers "$carry/peers"
    step machine 10 $smi --format=csv \
        --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,ecc.mode.current
    row decode-by-pages 30 0
    "$python" "$here/gpu_all.py" --out "$work/compiled" --quick --steps compile --budget 120 --cores 8 "${card[@]}" \
        >"$results/compile.txt" 2>&1 &
    compile=$!
    all correctness 95 --steps correctness --first "paged decode,paged extend,kv_store,kv_move,extend_slots,decode_slots"
    step suite 50 "$python" -m sglang_platform.conformance --platform $platform --host none --report "$results/suite" \
        --check "graphs.replay_equals_eager[row=batches of unlike sizes]" \
        --check "graphs.replay_equals_eager[row=contexts of 0 to 9000 tokens]" \
        --check memory.far_rows_read_back --check kernels.far_rows_attention \
        --check contract.streams_wait_for_each_other --check contract.freed_tensors_wait_for_their_streams
    all races 25 --steps racecheck
    kill "$compile" 2>/dev/null # nothing else runs while rows are timed
    wait
    all rows 185 --steps rows
    step decode-table 10 "$python" "$here/gpu_decode_table.py" "$results/all/gpu_all.json" "$results"
    profiler=(ncu --clock-control none --launch-count 4 --kernel-name "regex:decode|extend" --target-processes all)
    command -v ncu >/dev/null || profiler=()
    row profile-decode 30 0 "${profiler[@]}"
    row profile-prefill 30 7 "${profiler[@]}"
    row profile-prefix 30 8 "${profiler[@]}"
    ;;
engines)
    unpack
    engine model 45 --make
    engine sglang 80 --contender sglang
    engine ours 80 --contender ours
    engine sglang-8-bit-cache 55 --contender sglang --cache fp8_e4m3
    engine ours-8-bit-cache 55 --contender ours --cache fp8_e4m3
    step compared 10 "$python" "$here/gpu_engine.py" --out "$out/engines.json" --compare
    cat "$results/compared.txt"
    ;;
*)
    echo "kernels or engines, not $call" >&2
    exit 2
    ;;
esac
rm -rf "$work"
exit $failed
