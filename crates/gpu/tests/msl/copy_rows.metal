// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
};

typedef uint type_4[1];
typedef int type_5[1];
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

struct copy_rowsInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void copy_rows(
  metal::uint3 invocation [[thread_position_in_grid]]
, constant CopyParams& copied [[buffer(0)]]
, device type_5 const& from_row [[buffer(1)]]
, device type_5 const& to_row [[buffer(2)]]
, device type_4& within [[buffer(3)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(4)]]
) {
    uint word = invocation.x;
    uint _e4 = copied.width;
    if (word < _e4) {
        int _e9 = from_row[invocation.y];
        uint _e13 = copied.width;
        uint source = (static_cast<uint>(_e9) * _e13) + word;
        int _e20 = to_row[invocation.y];
        uint _e24 = copied.width;
        uint _e30 = within[source];
        within[(static_cast<uint>(_e20) * _e24) + word] = _e30;
        return;
    } else {
        return;
    }
}
