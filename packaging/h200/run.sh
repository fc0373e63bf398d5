#!/usr/bin/env bash
# Checks and measures the CUDA and the wgpu device on one H200, on a machine without Rust. `cargo xtask bundle-h200` puts it
# beside the programs that it runs.
#
#     bash run.sh [--out DIR] [SECTION ...]    # without a section: all of them
#     bash run.sh --list [SECTION ...]         # the command lines alone
#
# A section is a few steps. Each has a time limit; one that fails is told, and the next one runs. DIR, or $OUT, gets log.txt,
# summary.txt and results.tar.gz, packed anew after every step: receipts and outputs, a file each.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${OUT:-h200-results}
listed=no

# The shape that all is measured at, in two formats; with 0.40 neighbours share more experts than they would by chance.
shape=lfm2.5-24b-a2b
skewed=$shape,4bit,0.40
even=$shape,4bit,0.25
bf16=$shape,bf16,0.40

# Sections in the order of a whole run, and groups of them.
sections=(kernels demo gates drafts rounds-4bit rounds-bf16 speed-4bit speed-even speed-bf16 speed-8bit streams-4bit streams-bf16
    prompts-drafter prompts-alone context memory vulkan-check vulkan-speed host memcheck racecheck profile)
groups=(all speed streams prompts vulkan sanitizer)

refuse() {
    cat >&2 <<END
$1 is no section; accepted: ${sections[*]}
groups of them: ${groups[*]}
and profile:REGEX:SKIP:COUNT for the kernels of these names, so many after so many
END
    exit 2
}

all() {
    local section
    for section in "${sections[@]}"; do "$section"; done
}
speed() { speed-4bit; speed-even; speed-bf16; }
streams() { streams-4bit; streams-bf16; }
prompts() { prompts-drafter; prompts-alone; }
vulkan() { vulkan-check; vulkan-speed; }
sanitizer() { memcheck; racecheck; }

# Every operation against plain loops, rows alone and among others, planted faults.
kernels() { receipt kernels 120 check --kernels --device cuda; }

# The equality gates on the demo pair, with the fp32 reference.
demo() { receipt demo 120 check --device cuda; }

# The same gates at the shape, where the reference does not fit.
gates() { receipt gates 240 check --synth "$skewed" --device cuda; }

# The drafter against its fp32 reference, which is fed the device's taps.
drafts() {
    receipt drafts 400 check --synth "$skewed" --device cuda --context 131072 --drafts-after 8192,32768,65536,130816
}

# The operations of a round over random weights, beside the bandwidth of the same run.
rounds-4bit() { step rounds-4bit 150 "$programs/rounds" 4bit; }
rounds-bf16() { step rounds-bf16 200 "$programs/rounds" bf16; }

# The engine, one stream, drafted and plain, all kinds of prompts.
speed-4bit() { one_stream speed-4bit "$skewed"; }
speed-even() { one_stream speed-even "$even"; }
speed-bf16() { one_stream speed-bf16 "$bf16"; }

one_stream() {
    receipt "$1" 240 bench throughput --synth "$2" --device cuda --streams 1 --requests 4 --pairs 3 --most-pairs 5
}

# Drafts in every round of a drafter in bf16 and of the same in 8 bits: what is compared are tokens a round.
speed-8bit() {
    local bits
    for bits in 16 8; do
        receipt "forced-$bits" 240 bench throughput --synth "$skewed" --device cuda --drafter-bits "$bits" --streams 1 --requests 4 \
            --pairs 3 --most-pairs 3 --force-drafts
    done
}

# The engine, 16 and 256 distinct prompts at once, replies of one length.
streams-4bit() { many_streams streams-4bit "$skewed"; }
streams-bf16() { many_streams streams-bf16 "$bf16"; }

many_streams() {
    receipt "$1" 280 bench throughput --synth "$2" --device cuda --streams 16,256 --requests 32 --pairs 3 \
        --most-pairs 3 --max-tokens 64 --ignore-eos --prompts "$work/distinct.jsonl"
}

# Cold and cached prompts. Two of the longest take 4 GiB of the prompt cache: what is not kept would be computed again.
long_prompts=(--device cuda --lengths "2048,8192,65536" --context 66560 --max-tokens 32 --rounds 3 --prompt-cache-gib 8)

prompts-drafter() { receipt prompts-drafter 400 bench latency --synth "$skewed" "${long_prompts[@]}"; }

# Without a drafter in memory.
prompts-alone() { receipt prompts-alone 350 bench latency --synth "$skewed" --no-drafter "${long_prompts[@]}"; }

# A reply after 131,008 tokens, and one after few.
context() {
    receipt context 500 bench latency --synth "$skewed" --device cuda --lengths 512,131008 --context 131072 --max-tokens 48 \
        --rounds 1 --prompt-cache-gib 8
}

# Memory with room for 16 replies of 131,072 tokens, and what one long prompt adds; nothing of it is kept for others.
memory() {
    memory_of memory-16 --drafter-bits 16
    memory_of memory-8 --drafter-bits 8
    memory_of memory-alone --no-drafter
}

memory_of() {
    receipt "$1" 120 bench latency --synth "$skewed" --device cuda --parallel 16 --context 131072 --lengths 65536 \
        --max-tokens 8 --rounds 1 --prompt-cache-gib 0 "${@:2}"
}

# Drafted against plain on the machine's processor, which may have what the one at a desk has not.
host() {
    receipt host-1 200 bench throughput --device cpu --threads 2 --streams 1
    receipt host-many 400 bench throughput --device cpu --threads 2 --streams 4,8,16
}

# The suites and gates on the machine's Vulkan driver, and what a round costs the host.
vulkan-check() {
    install_vulkan
    receipt vulkan-kernels 200 check --kernels --device gpu
    receipt vulkan-demo 200 check --device gpu
    step vulkan-host-time 60 "$programs/host_time"
}

# Decode, prompts and the gap between rounds at the shape, on wgpu and on CUDA.
vulkan-speed() {
    install_vulkan
    local device
    for device in gpu cuda; do
        receipt "vulkan-speed-$device" 280 bench latency --synth "$skewed" --device "$device" --lengths 128,2048 \
            --context 4096 --max-tokens 32 --rounds 3
    done
}

# The folder .gl, where somebody has brought it, holds Debian's loader; the driver's own file is not where the loader looks.
install_vulkan() {
    local package driver=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
    [[ $listed = no && -d .gl ]] || return 0
    for package in .gl/*.deb; do dpkg -x "$package" /; done
    ldconfig
    [[ ! -f $driver ]] || export VK_DRIVER_FILES=$driver
}

# Memory errors in all suites; races in shared memory in one drafted reply, and then in the suites as far as the time goes.
memcheck() { sanitized memcheck memcheck 300 check --kernels --device cuda; }

racecheck() {
    sanitized racecheck-reply racecheck 120 run --device cuda --measure-ms 0 --seed 1 --max-tokens 24 \
        "Give me a JSON object for Peter, who is 83 years old and lives in Lisbon."
    sanitized racecheck-kernels racecheck 300 check --kernels --device cuda
}

sanitized() {
    local name=$1 tool=$2 limit=$3
    shift 3
    step "$name" "$limit" compute-sanitizer --tool "$tool" --error-exitcode 9 "$programs/forerunner" "$@"
}

# About one round of one row, after one that is not recorded yet; and the kernels for many rows. Loading has other kernels.
profile() {
    profiled profile-few 'linear|gate_up|down|route|attention|rope|conv|norm|embed|draw|experts' 280 280
    profiled profile-many '_many' 60 60
}

metrics=gpu__time_duration.sum,launch__registers_per_thread,sm__warps_active.avg.pct_of_peak_sustained_active
metrics+=,smsp__issue_active.avg.pct_of_peak_sustained_active,dram__throughput.avg.pct_of_peak_sustained_elapsed
metrics+=,launch__occupancy_limit_registers,launch__occupancy_limit_shared_mem

profiled() {
    step "$1" 240 ncu --clock-control none --csv --page raw --metrics "$metrics" --kernel-name "regex:$2" \
        --launch-skip "$3" --launch-count "$4" --kill yes --check-exit-code 0 --log-file "$results/$1.csv" \
        "$programs/rounds" 4bit
}

# A command of the program that leaves a receipt.
receipt() {
    local name=$1 limit=$2
    shift 2
    step "$name" "$limit" "$programs/forerunner" "$@" --receipt "$results/$name.json" --note "$note"
}

# Runs one command in its time, keeps what it prints, and tells how it ended.
step() {
    local name=$1 limit=$2 begin=$SECONDS status watcher peak
    shift 2
    if [[ $listed = yes ]]; then
        echo "$name $limit ${*@Q}"
        return
    fi
    printf '\n== %s, %s s at most: %s\n' "$name" "$limit" "$*"
    # A receipt has the memory of the process; that of the GPU is asked of its driver.
    nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits --loop-ms=1000 >"$work/memory" 2>/dev/null &
    watcher=$!
    timeout --kill-after=10 "$limit" "$@" </dev/null 2>&1 | tee "$results/$name.txt"
    status=${PIPESTATUS[0]}
    { kill "$watcher" && wait "$watcher"; } 2>/dev/null
    peak=$(sort -n "$work/memory" | tail -n 1)
    printf '%-20s %-14s %5d s %8s MiB\n' "$name" "$(outcome "$status")" $((SECONDS - begin)) "${peak:--}" |
        tee -a "$out/summary.txt"
    tar -czf "$out/results.tar.gz" -C "$work" results
    return "$status"
}

outcome() {
    case $1 in
    0) echo ok ;;
    124 | 137) echo "took too long" ;;
    127) echo "not here" ;;
    *) echo "FAILED ($1)" ;;
    esac
}

# 256 prompts of which no two are alike, as one kind: those of the demo in three wordings.
distinct_prompts() {
    local word
    for word in "" "Please: " "Now: "; do
        sed "s/\"content\": \"/&$word/" "$programs/prompts.jsonl"
    done | head -n 256
}

# Unpacks the programs, and says what a receipt cannot know: where they are from, and what they run on.
prepare() {
    mkdir -p "$out" "$results" "$programs" || return
    : >"$out/summary.txt"
    # Not every machine that has tar has xz.
    tar -xJf "$here/programs.tar.xz" -C "$programs" 2>/dev/null ||
        python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \
            "$here/programs.tar.xz" "$programs" || return
    distinct_prompts >"$work/distinct.jsonl"
    # The demo pair is unpacked here, and what rounds cost is measured for this run.
    export XDG_CACHE_HOME=$work/cache
    local gpu
    gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null) || gpu="no NVIDIA GPU"
    note="built from $(cat "$programs/commit"); $gpu"
}

# Runs sections, and tells how each step went; an error when one did not end well.
run() {
    prepare || return
    run_sections "$@"
    printf '\nstep                 outcome        time      most GPU memory\n'
    cat "$out/summary.txt"
    ! grep -qv ' ok ' "$out/summary.txt"
}

run_sections() {
    local section pattern skip count
    for section in "$@"; do
        case $section in
        profile:*)
            IFS=: read -r _ pattern skip count <<<"$section"
            profiled "profile-$skip" "$pattern" "$skip" "$count"
            ;;
        *) "$section" ;;
        esac
    done
}

is_section() {
    [[ $1 = profile:*:*:* || " ${sections[*]} ${groups[*]} " = *" $1 "* ]]
}

asked=()
while (($#)); do
    case $1 in
    --list) listed=yes ;;
    --out)
        shift
        out=${1:?"--out has no folder"}
        ;;
    *)
        is_section "$1" || refuse "$1"
        asked+=("$1")
        ;;
    esac
    shift
done
((${#asked[@]})) || asked=(all)

work=WORK
if [[ $listed = no ]]; then
    work=$(mktemp -d) && mkdir -p "$out" || exit
    trap 'rm -rf "$work"' EXIT
fi
programs=$work/programs results=$work/results note=NOTE
if [[ $listed = yes ]]; then
    run_sections "${asked[@]}"
else
    run "${asked[@]}" 2>&1 | tee "$out/log.txt"
    exit "${PIPESTATUS[0]}"
fi
