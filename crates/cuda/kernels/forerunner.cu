// All kernels of the device, in one module for each kind of chip. `cargo xtask cuda` builds it.

#include "common.cuh"
#include "weights.cuh"
#include "norm.cuh"
#include "few.cuh"
#include "linear.cuh"
#include "rows.cuh"
#include "conv.cuh"
#include "experts.cuh"
#include "attention.cuh"
#include "draw.cuh"
#include "memory.cuh"
