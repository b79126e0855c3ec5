// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/nvtx/launch_phases.hpp"

#include "device/simt/launch_watch.hpp"

namespace orchard::nvtx {
namespace {

struct word {
    std::string_view begin;
    name phase;
};
constexpr word words[] = {{"free", name::free},         {"give", name::free},     {"put", name::free},
                          {"allocate", name::allocate}, {"take", name::allocate}, {"request", name::allocate},
                          {"insert", name::allocate},   {"grow", name::allocate}, {"fill", name::build},
                          {"make", name::build},        {"stamp", name::build},   {"write", name::build}};

constexpr simt::launch_watch marking{[](const char* kernel) { push(phase_of_kernel(kernel), 0); }, [] { pop(); }};

}  // namespace

/// The type's arguments are cut off first: they may have names of other types.
name phase_of_kernel(std::string_view function) {
    constexpr std::string_view before = "Kernel = ";
    if (const std::size_t at = function.find(before); at != std::string_view::npos) {
        function.remove_prefix(at + before.size());
    }
    function = function.substr(0, function.find_first_of("<;]"));
    if (const std::size_t at = function.rfind("::"); at != std::string_view::npos) {
        function.remove_prefix(at + 2);
    }
    for (const word& w : words) {
        if (function.substr(0, w.begin.size()) == w.begin) {
            return w.phase;
        }
    }
    return name::compute;
}

void mark_launches() {
    if (is_attached()) {
        simt::watched_launches.store(&marking, std::memory_order_release);
    }
}

}  // namespace orchard::nvtx
