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
};

/// Returns whether the content of a block is still its number.
ORCHARD_INLINE bool is_right(const void* block, std::uint64_t bytes, std::uint32_t number) {
    return bytes < sizeof(std::uint64_t) || *static_cast<const std::uint64_t*>(block) == number;
}

/// Each thread makes its requests of one batch.
struct replay_steps {
    heap_ref heap;
    const replay_step* steps;
    const std::uint32_t* first;
    std::uint64_t threads;
    const std::uint64_t* bytes;  ///< of each block
    void** blocks;
    replay_faults* found;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t thread = at.global_thread();
        if (thread >= threads) {
            return;
        }
        for (std::uint32_t i = first[thread]; i < first[thread + 1]; ++i) {
            const replay_step s = steps[i];
            if (s.bytes != 0) {
                void* const p = s.tag != 0 ? heap.malloc(s.bytes, s.tag) : heap.malloc(s.bytes);
                blocks[s.block] = p;
                if (p == nullptr) {
                    found->failed.fetch_add<order::relaxed>(1);
                } else if (s.bytes >= sizeof(std::uint64_t)) {
                    *static_cast<std::uint64_t*>(p) = s.block;
                }
            } else if (void* const p = blocks[s.block]; p != nullptr) {
                if (!is_right(p, bytes[s.block], s.block)) {
                    found->wrong.fetch_add<order::relaxed>(1);
                }
                heap.free(p);
                blocks[s.block] = nullptr;
            }
        }
    }
};

/// Compares and frees the blocks that are left.
struct replay_end {
    heap_ref heap;
    std::uint64_t count;
    const std::uint64_t* bytes;
    void** blocks;
    replay_faults* found;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= count || blocks[i] == nullptr) {
            return;
        }
        if (!is_right(blocks[i], bytes[i], static_cast<std::uint32_t>(i))) {
            found->wrong.fetch_add<order::relaxed>(1);
        }
        heap.free(blocks[i]);
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
        std::vector<std::uint64_t> bytes;
        bytes.reserve(plan_.blocks.size());
        for (const replay_step& s : plan_.blocks) {
            bytes.push_back(s.bytes);
        }
        absl::Status status = blocks_.resize(on_, plan_.blocks.size());
        status.Update(bytes_.resize(on_, plan_.blocks.size()));
        status.Update(found_.resize(on_, 1));
        status.Update(status.ok() ? bytes_.array.upload(bytes) : status);
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
        const auto ran = simt::launch(on_, simt::grid_for(threads),
                                      replay_steps{heap_.ref(), steps_.array.data(), first_.array.data(), threads,
                                                   bytes_.array.data(), blocks_.array.data(), found_.array.data()});
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
                ++result_.at_end[{plan_.blocks[i].bytes, plan_.blocks[i].tag}];
                held.push_back({blocks[i], plan_.blocks[i].bytes});
            }
        }
        auto stats = heap_.stats();
        absl::Status status = stats.status();
        status.Update(status.ok() ? heap_.validate(held) : status);
        if (status.ok() && !blocks.empty()) {
            status.Update(to_status_of(simt::launch(on_, simt::grid_for(blocks.size()),
                                                    replay_end{heap_.ref(), blocks.size(), bytes_.array.data(),
                                                               blocks_.array.data(), found_.array.data()})));
        }
        replay_faults faults[1];
        status.Update(status.ok() ? found_.array.download(faults) : status);
        if (!status.ok()) {
            return status;
        }
        result_.heap = *std::move(stats);
        result_.failed = faults[0].failed.load<order::relaxed>();
        result_.wrong = faults[0].wrong.load<order::relaxed>();
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

    heap& heap_;
    const replay_plan& plan_;
    simt::executor on_;
    sized<void*> blocks_;
    sized<std::uint64_t> bytes_;
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
