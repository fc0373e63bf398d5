// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
};

typedef uint type_3[1];
typedef int type_4[1];
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

uint half_at(
    uint index,
    device type_3 const& within,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = within[index / 2u];
    return (_e5 >> ((index % 2u) * 16u)) & 65535u;
}

[[max_total_threads_per_threadgroup(1)]] kernel void copy_values(
  constant CopyParams& copied [[buffer(0)]]
, device type_4 const& from_row [[buffer(1)]]
, device type_4 const& to_row [[buffer(2)]]
, device type_3& within [[buffer(3)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(4)]]
) {
    uint row = 0u;
    uint i = {};
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e60 = row;
            row = _e60 + 1u;
        }
        loop_init = false;
        uint _e2 = row;
        uint _e5 = copied.rows;
        if (_e2 < _e5) {
        } else {
            break;
        }
        {
            i = 0u;
            bool loop_init_1 = true;
            while(true) {
                if (!loop_init_1) {
                    uint _e57 = i;
                    i = _e57 + 1u;
                }
                loop_init_1 = false;
                uint _e9 = i;
                uint _e12 = copied.width;
                if (_e9 < _e12) {
                } else {
                    break;
                }
                {
                    uint _e15 = row;
                    int _e17 = from_row[_e15];
                    uint _e21 = copied.width;
                    uint _e23 = i;
                    uint _e25 = half_at((static_cast<uint>(_e17) * _e21) + _e23, within, _buffer_sizes);
                    uint _e27 = row;
                    int _e29 = to_row[_e27];
                    uint _e33 = copied.width;
                    uint _e35 = i;
                    uint to = (static_cast<uint>(_e29) * _e33) + _e35;
                    uint shift = (to % 2u) * 16u;
                    uint _e49 = within[to / 2u];
                    within[to / 2u] = (_e49 & ~((65535u << shift))) | (_e25 << shift);
                }
            }
        }
    }
    return;
}
