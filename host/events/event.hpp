// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What a heap reports of itself while it runs: events of one form, from which traces, NVTX marks and the live page are
/// made.

#include <cstdint>
#include <string_view>

namespace orchard {

/// The kinds of events, with the meaning of the fields of `event`. Segments are named by `at` and `bytes`: the first
/// byte, counted from the heap's base, and the length. The numbers are part of the trace format: a new kind goes to the
/// end.
///
/// The service has one shard, whose number is 0.
///
///     kind             at, bytes              detail                      thread
///     grant            segments and tail      slot of the mailbox         shard of the service
///     give_back        segments and tail      slot of the mailbox         shard
///     park             0, bytes asked for     slot of the mailbox         shard
///     refuse           0, bytes asked for     failure_reason              shard
///     commit           segments               memory_tier                 microseconds that it took
///     decommit         segments               memory_tier                 microseconds that it took
///     commit_failed    segments asked for     failure_reason              microseconds that it took
///     move             segments               memory_tier, the new one    microseconds of the whole batch
///     trim             0, bytes given up      0                           microseconds that it took
///     slab_opened      the slab's segment     page class                  thread of the kernel
///     slab_retired     the slab's segment     page class                  thread of the kernel
///     shortage         0, bytes asked for     failure_reason              thread of the kernel that got null
///     block_allocated  the block              word of `block_request`     thread of the kernel
///     block_freed      the block, 0           0                           thread of the kernel
///     block_tagged     the block; 0, or the   tag; 0 if another block     thread of the kernel
///                      offset + 1 of the      is named
///                      block whose tag it
///                      takes (`realloc`)
///
/// Blocks that the host allocates and frees have the thread `host_thread`.
enum class event_kind : std::uint8_t {
    grant,
    give_back,
    park,
    refuse,
    commit,
    decommit,
    commit_failed,
    move,
    trim,
    slab_opened,
    slab_retired,
    shortage,
    block_allocated,
    block_freed,
    block_tagged,
};
inline constexpr int event_kinds = 15;
inline constexpr std::uint32_t host_thread = 0xffffffffu;

/// Returns the name of a kind, as texts and traces have it: `grant`, `block_freed`.
constexpr std::string_view name_of(event_kind kind) {
    constexpr std::string_view names[event_kinds] = {
        "grant", "give_back",   "park",         "refuse",   "commit",          "decommit",    "commit_failed", "move",
        "trim",  "slab_opened", "slab_retired", "shortage", "block_allocated", "block_freed", "block_tagged"};
    const auto k = static_cast<std::uint8_t>(kind);
    return k < event_kinds ? names[k] : "unknown";
}

/// One event. Trivially copyable, with the same bytes on the host and on the device.
struct event {
    std::uint64_t time_ns = 0;  ///< by `simt::clock_ns` of the side that wrote it
    std::uint64_t at = 0;       ///< byte offset from the heap's base
    std::uint64_t bytes = 0;
    std::uint32_t thread = 0;       ///< of a kernel: the global number of the thread; else see the table above
    std::uint32_t detail : 24 = 0;  ///< see the table above
    event_kind kind : 8 = event_kind::grant;

    friend constexpr bool operator==(const event&, const event&) = default;
};
static_assert(sizeof(event) == 32);

}  // namespace orchard
