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
typedef uint type_8[1];
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;

struct acceptInput {
};
[[max_total_threads_per_threadgroup(32)]] kernel void accept(
  metal::uint3 invocation [[thread_position_in_grid]]
, constant WindowParams& w [[buffer(0)]]
, device type_4 const& windows [[buffer(1)]]
, device type_6 const& accept_token [[buffer(2)]]
, device type_6 const& accept_position [[buffer(3)]]
, device type_6 const& drawn [[buffer(4)]]
, device type_8& counts [[buffer(5)]]
, device type_5& accepted [[buffer(6)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(7)]]
) {
    Accepted outcome = Accepted {0, -1, 0, -1};
    int equal = 0;
    bool local = {};
    int i = 0;
    uint _e4 = w.windows;
    if (invocation.x >= _e4) {
        return;
    }
    DeviceWindow window = windows[invocation.x];
    if (window.lane != NO_LANE) {
        int given = as_type<int>(as_type<uint>(window.row_count) - as_type<uint>(window.draft_count));
        int _e26 = accept_position[window.first_row];
        outcome.length = as_type<int>(as_type<uint>(_e26) + as_type<uint>(given));
        if (window.first_draw >= 0) {
            int first_draft = as_type<int>(as_type<uint>(window.first_row) + as_type<uint>(given));
            while(true) {
                int _e35 = equal;
                if (_e35 < window.draft_count) {
                    int _e41 = equal;
                    int _e44 = accept_token[as_type<int>(as_type<uint>(first_draft) + as_type<uint>(_e41))];
                    int _e47 = equal;
                    int _e50 = drawn[as_type<int>(as_type<uint>(window.first_draw) + as_type<uint>(_e47))];
                    local = _e44 == _e50;
                } else {
                    local = false;
                }
                bool _e53 = local;
                if (_e53) {
                } else {
                    break;
                }
                {
                    int _e55 = equal;
                    equal = as_type<int>(as_type<uint>(_e55) + as_type<uint>(1));
                }
            }
            int _e58 = equal;
            outcome.drafts = _e58;
            int _e62 = equal;
            int _e65 = drawn[as_type<int>(as_type<uint>(window.first_draw) + as_type<uint>(_e62))];
            outcome.anchor = _e65;
            outcome.block = window.block;
            int _e69 = outcome.length;
            int _e70 = equal;
            outcome.length = as_type<int>(as_type<uint>(_e69) + as_type<uint>(_e70));
            if (window.counted == 1) {
                bool loop_init = true;
                while(true) {
                    if (!loop_init) {
                        int _e100 = i;
                        i = as_type<int>(as_type<uint>(_e100) + as_type<uint>(1));
                    }
                    loop_init = false;
                    int _e77 = i;
                    int _e78 = equal;
                    if (_e77 <= _e78) {
                    } else {
                        break;
                    }
                    {
                        uint _e85 = w.vocabulary;
                        int _e89 = i;
                        int _e92 = drawn[as_type<int>(as_type<uint>(window.first_draw) + as_type<uint>(_e89))];
                        uint _e96 = counts[(static_cast<uint>(window.lane) * _e85) + static_cast<uint>(_e92)];
                        counts[(static_cast<uint>(window.lane) * _e85) + static_cast<uint>(_e92)] = _e96 + 1u;
                    }
                }
            }
        }
    }
    Accepted _e105 = outcome;
    accepted[invocation.x] = _e105;
    return;
}
