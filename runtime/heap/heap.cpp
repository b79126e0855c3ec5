// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Creation and end of a heap, and the functions that have no file of their own (heap_impl.hpp lists the others).
///
///     heap::create, create_in, published_heaps
///       make                    checks the options
///         impl::make              exceptions become errors
///           make_or_throw
///             choose_device         CUDA or emulated
///             make_backing          addresses and memory (heap_memory.cpp)
///             lay_out_metadata      numbers of the view; memory for each array that it points to
///             check_core            may the service run where the options say?
///             preload_own_kernels   before any thread of the heap exists
///             start_service         mailbox, service, growth; write_views; then the threads

#include "runtime/heap/heap.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/heap/automatic_layout.hpp"
#include "runtime/heap/class_usage.hpp"
#include "runtime/heap/detail_kernels.hpp"
#include "runtime/heap/heap_counts.hpp"
#include "runtime/heap/heap_impl.hpp"
#include "runtime/heap/heap_validator.hpp"
#include "runtime/heap/held_validator.hpp"
#include "runtime/heap/metadata_copy.hpp"
#include "runtime/heap/profiled_heap.hpp"
#include "runtime/machine/machine_info.hpp"

namespace orchard {
namespace {

/// Returns an error if the service could not be pinned to the core `service_core`.
absl::Status check_core(const options& values) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (values.service_core < 0 || ::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return absl::OkStatus();
    }
    const auto core = static_cast<std::size_t>(values.service_core);
    if (CPU_ISSET(core, &allowed) == 0) {
        return absl::InvalidArgumentError(
            absl::StrFormat("service_core: %d: this process may not use that core; it has %d cores; give one of them "
                            "(taskset -pc $$ lists them), or -1",
                            core, CPU_COUNT(&allowed)));
    }
    return absl::OkStatus();
}

/// Returns the result of `call`; in a process that was forked from the heap's, the error, without the call.
template <class Impl, class Call>
auto checked(const Impl& of, Call call) -> decltype(call()) {
    const absl::Status here = of.check_process();
    if (!here.ok()) {
        return here;
    }
    return call();
}

/// The same for a call that others, and commands of the live page, must not overlap.
template <class Impl, class Call>
auto checked_alone(Impl& of, Call call) -> decltype(call()) {
    return checked(of, [&] { return of.alone(call); });
}

}  // namespace

heap::heap(std::unique_ptr<impl> i) : impl_{std::move(i)} {}
heap::heap(heap&&) noexcept = default;
heap& heap::operator=(heap&& other) noexcept {
    if (this != &other) {
        forget_if_forked();
        impl_ = std::move(other.impl_);
    }
    return *this;
}
heap::~heap() { forget_if_forked(); }

/// The threads of a heap do not exist in a process that was forked from the heap's, so that none can be joined, and
/// nothing can be freed that they use.
void heap::forget_if_forked() noexcept {
    if (impl_ && !impl_->check_process().ok()) {
        (void)impl_.release();
    }
}

absl::StatusOr<heap> heap::create(const options& values) { return make(values, nullptr, 0, {}); }

absl::StatusOr<heap> heap::create_in(void* memory, std::uint64_t bytes, const options& values) {
    return make_in(memory, bytes, values, {});
}

/// The range is checked before anything computes its end.
absl::StatusOr<heap> heap::make_in(void* memory, std::uint64_t bytes, const options& values,
                                   const published_settings& walk) {
    if (memory == nullptr) {
        return absl::InvalidArgumentError("create_in: the memory is a null pointer; give memory, or call create");
    }
    if (bytes > ~std::uintptr_t{0} - reinterpret_cast<std::uintptr_t>(memory)) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "create_in: %d bytes from %p on pass the end of the address space; give the memory's true size", bytes,
            memory));
    }
    return make(values, memory, bytes, walk);
}

absl::StatusOr<heap> heap::make(const options& values, void* memory, std::uint64_t bytes,
                                const published_settings& walk) {
    if (absl::Status s = orchard::validate(values); !s.ok()) {
        return s;
    }
    if (values.fill != block_fill::unchanged && values.hardened == hardening::off) {
        return absl::InvalidArgumentError(
            "fill: only a hardened heap fills new blocks; set hardened to detect or guard (ORCHARD_HARDENED, "
            "--hardened), or leave fill at unchanged and call calloc");
    }
    auto made = impl::make(values, {memory, bytes}, nullptr, walk);
    if (!made.ok()) {
        return made.status();
    }
    return heap(*std::move(made));
}

/// A heap of a published algorithm hands out `closed`, whose state says that the heap is closing: a kernel that takes
/// the wrong view gets null, and cannot mix Orchard's pages with those of the algorithm.
heap_ref heap::ref() const { return heap_ref(impl_->closed.state == nullptr ? impl_->view : impl_->closed); }
const device::heap_view& heap::view() const { return impl_->view; }
const simt::executor& heap::executor() const { return impl_->executor; }
const options& heap::configuration() const { return impl_->values; }
absl::StatusOr<statistics> heap::stats() {
    return checked(*impl_, [&] { return impl_->stats(); });
}
absl::StatusOr<chunk_usage> heap::chunks() {
    return checked(*impl_, [&] { return impl_->chunks(); });
}
absl::Status heap::validate(std::span<const held_block> held) {
    return checked_alone(*impl_, [&] { return impl_->validate(held); });
}
absl::Status heap::trim() {
    return checked_alone(*impl_, [&] { return impl_->trim(); });
}
absl::Status heap::reserve(std::uint64_t bytes) {
    return checked_alone(*impl_, [&] { return impl_->reserve(bytes); });
}
absl::Status heap::set_device_budget(std::uint64_t bytes) {
    return checked_alone(*impl_, [&] { return impl_->set_device_budget(bytes); });
}
absl::StatusOr<migration> heap::migrate(void* stream) {
    return checked_alone(*impl_, [&] { return impl_->migrate(stream); });
}
absl::Status heap::prefetch(void* at, std::uint64_t bytes, memory_tier to) {
    return checked_alone(*impl_, [&] { return impl_->prefetch(at, bytes, to); });
}
absl::Status heap::demote(void* at, std::uint64_t bytes) { return prefetch(at, bytes, memory_tier::host); }
absl::Status heap::advise(void* at, std::uint64_t bytes, managed_advice what) {
    return checked_alone(*impl_, [&] { return impl_->advise(at, bytes, what); });
}
absl::StatusOr<std::uint64_t> heap::mark_live_blocks() {
    return checked(*impl_, [&] { return impl_->mark_live_blocks(); });
}
void heap::unmark_live_blocks() {
    if (impl_->check_process().ok()) {
        impl_->unmark_live_blocks();
    }
}
absl::StatusOr<void*> heap::allocate_on_host(std::uint64_t bytes) {
    return checked(*impl_, [&] { return impl_->allocate_on_host(bytes); });
}
absl::Status heap::free_on_host(void* p) {
    return checked(*impl_, [&] { return impl_->free_on_host(p); });
}
// They have no status: in a forked process they return nothing.
std::optional<failure> heap::last_failure() {
    return impl_->check_process().ok() ? impl_->last_failure() : std::nullopt;
}
std::optional<failure> heap::first_failure() {
    return impl_->check_process().ok() ? impl_->first_failure() : std::nullopt;
}
std::vector<failure> heap::failures() {
    return impl_->check_process().ok() ? impl_->failures() : std::vector<failure>();
}
absl::Status heap::on_failure(std::function<void(const failure&)> report) {
    return checked(*impl_, [&] { return impl_->on_failure(std::move(report)); });
}
std::uintptr_t heap::first_invalid_free() { return impl_->check_process().ok() ? impl_->first_invalid_free() : 0; }
std::vector<block_fault> heap::block_faults() const { return impl_->block_faults(); }
absl::StatusOr<std::vector<site_usage>> heap::sites() {
    return checked(*impl_, [&] { return impl_->sites(); });
}
absl::Status heap::close() {
    return checked(*impl_, [&] { return impl_->close(); });
}

/// Only threads and tables of the host throw: the backing reports a lack of memory by a status.
absl::StatusOr<std::unique_ptr<heap::impl>> heap::impl::make(const options& values, const supplied_memory& supplied,
                                                             std::unique_ptr<memory_driver> driver,
                                                             const published_settings& walk,
                                                             const event_listeners& listeners) {
    try {
        return make_or_throw(values, supplied, std::move(driver), walk, listeners);
    } catch (const std::system_error& error) {
        return no_thread("the heap", error);
    } catch (const std::bad_alloc&) {
        return absl::ResourceExhaustedError(
            "the heap: the process has no memory for its tables; give a smaller range, or end other programs");
    }
}

absl::StatusOr<std::unique_ptr<heap::impl>> heap::impl::make_or_throw(const options& values,
                                                                      const supplied_memory& supplied,
                                                                      std::unique_ptr<memory_driver> driver,
                                                                      const published_settings& walk,
                                                                      const event_listeners& listeners) {
    auto choice = choose_device(values.device);
    if (!choice.ok()) {
        return choice.status();
    }
    auto result = std::make_unique<impl>();
    result->values = values;
    result->walk_ = walk;
    result->listeners_ = listeners;
    result->listeners_.may_come = values.live_page;
    // Kept for `warnings`: `values` will have the backing that was chosen.
    result->asked_backing_ = supplied.at != nullptr ? backing_option::fixed : values.backing;
    result->choice = *choice;
    result->executor.kind = choice->kind;
    result->executor.device = choice->gpu;
    result->executor.workers = static_cast<unsigned>(values.emulated_workers);
    auto memory = supplied.at != nullptr ? make_backing_in(supplied, result->values, choice->kind)
                                         : make_backing(result->values, choice->kind, std::move(driver));
    if (!memory.ok()) {
        return memory.status();
    }
    result->memory_ = *std::move(memory);
    result->values.layout = automatic_layout(result->values);
    absl::Status status = result->lay_out_metadata();
    if (status.ok()) {
        status = check_core(values);
    }
    // Kernels are loaded before any thread starts. Loading one later could wait for a kernel that in turn waits for the
    // service.
    if (status.ok()) {
        status = detail::preload_own_kernels(result->executor);
    }
    if (status.ok()) {
        status = result->start_service();
    }
    if (!status.ok()) {
        return status;
    }
    result->start_monitor();
    detail::tell_profiler(profiled_event::opened, result->view, *result->memory_);
    return result;
}

/// The process is compared, as a fork copies this object but none of its threads.
absl::Status heap::impl::check_process() const {
    if (::getpid() == process_) {
        return absl::OkStatus();
    }
    return absl::FailedPreconditionError(absl::StrFormat(
        "the heap belongs to process %d, from which this process %d was forked, and its threads are not "
        "here; create a heap after the fork",
        process_, ::getpid()));
}

/// Threads end in this order: the one that calls the application, those that look, the service, which uses `growth_`,
/// growth, which uses the backing, and the log's, which passes on what they have reported and reads the service's
/// counters. No thread of the heap runs when the members are destroyed.
heap::impl::~impl() {
    const bool thread_was_started = thread_ != nullptr;
    watch_.reset();
    monitor_.reset();
    print_statistics();
    thread_.reset();
    if (events_) {
        growth_->stop();
        end_traces();
        events_.reset();
    }
    service_.reset();
    growth_.reset();
    if (thread_was_started) {
        detail::tell_profiler(profiled_event::closed, view, *memory_);
    }
}

simt::executor heap::impl::own_executor() const {
    simt::executor own = executor;
    own.stream = memory_->stream();
    return own;
}

/// Returns a number that the last 65,534 heaps of this process did not have, and that heaps of other processes are
/// unlikely to have. It is never 0, because cleared memory contains 0.
std::uint16_t heap::impl::next_stamp() {
    static std::atomic<std::uint32_t> next{std::random_device{}()};
    return static_cast<std::uint16_t>(next.fetch_add(1, std::memory_order_relaxed) % 0xffff + 1);
}

/// First the numbers, then the arrays, whose sizes follow from the numbers, then the arrays that only some heaps have.
/// An error of one array does not stop the others, but makes the result an error: the backing frees all of them.
absl::Status heap::impl::lay_out_metadata() {
    const std::uint32_t segments = memory_->usable_segments();
    view.base = memory_->base();
    view.segments = segments;
    view.max_slabs = most_segments(values, *memory_).segments;
    view.cache_target = std::min(static_cast<std::uint32_t>(values.cached_segments), view.max_slabs / 8);
    // Memory that was freed together is often requested together again, so the segment cache may hold half of the heap
    // for long. On shortage all of it returns to the host. The cache is small if memory is decommitted at once, because
    // the driver would move the contents of cached memory.
    const std::uint32_t max_cached = memory_->decommits_at_once() ? 0 : view.max_slabs / 2;
    view.cache_max = view.cache_target == 0 ? 0 : std::max(2 * view.cache_target, max_cached);
    view.stored_rows =
        view.cache_target == 0 || memory_->decommits_at_once() ? 0 : device::chunk_store::rows_for(view.max_slabs);
    // A refill that exceeds the target would occupy segments which the segment cache then returns unused.
    view.refill_batch = std::min(static_cast<std::uint32_t>(values.refill_batch), std::max(view.cache_target, 1u));
    // Blocks of a published algorithm are not guarded.
    if (walk_.algorithm == device::page_policy::default_walk && values.hardened != hardening::off) {
        view.instrumented = static_cast<std::uint32_t>(values.hardened);
        view.quarantine_slots = device::quarantine::slots_for(segments);
        view.fill = values.fill;
        if (values.placement_seed == 0) {
            values.placement_seed = static_cast<int>(std::random_device{}() % 1'000'000'000 + 1);
        }
        view.placement_seed = static_cast<std::uint32_t>(values.placement_seed);
    }
    view.clears_metadata = !memory_->zeroes_all();
    view.stamp = next_stamp();
    view.portions_by = values.portions;
    // In a larger heap the distance from a chunk to its tail may not fit an array.
    view.tails_by = segments <= device::tail_shift::max_segments ? values.tails : tail_policy::adjacent;
    view.arrays = values.layout;
    view.order_of_lanes = values.lane_order;
    view.takes_advice = memory_->takes_advice();
    view.advice = values.advice;
    view.log_chunk_lanes = static_cast<std::uint8_t>(std::bit_width(static_cast<unsigned>(values.chunk_lanes)) - 1);

    absl::Status status;
    // Gets memory for `count` elements and sets the pointer. With `each`, elements of the metadata come with the
    // segments that they describe (`for_each_array`).
    const auto place = [&](auto*& pointer, std::uint64_t count, std::uint64_t each = 0) {
        const std::uint64_t bytes = count * sizeof(*pointer);
        auto memory = each != 0 ? memory_->reserve_metadata(bytes) : memory_->allocate_metadata(bytes);
        if (!memory.ok()) {
            status.Update(memory.status());
            return;
        }
        if (each != 0) {
            partial_.add(*memory, bytes, each * sizeof(*pointer));
        }
        pointer = static_cast<std::remove_reference_t<decltype(pointer)>>(*memory);
    };
    device::for_each_array(view, place);
    view.policy = walk_.algorithm;
    if (walk_.algorithm != device::page_policy::default_walk) {
        place(view.grown, class_count);
    }
    if (walk_.algorithm == device::page_policy::corw_locked) {
        place(view.locks, std::uint64_t{segments} * device::lock_words);
    } else if (walk_.algorithm == device::page_policy::rw_malloc) {
        view.unit_class = class_of(static_cast<std::uint32_t>(walk_.unit));
        place(view.begins, std::uint64_t{segments} * class_words(view.unit_class));
        place(view.ends, std::uint64_t{segments} * class_words(view.unit_class));
    }
    auto board = memory_->allocate_host_visible(sizeof(*view.failures));
    status.Update(board.status());
    view.failures = board.ok() ? static_cast<device::failure_board*>(*board) : nullptr;
    if (view.is_hardened()) {
        place(view.quarantined, 1);
        auto faults = memory_->allocate_host_visible(sizeof(*view.block_faults));
        status.Update(faults.status());
        view.block_faults = faults.ok() ? static_cast<device::block_fault_board*>(*faults) : nullptr;
    }
    if (memory_->can_move()) {
        place(view.samples, segments);
    }
    status.Update(make_trace());
    place(view_in_memory_, 1);
    view.self = view_in_memory_;
    if (walk_.algorithm != device::page_policy::default_walk) {
        place(closed.state, 1);
        place(closed_in_memory_, 1);
        closed.self = closed_in_memory_;
    }
    return status;
}

/// Copies the views to device memory, for functions that are not inlined (`heap_view::self`).
absl::Status heap::impl::write_views() {
    absl::Status status = memory_->write(view_in_memory_, &view, sizeof(view));
    if (closed.state != nullptr) {
        status.Update(memory_->write(closed_in_memory_, &closed, sizeof(closed)));
        status.Update(write_closing(closed.state));
    }
    return status;
}

/// Sets the closing flags in device memory, where every warp reads them.
absl::Status heap::impl::write_closing(device::heap_state* state) {
    device::padded_atomic flags[device::flag_shards]{};
    for (device::padded_atomic& f : flags) {
        f.word.store<simt::order::relaxed>(mailbox::device_part::closing);
    }
    return memory_->write(state->closing, flags, sizeof(flags));
}

/// Returns zero-filled memory for the mailbox's host part, of the kind that the option names.
absl::StatusOr<void*> heap::impl::allocate_mailbox(std::size_t bytes) {
    if (values.mailbox_memory == mailbox_memory_option::pinned) {
        return memory_->allocate_host_visible(bytes);
    }
    auto made = make_managed_mailbox(executor.kind, bytes);
    if (!made.ok()) {
        return made.status();
    }
    mailbox_memory_ = *std::move(made);
    return mailbox_memory_.at;
}

/// Everything that a thread of the heap reads exists, and the view is in device memory, before the first thread starts.
/// Only then may a kernel use the heap.
absl::Status heap::impl::start_service() {
    // 8 is the width of the tags, the largest.
    const mailbox::shape shape{static_cast<std::uint32_t>(values.mailbox_slots), 8,
                               mailbox::pollers_for(static_cast<std::uint32_t>(values.mailbox_slots))};
    const auto segments_of = [](std::uint64_t bytes) { return static_cast<std::uint32_t>(bytes >> segment_shift); };
    // The metadata is also needed by the first request, which would wait for it. The growth thread prepares the
    // metadata of memory that is committed later.
    const std::uint32_t committed = std::max(memory_->committed_at_start(), 1u);
    if (absl::Status s = partial_.prepare(*memory_, {segment_index{0}, committed}); !s.ok()) {
        return s;
    }
    growth_ =
        std::make_unique<growth>(*memory_, extent_sizes{segments_of(values.extent), segments_of(values.max_extent)},
                                 [this](segment_run run) { return partial_.prepare(*memory_, run); });
    growth_->limit(view.max_slabs, most_segments(values, *memory_).by_range);
    const bool guards = view.level() == hardening::guard;
    if (guards) {
        growth_->fence_extents();
    }
    const auto patience_ns = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(values.request_timeout));
    auto host = allocate_mailbox(mailbox::host_part::bytes(shape));
    auto device = memory_->allocate_metadata(mailbox::device_part::bytes(shape));
    if (!host.ok() || !device.ok()) {
        return host.ok() ? device.status() : host.status();
    }
    view.mailbox.host = mailbox::host_part::in(*host, shape);
    view.mailbox.device = static_cast<mailbox::device_part*>(*device);
    view.mailbox.shape = shape;
    view.mailbox.timeout_ns = patience_ns;
    service_ = std::make_unique<segment_service>(
        mailbox_server(view.mailbox.host, shape), *growth_,
        service_settings{segments_of(values.commit_ahead), view.cache_target, values.portions, patience_ns,
                         guards ? static_cast<std::uint32_t>(values.guard_sample_rate) : 0});
    // The view is complete and does not change from here on.
    if (absl::Status status = write_views(); !status.ok()) {
        return status;
    }
    listen();
    growth_->start();
    make_host_blocks();
    thread_ = std::make_unique<service_thread>(*service_, values.service_core, values.service_spin, values.decay,
                                               executor.kind == simt::device_kind::emulated);
    return absl::OkStatus();
}

/// The service first: a request that is posted meanwhile is answered `closing`. Then the flags of the device: those
/// that each request reads before it asks, and the one in the mailbox, for groups that already wait.
absl::Status heap::impl::close() {
    is_closed_.store(true, std::memory_order_relaxed);
    service_->close();
    const std::uint64_t flag = mailbox::device_part::closing;
    absl::Status status = write_closing(view.state);
    status.Update(memory_->write(&view.mailbox.device->rejection.flags, &flag, sizeof(flag)));
    return status;
}

/// From three sources: the device's counters, in a copy of the state; the service's counters; and bitmaps and records,
/// where a counter in `malloc` or `free` would cost too much (`usage_of_classes`, `for_each_stored`).
absl::StatusOr<statistics> heap::impl::stats() {
    auto state = read_state();
    if (!state.ok()) {
        return state.status();
    }
    using device::counter;
    // The device keeps several copies of each counter.
    const auto sum = [&](counter c) { return sum_of(**state, c); };
    statistics s;
    add_host_statistics(s);
    // Counters that the list marks as the device's have the statistic's name; the others are computed below.
#define ORCHARD_STATISTIC(source, name, ...) ORCHARD_STATISTIC_##source(name)
#define ORCHARD_STATISTIC_device(name) s.name = sum(counter::name);
#define ORCHARD_STATISTIC_service(name)
#define ORCHARD_STATISTIC_computed(name)
#include "runtime/statistics/statistics.def"
#undef ORCHARD_STATISTIC
#undef ORCHARD_STATISTIC_device
#undef ORCHARD_STATISTIC_service
#undef ORCHARD_STATISTIC_computed
    auto usage = usage_of_classes(view, *memory_);
    if (!usage.ok()) {
        return usage.status();
    }
    s.classes = statistics_of_classes(**state, *usage);
    const auto pages = pages_in_use(view, *memory_, *usage);
    if (!pages.ok()) {
        return pages.status();
    }
    s.pages_in_use = *pages;
    const request_counts requests = count_requests(**state, s.pages_in_use);
    s.allocations = requests.allocations;
    s.frees = requests.frees;
    s.allocated_bytes = requests.allocated_bytes;
    const host_block_counts host = host_blocks_->counts();
    s.allocations += host.blocks;
    s.allocated_bytes += host.bytes;
    s.groups = requests.groups;
    s.multi_lane_groups = requests.multi_lane_groups;
    s.chunk_allocations = sum(counter::chunk_allocations) + host.chunks;
    // While a kernel runs, the end of an event may be counted before its beginning is seen; the difference is then 0.
    const auto not_negative = [](std::uint64_t n) { return static_cast<std::int64_t>(n) < 0 ? 0 : n; };
    s.live_chunks = not_negative(sum(counter::live_chunks) + host.chunks);
    s.slabs_in_use = not_negative(s.slabs_published - s.slabs_retired);
    s.segments_in_cache = (*state)->cache_level.word.load<simt::order::relaxed>();
    for (const device::padded_atomic& level : (*state)->portion_level) {
        s.portions_in_cache += level.word.load<simt::order::relaxed>();
    }
    const absl::Status stored = for_each_stored(view, *memory_, [&](auto, device::stored_chunk c) {
        s.segments_in_cache += c.leaves / leaves_per_segment;
        s.portions_in_cache += c.leaves % leaves_per_segment != 0 ? 1 : 0;
        return absl::OkStatus();
    });
    if (!stored.ok()) {
        return stored;
    }
    return s;
}

/// Three steps: bring the heap to rest, let the service check its own structures and tell the memory that it has
/// handed out, then read the device's metadata and compare.
absl::Status heap::impl::validate(std::span<const held_block> held) {
    if (!held.empty() && closed.state != nullptr) {
        return absl::FailedPreconditionError(
            "a published algorithm serves this heap, whose blocks are not compared; call validate without blocks");
    }
    absl::Status settled = settle();
    settled.Update(settled.ok() ? detail::run_empty_quarantine(own_executor(), view) : settled);
    if (!settled.ok()) {
        return settled;
    }
    // Counted after `settle`: the difference of posted and delivered must be 0, as no kernel runs.
    const auto requests = count_posted();
    if (absl::Status s = requests.ok() ? check_settled(*requests) : requests.status(); !s.ok()) {
        return s;
    }
    std::optional<granted_memory> granted;
    absl::Status status;
    status.Update(run("validate", [&] {
        status.Update(service_->validate());
        // On the service's thread, so that it is paused meanwhile.
        granted.emplace(*service_);
    }));
    if (!status.ok()) {
        return status;
    }
    // A wrong write of the program comes first: it may be the cause of all other faults.
    if (const auto faults = block_faults(); !faults.empty()) {
        return absl::DataLossError(to_text(faults.front()));
    }
    status = validate_device_side(view, *memory_, *granted);
    return status.ok() && !held.empty() ? validate_held(view, *memory_, held) : status;
}

}  // namespace orchard
