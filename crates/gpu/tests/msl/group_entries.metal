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

typedef int type_3[1];
struct type_4 {
    uint inner[256];
};
struct GroupParams {
    uint entries;
    uint experts;
    uint tiles;
    int layer;
};
typedef metal::uint4 type_6[1];
typedef uint type_7[1];
struct type_9 {
    metal::atomic_uint inner[256];
};
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint MOST_EXPERTS = 256u;
constant uint MOST_PICKS = 32u;
constant uint TILE = 8u;

struct group_entriesInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void group_entries(
  uint thread_ [[thread_index_in_threadgroup]]
, constant GroupParams& grouping [[buffer(0)]]
, device type_3 const& entry_experts [[buffer(1)]]
, device type_6& tiles [[buffer(2)]]
, device type_7& order [[buffer(3)]]
, device type_3& distinct [[buffer(4)]]
, threadgroup type_9& counts
, threadgroup type_9& places
, threadgroup type_4& entries_of
, constant _mslBufferSizes& _buffer_sizes [[buffer(5)]]
) {
    uint entry = {};
    uint first = 0u;
    uint tile = 0u;
    uint touched = 0u;
    uint expert = 0u;
    uint done = 0u;
    uint entry_1 = {};
    metal::atomic_store_explicit(&counts.inner[thread_], 0u, metal::memory_order_relaxed);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    entry = thread_;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e20 = entry;
            entry = _e20 + 256u;
        }
        loop_init = false;
        uint _e5 = entry;
        uint _e8 = grouping.entries;
        if (_e5 < _e8) {
        } else {
            break;
        }
        {
            uint _e11 = entry;
            int expert_1 = entry_experts[_e11];
            if (expert_1 >= 0) {
                uint _e19 = metal::atomic_fetch_add_explicit(&counts.inner[expert_1], 1u, metal::memory_order_relaxed);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint mine = metal::atomic_load_explicit(&counts.inner[thread_], metal::memory_order_relaxed);
    entries_of.inner[thread_] = mine;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e65 = expert;
            expert = _e65 + 1u;
        }
        loop_init_1 = false;
        uint _e36 = expert;
        uint _e39 = grouping.experts;
        if (_e36 < _e39) {
        } else {
            break;
        }
        {
            uint _e42 = expert;
            uint entries = entries_of.inner[_e42];
            uint _e45 = expert;
            if (_e45 < thread_) {
                uint _e47 = first;
                first = _e47 + entries;
                uint _e49 = tile;
                tile = _e49 + (((entries + TILE) - 1u) / TILE);
            }
            uint _e57 = touched;
            touched = _e57 + ((entries > 0u) ? 1u : 0u);
        }
    }
    uint _e69 = first;
    metal::atomic_store_explicit(&places.inner[thread_], _e69, metal::memory_order_relaxed);
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e89 = done;
            done = _e89 + TILE;
        }
        loop_init_2 = false;
        uint _e72 = done;
        if (_e72 < mine) {
        } else {
            break;
        }
        {
            uint _e75 = tile;
            uint _e77 = first;
            uint _e78 = done;
            uint _e81 = done;
            tiles[_e75] = metal::uint4(thread_, _e77 + _e78, metal::min(TILE, mine - _e81), 0u);
            uint _e87 = tile;
            tile = _e87 + 1u;
        }
    }
    if (thread_ == 255u) {
        bool loop_init_3 = true;
        while(true) {
            if (!loop_init_3) {
                uint _e104 = tile;
                tile = _e104 + 1u;
            }
            loop_init_3 = false;
            uint _e94 = tile;
            uint _e97 = grouping.tiles;
            if (_e94 < _e97) {
            } else {
                break;
            }
            {
                uint _e100 = tile;
                tiles[_e100] = metal::uint4 {};
            }
        }
        int _e108 = grouping.layer;
        if (_e108 >= 0) {
            int _e114 = grouping.layer;
            uint _e116 = touched;
            distinct[_e114] = static_cast<int>(_e116);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    entry_1 = thread_;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e137 = entry_1;
            entry_1 = _e137 + 256u;
        }
        loop_init_4 = false;
        uint _e119 = entry_1;
        uint _e122 = grouping.entries;
        if (_e119 < _e122) {
        } else {
            break;
        }
        {
            uint _e125 = entry_1;
            int expert_2 = entry_experts[_e125];
            if (expert_2 >= 0) {
                uint _e134 = metal::atomic_fetch_add_explicit(&places.inner[expert_2], 1u, metal::memory_order_relaxed);
                uint _e136 = entry_1;
                order[_e134] = _e136;
            }
        }
    }
    return;
}
