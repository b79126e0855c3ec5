// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench mailbox`: the cost of a request to the host. The service does its real work on a tree of a million
/// segments. It hands out addresses only; no memory is mapped there. Except in the last row, no commit is part of a
/// time.
///
///     round trip of a lone warp       us_per_round: the latency of one request
///     warps asking at once            one request for each warp, all at the same time
///     warps asking again and again    the rate that the service reaches: million_per_s
///     an empty kernel                 the part of these times that is the launch
///     an echo alone                   each lane sends a word through host memory, and waits until a host thread has
///                                     sent it back: what the bus and one host thread allow, without slots, tickets,
///                                     a poller or a service; `requests` words are under way at a time
///     from the segment cache          every warp takes a segment that waits on the device: no request to the host
///     commit 64 MiB while warps wait  us: the driver's calls while all warps wait for a response; us_alone: the same
///                                     on an idle GPU. Reads of host memory by waiting warps can delay commits
///
/// The mailbox and the words of the echo lie in memory of the kind that the option `mailbox_memory` names.
///
///     us                 the kernel's time by CUDA events (commits: by the host's clock); us_per_round: by the rounds
///     requests_per_poll  requests that the service found in a poll that found any
///     empty_polls        polls without a request, for each one with requests
///
/// Two launches of each row are a warm-up; each launch of requests has a mailbox and a service of its own.

#include <memory>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "device/reclaim/acquire.cuh"
#include "host/service_thread.hpp"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/repetitions.hpp"
#include "profiling/bench/virtual_memory.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/heap/heap_memory.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// A million segments without memory; mailbox and metadata are real. Everything is passed to a small real backing,
/// except what concerns segments.
class address_space final : public backing {
public:
    /// @param real  supplies metadata, the mailbox and copies
    address_space(std::unique_ptr<backing> real, std::uint32_t segments)
        : real_{std::move(real)}, segments_{segments} {}
    [[nodiscard]] char* base() const override { return real_->base(); }
    [[nodiscard]] std::uint32_t segments() const override { return segments_; }
    /// All segments count as committed, so that the service never waits for a commit.
    [[nodiscard]] std::uint32_t committed_at_start() const override { return segments_; }
    commit_outcome commit(segment_run) override { return {}; }
    [[nodiscard]] memory_use use() const override { return real_->use(); }
    absl::StatusOr<void*> allocate_metadata(std::size_t n) override { return real_->allocate_metadata(n); }
    absl::StatusOr<void*> allocate_host_visible(std::size_t n) override { return real_->allocate_host_visible(n); }
    [[nodiscard]] void* stream() const override { return real_->stream(); }
    absl::Status read(void* to, const void* from, std::size_t n) override { return real_->read(to, from, n); }
    absl::Status write(void* to, const void* from, std::size_t n) override { return real_->write(to, from, n); }

private:
    std::unique_ptr<backing> real_;  ///< for everything but segments
    std::uint32_t segments_;         ///< segments of the address space
};

/// For responses that belong to no waiting group: nothing is to be kept here.
struct ignore_response {
    ORCHARD_FN void operator()(device::response_status, segment_run) const {}
};

/// Every warp requests `count` segments `rounds` times, with one response for each request, bypassing the segment
/// cache.
struct request_kernel {
    device::mailbox_client box;
    std::uint32_t rounds;
    std::uint32_t count;
    simt::device_word<std::uint64_t>* answered;  ///< requests with a segment, of all warps

    ORCHARD_FN void operator()(simt::thread_position) const {
        // All lanes are one group: a warp has one request under way at a time.
        const simt::lane_mask mask = simt::converge();
        std::uint64_t good = 0;
        for (std::uint32_t i = 0; i < rounds; ++i) {
            const mailbox::request p{mailbox::request_kind::grant, 0, 0, {segment_index{0}, count}, false};
            const device::ticket r = box.post(mask, p, false, ignore_response{});
            if (r.failure == failure_reason::none) {
                const device::outcome o = box.wait(mask, r, ignore_response{});
                good += o.failure == failure_reason::none && o.result.status == device::response_status::granted;
            }
        }
        if (device::is_leader(mask)) {
            answered->fetch_add<simt::order::relaxed>(good);
        }
    }
};

/// Puts segments [0, count) into the segment cache, as if the host had handed them out. The host does not know of it,
/// so that the heap must be discarded afterwards.
struct fill_cache_kernel {
    device::heap_view heap;
    std::uint32_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.thread == 0) {
            device::cache_put(heap, {segment_index{0}, count});
        }
    }
};

/// Returns the segments that the warps took to the segment cache; a launch of its own, which is not timed.
struct put_back_kernel {
    device::heap_view heap;
    const segment_run* taken;  ///< [warps]
    std::uint32_t warps;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.thread; i < warps; i += simt::warp_size) {
            device::cache_put(heap, taken[i]);
        }
    }
};

/// Every warp takes a segment, which the segment cache contains.
struct cache_kernel {
    device::heap_view heap;
    segment_run* taken;  ///< [warps]: the segment of each; where it goes is not checked

    ORCHARD_FN void operator()(simt::thread_position) const {
        const simt::lane_mask mask = simt::converge();
        segment_run run;
        const bool ok = device::acquire_segments(heap, mask, 1, &run) == failure_reason::none;
        if (device::is_leader(mask) && ok) {
            taken[simt::position().global_warp()] = run;
        }
    }
};

/// An empty kernel of the same shape, to measure the cost of a launch. Its argument keeps it from being optimised away.
struct empty_kernel {
    simt::device_word<std::uint64_t>* answered;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (answered == nullptr) {
            simt::pause(at.block);
        }
    }
};

/// Each thread sends `rounds` words, one at a time, and waits for the echo of each. Threads beyond `words` do nothing.
struct echo_kernel {
    simt::host_word<std::uint64_t>* sent;    ///< [words]: the round that a thread is in
    simt::host_word<std::uint64_t>* echoed;  ///< [words]: the same, written by the host
    std::uint32_t words;
    std::uint32_t rounds;
    std::uint64_t deadline_ns;                   ///< of a thread's whole run
    simt::device_word<std::uint64_t>* answered;  ///< echoes, of all threads

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= words) {
            return;
        }
        const std::uint64_t began = simt::clock_ns();
        std::uint64_t good = 0;
        for (bool late = false; good < rounds && !late;) {
            sent[i].store<simt::order::relaxed>(good + 1);
            while (echoed[i].load<simt::order::relaxed>() != good + 1 && !late) {
                late = simt::clock_ns() - began > deadline_ns;
                simt::pause(0);
            }
            good += late ? 0 : 1;
        }
        answered->fetch_add<simt::order::relaxed>(good);
    }
};

/// Segments of the address space: 2 TiB of addresses.
constexpr std::uint32_t million = 1u << 20;

/// One mailbox with its service and thread, and the data that kernels need of it. No heap: only the layers under it.
struct rig {
    std::vector<host_resident_memory> managed;  ///< outlives the service, which reads it
    std::unique_ptr<address_space> memory;
    std::unique_ptr<growth> grower;
    std::unique_ptr<segment_service> service;
    std::unique_ptr<service_thread> thread;  ///< null until `start`; requests wait until then
    device::mailbox_client box;              ///< the device's side of the mailbox
    device_array<simt::device_word<std::uint64_t>> answered;
    simt::executor on;

    /// Returns a mailbox and a service that does not run yet. Errors: those of the backing and of `device_array`.
    static absl::StatusOr<rig> make(const settings& s) {
        auto real = s.device == simt::device_kind::cuda ? make_cuda_backing(segment_bytes)
                                                        : make_emulated_backing(segment_bytes);
        if (!real.ok()) {
            return real.status();
        }
        rig r;
        r.on.kind = s.device;
        r.on.timed = true;
        r.memory = std::make_unique<address_space>(*std::move(real), million);
        const auto slots = static_cast<std::uint32_t>(s.heap.mailbox_slots);
        // Tags of 8 bits, and as many pollers as a heap has with so many slots.
        const mailbox::shape shape{slots, 8, mailbox::pollers_for(slots)};
        auto host = r.allocate_shared(s, mailbox::host_part::bytes(shape));
        auto device = r.memory->allocate_metadata(mailbox::device_part::bytes(shape));
        auto answered = device_array<simt::device_word<std::uint64_t>>::create(r.on, 1);
        if (!host.ok() || !device.ok() || !answered.ok()) {
            return !host.ok() ? host.status() : !device.ok() ? device.status() : answered.status();
        }
        r.answered = *std::move(answered);
        r.box.host = mailbox::host_part::in(*host, shape);
        r.box.device = static_cast<mailbox::device_part*>(*device);
        r.box.shape = shape;
        r.grower = std::make_unique<growth>(*r.memory, 32);
        r.service = std::make_unique<segment_service>(mailbox_server(r.box.host, shape), *r.grower);
        return r;
    }
    /// Returns zero-filled memory that the host and kernels share, of the kind that the option `mailbox_memory` names.
    /// Errors: those of the backing, and of `make_managed_mailbox`.
    absl::StatusOr<void*> allocate_shared(const settings& s, std::size_t bytes) {
        if (s.heap.mailbox_memory == mailbox_memory_option::pinned) {
            return memory->allocate_host_visible(bytes);
        }
        auto made = make_managed_mailbox(on.kind, bytes);
        if (!made.ok()) {
            return made.status();
        }
        managed.push_back(*std::move(made));
        return managed.back().at;
    }
    /// Returns the kind of memory that the mailbox lies in.
    [[nodiscard]] const char* memory_kind() const { return managed.empty() ? "pinned" : "managed"; }
    void start(const settings& s) {
        thread = std::make_unique<service_thread>(*service, s.heap.service_core, absl::Seconds(1));
    }
    /// Returns the number of requests with a segment since the last call, and sets it to 0.
    absl::StatusOr<std::uint64_t> count_answered() {
        std::uint64_t n = 0;
        absl::Status status = copy_to_host(on, &n, answered.data(), sizeof(n));
        status.Update(answered.zero());
        if (!status.ok()) {
            return status;
        }
        return n;
    }
};

/// Returns a grid of `warps` warps in blocks of at most four.
simt::grid warps_grid(std::uint32_t warps) {
    const std::uint32_t per_block = warps < 4 ? warps : 4;
    return {warps / per_block, per_block * 32};
}

/// The times of one row, and what the service counted meanwhile.
struct timing {
    std::vector<double> us;    ///< of each launch, in order
    double requests_per_poll;  ///< requests that the service found at once, in polls that found any
    double empty_polls;        ///< polls without a request, for each poll that found one
};

/// Launches that the medians leave out; the first one loads the kernel.
constexpr std::size_t warm_up = 2;

/// Returns the times of launches, each on a new service (so that the tree is full again), with all requests answered.
absl::StatusOr<timing> time_requests(const settings& s, std::uint32_t warps, std::uint32_t rounds) {
    std::vector<double> times;
    std::vector<double> found;
    std::vector<double> empty;
    for (int i = -2; i < s.repeats; ++i) {
        auto r = rig::make(s);
        if (!r.ok()) {
            return r.status();
        }
        r->start(s);
        // A first launch warms caches and lets the service spin.
        const request_kernel kernel{r->box, rounds, 1, r->answered.data()};
        simt::launch(r->on, warps_grid(warps), request_kernel{r->box, 1, 1, r->answered.data()});
        (void)r->count_answered();
        const simt::launch_result result = simt::launch(r->on, warps_grid(warps), kernel);
        const double us = result.microseconds;
        if (!result.ok) {
            return to_status(result);
        }
        auto n = r->count_answered();
        // All must have a segment: a request that failed would make the time too short.
        if (!n.ok() || *n != std::uint64_t{warps} * rounds) {
            return absl::InternalError(
                absl::StrFormat("%d of %d requests were answered", n.ok() ? *n : 0, std::uint64_t{warps} * rounds));
        }
        times.push_back(us);
        if (i >= 0) {
            // The counts of the service are those of the measured launches, and of one request of each warp before.
            const service_counters& c = r->service->counters();
            const auto busy = static_cast<double>(c.busy_polls.get());
            empty.push_back(static_cast<double>(c.polls.get()) / busy - 1);
            found.push_back(static_cast<double>(c.grants.get()) / busy);
        }
    }
    return timing{std::move(times), median(found), median(empty)};
}

/// Returns the times of launches in which every warp takes a segment from the segment cache. Errors: those of the heap
/// and of launches.
absl::StatusOr<std::vector<double>> time_cache(const settings& s, std::uint32_t warps) {
    options values = s.heap;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    values.capacity = 8ull << 30;
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    auto taken = device_array<segment_run>::create(h->executor(), warps);
    if (!taken.ok()) {
        return taken.status();
    }
    const device::heap_view view = h->ref().view();
    simt::executor on = h->executor();
    on.timed = true;
    std::vector<double> times;
    // Twice the number that is taken, so that the level never triggers a refill. The heap is discarded afterwards.
    const simt::launch_result filled = simt::launch(on, simt::grid{1, 32}, fill_cache_kernel{view, 2 * warps + 64});
    for (int i = -2; i < s.repeats; ++i) {
        const simt::launch_result result = simt::launch(on, warps_grid(warps), cache_kernel{view, taken->data()});
        const simt::launch_result put =
            simt::launch(on, simt::grid{1, 32}, put_back_kernel{view, taken->data(), warps});
        const double us = result.microseconds;
        if (!result.ok || !filled.ok || !put.ok) {
            return absl::InternalError(result.error + filled.error + put.error);
        }
        times.push_back(us);
    }
    return times;
}

/// Sends back each word of `rounds` rounds, in the order of threads, as soon as it is there; gives up at the deadline.
void send_back(const echo_kernel& k, absl::Time deadline) {
    constexpr std::uint32_t ahead = 32;  // words: four cache lines, as `mailbox_server`
    for (std::uint64_t round = 1; round <= k.rounds; ++round) {
        for (std::uint32_t i = 0; i < k.words; ++i) {
            if (i % 8 == 0 && i + ahead < k.words) {
                __builtin_prefetch(&k.sent[i + ahead], 0);
            }
            for (std::uint32_t polls = 0; k.sent[i].load<simt::order::acquire>() != round; ++polls) {
                if (polls % 4096 == 4095) {
                    if (absl::Now() > deadline) {
                        return;
                    }
                    std::this_thread::yield();  // where the emulated device needs this core
                }
            }
            k.echoed[i].store<simt::order::release>(round);
        }
    }
}

/// Returns the times of launches in which `words` threads wait for the echo of `rounds` words each.
absl::StatusOr<std::vector<double>> time_echo(const settings& s, std::uint32_t words, std::uint32_t rounds) {
    constexpr int deadline_s = 20;
    std::vector<double> times;
    for (int i = -2; i < s.repeats; ++i) {
        auto r = rig::make(s);
        if (!r.ok()) {
            return r.status();
        }
        // Two arrays, the second on another page.
        const std::size_t apart = (words * sizeof(std::uint64_t) + 4095) / 4096 * 4096;
        auto host = r->allocate_shared(s, 2 * apart);
        if (!host.ok()) {
            return host.status();
        }
        auto* const begin = static_cast<char*>(*host);
        const echo_kernel kernel{reinterpret_cast<simt::host_word<std::uint64_t>*>(begin),
                                 reinterpret_cast<simt::host_word<std::uint64_t>*>(begin + apart),
                                 words,
                                 rounds,
                                 deadline_s * 1'000'000'000ull,
                                 r->answered.data()};
        // Loaded before the host thread waits for it.
        if (auto p = simt::preload<echo_kernel>(r->on); !p.ok) {
            return absl::InternalError(p.error);
        }
        std::thread host_thread(send_back, kernel, absl::Now() + absl::Seconds(deadline_s));
        const simt::launch_result result = simt::launch(r->on, simt::grid_for(words, words < 32 ? 32 : 128), kernel);
        host_thread.join();
        auto n = r->count_answered();
        if (!result.ok || !n.ok() || *n != std::uint64_t{words} * rounds) {
            return absl::InternalError(absl::StrFormat("%d of %d words came back; %s", n.ok() ? *n : 0,
                                                       std::uint64_t{words} * rounds, result.error));
        }
        times.push_back(result.microseconds);
    }
    return times;
}

/// Returns a row: the median time to commit 64 MiB while `warps` warps wait for a response that is withheld, and while
/// no warp waits.
absl::StatusOr<ordered_json> time_mapping(const settings& s, std::uint32_t warps) {
    constexpr std::uint64_t bytes = 64ull << 20;
    auto alone = time_commits(bytes, s.repeats + 2);
    auto r = rig::make(s);
    if (!alone.ok() || !r.ok()) {
        return alone.ok() ? r.status() : alone.status();
    }
    // Loaded before any warp waits: loading could wait for the kernel that waits.
    simt::launch(r->on, simt::grid{1, 32}, empty_kernel{r->answered.data()});
    if (auto p = simt::preload<request_kernel>(r->on); !p.ok) {
        return absl::InternalError(p.error);
    }
    simt::launch_result result;
    // A thread of its own, since a launch returns only when the kernel has ended.
    std::thread application([&] {
        result = simt::launch(r->on, warps_grid(warps), request_kernel{r->box, 1, 1, r->answered.data()});
    });
    absl::SleepFor(absl::Milliseconds(20));  // all warps have sent their requests and wait
    auto beside = time_commits(bytes, s.repeats + 2);
    // Only now does the service answer, and the kernel ends.
    r->start(s);
    application.join();
    auto n = r->count_answered();
    if (!beside.ok() || !result.ok || !n.ok() || *n != warps) {
        return beside.ok() ? absl::InternalError(absl::StrFormat("%d of %d warps were answered; %s", n.ok() ? *n : 0,
                                                                 warps, result.error))
                           : beside.status();
    }
    ordered_json row{{"what", "commit 64 MiB while warps wait"},
                     {"warps", warps},
                     {"rounds", 1},
                     {"us", median_after(warm_up, *beside)},
                     {"us_alone", median_after(warm_up, *alone)}};
    add_repetitions(row, "", *beside);
    add_repetitions(row, "alone", *alone);
    return row;
}

absl::StatusOr<ordered_json> run_mailbox(const settings& s) {
    const bool cuda = s.device == simt::device_kind::cuda;
    ordered_json rows = ordered_json::array();
    struct point {
        const char* what;
        std::uint32_t warps;
        std::uint32_t rounds;
    };
    // With --quick only the two points above.
    std::vector<point> points = {{"round trip of a lone warp", 1, 500}, {"warps asking at once", 512, 1}};
    if (!s.quick) {
        points.insert(points.end(), {{"warps asking at once", 32, 1},
                                     {"warps asking at once", 2112, 1},
                                     {"warps asking again and again", 132, 500},
                                     {"warps asking again and again", 2112, 100},
                                     {"warps asking again and again", 8448, 100}});
    }
    for (const point& p : points) {
        auto taken = time_requests(s, p.warps, p.rounds);
        if (!taken.ok()) {
            return taken.status();
        }
        const double us = median_after(warm_up, taken->us);
        const double requests = static_cast<double>(p.warps) * p.rounds;
        ordered_json row{{"what", p.what},
                         {"warps", p.warps},
                         {"rounds", p.rounds},
                         {"us", us},
                         {"us_per_round", us / p.rounds},
                         {"million_per_s", requests / us},
                         {"requests_per_poll", taken->requests_per_poll},
                         {"empty_polls", taken->empty_polls}};
        add_repetitions(row, "", taken->us);
        rows.push_back(std::move(row));
    }
    struct echo_point {
        std::uint32_t words;
        std::uint32_t rounds;
    };
    std::vector<echo_point> echoes = {{1, cuda ? 500u : 50u}};
    if (cuda && !s.quick) {  // the host thread waits for all threads in turn, so that they must run at the same time
        echoes.insert(echoes.end(), {{512, 100}, {8448, 100}});
    }
    for (const echo_point& p : echoes) {
        auto times = time_echo(s, p.words, p.rounds);
        if (!times.ok()) {
            return times.status();
        }
        const double us = median_after(warm_up, *times);
        rows.push_back({{"what", "an echo alone"},
                        {"requests", p.words},
                        {"rounds", p.rounds},
                        {"us", us},
                        {"us_per_round", us / p.rounds},
                        {"million_per_s", static_cast<double>(p.words) * p.rounds / us}});
        add_repetitions(rows.back(), "", *times);
    }
    auto idle = rig::make(s);
    if (!idle.ok()) {
        return idle.status();
    }
    // The empty kernel has the shape of 512 warps, the row that is compared with it.
    std::vector<double> empty;
    for (int i = 0; i < s.repeats; ++i) {
        empty.push_back(simt::launch(idle->on, warps_grid(512), empty_kernel{idle->answered.data()}).microseconds);
    }
    rows.push_back({{"what", "an empty kernel"}, {"warps", 512}, {"rounds", 1}, {"us", median(empty)}});
    add_repetitions(rows.back(), "", empty);
    for (const std::uint32_t warps : {1u, 512u}) {
        auto cache = time_cache(s, warps);
        if (!cache.ok()) {
            return cache.status();
        }
        const double us = median_after(warm_up, *cache);
        rows.push_back({{"what", "from the segment cache"}, {"warps", warps}, {"rounds", 1}, {"us", us}});
        add_repetitions(rows.back(), "", *cache);
    }
    if (cuda) {
        auto mapping = time_mapping(s, s.quick ? 512 : 8448);
        if (!mapping.ok()) {
            return mapping.status();
        }
        rows.push_back(*std::move(mapping));
    }
    for (ordered_json& row : rows) {
        row["mailbox_memory"] = idle->memory_kind();
    }
    return rows;
}

const registrar mailbox_registered{
    {"mailbox", "requests to the host: round trip, rate, and committing beside them", run_mailbox,
     "us is the median after two launches that do not count; first, third and tenth are those "
     "launches, counted from the first on, settled is the median of the last half"}};

}  // namespace
}  // namespace orchard::bench
