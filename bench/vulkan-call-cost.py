#!/usr/bin/env python3
"""What the Vulkan layer adds to one vkGetFenceStatus on the mock driver, and whether that is within the goal.

    bench/vulkan-call-cost.py BUILD ROUNDS RESULT.json

BUILD is a folder with towpath-vulkan-steps, libtowpath_mock_vulkan.so and libtowpath_vulkan_layer.so, such as
target/release; 100 rounds take about a minute.

Declared before any run: each round starts one process per arm (no layer, layer idle, layer recording) of 200,000
calls, in an order that turns round by round, timed by the thread's processor time; the cost of an arm is the median of its differences to "no layer" within
a round. The clock is read 200,000 times in the same processes; the goal is two of its median reads plus 20 ns. A
cost is given with its 95 % interval by the signs of the differences, and "within the goal" is said if the whole
interval is.
"""

import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile

CALLS = 200_000
ARMS = ("direct", "layer-idle", "layer-recording")


def environments(build, place):
    """The variables of each arm."""
    icd = os.path.join(place, "icd.json")
    driver = {"library_path": os.path.join(build, "libtowpath_mock_vulkan.so"), "api_version": "1.3.0"}
    with open(icd, "w", encoding="ascii") as file:
        json.dump({"file_format_version": "1.0.1", "ICD": driver}, file)
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../crates/vulkan-layer/towpath_vulkan_layer.json"), encoding="ascii") as file:
        manifest = json.load(file)
    manifest["layer"]["library_path"] = os.path.join(build, "libtowpath_vulkan_layer.so")
    with open(os.path.join(place, "layer.json"), "w", encoding="ascii") as file:
        json.dump(manifest, file)
    ledger = os.path.join(place, "ledger")
    os.mkdir(ledger)
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("VK_", "TOWPATH_", "MOCK_VULKAN"))}
    bare["VK_ICD_FILENAMES"] = icd
    idle = bare | {"VK_ADD_LAYER_PATH": place, "VK_INSTANCE_LAYERS": "VK_LAYER_TOWPATH_host"}
    return dict(zip(ARMS, (bare, idle, idle | {"TOWPATH_LEDGER": ledger})))


def run(build, environment):
    """Nanoseconds per call and per clock read of one process."""
    command = [os.path.join(build, "towpath-vulkan-steps"), f"cost={CALLS}"]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    call, clock = re.search(r"([0-9.]+) ns per call, ([0-9.]+) ns per clock read", said).groups()
    return float(call), float(clock)


def interval(differences):
    """The 95 % interval of the median, from the binomial distribution of signs."""
    ordered, n = sorted(differences), len(differences)
    share, low = 0.5**n, 0
    total = share
    while low < n // 2 and total <= 0.025:
        share *= (n - low) / (low + 1)
        total += share
        low += 1
    low = max(low - 1, 0)
    return ordered[low], ordered[n - 1 - low]


def main():
    build, rounds, result = os.path.abspath(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    samples = {arm: [] for arm in ARMS}
    clocks = []
    with tempfile.TemporaryDirectory() as place:
        arms = environments(build, place)
        for number in range(rounds):
            turn = number % len(ARMS)
            for arm in ARMS[turn:] + ARMS[:turn]:
                call, clock = run(build, arms[arm])
                samples[arm].append(call)
                clocks.append(clock)
    clock = statistics.median(clocks)
    goal = 2 * clock + 20
    verdict = {"clock_read_ns": round(clock, 1), "goal_ns": round(goal, 1)}
    for arm in ARMS[1:]:
        differences = [a - b for a, b in zip(samples[arm], samples["direct"])]
        low, high = interval(differences)
        verdict[arm] = {"median_ns": round(statistics.median(differences), 1), "low": round(low, 1), "high": round(high, 1)}
    verdict["is_within_goal"] = verdict["layer-recording"]["high"] <= goal
    print(json.dumps(verdict))
    record = {
        "schema": "towpath.record/1",
        "what": "nanoseconds that the layer adds to vkGetFenceStatus on the mock driver",
        "date": datetime.date.today().isoformat(),
        "design": " ".join(__doc__.split("Declared before any run: ")[1].split()),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "verdict": verdict,
        "unit": "ns per call",
        "samples": samples,
        "clock_samples": clocks,
    }
    with open(result, "w", encoding="ascii") as file:
        json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
