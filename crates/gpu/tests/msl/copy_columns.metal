// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
};

typedef uint type_4[1];
struct CopyParams {
    uint width;
    uint to_width;
    uint to_offset;
    uint rows;
};
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint NORM_THREADS = 128u;

struct copy_columnsInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void copy_columns(
  metal::uint3 invocation [[thread_position_in_grid]]
, constant CopyParams& copied [[buffer(0)]]
, device type_4 const& copy_from [[buffer(1)]]
, device type_4& copy_to [[buffer(2)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(3)]]
) {
    uint word = invocation.x;
    uint _e4 = copied.width;
    if (word < _e4) {
        uint _e9 = copied.to_width;
        uint _e13 = copied.to_offset;
        uint to = ((invocation.y * _e9) + _e13) + word;
        uint _e22 = copied.width;
        uint _e26 = copy_from[(invocation.y * _e22) + word];
        copy_to[to] = _e26;
        return;
    } else {
        return;
    }
}
