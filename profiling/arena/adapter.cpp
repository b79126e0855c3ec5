// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The list of allocators.

#include "profiling/arena/adapter.hpp"

#include <algorithm>
#include <tuple>

namespace orchard::arena {
namespace {

/// Returns the list. A local static: registrars of other files run before `main` in any order.
std::vector<allocator>& registered() {
    static std::vector<allocator> all;
    return all;
}

}  // namespace

registrar::registrar(allocator a) { registered().push_back(std::move(a)); }

std::vector<const allocator*> all_allocators(simt::device_kind device) {
    std::vector<const allocator*> all;
    for (const allocator& a : registered()) {
        if (!a.is.needs_cuda || device == simt::device_kind::cuda) {
            all.push_back(&a);
        }
    }
    std::sort(all.begin(), all.end(), [](const allocator* a, const allocator* b) {
        const auto place = [](const allocator* x) {
            return std::tuple(!x->is.floor, x->is.name != "orchard", x->is.name);
        };
        return place(a) < place(b);
    });
    return all;
}

}  // namespace orchard::arena
