// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
    uint size4;
    uint size5;
    uint size6;
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

struct draft_rowsInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void draft_rows(
  uint thread_ [[thread_index_in_threadgroup]]
, constant WindowParams& w [[buffer(0)]]
, device type_4 const& windows [[buffer(1)]]
, device type_5 const& before [[buffer(2)]]
, device type_6& block_token [[buffer(3)]]
, device type_6& block_lane [[buffer(4)]]
, device type_6& block_position [[buffer(5)]]
, device type_6& block_key_end [[buffer(6)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(7)]]
) {
    uint row = {};
    uint i = {};
    bool local = {};
    row = thread_;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e11 = row;
            row = _e11 + 64u;
        }
        loop_init = false;
        uint _e2 = row;
        uint _e5 = w.rows;
        if (_e2 < _e5) {
        } else {
            break;
        }
        {
            uint _e8 = row;
            block_lane[_e8] = NO_LANE;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    i = thread_;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e88 = i;
            i = _e88 + 64u;
        }
        loop_init_1 = false;
        uint _e15 = i;
        uint _e18 = w.windows;
        uint _e21 = w.size;
        if (_e15 < (_e18 * _e21)) {
        } else {
            break;
        }
        {
            uint _e25 = i;
            uint _e28 = w.size;
            DeviceWindow window = windows[_e25 / _e28];
            if (!((window.lane == NO_LANE))) {
                local = window.block < 0;
            } else {
                local = true;
            }
            bool _e42 = local;
            if (_e42) {
                continue;
            }
            uint _e44 = i;
            uint _e47 = w.size;
            Accepted outcome = before[_e44 / _e47];
            uint _e51 = i;
            uint _e54 = w.size;
            int in_block = static_cast<int>(_e51 % _e54);
            uint _e60 = w.size;
            int row_1 = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(window.block) * as_type<uint>(static_cast<int>(_e60)))) + as_type<uint>(in_block));
            block_lane[row_1] = window.lane;
            int _e71 = w.mask_token;
            block_token[row_1] = (in_block == 0) ? outcome.anchor : _e71;
            block_position[row_1] = as_type<int>(as_type<uint>(outcome.length) + as_type<uint>(in_block));
            uint _e85 = w.size;
            block_key_end[row_1] = as_type<int>(as_type<uint>(outcome.length) + as_type<uint>(static_cast<int>(_e85)));
        }
    }
    return;
}
