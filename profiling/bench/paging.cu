// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench paging`: the UVM driver's handling of faults on a GPU. It measures which pages the driver brings, how
/// many faults it sees at a time, and the cost of a batch, a VA block, a page, a copy and a byte. The constants of the
/// model are derived from these (docs/uvm_model.md). 512 MiB of managed memory, all of which fits the GPU.
///
///     regions read in turn ...  on_gpu: regions of 64 KiB of the VA block that are on the GPU after each read
///     faults at one time        waves: in which portions the faults of all warps were served; us: from the first to
///                               the last of them, by the GPU's clock
///     a page, 16 pages ...      us of a round: a kernel's time by its rounds; moved_kib: what came for a round
///     costs of one              batch_us, block_us, page_us, copy_us, gb_per_s: from differences of the rounds above
///
/// Before each launch all memory is on the host, mapped page by page. Only CUDA: the emulated device has no driver.

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/repetitions.hpp"
#include "profiling/bench/watched_memory.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/launch_status.hpp"
#include "runtime/options/byte_size.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/memory/managed_memory.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t all_bytes = 512 * mib;  ///< 256 VA blocks

/// Rounds of one warp: in each, its first lanes read one page each, `apart` bytes from lane to lane. The next round,
/// `round_bytes` further, begins when all have their pages. All contents are 0. Each round is meant to be one batch of
/// faults for the driver.
struct read_in_rounds {
    const volatile std::uint32_t* memory;  ///< volatile: every read must happen
    std::uint64_t apart;
    std::uint64_t round_bytes;
    std::uint32_t lanes;
    std::uint32_t rounds;
    std::uint32_t* sum;  ///< one word: keeps the reads

    ORCHARD_FN void operator()(simt::thread_position) const {
        const auto lane = static_cast<std::uint32_t>(simt::lane_id());
        std::uint32_t read = 0;
        ORCHARD_NO_UNROLL
        for (std::uint32_t round = 0; round < rounds; ++round) {
            const std::uint64_t at = round * round_bytes + lane * apart;
            // What was read, 0, is part of the next address: no read of the next round can start before.
            read += lane < lanes ? memory[at / sizeof(std::uint32_t) + read] : 0;
            read = simt::shuffle(~simt::lane_mask{0}, read, 0);
        }
        if (lane == 0) {
            *sum = read;
        }
    }
};

/// The first lanes of each warp read one page each, all different; records the time when each warp had all its pages.
struct read_at_once {
    const volatile std::uint32_t* memory;
    std::uint64_t apart;
    std::uint32_t lanes;
    std::uint64_t* had_ns;  ///< one for each warp

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto lane = static_cast<std::uint32_t>(simt::lane_id());
        const std::uint64_t warp = at.global_warp();
        std::uint32_t read = 0;
        if (lane < lanes) {
            read = memory[(warp * lanes + lane) * apart / sizeof(std::uint32_t)];
        }
        read = simt::shuffle(~simt::lane_mask{0}, read, 0);
        if (lane == 0) {
            // The value, 0, is added so that the clock is read after it has arrived.
            had_ns[warp] = simt::clock_ns() + read;
        }
    }
};

/// Managed memory on the host, and the pages that kernels bring from it. Functions add rows; their errors are those of
/// the driver, of launches and of `map_on_host`.
class paging_run {
public:
    explicit paging_run(const settings& s) : s_{s} { on_.kind = s.device; }

    /// Allocates the memory. Errors: those of `check_managed`; the driver's own.
    absl::Status prepare() {
        if (auto s = check_managed(s_, all_bytes); !s.ok()) {
            return s;
        }
        auto memory = make_cuda_managed_memory();
        if (!memory.ok()) {
            return memory.status();
        }
        memory_ = *std::move(memory);
        auto base = memory_->allocate(all_bytes);
        auto sum = device_array<std::uint32_t>::create(on_, 1);
        // One time for each warp of `watch_waves`, whose largest launch has 256.
        auto had = device_array<std::uint64_t>::create(on_, 4096);
        absl::Status status = base.status();
        status.Update(sum.status());
        status.Update(had.status());
        if (status.ok()) {
            base_ = *base;
            sum_ = *std::move(sum);
            had_ = *std::move(had);
            on_.timed = true;
        }
        return status;
    }

    /// One lane reads one region of 64 KiB after the other. After each, records which regions of the VA block are on
    /// the GPU: the region that was read, and what the driver's prefetcher added. @param regions  0 to 31
    absl::Status follow(const std::vector<int>& regions, ordered_json& rows) {
        absl::Status status = bring_home();
        for (std::size_t i = 0; i < regions.size() && status.ok(); ++i) {
            const auto us = read(static_cast<std::uint64_t>(regions[i]) * 64 * kib, {1, 0, 0, 1});
            // Read before the next region is touched: the state after exactly one fault.
            const auto mapped = pages_mapped(base_, segment_bytes);
            if (!us.ok() || !mapped.ok()) {
                return us.ok() ? mapped.status() : us.status();
            }
            rows.push_back({{"what", absl::StrCat("regions read in turn: ", absl::StrJoin(regions, " "))},
                            {"read", regions[i]},
                            {"on_gpu", regions_away(*mapped)},
                            {"pages_on_gpu", std::count(mapped->begin(), mapped->end(), false)},
                            {"us", *us}});
        }
        return status;
    }

    /// Records in which portions warps get their pages, if all request them at the same time. Warps whose pages come in
    /// one batch have them at nearly the same time; a pause tells batches apart. Every read is in a region of its own,
    /// 128 KiB apart, so that no page comes for two of them.
    absl::Status watch_waves(std::uint32_t blocks, std::uint32_t warps, std::uint32_t lanes, ordered_json& rows) {
        std::vector<std::uint64_t> had(blocks * warps);
        for (int i = 0; i < 2; ++i) {  // the first launch loads the kernel
            absl::Status status = bring_home();
            // 128 KiB apart: no two reads are in one region of 64 KiB, nor in neighbouring ones.
            const simt::launch_result done = simt::launch(on_, {blocks, warps * simt::warp_size},
                                                          read_at_once{words(0), 128 * kib, lanes, had_.data()});
            status.Update(done.ok ? had_.download(had) : to_status(done));
            if (!status.ok()) {
                return status;
            }
        }
        // The times without their warps: only the gaps between them matter.
        std::sort(had.begin(), had.end());
        std::vector<std::uint64_t> waves{1};
        for (std::size_t i = 1; i < had.size(); ++i) {
            constexpr std::uint64_t pause_ns = 8'000;  // shorter than a batch takes
            had[i] - had[i - 1] > pause_ns ? waves.push_back(1) : (void)++waves.back();
        }
        std::vector<std::string> text;
        for (const std::uint64_t warps_of_wave : waves) {
            text.push_back(absl::StrCat(warps_of_wave * lanes));
        }
        rows.push_back({{"what", "faults at one time"},
                        {"sms", blocks},
                        {"warps", warps},
                        {"lanes", lanes},
                        {"faults", std::uint64_t{blocks} * warps * lanes},
                        {"waves", absl::StrJoin(text, " ")},
                        {"us", static_cast<double>(had.back() - had.front()) / 1000}});
        return absl::OkStatus();
    }

    /// Rounds of `read_in_rounds`, with the meaning of its members.
    struct rounds_of {
        std::uint32_t lanes;
        std::uint64_t apart;
        std::uint64_t round_bytes;
        std::uint32_t rounds;
    };
    /// Adds a row of such rounds and returns its median, in microseconds for one round.
    absl::StatusOr<double> time_rounds(const char* what, const rounds_of& r, ordered_json& rows) {
        std::vector<double> times;
        std::uint64_t moved = 0;
        for (int i = -1; i < s_.repeats; ++i) {
            if (auto s = bring_home(); !s.ok()) {
                return s;
            }
            const auto us = read(0, r);
            const auto away = bytes_moved_away(base_, all_bytes);
            if (!us.ok() || !away.ok()) {
                return us.ok() ? away.status() : us.status();
            }
            // Of the last launch.
            moved = *away;
            times.push_back(*us / r.rounds);
        }
        rows.push_back({{"what", what},
                        {"lanes", r.lanes},
                        {"apart_kib", r.apart / kib},
                        {"us", median_after(1, times)},
                        {"moved_kib", static_cast<double>(moved) / static_cast<double>(kib * r.rounds)}});
        add_repetitions(rows.back(), "", times);
        return median_after(1, times);
    }

private:
    /// Returns the address of an offset, as kernels read it.
    [[nodiscard]] const volatile std::uint32_t* words(std::uint64_t offset) const {
        return reinterpret_cast<const volatile std::uint32_t*>(base_ + offset);
    }
    /// Brings everything to the host, and lets the host map each page, so that moves can be counted.
    absl::Status bring_home() {
        return map_on_host(base_, all_bytes, [&] { return memory_->prefetch(base_, all_bytes, memory_tier::host); });
    }
    /// Runs `read_in_rounds` once from `offset` on, and returns the microseconds of the kernel.
    absl::StatusOr<double> read(std::uint64_t offset, const rounds_of& r) {
        const simt::launch_result done =
            simt::launch(on_, {1, simt::warp_size},
                         read_in_rounds{words(offset), r.apart, r.round_bytes, r.lanes, r.rounds, sum_.data()});
        if (!done.ok) {
            return to_status(done);
        }
        return done.microseconds;
    }
    /// Returns the numbers of the regions whose first page has left the host, separated by blanks.
    static std::string regions_away(const std::vector<bool>& mapped) {
        // The first page of a region stands for all 16, since the driver moves regions whole.
        constexpr std::size_t pages = big_page_bytes / os_page_bytes;
        std::vector<std::size_t> regions;
        for (std::size_t i = 0; i < mapped.size(); i += pages) {
            if (!mapped[i]) {
                regions.push_back(i / pages);
            }
        }
        return absl::StrJoin(regions, " ");
    }

    const settings& s_;
    simt::executor on_;
    std::unique_ptr<managed_memory> memory_;
    char* base_ = nullptr;
    device_array<std::uint32_t> sum_;  ///< one word
    device_array<std::uint64_t> had_;  ///< [warp], in ns
};

/// Measures the unit costs by five kinds of rounds. Each round is one batch; the kinds differ in the number of VA
/// blocks, of pages, of copies (runs of pages that move together) and of bytes, so that differences of their times give
/// the cost of one of each.
absl::Status time_costs(paging_run& r, ordered_json& rows) {
    // 64 or 16 rounds: a kernel's own time is then small in each.
    const auto one = r.time_rounds("a page", {1, 0, 2 * mib, 64}, rows);
    const auto blocks = r.time_rounds("a page of each of 16 VA blocks", {16, 2 * mib, 32 * mib, 16}, rows);
    const auto copies = r.time_rounds("16 pages of a VA block, every other region", {16, 128 * kib, 2 * mib, 64}, rows);
    const auto pages = r.time_rounds("16 pages of a region", {16, 4 * kib, 2 * mib, 64}, rows);
    const auto all = r.time_rounds("a page of each region of a VA block", {32, 64 * kib, 2 * mib, 64}, rows);
    for (const auto& each : {one, blocks, copies, pages, all}) {
        if (!each.ok()) {
            return each.status();
        }
    }
    // one = batch + block + page + copy + 64 KiB; blocks = batch + 16 (the rest); copies = batch + block + 16 (page +
    // copy + 64 KiB); pages = batch + block + 16 page + copy + 64 KiB; all = batch + block + 32 page + copy + 2 MiB
    const double block_and_all = (*blocks - *one) / 15;
    const double page_and_copy = (*copies - *one) / 15;
    const double page = (*pages - *one) / 15;
    const double kib_us = (*all - *one - 31 * page) / (2048 - 64);
    rows.push_back({{"what", "costs of one"},
                    {"batch_us", *one - block_and_all},
                    {"block_us", block_and_all - page_and_copy},
                    {"page_us", page},
                    {"copy_us", page_and_copy - page - 64 * kib_us},
                    {"gb_per_s", 1.024 / kib_us}});
    return absl::OkStatus();
}

absl::StatusOr<ordered_json> run_paging(const settings& s) {
    if (s.device != simt::device_kind::cuda) {
        return absl::FailedPreconditionError(
            "the emulated device has no UVM driver: use --device cuda, or `orchard uvm`, which models it");
    }
    settings few = s;
    // Few repetitions: each one brings all memory back to the host and reads every page there.
    few.repeats = std::min(s.repeats, 5);
    ordered_json rows = ordered_json::array();
    paging_run r(few);
    absl::Status status = r.prepare();
    // The first list distinguishes the driver's rule from one that counts pages that were just prefetched. The second
    // leaves five of eight regions until the next fault.
    for (const std::vector<int>& regions : {std::vector<int>{1, 3, 4, 0, 5}, std::vector<int>{0, 1, 4, 2, 5}}) {
        if (status.ok()) {
            status.Update(r.follow(regions, rows));
        }
    }
    // SMs, warps, lanes: first more and more faults of one SM, then those of several SMs.
    for (const auto& [blocks, warps, lanes] : {std::array<std::uint32_t, 3>{1, 32, 1},
                                               {1, 32, 2},
                                               {1, 32, 4},
                                               {1, 32, 8},
                                               {2, 32, 4},
                                               {4, 32, 4},
                                               {8, 32, 2}}) {
        if (status.ok()) {
            status.Update(r.watch_waves(blocks, warps, lanes, rows));
        }
    }
    if (status.ok()) {
        status.Update(time_costs(r, rows));
    }
    return status.ok() ? absl::StatusOr<ordered_json>(rows) : status;
}

const registrar paging_registered{
    {"paging", "what the UVM driver brings for faults, and what they cost (CUDA)", run_paging,
     "us of a round is the median after one launch that does not count, all else is of one "
     "launch; first and third are those launches, counted from the first on, settled is the "
     "median of the last half"}};

}  // namespace
}  // namespace orchard::bench
