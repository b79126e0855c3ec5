// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/nvtx/launch_phases.hpp"

#include "device/simt/launch_watch.hpp"

namespace orchard::nvtx {
namespace {

struct word {
    std::string_view text;
    name phase;
};
// "settle" and "quarantine" begin the names of kernels of the heap itself, which give back what is free.
constexpr word words[] = {
    {"free", name::free},         {"give", name::free},        {"put", name::free},         {"release", name::free},
    {"clear", name::free},        {"drain", name::free},       {"forget", name::free},      {"retire", name::free},
    {"allocate", name::allocate}, {"take", name::allocate},    {"request", name::allocate}, {"ask", name::allocate},
    {"insert", name::allocate},   {"reserve", name::allocate}, {"grow", name::allocate},    {"build", name::build},
    {"fill", name::build},        {"make", name::build},       {"stamp", name::build},      {"write", name::build},
    {"begin", name::build},       {"init", name::build},       {"start", name::build},      {"settle", name::free},
    {"quarantine", name::free}};

constexpr simt::launch_watch marking{[](const char* kernel) { push(phase_of_kernel(kernel), 0); }, [] { pop(); }};

}  // namespace

name phase_of_kernel(std::string_view function) {
    std::string_view kernel = simt::kernel_name(function);
    // The kernels of a graph have its name before their verb.
    constexpr std::string_view of_graph = "graph_";
    if (kernel.substr(0, of_graph.size()) == of_graph) {
        kernel.remove_prefix(of_graph.size());
    }
    const std::string_view first = kernel.substr(0, kernel.find('_'));
    for (const word& w : words) {
        if (w.text == first) {
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
