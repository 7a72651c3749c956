"""Describe your own chip.

You design a chip, or know one that is not in the list, and want to know what its memories are worth. A chip is a TOML
file of numbers from its data sheet. This page writes one, and then asks how large its SRAM should be.
"""

from pathlib import Path

import gymnasium as gym

import memplace_agents
import memplace_env

# ## The file
#
# Two memories, the fastest first. `ports = "parallel"` means that an op takes as long as its slowest memory;
# with `"serial"` their times add up. `weights = "streamed"` means that weights begin each inference in the last memory,
# the backing memory; `"resident"` ones stay where they were put. A missing or misspelt field is named in an error.


CHIP = """
schema = 1
name = "my-chip"
description = "One matrix unit, one SRAM, one DRAM."
ports = "parallel"
weights = "streamed"
fusion = "conv"
dtype = "int8"

[compute]
op_overhead_ns = 100
static_power_w = 0.02

[compute.matrix_macs_per_s]
int8 = 1_000_000_000_000

[compute.vector_ops_per_s]
int8 = 8_000_000_000

[compute.mac_pj]
int8 = 0.1

[compute.vector_pj]
int8 = 0.03

[[memory]]
name = "SRAM"
capacity_bytes = 524_288
read_bytes_per_s = 32_000_000_000
write_bytes_per_s = 32_000_000_000
latency_ns = 10
pj_per_byte = 2

[[memory]]
name = "DRAM"
capacity_bytes = 1_073_741_824
read_bytes_per_s = 4_000_000_000
write_bytes_per_s = 4_000_000_000
latency_ns = 200
pj_per_byte = 60
"""
Path("my-chip.toml").write_text(CHIP)
chip = memplace_env.load_accelerator("my-chip.toml")
print(chip.name, [level.name for level in chip.levels])

# ## How much SRAM?
#
# What a search finds for each size says what the size is worth, whatever compiler the chip will have. Where the last
# column stops falling, more SRAM buys nothing.
search = memplace_agents.make_agent("local-search")
for kib in (128, 256, 512, 1024, 2048):
    Path("sized.toml").write_text(CHIP.replace("524_288", str(kib * 1024)))
    env = gym.make("MemPlace-v0", workload="MobileNetV2", accelerator="sized.toml", batch=1)
    solution = search.solve(env, budget=2000, seed=0)
    native_ms, best_ms = solution.native_latency_s * 1e3, solution.latency_s * 1e3
    print(f"{kib:5} KiB  native {native_ms:6.3f} ms   found {best_ms:6.3f} ms")

# ## What a data sheet does not say
#
# How much of its peaks a chip reaches is found by measuring. `memplace calibrate measured.csv -a my-chip.toml` fits the
# few free constants to latencies that you measured ([how](../docs/model.md#your-own-chip)). Chips that tile their ops
# in a known way have `cost_model = "tiled"`; a file of
# [the presets](../memplace_env/machine/accelerator/presets/ethos-u65.toml) shows its fields and sources.
