// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
};

typedef uint type_3[1];
struct PatchParams {
    uint word;
    uint mask;
    uint value;
};
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint NORM_THREADS = 128u;

[[max_total_threads_per_threadgroup(1)]] kernel void patch_word(
  constant PatchParams& patched [[buffer(0)]]
, device type_3& patch_out [[buffer(1)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(2)]]
) {
    uint _e3 = patched.word;
    uint _e8 = patched.word;
    uint _e10 = patch_out[_e8];
    uint _e13 = patched.mask;
    uint _e18 = patched.value;
    patch_out[_e3] = (_e10 & ~(_e13)) | _e18;
    return;
}
