// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
    uint size4;
};

struct DeviceWindow {
    int lane;
    int first_row;
    int row_count;
    int draft_count;
    int first_draw;
    int block;
    int counted;
    int previous;
};
struct Accepted {
    int drafts;
    int anchor;
    int length;
    int block;
};
struct WindowParams {
    uint windows;
    uint size;
    uint vocabulary;
    uint rows;
    int mask_token;
};
typedef DeviceWindow type_4[1];
typedef Accepted type_5[1];
typedef int type_6[1];
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;

struct held_tokensInput {
};
[[max_total_threads_per_threadgroup(32)]] kernel void held_tokens(
  metal::uint3 invocation [[thread_position_in_grid]]
, constant WindowParams& w [[buffer(0)]]
, device type_4 const& windows [[buffer(1)]]
, device type_5 const& before [[buffer(2)]]
, device type_6 const& held [[buffer(3)]]
, device type_6& held_token [[buffer(4)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(5)]]
) {
    bool local = {};
    int i = 0;
    uint _e4 = w.windows;
    if (invocation.x >= _e4) {
        return;
    }
    DeviceWindow window = windows[invocation.x];
    if (!((window.lane == NO_LANE))) {
        local = window.previous < 0;
    } else {
        local = true;
    }
    bool _e20 = local;
    if (_e20) {
        return;
    }
    Accepted outcome = before[window.previous];
    held_token[window.first_row] = outcome.anchor;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            int _e53 = i;
            i = as_type<int>(as_type<uint>(_e53) + as_type<uint>(1));
        }
        loop_init = false;
        int _e31 = i;
        if (_e31 < window.draft_count) {
        } else {
            break;
        }
        {
            int _e38 = i;
            uint _e45 = w.size;
            int _e48 = i;
            int _e51 = held[as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(outcome.block) * as_type<uint>(static_cast<int>(_e45)))) + as_type<uint>(_e48))];
            held_token[as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(window.first_row) + as_type<uint>(1))) + as_type<uint>(_e38))] = _e51;
        }
    }
    return;
}
