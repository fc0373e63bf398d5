// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
};

typedef uint type_5[1];
typedef int type_6[1];
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

uint gathered(
    uint index,
    constant CopyParams& copied,
    device type_5 const& gather_from,
    device type_6 const& gather_row,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e4 = copied.width;
    int row = gather_row[index / _e4];
    if (row < 0) {
        return 0u;
    }
    uint _e14 = copied.width;
    uint _e18 = copied.width;
    uint at = (static_cast<uint>(row) * _e14) + (index % _e18);
    uint _e25 = gather_from[at / 2u];
    return (_e25 >> ((at % 2u) * 16u)) & 65535u;
}

struct gather_rowsInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void gather_rows(
  metal::uint3 invocation [[thread_position_in_grid]]
, constant CopyParams& copied [[buffer(0)]]
, device type_5 const& gather_from [[buffer(1)]]
, device type_6 const& gather_row [[buffer(2)]]
, device type_5& gather_out [[buffer(3)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(4)]]
) {
    bool local = {};
    uint second = {};
    uint _e3 = copied.rows;
    uint _e6 = copied.width;
    uint values = _e3 * _e6;
    uint _e11 = copied.to_width;
    uint word = (invocation.y * _e11) + invocation.x;
    uint first = 2u * word;
    uint _e20 = copied.to_width;
    if (!((invocation.x >= _e20))) {
        local = first >= values;
    } else {
        local = true;
    }
    bool _e27 = local;
    if (_e27) {
        return;
    }
    uint _e30 = gather_out[word];
    second = _e30 >> 16u;
    if ((first + 1u) < values) {
        uint _e39 = gathered(first + 1u, copied, gather_from, gather_row, _buffer_sizes);
        second = _e39;
    }
    uint _e42 = gathered(first, copied, gather_from, gather_row, _buffer_sizes);
    uint _e43 = second;
    gather_out[word] = _e42 | (_e43 << 16u);
    return;
}
