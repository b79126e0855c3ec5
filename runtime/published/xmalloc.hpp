// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `xmalloc`, the owner of XMalloc's queues in front of another allocator.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/heap_ref.cuh"
#include "device/published/xmalloc/system_malloc.cuh"
#include "device/published/xmalloc/xmalloc_ref.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/heap/launch_status.hpp"

namespace orchard {

/// The settings of an `xmalloc`.
struct xmalloc_settings {
    /// Queues of each size class, among which threads spread: 1, 2, 4, 8 or 16; 0: no block is buffered.
    std::uint32_t queues = 16;
    /// Bytes; a request of more is served alone. At most 64 KiB.
    std::uint32_t most_coalesced = 1024;
    /// Bytes of the heap that `create(on, settings)` makes, where `Base` is `heap_ref`: the option `capacity`.
    std::uint64_t capacity = std::uint64_t{64} << 20;
};

namespace detail {

/// Thread i gives the blocks of queue i back.
template <class Ref>
struct drain_queues {
    Ref from;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() < from.buffers().all_queues()) {
            from.buffers().drain(static_cast<std::uint32_t>(at.global_thread()));
        }
    }
};

}  // namespace detail

/// Owns the queues of `xmalloc_ref`, which stand before a base allocator. Move-only; one thread of the host at a time.
///
///     auto fast = orchard::xmalloc<>::create(heap);                 // absl::StatusOr; before a heap of the program's
///     kernel<<<blocks, threads>>>(fast->ref());                     // ref.malloc(bytes), ref.free(p)
///
/// Blocks of `ref` are freed by `ref` alone, and those of the base by the base. Up to 256 free blocks of each class
/// stay in the queues: those of 64 KiB take 16 MiB, those of all classes 56 MiB. The kernels for a GPU are launched
/// here, so that the source that uses it is one for nvcc then.
template <class Base = heap_ref, bool Coalesces = true>
class xmalloc {
public:
    using ref_type = xmalloc_ref<Base, Coalesces>;
    static_assert(device::device_allocator<ref_type>);

    /// Returns queues, all empty, before the heap `before`, which must outlive them. Errors: InvalidArgument; those of
    /// `device_array`. Cost on CUDA: two `cudaMalloc`, which may wait for kernels; up to 92 KiB of the device's memory.
    static absl::StatusOr<xmalloc> create(
        const orchard::heap& before, const xmalloc_settings& settings = {}) requires std::is_same_v<Base, heap_ref> {
        return create_before(before.ref(), before.executor(), settings);
    }
    /// Returns queues before a heap of their own (`Base` is `heap_ref`), of the calling thread's current GPU, or before
    /// the system's heap (`system_malloc_ref`). Errors and cost: as above; those of `heap::create`.
    static absl::StatusOr<xmalloc> create(const simt::executor& on, const xmalloc_settings& settings = {}) {
        if constexpr (std::is_same_v<Base, heap_ref>) {
            options values;
            values.device = on.kind == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
            values.capacity = settings.capacity;
            auto own = orchard::heap::create(values);
            if (!own.ok()) {
                return own.status();
            }
            auto made = create_before(own->ref(), on, settings);
            if (made.ok()) {
                made->own_.emplace(*std::move(own));
            }
            return made;
        } else {
            return create_before(Base{}, on, settings);
        }
    }
    /// Returns queues before any allocator, whose memory must outlive them. Errors and cost: as above.
    static absl::StatusOr<xmalloc> create_before(const Base& base, const simt::executor& on,
                                                 const xmalloc_settings& settings = {}) {
        if (absl::Status s = check(settings); !s.ok()) {
            return s;
        }
        xmalloc made;
        made.on_ = on;
        made.settings_ = settings;
        auto ends = device_array<device::block_fifo_ends>::create(on, classes * std::max(settings.queues, 1u));
        if (!ends.ok()) {
            return ends.status();
        }
        made.ends_ = *std::move(ends);
        auto messages = device_array<device::block_fifo::word>::create(on, classes * room);
        if (!messages.ok()) {
            return messages.status();
        }
        made.messages_ = *std::move(messages);
        made.base_ = base;
        if (absl::Status s = made.empty_queues(); !s.ok()) {
            return s;
        }
        return made;
    }

    xmalloc(xmalloc&& other) noexcept { swap(other); }
    xmalloc& operator=(xmalloc&& other) noexcept {
        swap(other);
        return *this;
    }
    /// Gives the blocks of the queues back to the base. No kernel may use them any more.
    ~xmalloc() {
        if (ends_.data() != nullptr) {
            (void)drain();
        }
    }

    /// Returns the view for kernels, valid while this object, or the object that it was moved to, lives.
    [[nodiscard]] ref_type ref() const {
        return {{base_, settings_.queues, ends_.data(), messages_.data()}, settings_.most_coalesced};
    }
    /// Returns the device on which the allocator's kernels run.
    [[nodiscard]] const simt::executor& executor() const { return on_; }

    /// Gives the blocks of the queues back to the base. No kernel may use the allocator meanwhile. Blocks that a
    /// program holds stay allocated. Errors: those of a launch. Cost: a kernel.
    absl::Status drain() {
        const auto done =
            simt::launch(on_, simt::grid_for(ref().buffers().all_queues(), 64), detail::drain_queues<ref_type>{ref()});
        return to_status(done);
    }
    /// Empties the queues. A heap that `create(on, ...)` made is replaced by an empty one: its blocks are gone, and
    /// earlier views no longer hold. Blocks of another base that a program holds stay allocated, as the base alone
    /// knows them. No kernel may use the allocator any more. Errors: those of `drain` and `create`. Cost: those.
    absl::Status initialise() {
        if (own_.has_value()) {
            auto anew = orchard::heap::create(own_->configuration());
            if (!anew.ok()) {
                return anew.status();
            }
            own_.emplace(*std::move(anew));
            if constexpr (std::is_same_v<Base, heap_ref>) {
                base_ = own_->ref();
            }
        } else if (absl::Status s = drain(); !s.ok()) {
            return s;
        }
        return empty_queues();
    }
    /// Returns the number of free blocks in the queues. Errors: those of the copy. Cost: waits for the executor's
    /// stream.
    [[nodiscard]] absl::StatusOr<std::uint64_t> buffered() const {
        std::vector<device::block_fifo_ends> ends(ends_.size());
        if (absl::Status s = ends_.download(ends); !s.ok()) {
            return s;
        }
        std::uint64_t all = 0;
        for (const device::block_fifo_ends& e : ends) {
            all +=
                device::block_fifo::size_of(e.head.load<simt::order::relaxed>(), e.tail.load<simt::order::relaxed>());
        }
        return all;
    }

private:
    static constexpr std::uint32_t classes = device::buffer_classes::count;
    static constexpr std::uint32_t room = device::block_buffers<Base>::blocks_of_a_class;

    xmalloc() = default;

    static absl::Status check(const xmalloc_settings& settings) {
        if (settings.queues > device::block_buffers<Base>::most_queues ||
            (settings.queues != 0 && !std::has_single_bit(settings.queues))) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "queues = %d: XMalloc has 1, 2, 4, 8 or 16 queues of each class, or 0 for none", settings.queues));
        }
        if (settings.most_coalesced > device::buffer_classes::largest) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "most_coalesced = %d: XMalloc coalesces requests of at most 65536 bytes", settings.most_coalesced));
        }
        return absl::OkStatus();
    }
    /// Writes the words of empty queues.
    absl::Status empty_queues() {
        const std::uint32_t queues = std::max(settings_.queues, 1u);
        std::vector<device::block_fifo_ends> ends(classes * queues);
        for (device::block_fifo_ends& e : ends) {
            e.head.template store<simt::order::relaxed>(0);
            e.tail.template store<simt::order::relaxed>(device::block_fifo::first_tail());
        }
        std::vector<device::block_fifo::word> messages(std::size_t{classes} * room);
        for (std::size_t i = 0; i < messages.size(); ++i) {
            const std::uint32_t of_queue = room / queues;
            messages[i].template store<simt::order::relaxed>(
                device::block_fifo::first_message(static_cast<std::uint32_t>(i) % of_queue, of_queue));
        }
        absl::Status s = ends_.upload(ends);
        s.Update(messages_.upload(messages));
        return s;
    }
    void swap(xmalloc& other) noexcept {
        std::swap(on_, other.on_);
        std::swap(settings_, other.settings_);
        std::swap(own_, other.own_);
        std::swap(base_, other.base_);
        std::swap(ends_, other.ends_);
        std::swap(messages_, other.messages_);
    }

    simt::executor on_{};
    xmalloc_settings settings_{};
    std::optional<orchard::heap> own_;  ///< outlives the queues
    Base base_{};
    device_array<device::block_fifo_ends> ends_;
    device_array<device::block_fifo::word> messages_;
};

}  // namespace orchard
