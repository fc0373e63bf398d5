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

struct type_3 {
    uint inner[256];
};
typedef int type_6[1];
typedef metal::uint4 type_7[1];
typedef uint type_8[1];
struct GroupParams {
    uint entries;
    uint experts;
    uint tile_shift;
    uint tiles;
    int layer;
};
struct type_9 {
    metal::atomic_uint inner[256];
};
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint MOST_PICKS = 32u;
constant uint NO_EXPERT = 4294967295u;
constant uint BEGINS_TILE = 1u;
constant uint BEGINS_EXPERT = 2u;

struct group_entriesInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void group_entries(
  uint thread_ [[thread_index_in_threadgroup]]
, constant GroupParams& grouping [[buffer(0)]]
, device type_6 const& entry_experts [[buffer(1)]]
, device type_7& tiles [[buffer(2)]]
, device type_8& order [[buffer(3)]]
, device type_6& distinct [[buffer(4)]]
, threadgroup type_9& counts
, threadgroup type_9& places
, threadgroup type_3& entries_of
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
    uint _e31 = grouping.tile_shift;
    uint most = 1u << _e31;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e71 = expert;
            expert = _e71 + 1u;
        }
        loop_init_1 = false;
        uint _e41 = expert;
        uint _e44 = grouping.experts;
        if (_e41 < _e44) {
        } else {
            break;
        }
        {
            uint _e47 = expert;
            uint entries = entries_of.inner[_e47];
            uint _e50 = expert;
            if (_e50 < thread_) {
                uint _e52 = first;
                first = _e52 + entries;
                uint _e54 = tile;
                uint _e60 = grouping.tile_shift;
                tile = _e54 + (((entries + most) - 1u) >> _e60);
            }
            uint _e63 = touched;
            touched = _e63 + ((entries > 0u) ? 1u : 0u);
        }
    }
    uint _e75 = first;
    metal::atomic_store_explicit(&places.inner[thread_], _e75, metal::memory_order_relaxed);
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e94 = done;
            done = _e94 + most;
        }
        loop_init_2 = false;
        uint _e78 = done;
        if (_e78 < mine) {
        } else {
            break;
        }
        {
            uint _e81 = tile;
            uint _e83 = first;
            uint _e84 = done;
            uint _e86 = done;
            tiles[_e81] = metal::uint4(thread_, _e83 + _e84, metal::min(most, mine - _e86), 0u);
            uint _e92 = tile;
            tile = _e92 + 1u;
        }
    }
    if (thread_ == 255u) {
        bool loop_init_3 = true;
        while(true) {
            if (!loop_init_3) {
                uint _e108 = tile;
                tile = _e108 + 1u;
            }
            loop_init_3 = false;
            uint _e98 = tile;
            uint _e101 = grouping.tiles;
            if (_e98 < _e101) {
            } else {
                break;
            }
            {
                uint _e104 = tile;
                tiles[_e104] = metal::uint4 {};
            }
        }
        int _e112 = grouping.layer;
        if (_e112 >= 0) {
            int _e118 = grouping.layer;
            uint _e120 = touched;
            distinct[_e118] = static_cast<int>(_e120);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    entry_1 = thread_;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e141 = entry_1;
            entry_1 = _e141 + 256u;
        }
        loop_init_4 = false;
        uint _e123 = entry_1;
        uint _e126 = grouping.entries;
        if (_e123 < _e126) {
        } else {
            break;
        }
        {
            uint _e129 = entry_1;
            int expert_2 = entry_experts[_e129];
            if (expert_2 >= 0) {
                uint _e138 = metal::atomic_fetch_add_explicit(&places.inner[expert_2], 1u, metal::memory_order_relaxed);
                uint _e140 = entry_1;
                order[_e138] = _e140;
            }
        }
    }
    return;
}
