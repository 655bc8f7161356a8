#!/bin/sh
# Seed 000's table by one command: the mock game as it was, with the seed's fix, and under takeover.
#
#   bench/mock-game.sh BUILD ROUNDS FPS RESULT.json
#
# BUILD is a folder with towpath, towpath-mock-game, libtowpath_mock_vulkan.so and the Vulkan layer, such as
# target/release; ROUNDS runs of each arm, in random order (3 and 5 in the seed's style; 6 and more are
# judged). 13,000 pipelines, 1.1 GB of cache; 2,800 frames, counted from frame 200 on; the game looks at
# frame 300 whether to save. Needs 5 GB of disk and, at 60 frames per second, 50 s per run.
set -eu
build=$(cd "$1" && pwd) rounds=$2 fps=$3 result=$4
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cat > "$place/icd.json" <<MANIFEST
{"file_format_version": "1.0.1", "ICD": {"library_path": "$build/libtowpath_mock_vulkan.so", "api_version": "1.3.0"}}
MANIFEST
export TMPDIR="$place" VK_ICD_FILENAMES="$place/icd.json" MOCK_VULKAN="entry_bytes=88000" XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-$place}"
export TOWPATH_FRAMES_CSV="$place/frames.csv" BUILD="$build" FPS="$fps"
describe=--describe
[ "$rounds" -lt 6 ] || describe=
# shellcheck disable=SC2086
"$build/towpath" ab $describe --pairs "$rounds" --seed 1 --primary late \
    --judge 'late,over-33.4ms,over-25ms,low-1%,cache-writes,cache-bytes,reads-over-10ms,worst-read' \
    --a-name 'as it was' --a-fix none --a-env SAVES=before \
    --b-name 'seed fix' --b-fix none --b-env SAVES=size-first \
    --c-name takeover --c-fix cache --c-env SAVES=before --c-env TOWPATH_CACHE_MODE=takeover \
    --prepare "rm -f $place/frames*.csv" \
    --frames "$place/frames*.csv" --frames-skip 200 --frames-hertz "$fps" \
    --metric 'cache-writes=cache writes: ([0-9]+):1:lower' \
    --metric 'cache-bytes=cache bytes written: ([0-9]+):B:lower' \
    --metric 'reads-over-10ms=reads over 10 ms: ([0-9]+):1:lower' \
    --metric 'worst-read=worst read: ([0-9.]+):ms:lower' \
    --metric 'start=start: ([0-9.]+):ms:lower' \
    --json "$result" -- \
    sh -c 'exec "$BUILD/towpath-mock-game" "$TOWPATH_ARM_FOLDER/game" frames=2800 from=200 fps="$FPS" saves="$SAVES"'
