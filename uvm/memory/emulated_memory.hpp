// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Ordinary memory from `mmap` that serves as device memory on the host. Memory that is not committed is inaccessible,
/// so that an access of a kernel to it ends the test by a signal, as it would end a kernel on a GPU.

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

namespace orchard::detail {

/// Owns anonymous zero pages, which get physical memory when they are touched. Move-only.
class mapping {
public:
    mapping() = default;
    /// Maps `bytes` bytes with the protection of `mmap`; `ok` says whether that succeeded, and `errno` why not.
    /// NORESERVE: no swap space is set aside for a large range of which little is used.
    mapping(std::size_t bytes, int protection)
        : bytes_{bytes},
          address_{mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)} {}
    /// Moving leaves `other` without memory; move assignment swaps, so that `other` unmaps the memory that this object
    /// had.
    mapping(mapping&& other) noexcept : bytes_{other.bytes_}, address_{std::exchange(other.address_, MAP_FAILED)} {}
    mapping& operator=(mapping&& other) noexcept {
        std::swap(bytes_, other.bytes_);
        std::swap(address_, other.address_);
        return *this;
    }
    ~mapping() {
        // A mapping that was moved from, or that failed, owns nothing.
        if (address_ != MAP_FAILED) {
            munmap(address_, bytes_);
        }
    }
    /// Returns true if there is memory.
    [[nodiscard]] bool ok() const { return address_ != MAP_FAILED; }
    /// Returns the first byte.
    [[nodiscard]] char* data() const { return static_cast<char*>(address_); }
    /// Returns the address, and leaves unmapping to the caller.
    char* release() { return static_cast<char*>(std::exchange(address_, MAP_FAILED)); }

private:
    std::size_t bytes_ = 0;
    void* address_ = MAP_FAILED;
};

/// Returns ResourceExhausted with the text for `errno`, after a call for memory has failed. Call it at once: `errno`
/// may change with any other call.
/// @param what  the verb of the text: "cannot commit 4096 bytes of host memory: ..."
inline absl::Status exhausted(const char* what, std::uint64_t bytes) {
    const int error = errno;
    return absl::ResourceExhaustedError(
        absl::StrFormat("cannot %s %d bytes of host memory: %s; ask for a smaller "
                        "capacity",
                        what, bytes, std::strerror(error)));
}

/// Makes the pages of a mapping readable and writable. Returns OK, or ResourceExhausted. Their content is zero if they
/// were never accessible, or were made inaccessible since: anonymous pages get memory, zero-filled, when they are
/// touched. Cost: one system call; a page fault at the first touch of each page.
inline absl::Status make_accessible(char* at, std::size_t bytes) {
    return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0 ? absl::OkStatus() : exhausted("commit", bytes);
}

/// Discards the contents of pages and makes them inaccessible; their addresses remain reserved. Returns OK, or
/// ResourceExhausted. A new mapping over the old one does both in one call, and gives the physical memory back.
inline absl::Status make_inaccessible(char* at, std::size_t bytes) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return mmap(at, bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED ? absl::OkStatus() : exhausted("take back", bytes);
}

/// Copies word by word, because lanes and services may read and write the same words at the same time: a `memcpy` would
/// be a data race, and could tear a word. 64-bit words as long as both addresses are aligned, then 32-bit words; fewer
/// bytes at the end, or unaligned ones, are copied plainly, as no shared word is that small.
inline void copy_words(void* to, const void* from, std::size_t bytes) {
    auto* t = static_cast<char*>(to);
    auto* f = static_cast<const char*>(from);
    // Moves `t`, `f` and `bytes` on as far as words of this size can be copied.
    const auto copy = [&]<class Word>(Word) {
        const auto aligned = [](const char* p) { return reinterpret_cast<std::uintptr_t>(p) % sizeof(Word) == 0; };
        for (; bytes >= sizeof(Word) && aligned(t) && aligned(f);
             t += sizeof(Word), f += sizeof(Word), bytes -= sizeof(Word)) {
            std::atomic_ref source(*reinterpret_cast<Word*>(const_cast<char*>(f)));
            // Ordered like a copy that the caller waits for: earlier writes are visible before later ones.
            std::atomic_ref(*reinterpret_cast<Word*>(t))
                .store(source.load(std::memory_order_acquire), std::memory_order_release);
        }
    };
    copy(std::uint64_t{});
    copy(std::uint32_t{});
    if (bytes != 0) {
        std::memcpy(t, f, bytes);
    }
}

/// Fills whole words, as a GPU clears memory; `bytes` is rounded up to words. It is called before a mapping is handed
/// on, so it does not count as an access of a lane. Relaxed for the same reason: the mapping reaches other threads by
/// an operation that releases it.
inline void fill_words(char* at, std::size_t bytes, std::uint64_t word) {
    for (std::size_t done = 0; done < bytes; done += sizeof(word)) {
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at + done)).store(word, std::memory_order_relaxed);
    }
}

/// Owns zero-filled pieces of memory: metadata and host-visible memory of the emulated device. Any thread.
class owned_pieces {
public:
    /// Returns zero-filled memory, aligned to an OS page, which is freed with this object. Errors: ResourceExhausted.
    absl::StatusOr<void*> allocate(std::size_t bytes) {
        mapping m(bytes, PROT_READ | PROT_WRITE);
        if (!m.ok()) {
            return exhausted("allocate", bytes);
        }
        const std::scoped_lock lock(mutex_);
        pieces_.push_back(std::move(m));
        return pieces_.back().data();
    }

private:
    // Protects the list alone. A piece never moves: moving a `mapping` within the vector moves its address, not its
    // memory.
    std::mutex mutex_;
    std::vector<mapping> pieces_;
};

}  // namespace orchard::detail
