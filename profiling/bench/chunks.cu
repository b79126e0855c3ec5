// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench chunks`: the cost of a warp chunk from the host in addition to the request, and the time saved
/// because the lanes describe it while the response is in flight.
///
///     what          the way (`way`)
///     warps         warps that ask at the same time
///     rounds        chunks for each warp, one after the other
///     us            the kernel's time: median over launches, each of a new heap
///     us_per_round  the same by rounds
///
/// One warp shows the latency of a chunk; 512 warps show whether anything is left of it where they wait in line for the
/// host. Every chunk comes from the host, because the heap has no segment cache and nothing is freed. The heap's
/// creation and a first launch, in which the service answers for the first time, are not timed.

#include "device/large/chunk_path.cuh"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/repetitions.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// A warp's chunk is then 3.1 MiB: one segment and a tail.
constexpr std::uint64_t bytes_a_lane = 100 << 10;

/// The time at which the description of a chunk is written.
enum class way : std::uint32_t {
    counted_meanwhile,  ///< while the response is in flight, as in every heap
    counted_behind,     ///< after the response has arrived
    not_described,      ///< never: the memory alone
};

/// A way and its name in rows.
struct named_way {
    way how;
    const char* name;
};
constexpr named_way ways[] = {{way::counted_meanwhile, "counted while the response travels"},
                              {way::counted_behind, "counted behind the response"},
                              {way::not_described, "memory alone"}};

/// Every warp requests a chunk `rounds` times.
struct chunk_kernel {
    device::heap_view heap;
    std::uint32_t rounds;  ///< 1 to some hundreds: the memory of all rounds is held at the same time
    way how;
    simt::device_word<std::uint64_t>* granted;  ///< successful requests of all warps

    ORCHARD_FN void operator()(simt::thread_position) const {
        const simt::lane_mask mask = simt::converge();
        std::uint64_t good = 0;
        ORCHARD_NO_UNROLL
        for (std::uint32_t i = 0; i < rounds; ++i) {
            device::chunk_request r{heap, mask, bytes_a_lane, device::chunk_block_alignment};
            good += allocate(r) ? 1u : 0u;
        }
        if (device::is_leader(mask)) {
            granted->fetch_add<simt::order::relaxed>(good);
        }
    }

    /// Makes one request and returns whether it succeeded. The two other ways repeat the steps of
    /// `device::allocate_chunk` in another order, or leave some out.
    ORCHARD_FN bool allocate(device::chunk_request& r) const {
        if (how == way::counted_meanwhile) {
            device::allocate_chunk(r);
            return r.block != nullptr;
        }
        if (!device::place_blocks(r) ||
            device::acquire(heap, r.mask, {r.k, r.leaves}, &r.got) != failure_reason::none) {
            return false;
        }
        // The same work as in a heap, but after the response.
        if (how == way::counted_behind) {
            device::segment_request d(heap, r.mask);
            d.bytes = device::bytes_asked(r);
            device::count_chunk(d, 1);
            device::describe_chunk(r);
        }
        return true;
    }
};

/// Returns a grid of whole warps, four a block, for `warps` of 1 to 3 or a multiple of 4.
simt::grid grid_of(std::uint32_t warps) {
    const std::uint32_t per_block = warps < 4 ? warps : 4;
    return {warps / per_block, per_block * simt::warp_size};
}

/// Returns the time of a launch in us, on a new heap that has no segment cache. The chunks are not freed.
absl::StatusOr<double> time_once(const settings& s, std::uint32_t warps, std::uint32_t rounds, way how) {
    options values = s.heap;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    // Two segments for each chunk, one of them for its tail; and for 16 chunks more.
    values.capacity = (std::uint64_t{warps} * (rounds + 1) + 16) * 2 * segment_bytes;
    // No segment cache: each chunk is a round trip to the host.
    values.cached_segments = 0;
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    auto granted = device_array<simt::device_word<std::uint64_t>>::create(h->executor(), 1);
    if (!granted.ok()) {
        return granted.status();
    }
    simt::executor on = h->executor();
    on.timed = true;
    const device::heap_view view = h->ref().view();
    const auto warm = simt::launch(on, grid_of(warps), chunk_kernel{view, 1, how, granted->data()});
    const auto result = simt::launch(on, grid_of(warps), chunk_kernel{view, rounds, how, granted->data()});
    // Both launches are counted together: one null makes the time meaningless.
    std::uint64_t n = 0;
    absl::Status status = copy_to_host(on, &n, granted->data(), sizeof(n));
    if (!warm.ok || !result.ok) {
        status.Update(absl::InternalError(warm.error + result.error));
    } else if (n != std::uint64_t{warps} * (rounds + 1)) {
        status.Update(absl::InternalError("the heap gave null"));
    }
    return status.ok() ? absl::StatusOr<double>(result.microseconds) : status;
}

/// Returns a row for each way at each of the two points.
absl::StatusOr<ordered_json> run_chunks(const settings& s) {
    struct point {
        std::uint32_t warps;
        std::uint32_t rounds;
    };
    const bool cuda = s.device == simt::device_kind::cuda && !s.quick;
    const point points[] = {{1, cuda ? 300u : 8u}, {cuda ? 512u : 8u, 1}};
    ordered_json rows = ordered_json::array();
    for (const point& p : points) {
        // The ways run in turn, so that a change of the machine's state affects all of them.
        std::vector<double> times[std::size(ways)];
        for (int i = 0; i < s.repeats; ++i) {
            for (std::size_t w = 0; w < std::size(ways); ++w) {
                auto us = time_once(s, p.warps, p.rounds, ways[w].how);
                if (!us.ok()) {
                    return us.status();
                }
                times[w].push_back(*us);
            }
        }
        for (std::size_t w = 0; w < std::size(ways); ++w) {
            const double us = median(times[w]);
            ordered_json row{{"what", ways[w].name},
                             {"warps", p.warps},
                             {"rounds", p.rounds},
                             {"us", us},
                             {"us_per_round", us / p.rounds}};
            add_repetitions(row, "", times[w]);
            rows.push_back(std::move(row));
        }
    }
    return rows;
}

const registrar chunks_registered{
    {"chunks", "chunks from the host: what describing them adds to the request", run_chunks,
     "us is the median of all launches, each of a heap of its own that has answered before; "
     "first, third and tenth are those launches, settled is the median of the last half"}};

}  // namespace
}  // namespace orchard::bench
