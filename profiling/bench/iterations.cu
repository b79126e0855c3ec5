// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench iterations`: 16,384 threads allocate 1 to 256 KB each and free it, repeatedly: with all blocks freed
/// at once, with half of the blocks kept for ten iterations, and with 200,000 other blocks live; and 2 to 4 KB, all
/// freed at once. The question: does a heap get slower with use, and what does an iteration cost when memory is
/// recycled?
///
///     mode, layout         the four plans, each with `malloc` and with interleaved arrays
///     allocate_us, free_us medians of the kernels of all iterations
///     iteration_us         mean of the sums of both
///     first_us, last_us    means of a tenth of the iterations, near the start and at the end
///     last_over_first      above 1: the heap has become slower
///     nulls, wrong_stamps  of all iterations
///
/// An iteration is one kernel that allocates and one that frees (two where kept blocks fall due). Between them, not
/// timed, all blocks are stamped and read back. Sizes differ in each iteration.
///
/// Source: the paper's Fig. 10b (Zhang et al., AlignMalloc, TPDS 2025).

#include <numeric>
#include <span>

#include "profiling/bench/bench.hpp"
#include "profiling/bench/blocks.cuh"
#include "profiling/bench/repetitions.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t least_bytes = 1 << 10;
constexpr std::uint64_t max_bytes = 256 << 10;

/// The number of iterations for which kept blocks live. They keep the chunks whole that they share with dropped ones.
constexpr std::uint32_t kept_iterations = 10;

/// What one row does.
struct plan {
    const char* name;
    bool keeps_half;  ///< half of the threads keep their block for `kept_iterations`
    bool has_others;  ///< `others` further blocks are live all the time
    std::uint64_t threads;
    std::uint64_t others;
    std::uint32_t iterations;
    std::uint64_t least = least_bytes;
    std::uint64_t below = max_bytes;
};

/// The observations of one row; times are [iteration].
struct tally {
    std::vector<double> allocate_us;
    std::vector<double> free_us;
    std::uint64_t nulls = 0;
    std::uint64_t wrong = 0;
};

/// Returns the mean; `values` must not be empty.
double mean(std::span<const double> values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Checks the stamps of some threads' blocks, and adds the wrong ones to `t`. Errors: those of the launch.
template <class Kind>
absl::Status inspect(block_set<Kind>& blocks, blocks_of which, tally& t) {
    const auto wrong = blocks.wrong_stamps(which);
    if (wrong.ok()) {
        t.wrong += *wrong;
    }
    return wrong.status();
}

/// One iteration: all threads allocate; then threads that keep nothing free their blocks, and the other threads free
/// the blocks of ten iterations ago. Adds the times to `t`. Errors: those of launches and copies.
/// @param sets  one set of blocks, or eleven in turn if half is kept: that of this iteration and those of the ten
///     before
template <class Kind>
absl::Status iterate(std::vector<block_set<Kind>>& sets, const plan& p, std::uint32_t i, tally& t) {
    // The set after the current one is the one used longest ago: ten iterations.
    block_set<Kind>& now = sets[i % sets.size()];
    block_set<Kind>& oldest = sets[(i + 1) % sets.size()];
    const bool frees_old = p.keeps_half && i >= kept_iterations;
    const auto allocated = now.allocate({p.least, p.below, i});
    absl::Status status = allocated.status();
    status.Update(now.stamp());
    const auto nulls = now.nulls();
    status.Update(nulls.status());
    // Kept blocks are checked when they fall due: by then ten iterations could have written over them.
    status.Update(inspect(now, p.keeps_half ? blocks_of::dropped : blocks_of::all, t));
    if (frees_old) {
        status.Update(inspect(oldest, blocks_of::kept, t));
    }
    const auto freed = now.free(p.keeps_half ? blocks_of::dropped : blocks_of::all);
    const auto freed_old = frees_old ? oldest.free(blocks_of::kept) : 0;
    status.Update(freed.status());
    status.Update(freed_old.status());
    if (status.ok()) {
        t.nulls += *nulls;
        t.allocate_us.push_back(*allocated);
        t.free_us.push_back(*freed + *freed_old);
    }
    return status;
}

/// Frees the blocks that the last iterations kept, so that the heap is empty for the next row.
template <class Kind>
absl::Status free_kept(std::vector<block_set<Kind>>& sets, const plan& p) {
    absl::Status status;
    const std::uint32_t left = p.keeps_half ? std::min(p.iterations, kept_iterations) : 0;
    for (std::uint32_t i = p.iterations - left; i < p.iterations; ++i) {
        status.Update(sets[i % sets.size()].free(blocks_of::kept).status());
    }
    return status;
}

/// Returns the sets of blocks that `iterate` needs.
template <class Kind>
absl::StatusOr<std::vector<block_set<Kind>>> make_sets(heap& h, Kind kind, const plan& p) {
    std::vector<block_set<Kind>> sets;
    for (std::uint32_t i = 0; i < (p.keeps_half ? kept_iterations + 1 : 1); ++i) {
        auto made = block_set<Kind>::create(h, kind, p.threads);
        if (!made.ok()) {
            return made.status();
        }
        sets.push_back(*std::move(made));
    }
    return sets;
}

/// Returns the row of one plan and layout.
ordered_json row_of(const std::string& layout, const plan& p, const tally& t) {
    std::vector<double> whole(t.allocate_us.size());
    std::transform(t.allocate_us.begin(), t.allocate_us.end(), t.free_us.begin(), whole.begin(), std::plus<>());
    const std::span<const double> all(whole);
    const std::size_t tenth = all.size() / 10;
    // Not the very first ones, in which the device has no free segments and the caches are empty: the mean would show
    // their growth. Of 1,000 iterations, numbers 12 to 111.
    const double first = mean(all.subspan(tenth / 10 + 1, tenth));
    const double last = mean(all.last(tenth));
    ordered_json row{{"layout", layout},
                     {"mode", p.name},
                     {"threads", p.threads},
                     {"others", p.has_others ? p.others : 0},
                     {"iterations", p.iterations},
                     {"allocate_us", median(t.allocate_us)},
                     {"free_us", median(t.free_us)},
                     {"iteration_us", mean(all)},
                     {"first_us", first},
                     {"last_us", last},
                     {"last_over_first", first > 0 ? last / first : 0},
                     {"nulls", t.nulls},
                     {"wrong_stamps", t.wrong}};
    add_repetitions(row, "allocate", t.allocate_us);
    add_repetitions(row, "free", t.free_us);
    add_repetitions(row, "iteration", whole);
    return row;
}

/// Runs one plan with one kind of block, and returns its row. The heap is trimmed at the end, so that each row begins
/// without memory on the device. Errors: those of launches and copies; Internal if the heap is inconsistent.
template <class Kind>
absl::StatusOr<ordered_json> measure(heap& h, Kind kind, const plan& p) {
    auto sets = make_sets(h, kind, p);
    auto others = block_set<Kind>::create(h, kind, p.others);
    absl::Status status = sets.status();
    status.Update(others.status());
    tally t;
    if (status.ok() && p.has_others) {
        // The round of the other blocks is one that no iteration has.
        status.Update(others->allocate({least_bytes, max_bytes, ~std::uint32_t{0}}).status());
        status.Update(others->stamp());
        const auto nulls = others->nulls();
        status.Update(nulls.status());
        t.nulls += nulls.ok() ? *nulls : 0;
    }
    for (std::uint32_t i = 0; i < p.iterations && status.ok(); ++i) {
        status.Update(iterate(*sets, p, i, t));
    }
    if (status.ok()) {
        status.Update(h.validate());
        status.Update(free_kept(*sets, p));
    }
    if (status.ok() && p.has_others) {
        status.Update(inspect(*others, blocks_of::all, t));
        status.Update(others->free().status());
    }
    status.Update(h.trim());
    status.Update(h.validate());
    if (!status.ok()) {
        return status;
    }
    return row_of(kind.name(), p, t);
}

absl::StatusOr<ordered_json> run_iterations(const settings& s) {
    options values = s.heap;
    const bool large = s.device == simt::device_kind::cuda && !s.quick;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    const auto others_of = [&](std::uint64_t count) { return large ? count * 200'000 / 16384 : 256; };
    const std::uint32_t iterations = large ? 1000 : 30;
    // 128 KiB on average for each block, and half as much again; the kept blocks of ten iterations are five times the
    // threads' blocks.
    const auto needed = [&](std::uint64_t count) { return (others_of(count) + count * 12) * (max_bytes * 3 / 4); };
    const std::uint64_t threads = threads_within_limit(values, large ? 16384 : 128, needed);
    const std::uint64_t others = others_of(threads);
    values.capacity = std::max<std::uint64_t>(values.capacity, needed(threads));
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    ordered_json rows = ordered_json::array();
    for (const plan& p : {plan{"all freed", false, false, threads, others, iterations},
                          plan{"half kept for ten", true, false, threads, others, iterations},
                          plan{"others live", false, true, threads, others, iterations},
                          plan{"all freed, 2 to 4 KB", false, false, threads, others, iterations, 2 << 10, 4 << 10}}) {
        for (auto& row :
             {measure(*h, linear_blocks{}, p), measure(*h, array_blocks{layout::interleaved(smallest_tile)}, p),
              measure(*h, array_blocks{layout::interleaved(largest_tile)}, p)}) {
            if (!row.ok()) {
                return row.status();
            }
            rows.push_back(*row);
        }
    }
    return rows;
}

const registrar iterations_registered{
    {"iterations", "1 to 256 KB, and 2 to 4 KB, for each thread and back, a thousand times", run_iterations,
     "allocate_us and free_us are medians of all iterations, iteration_us is their mean, "
     "first_us and last_us are means of a tenth of them; _first, _third and _tenth are those "
     "iterations, _settled the median of the last half"}};

}  // namespace
}  // namespace orchard::bench
