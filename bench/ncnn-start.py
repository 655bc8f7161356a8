"""An unmodified program with many compute pipelines: ncnn (pip install ncnn) loads a generated network.

    python3 ncnn-start.py [CONVOLUTIONS] [INFERENCES]

Prints the time to load the network, in which ncnn makes its pipelines. Leave VK_ICD_FILENAMES and
VK_DRIVER_FILES unset: with them ncnn opens the driver itself, past the loader and its layers.
"""

import random
import struct
import sys
import tempfile
import time

import ncnn
import numpy

convolutions = int(sys.argv[1]) if len(sys.argv) > 1 else 12
inferences = int(sys.argv[2]) if len(sys.argv) > 2 else 10
random.seed(1)
layers = ["Input in 0 1 b0 0=32 1=32 2=4"]
weights = bytearray()
channels = 4
for number in range(convolutions):
    out = random.choice([4, 8, 12, 16, 20, 24])
    kernel = random.choice([1, 3, 5])
    activation = random.choice([0, 1, 2])
    size = out * channels * kernel * kernel
    slope = " -23310=1,0.1" if activation == 2 else ""
    layers.append(
        f"Convolution c{number} 1 1 b{number} b{number + 1} 0={out} 1={kernel} "
        f"4={kernel // 2} 5=1 6={size} 9={activation}{slope}"
    )
    weights += struct.pack("<I", 0)
    weights += numpy.random.rand(size).astype("<f4").tobytes()
    weights += numpy.zeros(out, dtype="<f4").tobytes()
    channels = out
with tempfile.TemporaryDirectory() as folder:
    with open(f"{folder}/net.param", "w") as file:
        file.write(f"7767517\n{len(layers)} {convolutions + 1}\n" + "\n".join(layers) + "\n")
    with open(f"{folder}/net.bin", "wb") as file:
        file.write(weights)
    start = time.time()
    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    net.load_param(f"{folder}/net.param")
    net.load_model(f"{folder}/net.bin")
    loaded = time.time()
for _ in range(inferences):
    extractor = net.create_extractor()
    extractor.input("b0", ncnn.Mat(numpy.random.rand(4, 32, 32).astype(numpy.float32)))
    _, result = extractor.extract(f"b{convolutions}")
print("gpus", ncnn.get_gpu_count(), "load ms", (loaded - start) * 1e3, "out", result.c, result.w)
