// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "host/move_policy.hpp"

#include <algorithm>
#include <cmath>

namespace orchard {
namespace {

std::uint64_t bytes_of(const rated_memory& m) { return std::uint64_t{m.memory.run.count} << segment_shift; }

/// Returns the orders in the sequence in which they are carried out: a batch to the host, and then by turns the next
/// batch to the host and one to the device.
std::vector<move_order> in_batches(const std::vector<const rated_memory*>& to_host,
                                   const std::vector<const rated_memory*>& to_device, std::uint64_t batch_bytes) {
    std::vector<move_order> orders;
    // At least one piece, and no more than fit a batch.
    const auto add_batch = [&](const std::vector<const rated_memory*>& from, std::size_t* next, memory_tier to) {
        for (std::uint64_t bytes = 0; *next < from.size(); ++*next) {
            const rated_memory& m = *from[*next];
            if (bytes != 0 && bytes + bytes_of(m) > batch_bytes) {
                break;
            }
            orders.push_back({m.memory.run.first, to});
            bytes += bytes_of(m);
        }
    };
    std::size_t host = 0;
    std::size_t device = 0;
    add_batch(to_host, &host, memory_tier::host);
    while (host < to_host.size() || device < to_device.size()) {
        add_batch(to_host, &host, memory_tier::host);
        add_batch(to_device, &device, memory_tier::device);
    }
    return orders;
}

/// Returns how many times the difference that chance explains is a reason to move: 4, and 5.9 among 16,000 pieces, as
/// the host's most used piece is compared with the device's least used one. The extremes of n independent counts lie
/// sqrt(2 ln n) standard deviations from their mean.
double beyond_chance(std::size_t on_host, std::size_t on_device) {
    const auto extreme = [](std::size_t n) {
        return std::sqrt(std::log(static_cast<double>(std::max<std::size_t>(n, 1))));
    };
    return std::max(4.0, extreme(on_host) + extreme(on_device));
}

}  // namespace

std::vector<move_order> choose_moves(std::span<const rated_memory> all, const move_limits& limits) {
    // Accesses of a segment, so that memory of different sizes is comparable; without samples, the age.
    const auto rate = [&](const rated_memory& m) {
        return limits.is_sampled ? m.accesses / m.memory.run.count : static_cast<double>(m.memory.number);
    };
    std::vector<const rated_memory*> device;
    std::vector<const rated_memory*> host;
    for (const rated_memory& m : all) {
        (m.memory.tier == memory_tier::device ? device : host).push_back(&m);
    }
    const auto by_rate = [&](const rated_memory* a, const rated_memory* b) { return rate(*a) < rate(*b); };
    std::stable_sort(device.begin(), device.end(), by_rate);
    std::stable_sort(host.rbegin(), host.rend(), by_rate);
    const double threshold = beyond_chance(host.size(), device.size());
    const auto is_used_more = [&](const rated_memory& h, const rated_memory& d) {
        if (!limits.is_sampled) {
            return h.memory.number > d.memory.number;
        }
        // As if the piece of the device had the size of the other one.
        const double expected = rate(d) * h.memory.run.count;
        return h.accesses > 2 * expected && h.accesses - expected > threshold * std::sqrt(h.accesses + expected);
    };
    std::vector<const rated_memory*> to_host;
    std::vector<const rated_memory*> to_device;
    std::uint64_t room = limits.device_room;
    auto least = device.begin();
    for (const rated_memory* h : host) {
        if (limits.is_sampled && h->accesses == 0) {
            break;
        }
        // Tentatively: the room of several pieces may be needed for one.
        std::uint64_t gained = room;
        auto next = least;
        while (gained < bytes_of(*h) && next != device.end() && is_used_more(*h, **next)) {
            gained += bytes_of(**next++);
        }
        if (gained < bytes_of(*h)) {
            continue;  // a smaller piece may find room
        }
        to_host.insert(to_host.end(), least, next);
        to_device.push_back(h);
        least = next;
        room = gained - bytes_of(*h);
    }
    return in_batches(to_host, to_device, limits.batch_bytes);
}

}  // namespace orchard
