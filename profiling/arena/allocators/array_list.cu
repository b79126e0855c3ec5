// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The array list of the containers in place of an allocator (Spliet, Fig. 6.3 to 6.6): the threads of a block add what
/// they need to one list by one call. A list gives nothing back but by `clear`, so that it runs `keep` alone.

#include "runtime/containers/array_list.hpp"

#include "device/containers/array_list.cuh"
#include "profiling/arena/adapter.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::arena {
namespace {

/// Thread i adds `rounds` times as many words as its request has bytes for, and writes its number into each.
struct add_words_kernel {
    array_list_ref<std::uint32_t> list;
    request what;
    std::uint32_t rounds;
    std::uint64_t threads;
    counts* count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        for (std::uint32_t round = 0; round < rounds; ++round) {
            // All threads of a block take part.
            const std::uint32_t words = i < threads ? what.bytes(i, round) / 4 : 0;
            const std::uint64_t first = list.grow_block(words);
            if (words != 0 && first == list.npos) {
                count->nulls.fetch_add<order::relaxed>(1);
                continue;
            }
            for (std::uint32_t k = 0; k < words; ++k) {
                list[first + k] = static_cast<std::uint32_t>(i);
            }
        }
    }
};

/// Counts the words of each thread. Returns false if one has more or fewer than it has added.
bool complete(const std::vector<std::uint32_t>& words, const request& what, std::uint64_t threads,
              std::uint32_t rounds) {
    std::vector<std::uint64_t> left(threads);
    for (std::uint64_t i = 0; i < threads; ++i) {
        for (std::uint32_t round = 0; round < rounds; ++round) {
            left[i] += what.bytes(i, round) / 4;
        }
    }
    for (const std::uint32_t owner : words) {
        if (owner >= threads || left[owner]-- == 0) {
            return false;
        }
    }
    return std::all_of(left.begin(), left.end(), [](std::uint64_t n) { return n == 0; });
}

absl::StatusOr<outcome> run_list(const task& t) {
    measurement m(t);
    if (t.what.what != kind::keep) {
        m.result.ended = verdict::not_offered;
        return m.finish();
    }
    options values;
    values.device = t.on.kind == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    values.emulated_workers = static_cast<int>(t.on.workers);
    values.capacity = t.memory;
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    auto list = array_list<std::uint32_t>::create(*h);
    if (!list.ok()) {
        return list.status();
    }
    auto count = m.array<counts>(1);
    m.preload<add_words_kernel>();
    for (int i = 0; i < t.repeats && m.going(); ++i) {
        m.update(list->clear());
        m.result.values.push_back(m.time(
            add_words_kernel{list->ref(), m.requests(), t.what.rounds, t.what.threads, count.data()}, t.what.threads));
    }
    m.note_counts(count);
    if (const auto words = list->contents(); !words.ok()) {
        m.update(words.status());
    } else if (!complete(*words, m.requests(), t.what.threads, t.what.rounds)) {
        m.result.fault(verdict::overlap, "the list does not hold what its threads have added");
    }
    return m.finish();
}

const registrar list_registered{{{.name = "array_list", .source = "Spliet, 2013; of Orchard's containers"}, run_list}};

}  // namespace
}  // namespace orchard::arena
