// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `ouroboros`, the owner of an Ouroboros memory manager (device/published/ouroboros; docs/ouroboros.md).

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/published/ouroboros/ouroboros_ref.cuh"
#include "device/simt/launch.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/launch_status.hpp"

namespace orchard {

/// One instance: memory in chunks of one size.
struct ouroboros_instance {
    std::uint64_t bytes = std::uint64_t{64} << 20;  ///< of all chunks; rounded down to whole chunks
    std::uint64_t chunk_bytes = 8192;  ///< size of a chunk and of the largest block: a power of two, 256 B to 1 MiB
    /// The smallest page: a power of two from 16 B on, `chunk_bytes` / 2^15 or more; 0: 16 B in the first instance, and
    /// twice the chunk of the instance before in others.
    std::uint64_t smallest_page = 0;
    /// The most pages of each queue of the variant s_pages, a class of pages gets no more memory than that; 0: all
    /// pages of the instance. Other variants ignore it.
    std::uint64_t queue_entries = 0;
};

/// The settings of an `ouroboros`.
struct ouroboros_settings {
    /// One to four instances, whose chunks increase in size. A request is served by the first one whose chunks suffice.
    std::vector<ouroboros_instance> instances = {ouroboros_instance{}};
    /// Variants VL: chunks that each queue keeps behind its readers, at most 64 (device/published/ouroboros/
    /// linked_chunks.cuh).
    std::uint32_t trail = 1;
};

/// What the chunks of an instance are used for.
struct ouroboros_usage {
    std::uint64_t chunks = 0;
    std::uint64_t of_pages = 0;
    std::uint64_t of_queues = 0;
    std::uint64_t free = 0;
    std::uint64_t reserved = 0;  ///< free chunks that only queues may take
};

namespace detail {

/// Makes the views of instances, and computes the sizes of their arrays. For one variant.
template <device::ouroboros::variant V>
class ouroboros_plan {
public:
    using view = device::ouroboros::instance_view;
    static constexpr device::ouroboros::queue_kind kind = device::ouroboros::kind_of(V);

    /// Returns the plan of an instance. Errors: InvalidArgument.
    /// @param before  chunk size of the instance before; 0 if there is none
    static absl::StatusOr<ouroboros_plan> make(const ouroboros_instance& wanted, std::uint64_t before,
                                               std::uint32_t trail) {
        ouroboros_plan p;
        p.smallest_ = wanted.smallest_page != 0 ? wanted.smallest_page : before == 0 ? 16 : 2 * before;
        if (absl::Status s = p.check_sizes(wanted, before); !s.ok()) {
            return s;
        }
        p.layout.chunk_log = static_cast<std::uint32_t>(std::countr_zero(wanted.chunk_bytes));
        p.layout.smallest_log = static_cast<std::uint32_t>(std::countr_zero(p.smallest_));
        p.layout.class_count = p.layout.chunk_log - p.layout.smallest_log + 1;
        p.layout.trail = trail;
        const std::uint64_t chunks = wanted.bytes / wanted.chunk_bytes;
        if (chunks * p.layout.pages(0) >= (std::uint64_t{1} << 32) - 1) {
            return absl::InvalidArgumentError(
                absl::StrFormat("bytes = %d: an instance has fewer than 2^32 - 1 pages, of %d B here; use less memory, "
                                "larger pages, or "
                                "more instances",
                                wanted.bytes, p.smallest_));
        }
        p.layout.chunks = static_cast<std::uint32_t>(chunks);
        p.layout.reuse_log = log_for(chunks);
        if (absl::Status s = p.reserve_chunks(wanted); !s.ok()) {
            return s;
        }
        return p.place_queues(wanted) ? absl::StatusOr<ouroboros_plan>(p)
                                      : absl::InvalidArgumentError(absl::StrFormat(
                                            "queue_entries = %d: a queue has room for the %d pages of a chunk at least",
                                            wanted.queue_entries, p.layout.pages(0)));
    }

    view layout;                        ///< without addresses
    std::uint64_t ring_words = 0;       ///< of 4 B
    std::uint64_t directory_words = 0;  ///< of 8 B

private:
    [[nodiscard]] absl::Status check_sizes(const ouroboros_instance& wanted, std::uint64_t before) const {
        if (!std::has_single_bit(wanted.chunk_bytes) || wanted.chunk_bytes < 256 ||
            wanted.chunk_bytes > std::uint64_t{1} << 20) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "chunk_bytes = %d: a chunk is a power of two from 256 B to 1 MiB, such as 8192", wanted.chunk_bytes));
        }
        if (wanted.chunk_bytes <= before) {
            return absl::InvalidArgumentError(
                absl::StrFormat("chunk_bytes = %d behind an instance with %d: instances stand in the order of their "
                                "chunks' sizes, which differ",
                                wanted.chunk_bytes, before));
        }
        if (!std::has_single_bit(smallest_) || smallest_ < 16 || smallest_ > wanted.chunk_bytes ||
            wanted.chunk_bytes >> (device::ouroboros::most_classes - 1) > smallest_) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "smallest_page = %d: with chunks of %d B, the smallest page is a power of two from %d B "
                "to %d B",
                smallest_, wanted.chunk_bytes,
                std::max<std::uint64_t>(16, wanted.chunk_bytes >> (device::ouroboros::most_classes - 1)),
                wanted.chunk_bytes));
        }
        return absl::OkStatus();
    }

    /// Sets how many chunks are kept for queues at first: what each queue needs while it has no element, and with
    /// chunks in the queues, which are few, what it needs with all of them.
    absl::Status reserve_chunks(const ouroboros_instance& wanted) {
        std::uint64_t each = 0;
        if (kind != device::ouroboros::queue_kind::static_ring) {
            // The chunk of the elements, the one added ahead, and the trail.
            each = 2 + (kind == device::ouroboros::queue_kind::linked_chunks ? layout.trail : 0) +
                   (holds_chunks(V) ? chunks_for(layout.chunks) : 0);
        }
        const std::uint64_t all = each * layout.class_count;
        // With pages in the queues, the first chunk of pages needs a chunk of a queue, too.
        if (layout.chunks < all + 2) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "bytes = %d: this variant keeps %d chunks of %d B for the queues of %d sizes of pages and needs %d B "
                "at "
                "least; use more memory, or smaller chunks, or a larger smallest_page",
                wanted.bytes, all, wanted.chunk_bytes, layout.class_count, (all + 2) * wanted.chunk_bytes));
        }
        layout.reserved = static_cast<std::uint32_t>(all);
        return absl::OkStatus();
    }

    /// Lays out rings and directories. Returns false if a ring would not hold the pages of one chunk.
    bool place_queues(const ouroboros_instance& wanted) {
        for (std::uint32_t c = 0; c < layout.class_count; ++c) {
            device::ouroboros::class_layout& place = layout.layout[c];
            place.most_bound = layout.chunks;
            std::uint64_t entries = holds_chunks(V) ? layout.chunks : std::uint64_t{layout.chunks} * layout.pages(c);
            if (V == device::ouroboros::variant::s_pages && wanted.queue_entries != 0 &&
                wanted.queue_entries < entries) {
                entries = wanted.queue_entries;
                place.most_bound = static_cast<std::uint32_t>(entries / layout.pages(c));
                if (place.most_bound == 0) {
                    return false;
                }
            }
            if (kind == device::ouroboros::queue_kind::static_ring) {
                place.log = log_for(entries);
                place.offset = std::exchange(ring_words, ring_words + (std::uint64_t{1} << place.log));
            } else if (kind == device::ouroboros::queue_kind::array_hierarchy) {
                place.log = log_for(chunks_for(entries) + 3);
                place.offset = std::exchange(directory_words, directory_words + (std::uint64_t{1} << place.log));
            }
        }
        return true;
    }

    /// Returns the chunks whose places suffice for that many elements.
    [[nodiscard]] std::uint64_t chunks_for(std::uint64_t elements) const {
        const std::uint64_t places = std::uint64_t{1} << layout.places_log();
        return (elements + places - 1) / places;
    }
    /// Returns the logarithm of the next power of two.
    static std::uint32_t log_for(std::uint64_t n) { return static_cast<std::uint32_t>(std::bit_width(n - 1)); }

    std::uint64_t smallest_ = 0;
};

/// Owns the memory of an instance.
template <device::ouroboros::variant V>
class ouroboros_memory {
public:
    static absl::StatusOr<ouroboros_memory> create(const simt::executor& on, const ouroboros_plan<V>& plan) {
        ouroboros_memory m;
        m.view_ = plan.layout;
        const std::uint64_t chunks = m.view_.chunks;
        const std::uint64_t bit_words = holds_chunks(V) ? chunks * m.view_.bit_words() : 0;
        for (const absl::Status& s :
             {m.assign(m.chunks_, on, chunks << m.view_.chunk_log >> 3), m.assign(m.headers_, on, chunks),
              m.assign(m.bits_, on, bit_words), m.assign(m.classes_, on, m.view_.class_count), m.assign(m.pool_, on, 1),
              m.assign(m.reuse_, on, std::uint64_t{1} << m.view_.reuse_log), m.assign(m.rings_, on, plan.ring_words),
              m.assign(m.directories_, on, plan.directory_words)}) {
            if (!s.ok()) {
                return s;
            }
        }
        m.view_.chunks_at = reinterpret_cast<char*>(m.chunks_.data());
        m.view_.headers = m.headers_.data();
        m.view_.bits = m.bits_.data();
        m.view_.classes = m.classes_.data();
        m.view_.pool = m.pool_.data();
        m.view_.reuse = m.reuse_.data();
        m.view_.rings = m.rings_.data();
        m.view_.directories = m.directories_.data();
        return m;
    }

    /// Makes all chunks free, and starts the queues. `device_view` is this instance's view in device memory.
    absl::Status initialise(const simt::executor& on, const device::ouroboros::instance_view* device_view) {
        for (const absl::Status& s :
             {headers_.zero(), classes_.zero(), pool_.zero(), reuse_.zero(), rings_.zero(), directories_.zero()}) {
            if (!s.ok()) {
                return s;
            }
        }
        std::array<device::ouroboros::pool_words, 1> pool{};
        pool[0].counts = simt::device_word<std::uint64_t>(std::uint64_t{view_.reserved} << 32 | view_.chunks);
        if (absl::Status s = pool_.upload(pool); !s.ok()) {
            return s;
        }
        const simt::launch_result done =
            simt::launch(on, {1, device::ouroboros::most_classes}, device::ouroboros::start_queues<V>{device_view});
        return done.ok ? absl::OkStatus() : to_status(done);
    }

    [[nodiscard]] const device::ouroboros::instance_view& view() const { return view_; }

    /// Returns what the chunks are used for. Errors: those of the copies.
    [[nodiscard]] absl::StatusOr<ouroboros_usage> usage() const {
        using device::ouroboros::chunk_role;
        std::vector<device::ouroboros::chunk_header> headers(view_.chunks);
        std::array<device::ouroboros::pool_words, 1> pool{};
        for (const absl::Status& s : {headers_.download(headers), pool_.download(pool)}) {
            if (!s.ok()) {
                return s;
            }
        }
        const std::uint64_t counts = pool[0].counts.template load<simt::order::relaxed>();
        ouroboros_usage u{view_.chunks, 0, 0, counts & 0xffffffffu, counts >> 32};
        for (const auto& h : headers) {
            const chunk_role role = device::ouroboros::chunk_state::role(h.state.template load<simt::order::relaxed>());
            u.of_pages += role == chunk_role::pages ? 1 : 0;
            u.of_queues += role == chunk_role::queue ? 1 : 0;
        }
        return u;
    }

private:
    template <class T>
    static absl::Status assign(device_array<T>& to, const simt::executor& on, std::uint64_t count) {
        auto made = device_array<T>::create(on, count);
        if (made.ok()) {
            to = *std::move(made);
        }
        return made.status();
    }

    device::ouroboros::instance_view view_;
    device_array<std::uint64_t> chunks_;
    device_array<device::ouroboros::chunk_header> headers_;
    device_array<simt::device_word<std::uint64_t>> bits_;
    device_array<device::ouroboros::class_words> classes_;
    device_array<device::ouroboros::pool_words> pool_;
    device_array<simt::device_word<std::uint32_t>> reuse_;
    device_array<simt::device_word<std::uint32_t>> rings_;
    device_array<simt::device_word<std::uint64_t>> directories_;
};

}  // namespace detail

/// Owns an Ouroboros memory manager: all of its memory, which it allocates at first and never gives back. Move-only;
/// one thread of the host at a time.
///
///     auto manager = orchard::ouroboros<orchard::device::ouroboros::variant::va_pages>::create(on);    //
///     absl::StatusOr simt::launch(on, grid, kernel{manager->ref()});              // ref.malloc(bytes), ref.free(p)
template <device::ouroboros::variant V>
class ouroboros {
public:
    using ref_type = device::ouroboros::ouroboros_ref<V>;

    /// Returns a manager, all of whose memory is free. Errors: InvalidArgument, with the value and the remedy; those of
    /// `device_array` and of a launch. Cost: the memory, some small arrays beside it (docs/ouroboros.md), and a kernel
    /// for each instance.
    static absl::StatusOr<ouroboros> create(const simt::executor& on, const ouroboros_settings& settings = {}) {
        const std::size_t n = settings.instances.size();
        if (n == 0 || n > device::ouroboros::most_instances) {
            return absl::InvalidArgumentError(
                absl::StrFormat("%d instances: an Ouroboros has 1 to %d; give one for each range of sizes", n,
                                device::ouroboros::most_instances));
        }
        if (settings.trail > 64) {
            return absl::InvalidArgumentError(
                absl::StrFormat("trail = %d: a queue keeps at most 64 chunks; 1 is usual", settings.trail));
        }
        ouroboros made;
        made.on_ = on;
        std::vector<device::ouroboros::instance_view> views;
        std::uint64_t before = 0;
        for (const ouroboros_instance& wanted : settings.instances) {
            const auto plan = detail::ouroboros_plan<V>::make(wanted, before, settings.trail);
            if (!plan.ok()) {
                return plan.status();
            }
            auto memory = detail::ouroboros_memory<V>::create(on, *plan);
            if (!memory.ok()) {
                return memory.status();
            }
            views.push_back(memory->view());
            made.instances_.push_back(*std::move(memory));
            before = wanted.chunk_bytes;
        }
        auto on_device = device_array<device::ouroboros::instance_view>::create(on, n);
        if (!on_device.ok()) {
            return on_device.status();
        }
        made.views_ = *std::move(on_device);
        if (absl::Status s = made.views_.upload(views); !s.ok()) {
            return s;
        }
        if (absl::Status s = made.initialise(); !s.ok()) {
            return s;
        }
        return made;
    }

    /// Frees all blocks. No kernel may use the manager meanwhile. Errors: those of copies and of a launch.
    absl::Status initialise() {
        for (std::size_t i = 0; i < instances_.size(); ++i) {
            if (absl::Status s = instances_[i].initialise(on_, views_.data() + i); !s.ok()) {
                return s;
            }
        }
        return absl::OkStatus();
    }
    /// Replaces the memory by that of other settings, such as a larger one; all blocks and views are lost. Unchanged on
    /// error. Both memories exist for a moment. No kernel may use the manager meanwhile. Errors: those of `create`.
    absl::Status initialise(const ouroboros_settings& settings) {
        auto made = create(on_, settings);
        if (made.ok()) {
            *this = *std::move(made);
        }
        return made.status();
    }

    /// Returns the view for kernels.
    [[nodiscard]] ref_type ref() const {
        return ref_type(views_.data(), static_cast<std::uint32_t>(instances_.size()));
    }
    [[nodiscard]] const simt::executor& executor() const { return on_; }
    /// Returns the number of instances.
    [[nodiscard]] std::size_t instances() const { return instances_.size(); }
    /// Returns what the chunks of an instance, of those that there are, are used for. Errors: those of the copies.
    /// Cost: copies 32 B for each chunk.
    [[nodiscard]] absl::StatusOr<ouroboros_usage> usage(std::size_t instance = 0) const {
        return instances_[instance].usage();
    }

private:
    ouroboros() = default;

    simt::executor on_{};
    std::vector<detail::ouroboros_memory<V>> instances_;
    device_array<device::ouroboros::instance_view> views_;
};

}  // namespace orchard
