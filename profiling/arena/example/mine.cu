// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// An allocator of one's own in the arena: a template to copy (docs/arena.md). The view is what kernels get, by value;
/// the owner has its memory on the host.

#include <utility>

#include "profiling/arena/adapter.hpp"

namespace orchard {
namespace {

struct my_view {
    simt::device_word<std::uint64_t>* top;
    char* memory;
    std::uint64_t size;

    ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        const std::uint64_t each = (bytes + 15) / 16 * 16;
        const std::uint64_t at = top->fetch_add<simt::order::relaxed>(each);
        return bytes != 0 && at + each <= size ? memory + at : nullptr;
    }
    ORCHARD_FN void free(void*) const {}
};

struct my_owner {
    device_array<simt::device_word<std::uint64_t>> top;
    device_array<char> memory;

    static absl::StatusOr<my_owner> create(const simt::executor& on, std::uint64_t bytes) {
        auto word = device_array<simt::device_word<std::uint64_t>>::create(on, 1);
        auto all = device_array<char>::create(on, bytes);
        if (!word.ok() || !all.ok()) {
            return word.ok() ? all.status() : word.status();
        }
        return my_owner{*std::move(word), *std::move(all)};
    }
    [[nodiscard]] my_view ref() const { return {top.data(), memory.data(), memory.size()}; }
    absl::Status initialise() { return top.zero(); }
};

const arena::registrar mine{
    arena::adapt<my_owner>({.name = "mine", .source = "an example", .frees = false}, my_owner::create)};

}  // namespace
}  // namespace orchard
