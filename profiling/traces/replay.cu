// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/traces/replay.hpp"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "runtime/heap/device_memory.hpp"

namespace orchard::traces {
namespace {

using simt::order;

struct replay_faults {
    simt::device_word<std::uint64_t> failed;
    simt::device_word<std::uint64_t> wrong;
    simt::device_word<std::uint64_t> not_zero;
    simt::device_word<std::uint64_t> unaligned;
};

/// Counts a fault, if there is one.
ORCHARD_INLINE void count(simt::device_word<std::uint64_t>& faults, bool is_fault) {
    if (is_fault) {
        faults.fetch_add<order::relaxed>(1);
    }
}

/// Returns whether all bytes of a block are 0. It is aligned to 16 B.
ORCHARD_INLINE bool is_zero(const void* block, std::uint64_t bytes) {
    const auto* const words = static_cast<const std::uint64_t*>(block);
    const auto* const rest = static_cast<const std::uint8_t*>(block);
    std::uint64_t any = 0;
    for (std::uint64_t i = 0; i < bytes / 8; ++i) {
        any |= words[i];
    }
    for (std::uint64_t i = bytes / 8 * 8; i < bytes; ++i) {
        any |= rest[i];
    }
    return any == 0;
}

/// An interleaved array of the record: its bytes, whatever its elements were.
using byte_array = lane_array<std::uint8_t>;

/// The blocks of a replay, in device memory.
struct replay_memory {
    const replay_block* what;  ///< of each block
    void** blocks;             ///< its address, or that of an array's chunk; null if it is not in use
    byte_array* arrays;
    replay_faults* found;

    /// Makes a request, and checks what it has got. Returns the block, or null.
    ORCHARD_FN void* request(const heap_ref& heap, std::uint32_t number) const {
        const replay_block& b = what[number];
        const std::uint64_t alignment = std::uint64_t{1} << b.asked.log;
        void* p = nullptr;
        switch (b.asked.kind) {
            case request_kind::zeroed:
                p = heap.calloc(1, b.bytes);
                count(found->not_zero, p != nullptr && !is_zero(p, b.bytes));
                break;
            case request_kind::aligned:
                p = heap.aligned_alloc(alignment, b.bytes);
                count(found->unaligned, (reinterpret_cast<std::uintptr_t>(p) & (alignment - 1)) != 0);
                break;
            case request_kind::array: {
                const auto turn = static_cast<tile>(b.asked.log);
                arrays[b.array] = heap.allocate_array<std::uint8_t>(b.bytes, layout::interleaved(turn));
                p = arrays[b.array].chunk();
                break;
            }
            case request_kind::plain: p = b.tag != 0 ? heap.malloc(b.bytes, b.tag) : heap.malloc(b.bytes); break;
        }
        return p;
    }

    ORCHARD_FN void allocate(const heap_ref& heap, std::uint32_t number) const {
        blocks[number] = request(heap, number);
        count(found->failed, blocks[number] == nullptr);
        if (blocks[number] != nullptr) {
            write(number);
        }
    }
    /// Compares and frees a block, if it is in use.
    ORCHARD_FN void free(const heap_ref& heap, std::uint32_t number) const {
        if (blocks[number] == nullptr) {
            return;
        }
        count(found->wrong, !is_right(number));
        if (is_array(number)) {
            heap.free_array(arrays[what[number].array]);
        } else {
            heap.free(blocks[number]);
        }
        blocks[number] = nullptr;
    }

private:
    static constexpr std::uint64_t content_bytes = sizeof(std::uint64_t);

    [[nodiscard]] ORCHARD_INLINE bool is_array(std::uint32_t number) const {
        return what[number].asked.kind == request_kind::array;
    }
    /// Writes a block's number into its first bytes, if it has as many.
    ORCHARD_FN void write(std::uint32_t number) const {
        if (what[number].bytes < content_bytes) {
            return;
        }
        if (!is_array(number)) {
            *static_cast<std::uint64_t*>(blocks[number]) = number;
            return;
        }
        const byte_array& a = arrays[what[number].array];
        for (std::uint32_t i = 0; i < content_bytes; ++i) {
            a[i] = static_cast<std::uint8_t>(std::uint64_t{number} >> 8 * i);
        }
    }
    /// Returns whether the content of a block is still its number.
    [[nodiscard]] ORCHARD_FN bool is_right(std::uint32_t number) const {
        if (what[number].bytes < content_bytes) {
            return true;
        }
        if (!is_array(number)) {
            return *static_cast<const std::uint64_t*>(blocks[number]) == number;
        }
        const byte_array& a = arrays[what[number].array];
        std::uint64_t content = 0;
        for (std::uint32_t i = 0; i < content_bytes; ++i) {
            content |= std::uint64_t{a[i]} << 8 * i;
        }
        return content == number;
    }
};

/// Each thread makes its requests of one batch.
struct replay_steps {
    heap_ref heap;
    const replay_step* steps;
    const std::uint32_t* first;
    std::uint64_t threads;
    replay_memory memory;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t thread = at.global_thread();
        if (thread >= threads) {
            return;
        }
        for (std::uint32_t i = first[thread]; i < first[thread + 1]; ++i) {
            const replay_step s = steps[i];
            switch (s.what) {
                case replay_step::action::allocate: memory.allocate(heap, s.block); break;
                case replay_step::action::free: memory.free(heap, s.block); break;
                case replay_step::action::allocate_together:
                case replay_step::action::meet: meet(s); break;
            }
        }
    }

    /// All lanes of the warp call it; those that have an array to allocate do so together, while the others wait.
    ORCHARD_FN void meet(const replay_step& s) const {
        constexpr simt::lane_mask whole_warp = ~simt::lane_mask{0};
        simt::sync(whole_warp);
        if (s.what == replay_step::action::allocate_together) {
            memory.allocate(heap, s.block);
        }
        simt::sync(whole_warp);
    }
};

/// Compares and frees the blocks that are left.
struct replay_end {
    heap_ref heap;
    std::uint64_t count;
    replay_memory memory;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (const std::uint64_t i = at.global_thread(); i < count) {
            memory.free(heap, static_cast<std::uint32_t>(i));
        }
    }
};

absl::Status to_status_of(const simt::launch_result& r) {
    return r.ok ? absl::OkStatus() : absl::InternalError(r.error);
}

/// A replay while it runs.
class replaying {
public:
    replaying(heap& h, const replay_plan& plan) : heap_{h}, plan_{plan}, on_{h.executor()} { on_.timed = true; }

    absl::Status prepare() {
        absl::Status status = blocks_.resize(on_, plan_.blocks.size());
        status.Update(what_.resize(on_, plan_.blocks.size()));
        status.Update(arrays_.resize(on_, plan_.arrays));
        status.Update(found_.resize(on_, 1));
        status.Update(status.ok() ? what_.array.upload(plan_.blocks) : status);
        return status;
    }

    absl::Status run(const replay_batch& batch) {
        const std::uint64_t threads = batch.first.size() - 1;
        absl::Status status = steps_.at_least(on_, batch.steps.size());
        status.Update(first_.at_least(on_, batch.first.size()));
        status.Update(status.ok() ? steps_.array.upload(batch.steps) : status);
        status.Update(status.ok() ? first_.array.upload(batch.first) : status);
        if (!status.ok()) {
            return status;
        }
        const auto ran =
            simt::launch(on_, simt::grid_for(threads),
                         replay_steps{heap_.ref(), steps_.array.data(), first_.array.data(), threads, memory()});
        result_.kernel_seconds += ran.microseconds * 1e-6;
        return to_status_of(ran);
    }

    absl::StatusOr<replay_result> finish() {
        std::vector<void*> blocks(plan_.blocks.size());
        if (absl::Status s = blocks_.array.download(blocks); !s.ok()) {
            return s;
        }
        std::vector<held_block> held;
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            if (blocks[i] != nullptr) {
                const replay_block& b = plan_.blocks[i];
                ++result_.at_end[{b.bytes, b.tag}];
                if (b.asked.kind != request_kind::array) {  // an array's bytes are not in one piece
                    held.push_back({blocks[i], b.bytes});
                }
            }
        }
        auto stats = heap_.stats();
        absl::Status status = stats.status();
        status.Update(status.ok() ? heap_.validate(held) : status);
        if (status.ok() && !blocks.empty()) {
            status.Update(to_status_of(
                simt::launch(on_, simt::grid_for(blocks.size()), replay_end{heap_.ref(), blocks.size(), memory()})));
        }
        replay_faults faults[1];
        status.Update(status.ok() ? found_.array.download(faults) : status);
        if (!status.ok()) {
            return status;
        }
        result_.heap = *std::move(stats);
        result_.failed = faults[0].failed.load<order::relaxed>();
        result_.wrong = faults[0].wrong.load<order::relaxed>();
        result_.not_zero = faults[0].not_zero.load<order::relaxed>();
        result_.unaligned = faults[0].unaligned.load<order::relaxed>();
        return result_;
    }

private:
    /// A device array that is made when its length is known.
    template <class T>
    struct sized {
        device_array<T> array;

        absl::Status resize(const simt::executor& on, std::uint64_t count) {
            auto made = device_array<T>::create(on, count);
            if (!made.ok()) {
                return made.status();
            }
            array = *std::move(made);
            return absl::OkStatus();
        }
        absl::Status at_least(const simt::executor& on, std::uint64_t count) {
            return count <= array.size() ? absl::OkStatus() : resize(on, std::max(count, 2 * array.size()));
        }
    };

    [[nodiscard]] replay_memory memory() {
        return {what_.array.data(), blocks_.array.data(), arrays_.array.data(), found_.array.data()};
    }

    heap& heap_;
    const replay_plan& plan_;
    simt::executor on_;
    sized<void*> blocks_;
    sized<replay_block> what_;
    sized<byte_array> arrays_;
    sized<replay_faults> found_;
    sized<replay_step> steps_;
    sized<std::uint32_t> first_;
    replay_result result_;
};

}  // namespace

absl::StatusOr<whole_trace> load_replayable(const std::string& path) {
    auto trace = load_trace(path);
    if (!trace.ok()) {
        return trace.status();
    }
    const auto& [info, counts, bytes] = trace->summary;
    if (!can_replay(info, counts)) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "%s cannot be replayed: %s", absl::CEscape(path),
            info.mode == event_mode::sampled
                ? "it is sampled and has no blocks; record with trace_mode complete (ORCHARD_TRACE_MODE, --trace-mode)"
                : absl::StrFormat("%d events were lost, and %d came beyond its limit (trace_limit, request_timeout)",
                                  counts.lost, counts.beyond_limit)));
    }
    return trace;
}

absl::StatusOr<replay_result> replay(heap& h, const replay_plan& plan) {
    replaying r(h, plan);
    if (absl::Status s = r.prepare(); !s.ok()) {
        return s;
    }
    for (const replay_batch& b : plan.batches) {
        if (absl::Status s = r.run(b); !s.ok()) {
            return s;
        }
    }
    return r.finish();
}

}  // namespace orchard::traces
