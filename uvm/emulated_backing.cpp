// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "uvm/backing.hpp"

namespace orchard {
namespace {

/// Anonymous pages, zero, given physical memory when touched.
class mapping {
public:
    mapping() = default;
    mapping(std::size_t bytes, int protection)
        : bytes_{bytes},
          address_{mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)} {}
    mapping(mapping&& other) noexcept : bytes_{other.bytes_}, address_{std::exchange(other.address_, MAP_FAILED)} {}
    mapping& operator=(mapping&& other) noexcept {
        std::swap(bytes_, other.bytes_);
        std::swap(address_, other.address_);
        return *this;
    }
    ~mapping() {
        if (address_ != MAP_FAILED) {
            munmap(address_, bytes_);
        }
    }
    [[nodiscard]] bool ok() const { return address_ != MAP_FAILED; }
    [[nodiscard]] char* data() const { return static_cast<char*>(address_); }

private:
    std::size_t bytes_ = 0;
    void* address_ = MAP_FAILED;
};

absl::Status exhausted(const char* what, std::uint64_t bytes) {
    const int error = errno;
    return absl::ResourceExhaustedError(
        absl::StrFormat("cannot %s %d bytes of host memory: %s; ask for a smaller "
                        "capacity",
                        what, bytes, std::strerror(error)));
}

/// Copies word by word, since lanes and services may read and write the same words meanwhile.
void copy_words(void* to, const void* from, std::size_t bytes) {
    auto* t = static_cast<char*>(to);
    auto* f = static_cast<const char*>(from);
    const auto copy = [&]<class Word>(Word) {
        const auto aligned = [](const char* p) { return reinterpret_cast<std::uintptr_t>(p) % sizeof(Word) == 0; };
        for (; bytes >= sizeof(Word) && aligned(t) && aligned(f);
             t += sizeof(Word), f += sizeof(Word), bytes -= sizeof(Word)) {
            std::atomic_ref source(*reinterpret_cast<Word*>(const_cast<char*>(f)));
            std::atomic_ref(*reinterpret_cast<Word*>(t))
                .store(source.load(std::memory_order_relaxed), std::memory_order_relaxed);
        }
    };
    copy(std::uint64_t{});
    copy(std::uint32_t{});
    if (bytes != 0) {
        std::memcpy(t, f, bytes);
    }
}

class emulated_backing final : public backing {
public:
    emulated_backing(mapping range, std::uint32_t segments) : range_{std::move(range)}, segments_{segments} {
        const auto address = reinterpret_cast<std::uintptr_t>(range_.data());
        base_ = range_.data() + (segment_bytes - address % segment_bytes) % segment_bytes;
    }
    [[nodiscard]] char* base() const override { return base_; }
    [[nodiscard]] std::uint32_t segments() const override { return segments_; }
    [[nodiscard]] std::uint32_t committed_at_start() const override { return 0; }

    absl::Status commit(segment_run run) override {
        if (std::uint64_t{to_underlying(run.first)} + run.count > segments_) {
            return absl::OutOfRangeError(absl::StrFormat("cannot commit segments [%d, +%d): there are %d",
                                                         to_underlying(run.first), run.count, segments_));
        }
        char* first = base_ + (std::uint64_t{to_underlying(run.first)} << segment_shift);
        const std::uint64_t bytes = std::uint64_t{run.count} << segment_shift;
        return mprotect(first, bytes, PROT_READ | PROT_WRITE) == 0 ? absl::OkStatus() : exhausted("commit", bytes);
    }
    absl::StatusOr<void*> allocate_metadata(std::size_t bytes) override { return allocate(bytes); }
    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) override { return allocate(bytes); }
    [[nodiscard]] void* stream() const override { return nullptr; }
    absl::Status read(void* to, const void* from, std::size_t bytes) override {
        copy_words(to, from, bytes);
        return absl::OkStatus();
    }
    absl::Status write(void* to, const void* from, std::size_t bytes) override {
        copy_words(to, from, bytes);
        return absl::OkStatus();
    }

private:
    absl::StatusOr<void*> allocate(std::size_t bytes) {
        mapping m(bytes, PROT_READ | PROT_WRITE);
        if (!m.ok()) {
            return exhausted("allocate", bytes);
        }
        others_.push_back(std::move(m));
        return others_.back().data();
    }

    mapping range_;
    std::uint32_t segments_;
    char* base_ = nullptr;
    std::vector<mapping> others_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<backing>> make_emulated_backing(std::uint64_t capacity) {
    const std::uint64_t bytes = capacity / segment_bytes * segment_bytes;
    if (bytes / segment_bytes > max_segments) {
        return absl::ResourceExhaustedError(
            absl::StrFormat("cannot reserve %d bytes: a heap has at most %d; ask for a "
                            "smaller capacity",
                            bytes, max_segments * segment_bytes));
    }
    mapping range(bytes + segment_bytes, PROT_NONE);
    if (!range.ok()) {
        return exhausted("reserve", bytes);
    }
    return std::make_unique<emulated_backing>(std::move(range), static_cast<std::uint32_t>(bytes >> segment_shift));
}

}  // namespace orchard
