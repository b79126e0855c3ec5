// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Chooses and creates the backing of a heap, and writes the choices into the options, so that `heap::configuration`
/// returns the values that the heap has, and not those that were requested.
///
///     make_backing
///       make_cuda               CUDA: reads the free memory, sets the capacity
///         make_cuda_managed       managed: driver and managed memory, then make_managed
///         make_elastic            elastic, or automatic if the driver can map memory
///         make_cuda_backing       fixed, or automatic if it cannot
///       make_elastic            emulated device: elastic
///       make_managed            emulated device: managed
///       make_emulated_backing   emulated device: fixed or automatic
///     make_backing_in         memory of the caller: make_fixed_backing

#include "runtime/heap/heap_memory.hpp"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "device/simt/assert.cuh"
#include "device/state/heap_state.cuh"

namespace orchard {
namespace {

/// The defaults for `capacity` on the emulated device, 1 GiB, and for the least `range` on a GPU, 1 TiB.
constexpr std::uint64_t emulated_capacity = std::uint64_t{1} << 30;
constexpr std::uint64_t least_range = std::uint64_t{1} << 40;

/// Returns `amount` rounded down to whole segments, and at most one segment less than an index can name
/// (`heap::impl::lay_out_metadata` has the reason).
std::uint64_t rounded(std::uint64_t amount) {
    return std::min(amount, std::uint64_t{max_segments - 1} << segment_shift) / segment_bytes * segment_bytes;
}

/// Returns the range of addresses, which is at least as large as the budgets.
std::uint64_t range_for(const options& values, std::uint64_t wanted) {
    // Addresses for less than the budgets would leave a part of these unused.
    const std::uint64_t budgets = values.capacity + values.host_budget;
    return rounded(std::max(wanted, budgets));
}

/// Returns an elastic backing over `driver`.
absl::StatusOr<std::unique_ptr<backing>> make_elastic(options& values, std::unique_ptr<memory_driver> driver,
                                                      std::uint64_t default_range) {
    if (values.range == 0) {
        values.range = default_range;
    }
    values.backing = backing_option::elastic;
    return make_elastic_backing(std::move(driver),
                                {.range = values.range,
                                 .device_budget = values.capacity,
                                 .host_budget = values.host_budget,
                                 .move_unit = values.move_unit,
                                 .checks_moves = simt::checked || values.hardened != hardening::off});
}

/// Returns a managed backing; `driver` serves metadata, mailbox and copies. Replaces the options that have no meaning
/// for it: a managed heap has one capacity and no second tier.
absl::StatusOr<std::unique_ptr<backing>> make_managed(options& values, std::unique_ptr<memory_driver> driver,
                                                      std::unique_ptr<managed_memory> memory) {
    values.range = values.capacity = rounded(values.capacity);
    if (values.managed_limit != 0 && values.capacity > values.managed_limit) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a managed heap of %d bytes is above managed_limit, which is %d; ask for a smaller "
                            "capacity, or raise the limit if "
                            "nothing else uses the GPU",
                            values.capacity, values.managed_limit));
    }
    values.host_budget = 0;
    // An extent is moved as a whole, and as long as the demand; nothing is moved ahead of demand.
    values.extent = segment_bytes;
    values.commit_ahead = 0;
    return make_managed_backing(
        std::move(driver), std::move(memory),
        {values.capacity, values.advice, values.prefetch, values.discard, values.allow_oversubscription});
}

/// Returns a managed backing on the current GPU. If neither part can be made, the error of the managed memory is
/// reported.
absl::StatusOr<std::unique_ptr<backing>> make_cuda_managed(options& values) {
    auto driver = make_cuda_driver();
    auto managed = make_cuda_managed_memory();
    if (!managed.ok()) {
        const absl::Status& why = managed.status();
        return absl::Status(why.code(), absl::StrCat(why.message(), "; use the backing elastic or fixed"));
    }
    if (!driver.ok()) {
        return driver.status();
    }
    return make_managed(values, *std::move(driver), *std::move(managed));
}

/// Returns the backing on the current GPU. `automatic` becomes fixed only if the driver cannot map memory
/// (FailedPrecondition); any other error, such as a lack of memory, is reported and not hidden behind another backing.
absl::StatusOr<std::unique_ptr<backing>> make_cuda(options& values, std::unique_ptr<memory_driver> own) {
    // Read before the heap takes anything: the metadata and the mailbox come out of the rest that `capacity_share`
    // leaves.
    const auto memory = cuda_device_memory();
    if (!memory.ok()) {
        return memory.status();
    }
    if (values.capacity == 0) {
        values.capacity = default_cuda_capacity(values, memory->free);
        if (values.backing == backing_option::managed) {
            // Less than the nine tenths that a managed heap may have, since its driver takes some memory first.
            values.capacity = std::min(values.capacity, rounded(memory->free / 100 * 85));
            values.capacity =
                values.managed_limit != 0 ? std::min(values.capacity, values.managed_limit) : values.capacity;
        }
    }
    if (values.backing == backing_option::managed) {
        return make_cuda_managed(values);
    }
    if (values.backing != backing_option::fixed) {
        auto driver =
            own != nullptr ? absl::StatusOr<std::unique_ptr<memory_driver>>(std::move(own)) : make_cuda_driver();
        if (driver.ok()) {
            return make_elastic(values, *std::move(driver), default_cuda_range(values, memory->total));
        }
        // The user has asked for elastic, or the driver could map memory and something else is wrong.
        if (values.backing == backing_option::elastic || !absl::IsFailedPrecondition(driver.status())) {
            return driver.status();
        }
    }
    values.backing = backing_option::fixed;
    values.range = values.capacity;
    return make_cuda_backing(values.capacity);
}

}  // namespace

/// Divided first, so that the product does not overflow; less than 100 bytes are lost.
std::uint64_t default_cuda_capacity(const options& values, std::uint64_t free_bytes) {
    return rounded(free_bytes / 100 * static_cast<std::uint64_t>(values.capacity_share));
}

/// At least as many addresses as the budgets, so that all of these can be used.
std::uint64_t default_cuda_range(const options& values, std::uint64_t gpu_bytes) {
    return range_for(values, std::max(least_range, 4 * gpu_bytes));
}

/// The caller has checked the options one by one (`validate`).
absl::StatusOr<std::unique_ptr<backing>> make_backing(options& values, simt::device_kind kind,
                                                      std::unique_ptr<memory_driver> driver) {
    if (kind == simt::device_kind::cuda) {
        return make_cuda(values, std::move(driver));
    }
    // The emulated device: every choice is possible, and `automatic` is the simplest one.
    if (values.capacity == 0) {
        values.capacity = emulated_capacity;
    }
    if (values.backing == backing_option::elastic) {
        const std::uint64_t range = range_for(values, 4 * (values.capacity + values.host_budget));
        return make_elastic(values, driver != nullptr ? std::move(driver) : make_emulated_driver(), range);
    }
    if (values.backing == backing_option::managed) {
        return make_managed(values, make_emulated_driver(), make_emulated_managed_memory());
    }
    values.backing = backing_option::fixed;
    values.range = values.capacity;
    return make_emulated_backing(values.capacity);
}

/// The driver serves metadata and copies alone, so that an emulated device needs no real one.
absl::StatusOr<std::unique_ptr<backing>> make_backing_in(const supplied_memory& memory, options& values,
                                                         simt::device_kind kind) {
    auto driver = kind == simt::device_kind::cuda
                      ? make_cuda_driver()
                      : absl::StatusOr<std::unique_ptr<memory_driver>>(make_emulated_driver());
    if (!driver.ok()) {
        return driver.status();
    }
    auto made = make_fixed_backing(*std::move(driver), memory.at, memory.bytes);
    if (made.ok()) {
        // The whole segments in the memory are the capacity; the options that the caller gave for these are ignored.
        values.backing = backing_option::fixed;
        values.capacity = values.range = std::uint64_t{(*made)->segments()} << segment_shift;
        values.host_budget = 0;
    }
    return made;
}

absl::StatusOr<host_resident_memory> make_managed_mailbox(simt::device_kind kind, std::size_t bytes) {
    return make_managed_mailbox(kind == simt::device_kind::cuda
                                    ? make_cuda_managed_memory()
                                    : absl::StatusOr<std::unique_ptr<managed_memory>>(make_emulated_managed_memory()),
                                bytes);
}

/// The host writes the pages first, so that they lie there from the start. The advice comes before: the driver maps
/// them for the GPU as they appear, so that no access of a kernel faults.
absl::StatusOr<host_resident_memory> make_managed_mailbox(absl::StatusOr<std::unique_ptr<managed_memory>> memory,
                                                          std::size_t bytes) {
    const auto failed = [](const absl::Status& why) {
        return absl::Status(why.code(),
                            absl::StrFormat("mailbox_memory managed: %s; use mailbox_memory pinned", why.message()));
    };
    if (!memory.ok()) {
        return failed(memory.status());
    }
    const std::size_t whole = (bytes + segment_bytes - 1) / segment_bytes * segment_bytes;
    const auto at = (*memory)->allocate(whole);
    if (!at.ok()) {
        return failed(at.status());
    }
    if (auto s = (*memory)->advise(*at, whole, managed_advice::cpu_resident); !s.ok()) {
        return failed(s);
    }
    std::memset(*at, 0, whole);
    return host_resident_memory{*std::move(memory), *at};
}

/// The smaller of the budgets and the addresses. Only an elastic heap has a host budget.
most_memory most_segments(const options& values, const backing& memory) {
    const std::uint64_t budget =
        values.backing == backing_option::elastic ? values.capacity + values.host_budget : values.capacity;
    const std::uint32_t segments = memory.usable_segments();
    const std::uint64_t allowed = budget >> segment_shift;
    // If both allow equally many, the budgets are the limit that a user is told of.
    return {static_cast<std::uint32_t>(std::min<std::uint64_t>(segments, allowed)), segments < allowed};
}

/// Commits the same lines of every array. `backing::commit_metadata` skips memory that is committed already, so that
/// runs that share a line need no record here.
absl::Status partial_metadata::prepare(backing& memory, segment_run run) {
    // The lines [first, end) that the run touches. An array that is shorter than all lines ends at its own end.
    const std::uint64_t first = to_underlying(run.first) / device::segments_a_line;
    const std::uint64_t end =
        (to_underlying(run.first) + run.count + device::segments_a_line - 1) / device::segments_a_line;
    for (const array& a : arrays_) {
        const std::uint64_t begin = first * a.bytes_a_line;
        absl::Status s = memory.commit_metadata(a.at + begin, std::min(end * a.bytes_a_line, a.bytes) - begin);
        if (!s.ok()) {
            return s;
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard
