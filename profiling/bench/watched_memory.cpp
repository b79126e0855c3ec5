// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The location of managed memory, from the host's page table.

#include "profiling/bench/watched_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "runtime/nvtx/phase.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard::bench {

absl::StatusOr<std::vector<bool>> pages_mapped(const void* at, std::uint64_t bytes) {
    // Bit 63 of an entry of 8 B: the page is present in this process (Linux: Documentation/admin-guide/mm/pagemap.rst).
    constexpr std::uint64_t present = std::uint64_t{1} << 63;
    std::vector<std::uint64_t> entries(bytes / os_page_bytes);
    const std::size_t size = entries.size() * sizeof(std::uint64_t);
    // The entry of an address lies at 8 B times the number of its page, for the whole address space.
    const auto first = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(at) / os_page_bytes * sizeof(std::uint64_t));
    // Read without a stream, because a stream's buffer would request parts of entries, which the system rejects.
    const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    const ssize_t got = file >= 0 ? pread(file, entries.data(), size, first) : -1;
    if (file >= 0) {
        close(file);
    }
    if (got != static_cast<ssize_t>(size)) {
        return absl::UnavailableError(
            "/proc/self/pagemap cannot be read here, so that the place of pages is not known; run it outside the "
            "sandbox");
    }
    std::vector<bool> mapped(entries.size());
    std::transform(entries.begin(), entries.end(), mapped.begin(),
                   [](std::uint64_t entry) { return (entry & present) != 0; });
    return mapped;
}

absl::Status map_on_host(const void* at, std::uint64_t bytes, const std::function<absl::Status()>& bring_home) {
    const nvtx::phase marked(nvtx::phase::migrate, bytes);
    if (auto s = bring_home(); !s.ok()) {
        return s;
    }
    // Volatile, because the values are not used and the compiler would leave out the reads.
    const auto* const memory = static_cast<const volatile char*>(at);
    for (std::uint64_t i = 0; i < bytes; i += os_page_bytes) {
        (void)memory[i];
    }
    const auto left = bytes_moved_away(at, bytes);
    if (left.ok() && *left != 0) {
        return absl::InternalError(
            absl::StrFormat("the host has read %d bytes of managed memory, and does not map %d of them", bytes, *left));
    }
    return left.status();
}

absl::StatusOr<std::uint64_t> bytes_moved_away(const void* at, std::uint64_t bytes) {
    const auto mapped = pages_mapped(at, bytes);
    if (!mapped.ok()) {
        return mapped.status();
    }
    return static_cast<std::uint64_t>(std::count(mapped->begin(), mapped->end(), false)) * os_page_bytes;
}

}  // namespace orchard::bench
