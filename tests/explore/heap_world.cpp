// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/heap_world.hpp"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <string>
#include <type_traits>

#include "runtime/heap/class_usage.hpp"
#include "runtime/heap/heap_validator.hpp"

namespace orchard::explore {

using simt::plain;
using user_word = plain<std::uint64_t>;

namespace {

void* map(std::size_t bytes) {
    void* const p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return p;
}

std::size_t metadata_bytes(const heap_setup& u) {
    constexpr std::size_t margin = 4096;
    std::size_t bytes = margin + sizeof(device::failure_board) + sizeof(device::quarantine) +
                        sizeof(device::block_fault_board) + mailbox::host_part::bytes(u.shape) +
                        mailbox::device_part::bytes(u.shape) + std::size_t{256};
    device::heap_view v;
    v.segments = u.segments;
    v.max_slabs = u.segments;
    v.stored_rows = u.stored_rows;
    device::for_each_array(
        v, [&](auto*& array, std::uint64_t count, std::uint64_t) { bytes += count * sizeof(*array) + 128; });
    return bytes;
}

device::published_view lay_out(arena& metadata, char* user, const heap_setup& u) {
    device::published_view v;
    v.base = user;
    v.segments = u.segments;
    v.max_slabs = u.segments;
    v.cache_target = u.cache_target;
    v.cache_max = 2 * u.cache_target;
    v.refill_batch = u.refill_batch;
    v.stored_rows = u.cache_target != 0 ? u.stored_rows : 0;
    v.reclaim_patience_ns = u.reclaim_patience_ns;
    v.portions_by = u.portions_by;
    v.tails_by = u.tails_by;
    device::for_each_array(v, [&](auto*& array, std::uint64_t count, std::uint64_t) {
        array = metadata.place<std::remove_reference_t<decltype(*array)>>(count);
    });
    v.failures = metadata.place<device::failure_board>(1);
    if (u.events != nullptr) {
        v.events = u.events;
        v.instrumented |= device::heap_view::reporting;
    }
    if (u.hardened) {
        v.instrumented |= static_cast<std::uint32_t>(hardening::detect);
        v.quarantined = metadata.place<device::quarantine>(1);
        v.block_faults = metadata.place<device::block_fault_board>(1);
        v.quarantine_slots = 4;
        v.placement_seed = 0x5eed;
        v.fill = block_fill::junk;
    }
    v.clears_metadata = u.unzeroed;
    v.stamp = 0x5eed;
    if (u.unzeroed) {
        device::for_each_array(v, [](auto*& array, std::uint64_t count, std::uint64_t each) {
            if (each != 0) {
                std::memset(static_cast<void*>(array), 0xff, count * sizeof(*array));
            }
        });
    }
    auto& box = v.mailbox;
    box.shape = u.shape;
    box.timeout_ns = u.timeout_ns;
    box.lost_after_ns = u.lost_after_ns;
    box.device = reinterpret_cast<mailbox::device_part*>(metadata.place<char>(mailbox::device_part::bytes(u.shape)));
    box.host = mailbox::host_part::in(metadata.place<char>(mailbox::host_part::bytes(u.shape)), u.shape);
    return v;
}

/// Names for the trace, general ones first.
void name_words(simt::explore::simulation& s, const device::heap_view& v) {
    const auto& box = v.mailbox;
    s.name_words(v.base, std::size_t{v.segments} << segment_shift, "segment", segment_bytes);
    s.name_words(v.state, sizeof(device::heap_state), "state");
    s.name_words(v.state->slabs, sizeof(v.state->slabs), "slabs", sizeof(device::slab_table_head));
    s.name_words(v.state->counts, sizeof(v.state->counts), "counts", sizeof(v.state->counts[0]));
    s.name_words(v.state->pages, sizeof(v.state->pages), "pages", sizeof(v.state->pages[0]));
    s.name_words(&v.state->cache_level, 8, "cache_level");
    s.name_words(&v.state->refill_in_flight, 8, "refill_in_flight");
    s.name_words(&v.state->reclaims, 8, "reclaims");
    s.name_words(&v.state->exhausted, 8, "exhausted");
    s.name_words(&v.state->closing, sizeof(v.state->closing), "closing");
    s.name_words(v.slab_table, std::size_t{class_count} * v.max_slabs * 4, "slab_table", std::size_t{v.max_slabs} * 4);
    for (std::uint32_t i = 0; i < v.segments; ++i) {
        s.name_words(&v.descriptor(i), 8, absl::StrCat("descriptor[", i, "]"));
    }
    s.name_bits(v.cache, std::size_t{v.cache_words()} * 8, "cache", 8);
    s.name_bits(v.cache_summary, 8, "cache_summary");
    s.name_bits(v.bitmaps, v.segments * device::bitmap_words * 8, "bitmap", device::bitmap_words * 8);
    s.name_words(v.records, std::size_t{v.segments} * sizeof(device::chunk_record), "record",
                 sizeof(device::chunk_record));
    s.name_bits(v.portions, std::size_t{v.portion_lines()} * v.words_a_line * 8 * (leaves_per_segment - 1), "portions",
                8);
    s.name_bits(v.portion_summary, 8 * (leaves_per_segment - 1), "portion_summary", 8);
    s.name_words(v.cleared_words, std::size_t{v.segments} * 4, "cleared_words", 4);
    s.name_words(v.cleared_lines, std::size_t{v.portion_lines()} * 4, "cleared_lines", 4);
    s.name_words(v.portion_records, std::size_t{v.segments} * leaves_per_segment * sizeof(device::portion_record),
                 "portion_record", sizeof(device::portion_record));
    s.name_words(v.leaf_owners, std::size_t{v.segments} * leaves_per_segment * 4, "leaf_owner", 4);
    s.name_words(box.device, mailbox::device_part::bytes(box.shape), "mailbox");
    s.name_words(&box.device->ticket, 8, "ticket");
    s.name_words(box.device->poller, sizeof(box.device->poller), "poller", sizeof(box.device->poller[0]));
    s.name_words(box.device->posted, sizeof(box.device->posted), "posted", sizeof(box.device->posted[0]));
    s.name_words(box.device->slots(), std::size_t{box.shape.slots} * 8, "slot", 8);
    s.name_words(box.host.requests, std::size_t{box.shape.slots} * 8, "request", 8);
    s.name_words(box.host.responses, std::size_t{box.shape.slots} * 16, "response", 8);
    s.name_words(box.host.heartbeat, 8, "heartbeat");
    s.name_words(box.host.blocked, 8, "blocked");
}

}  // namespace

arena::arena(std::size_t bytes) : base_{static_cast<char*>(map(bytes))}, bytes_{bytes} {}
arena::~arena() { ::munmap(base_, bytes_); }

commit_outcome slow_backing::commit(segment_run run) {
    is_blocked = commits_before_block-- == 0;
    do {
        simt::pause(commit_ns);
    } while (is_blocked);
    if (failures_left > 0) {
        --failures_left;
        return {absl::ResourceExhaustedError("a commit that fails"), memory_tier::device,
                failure_reason::commit_failed};
    }
    committed += run.count;
    extents_[to_underlying(run.first)] = run.count;
    return {};
}
absl::Status slow_backing::decommit(segment_run run) {
    simt::pause(commit_ns);
    const auto found = extents_.find(to_underlying(run.first));
    if (found == extents_.end() || found->second != run.count) {
        return absl::FailedPreconditionError("it was not committed so");
    }
    extents_.erase(found);
    committed -= run.count;
    return absl::OkStatus();
}
bool slow_backing::has(segment_run run) const {
    const auto has_one = [&](std::uint32_t i) {
        const auto next = extents_.upper_bound(i);
        return i < at_start_ || (next != extents_.begin() && i < std::prev(next)->first + std::prev(next)->second);
    };
    for (std::uint32_t i = 0; i < run.count; ++i) {
        if (!has_one(to_underlying(run.first) + i)) {
            return false;
        }
    }
    return true;
}
memory_use slow_backing::use() const {
    memory_use now;
    now.device_bytes = std::uint64_t{at_start_ + committed} << segment_shift;
    now.device_budget = std::uint64_t{segments_} << segment_shift;
    return now;
}
absl::StatusOr<void*> slow_backing::allocate_metadata(std::size_t) { return absl::UnimplementedError("not here"); }
absl::StatusOr<void*> slow_backing::allocate_host_visible(std::size_t) { return absl::UnimplementedError("not here"); }
absl::Status slow_backing::read(void* to, const void* from, std::size_t bytes) {
    if (bytes != 0) {  // memcpy takes no null pointer, which an empty structure has
        std::memcpy(to, from, bytes);
    }
    return absl::OkStatus();
}
absl::Status slow_backing::write(void* to, const void* from, std::size_t bytes) {
    if (bytes != 0) {  // memcpy takes no null pointer, which an empty structure has
        std::memcpy(to, from, bytes);
    }
    return absl::OkStatus();
}

heap_world::heap_world(world& w, const heap_setup& u)
    : s{w.s},
      setup{u},
      user_{(std::size_t{u.segments} + 1) << segment_shift},
      metadata_{metadata_bytes(u)},
      view{lay_out(metadata_,
                   reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(user_.base()) + segment_bytes - 1) &
                                           ~std::uintptr_t{segment_bytes - 1}),
                   u)},
      ref{view},
      memory{view.base, u.segments, u.committed_at_start},
      grower{memory, u.extent},
      service{mailbox_server(view.mailbox.host, u.shape), grower,
              service_settings{u.ahead, 0, u.portions_by, u.timeout_ns, u.apart_one_of}} {
    view.self = &view;
    ref = heap_ref(view);
    name_words(s, view);
    s.name_words(&grower.line().committed, 8, "growth.committed");
    s.name_words(&grower.line().wanted, 8, "growth.wanted");
    s.name_words(&grower.line().failed, 4, "growth.failed");
    if (u.service_lives) {
        service_actor = s.add_daemon("service", [this] { poll_for_ever(); });
    }
    growth_actor = s.add_daemon("growth", [this] { grower.run(); });
}

void heap_world::poll_for_ever() {
    for (;;) {
        if (service.poll_once() == 0) {
            simt::pause(500);
        }
        if (setup.gives_back && s.pick(8) == 0) {
            service.release_unused(s.pick(3));
        }
    }
}

void heap_world::mark(void* p, std::uint64_t bytes) {
    const auto first = static_cast<std::uint64_t>(static_cast<char*>(p) - view.base);
    const std::uint64_t end = std::uint64_t{view.segments} << segment_shift;
    s.check(first < end && bytes <= end - first, "was given memory that is not the heap's");
    s.own(p, bytes, absl::StrCat(bytes, " B"));
    auto* const words = static_cast<user_word*>(p);
    words[0].set(s.self() + 1);
    words[bytes / 8 - 1].set(s.self() + 1);
}

void heap_world::unmark(void* p, std::uint64_t bytes) {
    auto* const words = static_cast<user_word*>(p);
    s.check(words[0].get() == words[bytes / 8 - 1].get(), "a block changed while it was owned");
    s.disown(p);
}

void* heap_world::take(std::uint64_t bytes) {
    void* const p = ref.malloc(bytes);
    if (p != nullptr) {
        mark(p, bytes);
    }
    return p;
}

void heap_world::give(void* p, std::uint64_t bytes) {
    unmark(p, bytes);
    ref.free(p);
}

failure_reason heap_world::take_run(simt::lane_mask mask, std::uint32_t k, segment_run* run) {
    const failure_reason why = device::acquire_segments(view, mask, k, run);
    if (why == failure_reason::none && device::is_leader(mask)) {
        s.check(run->count == k, "a run is not as long as was asked for");
        s.check(memory.has(*run), "a run has no memory");
        mark(view.address(to_underlying(run->first)), std::uint64_t{k} << segment_shift);
    }
    return why;
}

void heap_world::give_run(simt::lane_mask mask, segment_run run) {
    if (device::is_leader(mask)) {
        unmark(view.address(to_underlying(run.first)), std::uint64_t{run.count} << segment_shift);
    }
    device::release_segments(view, mask, run);
}

void heap_world::close() {
    service.close();
    for (auto& flag : view.state->closing) {
        flag.word.store<simt::order::relaxed>(1);
    }
    view.mailbox.device->rejection.flags.store<simt::order::relaxed>(mailbox::device_part::closing);
}

bool heap_world::settle(std::initializer_list<std::uint32_t> classes) {
    const std::vector<std::uint32_t> wanted(classes);
    s.add_kernel({{2}}, [this, wanted](simt::thread_position) {
        if (setup.hardened) {
            device::empty_quarantine(view, 3);
        }
        for (std::uint32_t c : wanted) {
            device::retire_empty_slabs(view, 3, c);
        }
        device::settle(view, 3, true);
    });
    return s.run();
}

void heap_world::check_clean(std::uint32_t expect_granted, std::uint32_t expect_refused, std::uint64_t expect_invalid) {
    const auto expect_ok = [this](const absl::Status& status) { s.check(status.ok(), std::string(status.message())); };
    expect_ok(service.validate());
    const granted_memory granted(service);
    const auto count = static_cast<std::uint32_t>(std::ranges::count(granted.segments, true));
    expect_ok(validate_device_side(view, memory, granted));
    s.check(count == expect_granted,
            absl::StrFormat("%d segments are granted where %d are in use; the first granted one is %d", count,
                            expect_granted, std::ranges::find(granted.segments, true) - granted.segments.begin()));
    s.check(slots_claimed() == 0, absl::StrCat(slots_claimed(), " slots are claimed although nothing is under way"));
    s.check(sum(device::counter::invalid_frees) == expect_invalid,
            absl::StrFormat("%d frees were counted as invalid where %d were", sum(device::counter::invalid_frees),
                            expect_invalid));
    s.check(refused() == expect_refused,
            absl::StrFormat("the service refused %d requests where %d made no sense", refused(), expect_refused));
    s.check(sum(device::counter::block_faults) == 0, "a fault of the program was counted where there is none");
    s.check(view.state->refill_in_flight.word.load<simt::order::relaxed>() == 0,
            "a refill is said to be under way although nothing is");
}

void heap_world::check_empty() {
    check_clean(0);
    s.check(s.owned() == 0, "a block is still owned");
    if (s.result().ok() && !device::is_closing(view) && s.pick(4) == 0) {
        take_everything();
    }
}

void heap_world::check_counts() {
    s.check(sum(device::counter::live_chunks) == 0, "a chunk is counted as alive");
    s.check(requests().frees == requests().allocations, "a free was not counted");
}

/// Takes segments until there are none, and returns them. No segment may be lost, or be had twice. In a large heap it
/// takes runs first, as a request for each segment would exceed the operations of a run.
void heap_world::take_everything() {
    view.mailbox.timeout_ns = 1'000'000'000;
    memory.commit_ns = 1'000;
    s.add_kernel({{1}}, [this](simt::thread_position) {
        std::vector<segment_run> held;
        std::uint32_t segments = 0;
        failure_reason why = failure_reason::none;
        std::uint32_t k = std::max(setup.segments / 16, 1u);
        int stalls = 0;
        for (bool more = true; more; k = 1) {
            segment_run run;
            for (why = take_run(1, k, &run);
                 why == failure_reason::none || (why == failure_reason::commit_blocked && stalls < 20);
                 why = take_run(1, k, &run)) {
                if (why == failure_reason::none) {
                    held.push_back(run);
                    segments += k;
                } else {  // growth may stand still for longer than the service's patience
                    simt::pause(1'000'000);
                    ++stalls;
                }
            }
            more = k != 1;
        }
        s.check(segments == setup.segments, absl::StrFormat("of %d segments %d can be had: reason %d", setup.segments,
                                                            segments, static_cast<int>(why)));
        for (const segment_run& one : held) {
            give_run(1, one);
        }
    });
    (void)s.run();
}

std::uint64_t heap_world::sum(device::counter c) const { return sum_of(*view.state, c); }

std::uint64_t heap_world::refused() const { return service.counters().requests_rejected.get(); }

request_counts heap_world::requests() {
    const auto usage = usage_of_classes(view, memory);
    s.check(usage.ok(), "the pages in use cannot be counted");
    const auto pages = pages_in_use(view, memory, usage.value_or(std::vector<class_usage>(class_count)));
    s.check(pages.ok(), "the blocks in use cannot be counted");
    return count_requests(*view.state, pages.value_or(0));
}

std::uint64_t heap_world::failures() const {
    const auto& counts = view.state->failure.of_reason;
    return std::accumulate(std::begin(counts), std::end(counts), std::uint64_t{0},
                           [](std::uint64_t n, const auto& c) { return n + c.template load<simt::order::relaxed>(); });
}

std::uint64_t heap_world::failures(failure_reason why) const {
    return view.state->failure.of_reason[static_cast<std::uint32_t>(why)].load<simt::order::relaxed>();
}

failure_reason heap_world::first_failure() const {
    const auto first = view.failures->first.read();
    return first ? first->reason : failure_reason::none;
}

std::uint32_t heap_world::slots_claimed() const {
    std::uint32_t n = 0;
    for (std::uint32_t i = 0; i < setup.shape.slots; ++i) {
        const std::uint64_t word = view.mailbox.device->slots()[i].load<simt::order::relaxed>();
        n += (word & mailbox::slot_word::pending) != 0 ? 1 : 0;
    }
    return n;
}

}  // namespace orchard::explore
