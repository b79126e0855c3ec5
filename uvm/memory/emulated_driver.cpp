// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The memory driver of the emulated device: the calls of CUDA's virtual memory over `mmap` and `mprotect`.
///
///     call           on a GPU                              here
///     reserve        addresses                             mmap without access, aligned by cutting both ends
///     create         physical memory                       a part of one file in memory (memfd)
///     map            joins both                            two entries; pages unchanged
///     set_access     kernels may use it                    mmap of the part; a pattern in the first 4 MiB of new
///     memory unmap          separates both                        a new mapping without access over the old one
///     destroy        memory goes back                      a hole in the file
///     unreserve      addresses go back                     munmap

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "uvm/geometry/geometry.hpp"
#include "uvm/memory/emulated_memory.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard {
namespace {

/// The most bytes that one call of `set_access` fills with a pattern.
constexpr std::size_t max_rubbish = 4 << 20;

/// The driver of the emulated device, over ordinary memory. Physical memory is a part of a file in memory, so that it
/// keeps its contents and may be mapped at several addresses; pages get memory when they are touched. Arguments are
/// checked as a GPU's driver checks them, so that tests without a GPU find wrong calls.
///
///     reserved_    addresses      [base, +range) [metadata, +bytes) ...
///     created_     handles        1: 64 MiB at byte 0 of the file    2: 2 MiB at byte 64 MiB ...
///     mapped_      mappings       [base + 2 MiB, +64 MiB): handle 1 ...
///
/// A mutex protects all three, since the growth thread and the host call the driver at the same time.
class emulated_driver final : public memory_driver {
public:
    /// Unmaps the ranges that were not unreserved, with all that is still mapped there.
    ~emulated_driver() override {
        for (const auto& [at, bytes] : reserved_) {
            munmap(at - gap, bytes + 2 * gap);
        }
        if (file_ >= 0) {
            ::close(file_);
        }
    }

    // As coarse as a GPU's may be, so that tests meet the rounding of the callers.
    [[nodiscard]] std::size_t granularity() const override { return segment_bytes; }
    [[nodiscard]] bool has_host_tier() const override { return true; }
    // The host's memory takes the place of the GPU's.
    absl::StatusOr<amounts> device_memory() override {
        const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
        return amounts{static_cast<std::uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * page,
                       static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * page};
    }

    absl::StatusOr<char*> reserve(std::size_t bytes, std::size_t alignment) override;
    void unreserve(char* at, std::size_t bytes) override;
    absl::StatusOr<memory_handle> create(std::size_t bytes, memory_tier tier) override;
    void destroy(memory_handle memory, std::size_t bytes) override;
    absl::Status map(char* at, std::size_t bytes, memory_handle memory) override;
    absl::Status set_access(char* at, std::size_t bytes) override;
    absl::Status unmap(char* at, std::size_t bytes) override;

    // Memory of a fixed size is ordinary memory of its own, and not part of any reservation. Nothing delays its
    // clearing, so that no call has a deadline, and the driver is always idle.
    absl::StatusOr<void*> allocate(std::size_t bytes) override { return pieces_.allocate(bytes); }
    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) override { return pieces_.allocate(bytes); }
    [[nodiscard]] void* stream() const override { return nullptr; }
    absl::Status read(void* to, const void* from, std::size_t bytes) override {
        detail::copy_words(to, from, bytes);
        return absl::OkStatus();
    }
    absl::Status write(void* to, const void* from, std::size_t bytes) override {
        detail::copy_words(to, from, bytes);
        return absl::OkStatus();
    }
    // Copied at once.
    absl::Status begin_copies(int, std::vector<memory_copy> copies) override {
        for (const memory_copy& c : copies) {
            detail::copy_words(c.to, c.from, c.bytes);
        }
        return absl::OkStatus();
    }
    absl::Status finish_copies(int) override { return absl::OkStatus(); }
    // A launch returns when the kernel has ended.
    absl::Status finish_stream(void*) override { return absl::OkStatus(); }

private:
    /// Created memory: its place in the file, and whether it was never accessible yet.
    struct physical {
        std::size_t bytes = 0;
        std::int64_t offset = 0;
        bool fresh = true;
    };
    /// A mapping: its size and its memory.
    struct joined {
        std::size_t bytes = 0;
        memory_handle memory{};
    };

    /// Returns OK if a call's address and size are multiples of the granularity, and the size is not 0; otherwise
    /// InvalidArgument.
    [[nodiscard]] absl::Status check_sizes(const char* call, const char* at, std::size_t bytes) const {
        return bytes != 0 && bytes % granularity() == 0 && reinterpret_cast<std::uintptr_t>(at) % granularity() == 0
                   ? absl::OkStatus()
                   : absl::InvalidArgumentError(absl::StrFormat("%s of %d bytes at %p: not multiples of %d bytes", call,
                                                                bytes, at, granularity()));
    }
    // Returns the last entry of a map that begins before `end`. Entries do not overlap, so only this one can reach
    // `end`.
    template <class Map>
    static auto last_before(Map& entries, char* end) {
        auto after = entries.lower_bound(end);
        return after == entries.begin() ? entries.end() : std::prev(after);
    }
    /// Returns OK if every byte of [at, at + bytes) is mapped, by one mapping or by several. The caller holds the
    /// mutex.
    [[nodiscard]] absl::Status check_mapped(const char* call, char* at, std::size_t bytes);

    /// Addresses on either side of a reservation that never get memory.
    static constexpr std::size_t gap = segment_bytes;

    std::mutex mutex_;
    // The file of all created memory; -1 before the first `create`. Its bytes from `next_offset_` on were never used.
    int file_ = -1;
    std::int64_t next_offset_ = 0;
    // The state of all calls: see the class. Keys are addresses, so that neighbours in a map are neighbours in memory.
    std::map<char*, std::size_t> reserved_;
    std::map<memory_handle, physical> created_;
    std::map<char*, joined> mapped_;
    // The next handle. None is used twice, so that a wrong handle is never that of newer memory.
    std::uint64_t next_ = 1;
    detail::owned_pieces pieces_;
};

/// Maps more than is asked for and unmaps both ends, because `mmap` aligns to OS pages only:
///
///     mmap         |............................................|     bytes + 2 gap + alignment
///     reserved             |..............................|           at a multiple of `alignment`
///     gaps              |..|                              |..|
///     unmapped     |....|                                    |.|      `before`, and alignment - before
absl::StatusOr<char*> emulated_driver::reserve(std::size_t bytes, std::size_t alignment) {
    // Both are powers of two, so that the larger one is a multiple of the smaller one.
    if (alignment < granularity()) {
        alignment = granularity();
    }
    if (auto s = check_sizes("reserve", nullptr, bytes); !s.ok()) {
        return s;
    }
    // The sum overflows: as if `mmap` had failed.
    if (bytes + 2 * gap + alignment < bytes) {
        errno = ENOMEM;
        return detail::exhausted("reserve", bytes);
    }
    detail::mapping more(bytes + 2 * gap + alignment, PROT_NONE);
    if (!more.ok()) {
        return detail::exhausted("reserve", bytes);
    }
    // The lowest address at which the range could begin, with a gap before it.
    const std::uintptr_t least = reinterpret_cast<std::uintptr_t>(more.data()) + gap;
    const std::size_t before = (alignment - least % alignment) % alignment;
    char* at = more.release() + before + gap;
    if (before != 0) {
        munmap(at - gap - before, before);
    }
    // Never 0 bytes: `before` is less than `alignment`.
    munmap(at + bytes + gap, alignment - before);
    const std::scoped_lock lock(mutex_);
    reserved_.emplace(at, bytes);
    return at;
}

/// Addresses that were not reserved so are left alone: this function has no way to report an error.
void emulated_driver::unreserve(char* at, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const auto found = reserved_.find(at);
    if (found != reserved_.end() && found->second == bytes) {
        munmap(at - gap, bytes + 2 * gap);
        reserved_.erase(found);
    }
}

/// Never short of memory: the tests' fake driver fails in its place (tests/support/fake_driver.hpp). The file only
/// grows; destroyed memory leaves a hole, which takes no memory.
absl::StatusOr<memory_handle> emulated_driver::create(std::size_t bytes, memory_tier) {
    if (auto s = check_sizes("create", nullptr, bytes); !s.ok()) {
        return s;
    }
    const std::scoped_lock lock(mutex_);
    if (file_ < 0) {
        file_ = memfd_create("orchard", MFD_CLOEXEC);
    }
    const std::int64_t end = next_offset_ + static_cast<std::int64_t>(bytes);
    if (file_ < 0 || ftruncate(file_, end) != 0) {
        return detail::exhausted("create", bytes);
    }
    const memory_handle memory{next_++};
    created_.emplace(memory, physical{bytes, std::exchange(next_offset_, end)});
    return memory;
}

/// Cannot report an error: an unknown number is ignored.
void emulated_driver::destroy(memory_handle memory, std::size_t) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = created_.find(memory); found != created_.end()) {
        (void)fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, found->second.offset,
                        static_cast<std::int64_t>(found->second.bytes));
        created_.erase(found);
    }
}

/// Checks that the addresses lie in one reservation, that nothing is mapped there, and that the memory exists and has
/// this size. No page changes: as on a GPU, there is no access before `set_access`.
absl::Status emulated_driver::map(char* at, std::size_t bytes, memory_handle memory) {
    if (auto s = check_sizes("map", at, bytes); !s.ok()) {
        return s;
    }
    const std::scoped_lock lock(mutex_);
    // Of the reservations that begin before the end, the last one is the only one that can contain the range.
    const auto range = last_before(reserved_, at + bytes);
    if (range == reserved_.end() || range->first > at || at + bytes > range->first + range->second) {
        return absl::FailedPreconditionError(
            absl::StrFormat("map of %d bytes at %p: these addresses are not reserved", bytes, at));
    }
    // In the same way, only the last mapping before the end can overlap the range.
    const auto other = last_before(mapped_, at + bytes);
    if (other != mapped_.end() && other->first + other->second.bytes > at) {
        return absl::FailedPreconditionError(absl::StrFormat("map of %d bytes at %p: %d bytes at %p are mapped already",
                                                             bytes, at, other->second.bytes, other->first));
    }
    const auto source = created_.find(memory);
    if (source == created_.end() || source->second.bytes != bytes) {
        return absl::FailedPreconditionError(
            absl::StrFormat("map of %d bytes at %p: memory %d is not that large, or not created", bytes, at,
                            static_cast<std::uint64_t>(memory)));
    }
    mapped_.emplace(at, joined{bytes, memory});
    return absl::OkStatus();
}

/// Goes from the end of the range downwards. The last mapping that begins before `end` must reach `end`; the rest of
/// the range lies before it.
absl::Status emulated_driver::check_mapped(const char* call, char* at, std::size_t bytes) {
    for (char* end = at + bytes; end > at;) {
        const auto last = last_before(mapped_, end);
        if (last == mapped_.end() || last->first + last->second.bytes < end) {
            return absl::FailedPreconditionError(
                absl::StrFormat("%s of %d bytes at %p: nothing is mapped before %p", call, bytes, at, end));
        }
        // [last->first, end) is mapped.
        end = last->first;
    }
    return absl::OkStatus();
}

/// Maps the parts of the file, each mapping's by itself, and fills the beginning of new memory with a pattern: memory
/// that a GPU maps holds the contents of its last user. A part of it suffices to expose code that relies on zeros.
absl::Status emulated_driver::set_access(char* at, std::size_t bytes) {
    if (auto s = check_sizes("set_access", at, bytes); !s.ok()) {
        return s;
    }
    // With the mutex held, so that no other thread unmaps the range meanwhile.
    const std::scoped_lock lock(mutex_);
    if (auto s = check_mapped("set_access", at, bytes); !s.ok()) {
        return s;
    }
    std::size_t filled = 0;
    for (auto m = std::prev(mapped_.upper_bound(at)); m != mapped_.end() && m->first < at + bytes; ++m) {
        const auto memory = created_.find(m->second.memory);
        if (memory == created_.end()) {
            return absl::FailedPreconditionError(
                absl::StrFormat("set_access of %d bytes at %p: its memory is destroyed", bytes, at));
        }
        char* const first = std::max(at, m->first);
        const auto n = static_cast<std::size_t>(std::min(at + bytes, m->first + m->second.bytes) - first);
        physical& of = memory->second;
        if (mmap(first, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file_,
                 of.offset + (first - m->first)) == MAP_FAILED) {
            return detail::exhausted("commit", n);
        }
        if (std::exchange(of.fresh, false)) {
            const std::size_t some = std::min(n, max_rubbish - filled);
            detail::fill_words(first, some, 0xa5a5a5a5a5a5a5a5u);
            filled += some;
        }
    }
    return absl::OkStatus();
}

/// Undoes exactly one `map`.
absl::Status emulated_driver::unmap(char* at, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const auto found = mapped_.find(at);
    if (found == mapped_.end() || found->second.bytes != bytes) {
        return absl::FailedPreconditionError(
            absl::StrFormat("unmap of %d bytes at %p: no map was of exactly these", bytes, at));
    }
    if (auto s = detail::make_inaccessible(at, bytes); !s.ok()) {
        return s;
    }
    mapped_.erase(found);
    return absl::OkStatus();
}

}  // namespace

std::unique_ptr<memory_driver> make_emulated_driver() { return std::make_unique<emulated_driver>(); }

}  // namespace orchard
