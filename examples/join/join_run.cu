// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The join's repetitions; see join_run.hpp.
///
///     run_join              makes the memory, and then
///       repeat                partition, probe, gather, free; `before` makes memory empty that nothing is freed to

#include "examples/join/join_run.hpp"

#include <bit>

#include "absl/strings/str_cat.h"
#include "device/published/published_ref.cuh"
#include "examples/join/page_queue.cuh"
#include "examples/report/kernel_steps.hpp"
#include "examples/trees/bump_memory.cuh"
#include "runtime/heap/published_heap.hpp"
#include "runtime/nvtx/phase.hpp"

namespace orchard::examples {
namespace {

using simt::order;
using word = simt::device_word<std::uint32_t>;

/// Tuples of the first table that a partition has on average.
constexpr std::uint64_t partition_tuples = 256;

/// The tables and arrays of a join, in plain device memory.
class joining {
public:
    joining(const simt::executor& on, const join_options& options) : on_{timed(on)}, options_{options} {
        partitions_ =
            static_cast<std::uint32_t>(std::bit_ceil((options.tuples + partition_tuples - 1) / partition_tuples));
    }

    absl::Status prepare(std::span<const join_tuple> first, std::span<const join_tuple> second) {
        absl::Status status;
        for (table* const t : {&first_, &second_}) {
            status.Update(make(on_, options_.tuples, t->input));
            status.Update(make(on_, options_.tuples, t->parted));
            status.Update(make(on_, partitions_, t->counts));
        }
        status.Update(make(on_, partitions_ + 1, begin_));
        status.Update(make(on_, options_.tuples, heads_));
        status.Update(make(on_, 1, counts_));
        status.Update(status.ok() ? first_.input.upload(first) : status);
        status.Update(status.ok() ? second_.input.upload(second) : status);
        return status;
    }

    template <class Memory, class Before>
    absl::Status repeat(const Memory& memory, const Before& before, join_run& result, command_line::progress& bar) {
        absl::Status status;
        bar.begin(absl::StrCat("joining: ", result.memory), static_cast<std::uint64_t>(options_.repeats));
        for (int i = 0; i < options_.repeats && status.ok(); ++i) {
            status.Update(before());
            double partition_us = 0;
            double probe_us = 0;
            double free_us = 0;
            double gather_us = 0;
            if (status.ok()) {
                const nvtx::phase marked(nvtx::phase::build, options_.tuples);
                status.Update(partition(first_, true, partition_us));
                status.Update(status.ok() ? partition(second_, false, partition_us) : status);
                status.Update(status.ok() ? counts_.zero() : status);
            }
            if (status.ok()) {
                const nvtx::phase marked(nvtx::phase::allocate, options_.tuples);
                status.Update(run(on_, simt::grid_for(options_.tuples),
                                  probe_tuples<Memory>{memory, options_.page_bytes, first_.parted.data(), begin_.data(),
                                                       second_.parted.data(), options_.tuples, partitions_,
                                                       heads_.data(), counts_.data()},
                                  probe_us));
            }
            if (status.ok()) {
                const nvtx::phase marked(nvtx::phase::compute, options_.tuples);
                status.Update(run(on_, simt::grid_for(options_.tuples),
                                  gather_results{heads_.data(), options_.tuples, counts_.data()}, gather_us));
            }
            if (status.ok()) {
                const nvtx::phase marked(nvtx::phase::free);
                status.Update(run(on_, simt::grid_for(options_.tuples),
                                  free_results<Memory>{memory, heads_.data(), options_.tuples}, free_us));
            }
            result.partition_us.push_back(partition_us);
            result.probe_us.push_back(probe_us);
            result.free_us.push_back(free_us);
            bar.add(1);
        }
        bar.clear();
        join_counts found{};
        status.Update(status.ok() ? copy_to_host(on_, &found, counts_.data(), sizeof(found)) : status);
        result.totals = {found.matches.load<order::relaxed>(), found.sum.load<order::relaxed>()};
        result.pages = found.pages.load<order::relaxed>();
        result.incomplete = found.no_memory.load<order::relaxed>();
        return status;
    }

private:
    struct table {
        device_array<join_tuple> input;
        device_array<join_tuple> parted;
        device_array<word> counts;
    };

    /// Puts the tuples of a table behind each other by partition. The sums of the counts are made on the host, and are
    /// not part of the time. The first table's are kept.
    absl::Status partition(table& t, bool is_first, double& us) {
        absl::Status status = t.counts.zero();
        status.Update(status.ok() ? run(on_, simt::grid_for(options_.tuples),
                                        count_tuples{t.input.data(), options_.tuples, partitions_, t.counts.data()}, us)
                                  : status);
        std::vector<std::uint32_t> counts(partitions_);
        static_assert(sizeof(word) == sizeof(std::uint32_t));
        status.Update(status.ok() ? copy_to_host(on_, counts.data(), t.counts.data(), counts.size() * sizeof(word))
                                  : status);
        std::vector<std::uint32_t> begins(partitions_ + 1);
        for (std::uint32_t p = 0; p < partitions_; ++p) {
            begins[p + 1] = begins[p] + counts[p];
        }
        status.Update(status.ok() && is_first ? begin_.upload(begins) : status);
        status.Update(status.ok() ? copy_to_device(on_, t.counts.data(), begins.data(), counts.size() * sizeof(word))
                                  : status);
        status.Update(status.ok() ? run(on_, simt::grid_for(options_.tuples),
                                        scatter_tuples{t.input.data(), options_.tuples, partitions_, t.counts.data(),
                                                       t.parted.data()},
                                        us)
                                  : status);
        return status;
    }

    simt::executor on_;
    join_options options_;
    std::uint32_t partitions_ = 0;
    table first_;
    table second_;
    device_array<std::uint32_t> begin_;
    device_array<result_page*> heads_;
    device_array<join_counts> counts_;
};

/// What all runs need.
struct job {
    const join_options& options;
    std::span<const join_tuple> first;
    std::span<const join_tuple> second;
    std::uint64_t pages;
    command_line::progress& bar;
    join_run result;
};

absl::Status run_direct(job& j, const simt::executor& on) {
    const std::uint64_t bytes = j.pages * j.options.page_bytes;
    auto memory = device_array<char>::create(on, bytes);
    auto taken = device_array<simt::device_word<std::uint64_t>>::create(on, 1);
    joining join(on, j.options);
    absl::Status status = memory.status();
    status.Update(taken.status());
    status.Update(join.prepare(j.first, j.second));
    return status.ok()
               ? join.repeat(
                     bump_memory{memory->data(), bytes, taken->data()}, [&] { return taken->zero(); }, j.result, j.bar)
               : status;
}

absl::Status run_queue(job& j, const simt::executor& on) {
    const std::uint64_t length = std::bit_ceil(j.pages);
    auto memory = device_array<char>::create(on, j.pages * j.options.page_bytes);
    auto ring = device_array<page_queue_entry>::create(on, length);
    auto counts = device_array<page_queue_counts>::create(on, 1);
    joining join(on, j.options);
    absl::Status status = memory.status();
    status.Update(ring.status());
    status.Update(counts.status());
    status.Update(join.prepare(j.first, j.second));
    if (!status.ok()) {
        return status;
    }
    const page_queue queue{memory->data(), j.options.page_bytes, length, ring->data(), counts->data()};
    const simt::launch_result filled = simt::launch(on, simt::grid_for(length), fill_page_queue{queue, j.pages});
    if (!filled.ok) {
        return absl::InternalError(filled.error);
    }
    return join.repeat(
        queue, [] { return absl::OkStatus(); }, j.result, j.bar);
}

/// Runs in a heap, and checks it afterwards.
template <class Memory>
absl::Status run_heap(job& j, heap& h, const Memory& memory) {
    joining join(h.executor(), j.options);
    absl::Status status = h.preload<probe_tuples<Memory>, free_results<Memory>>();
    status.Update(join.prepare(j.first, j.second));
    status.Update(status.ok() ? join.repeat(
                                    memory, [] { return absl::OkStatus(); }, j.result, j.bar)
                              : status);
    if (!status.ok()) {
        return status;
    }
    absl::Status valid = h.trim();
    valid.Update(valid.ok() ? h.validate() : valid);
    const auto stats = h.stats();
    valid.Update(stats.status());
    j.result.is_whole = valid.ok() && stats->pages_in_use == 0;
    j.result.fault = valid.ok() ? "" : std::string(valid.message());
    return absl::OkStatus();
}

template <device::page_policy P>
absl::Status run_published(job& j, const options& values) {
    auto h = published_heaps::create(values, {.algorithm = P});
    return h.ok() ? run_heap(j, *h, published_ref<P>(published_heaps::view(*h))) : h.status();
}

}  // namespace

std::span<const std::string_view> join_memories() {
    static constexpr std::string_view names[] = {"direct", "queue", "rw", "rw_bm64", "corw", "orchard"};
    return names;
}

absl::StatusOr<join_run> run_join(std::string_view memory, const join_options& options,
                                  std::span<const join_tuple> first, std::span<const join_tuple> second,
                                  std::uint64_t pages, command_line::progress& bar) {
    job j{options, first, second, std::max<std::uint64_t>(pages, 1), bar, {}};
    j.result.memory = memory;
    const auto device = choose_device(options.heap.device);
    if (!device.ok()) {
        return device.status();
    }
    simt::executor on;
    on.kind = device->kind;
    on.device = device->gpu;
    on.workers = static_cast<unsigned>(options.heap.emulated_workers);
    absl::Status status;
    if (memory == "direct") {
        status.Update(run_direct(j, on));
    } else if (memory == "queue") {
        status.Update(run_queue(j, on));
    } else if (memory == "rw") {
        status.Update(run_published<device::page_policy::rw>(j, options.heap));
    } else if (memory == "rw_bm64") {
        status.Update(run_published<device::page_policy::rw_bm64>(j, options.heap));
    } else if (memory == "corw") {
        status.Update(run_published<device::page_policy::corw>(j, options.heap));
    } else if (memory == "orchard") {
        auto h = heap::create(options.heap);
        status.Update(h.ok() ? run_heap(j, *h, h->ref()) : h.status());
    } else {
        return absl::InvalidArgumentError(absl::StrCat("memory \"", std::string(memory),
                                                       "\": give direct, queue, rw, rw_bm64, corw, orchard or all"));
    }
    return status.ok() ? absl::StatusOr<join_run>(std::move(j.result)) : status;
}

}  // namespace orchard::examples
