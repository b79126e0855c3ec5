// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The cost of the service's part of a request: from the word in the request ring to that in the response ring, without
/// a device. Its inverse is the most requests that one service can serve in a second.
///
/// An iteration serves 512 grants (`grant_ns`: the time of one), whose time is that of the benchmark, and then takes
/// all of them back (`return_ns`). Sizes are random within the limits that the label says. All memory is committed
/// before, on the emulated backing: neither commits nor the driver are part of a time. Requests and responses are
/// written and read by this thread outside the time. A program of Google Benchmark, with manual time, because only a
/// part of an iteration counts.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "host/growth.hpp"
#include "host/segment_service.hpp"
#include "uvm/memory/backing.hpp"

namespace {

using namespace orchard;

constexpr std::uint32_t heap_segments = 57'344;  // 112 GiB
constexpr std::uint32_t requests_at_once = 512;  ///< as many as 512 warps that ask at once

/// A range of segments or leaves of a request.
struct range {
    std::uint32_t least;
    std::uint32_t most;
};
/// One case: the sizes of its requests.
struct request_case {
    const char* name;  ///< the label
    range segments;
    range leaves;  ///< of the tail; 0: none
};
constexpr request_case cases[] = {{"one segment", {1, 1}, {0, 0}},
                                  {"3 to 6 segments", {3, 6}, {0, 0}},
                                  {"3 to 6 segments, a tail", {3, 6}, {1, 31}},
                                  {"a tail of 3 to 6 leaves", {0, 0}, {3, 6}},
                                  {"24 to 48 segments, a tail", {24, 48}, {1, 31}}};

/// A service whose memory is committed, and the device's side of its rings.
class served_rings {
public:
    /// The growth thread is not started: its steps are made here until all is committed.
    served_rings()
        : memory_{*make_emulated_backing(std::uint64_t{heap_segments} << segment_shift)},
          host_{mailbox::host_part::in(*memory_->allocate_host_visible(mailbox::host_part::bytes(shape_)), shape_)},
          grower_{*memory_, heap_segments},
          service_{mailbox_server(host_, shape_), grower_} {
        grower_.want(heap_segments);
        while (grower_.step()) {
        }
        // The service takes over the extents that were committed.
        service_.poll_once();
    }
    /// Writes a request into the ring, as a group of the device would. The caller chooses the slot; slots of
    /// outstanding requests must differ.
    void post(mailbox::request r, std::uint32_t slot) {
        r.slot = slot;
        host_.requests[shape_.position(posted_)].store<simt::order::relaxed>(r.pack(shape_.lap_tag(posted_)));
        ++posted_;
    }
    /// Returns the time in ns that the service takes for all requests in the ring, by the host's monotonic clock.
    double serve() {
        const auto begin = std::chrono::steady_clock::now();
        while (served_ < posted_) {
            served_ += service_.poll_once();
        }
        return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    }
    /// Returns the responses that have arrived since the last call, in all rings.
    std::vector<mailbox::response> take() {
        std::vector<mailbox::response> all;
        for (std::uint32_t ring = 0; ring < shape_.pollers; ++ring) {
            for (;; ++taken_[ring]) {
                const std::uint64_t word =
                    host_.responses[shape_.response_position(ring, taken_[ring])].load<simt::order::relaxed>();
                // A word with another lap's tag is an old one: nothing new in this ring.
                if (mailbox::response::lap_field::get(word) != shape_.response_lap_tag(taken_[ring])) {
                    break;
                }
                all.push_back(mailbox::response::unpack(word));
            }
        }
        return all;
    }

private:
    /// As large as the mailbox of a heap can be.
    mailbox::shape shape_{mailbox::max_slots, mailbox::max_tag_bits, mailbox::pollers_for(mailbox::max_slots)};
    std::unique_ptr<backing> memory_;
    mailbox::host_part host_;
    growth grower_;
    segment_service service_;
    std::uint64_t posted_ = 0;                     ///< requests written
    std::uint64_t served_ = 0;                     ///< requests that the service has taken
    std::uint64_t taken_[mailbox::max_pollers]{};  ///< responses read, by ring
};

/// Runs one case. A rejected grant ends it with an error.
void grants_and_returns(benchmark::State& state) {
    const request_case& c = cases[state.range(0)];
    served_rings rings;
    std::mt19937 random(1);
    const auto draw = [&](range r) { return r.least + static_cast<std::uint32_t>(random() % (r.most - r.least + 1)); };
    double grant_ns = 0;
    double return_ns = 0;
    std::uint64_t returns = 0;
    for (auto _ : state) {
        // Drawn and written before the clock starts.
        std::vector<mailbox::request> asked;
        for (std::uint32_t slot = 0; slot < requests_at_once; ++slot) {
            asked.push_back({.kind = mailbox::request_kind::grant,
                             .run = {segment_index{0}, draw(c.segments)},
                             .leaves = leaf_count{draw(c.leaves)}});
            rings.post(asked.back(), slot);
        }
        const double ns = rings.serve();
        grant_ns += ns;
        state.SetIterationTime(ns * 1e-9);
        // Everything that was granted goes back: segments and tail are two requests.
        for (const mailbox::response& a : rings.take()) {
            const mailbox::request& r = asked[a.slot];
            if (a.status != mailbox::response_status::granted) {
                state.SkipWithError("a grant was rejected");
                return;
            }
            const mailbox::grant g = mailbox::granted_by(a, r.run.count, to_underlying(r.leaves));
            if (g.count != 0) {
                rings.post({mailbox::request_kind::give_back, 0, 0, {g.first, g.count}}, a.slot);
                ++returns;
            }
            if (to_underlying(g.leaves) != 0) {
                rings.post(mailbox::request::return_of(g.tail_block(), g.leaf), a.slot);
                ++returns;
            }
        }
        return_ns += rings.serve();
        (void)rings.take();
    }
    state.SetLabel(c.name);
    // By the number of requests of each kind.
    state.counters["grant_ns"] = grant_ns / static_cast<double>(state.iterations()) / requests_at_once;
    state.counters["return_ns"] = return_ns / static_cast<double>(returns);
}
BENCHMARK(grants_and_returns)->DenseRange(0, std::size(cases) - 1)->ArgName("case")->UseManualTime();

}  // namespace
