// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/properties/program.hpp"

#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "device/state/heap_state.cuh"
#include "uvm/geometry/size_classes.hpp"

namespace orchard::test {

namespace gen = rc::gen;

namespace {

constexpr int full_size = 100;  // RapidCheck generates small numbers if the size of a case is small

/// A number from `least` to `most`, whatever the size of the case; shrinks towards `least`.
template <class T>
rc::Gen<T> number(T least, T most) {
    return gen::resize(full_size, gen::inRange<T>(least, most + 1));
}

/// Masks with one lane less or with half of their lanes; a lone lane becomes lane 0.
rc::Seq<std::uint32_t> smaller_masks(std::uint32_t mask) {
    std::vector<std::uint32_t> smaller;
    if ((mask & (mask - 1)) == 0) {
        smaller.assign(mask == 1 ? 0 : 1, 1);
        return rc::seq::fromContainer(std::move(smaller));
    }
    for (const std::uint32_t half : {mask & 0xffffu, mask & 0xffff0000u, mask & 0x00ff00ffu, mask & 0xff00ff00u}) {
        if (half != 0 && half != mask) {
            smaller.push_back(half);
        }
    }
    for (std::uint32_t left = mask; left != 0; left &= left - 1) {
        smaller.push_back(mask & ~(left & ~(left - 1)));
    }
    return rc::seq::fromContainer(std::move(smaller));
}

rc::Gen<std::uint32_t> masks() {
    const auto of_number = [](auto make) { return gen::noShrink(gen::map(number<std::uint32_t>(0, 31), make)); };
    const auto any = gen::noShrink(number<std::uint32_t>(1, 0xfffffffe));
    const auto grow = [](std::uint32_t mask) { return rc::shrinkable::shrinkRecur(mask, &smaller_masks); };
    const auto drawn =
        gen::weightedOneOf<std::uint32_t>({{4, gen::just(~0u)},
                                           {3, of_number([](std::uint32_t lane) { return 1u << lane; })},
                                           {2, of_number([](std::uint32_t lane) { return ~0u >> lane; })},
                                           {3, any}});
    return [=](const rc::Random& random, int size) { return grow(drawn(random, size).value()); };
}

rc::Gen<std::uint64_t> sizes(std::uint64_t capacity) {
    using n = std::uint64_t;
    return gen::weightedOneOf<n>({{9, number<n>(1, 512)},
                                  {5, number<n>(513, 8 << 10)},
                                  {2, number<n>((8 << 10) + 1, largest_page_bytes)},
                                  {1, number<n>(largest_page_bytes + 1, 5 << 20)},
                                  {1, gen::just<n>(0)},
                                  {1, gen::oneOf(number<n>(capacity + 1, 2 * capacity), gen::just(~n{0}))}});
}

rc::Gen<std::uint64_t> alignments() {
    using n = std::uint64_t;
    return gen::weightedOneOf<n>({{9, gen::map(number<int>(0, segment_shift), [](int log) { return n{1} << log; })},
                                  {1, gen::element<n>(0, 3, 48, 2 * segment_bytes)}});
}

rc::Gen<burst> bursts(std::uint64_t capacity) {
    const auto what = gen::weightedElement<action>({{8, action::malloc},
                                                    {1, action::calloc},
                                                    {2, action::aligned_alloc},
                                                    {4, action::realloc},
                                                    {8, action::free},
                                                    {1, action::free_inside}});
    // No choice among elements, because such a choice would not shrink.
    const auto spreads = gen::map(number<int>(0, 6), [](int i) {
        return i < 3 ? spread::alike : i < 5 ? spread::up_to : spread::mixed;
    });
    return gen::build<burst>(
        gen::set(&burst::warp, number<std::uint32_t>(0, launch_warps - 1)), gen::set(&burst::lanes, masks()),
        gen::set(&burst::what, what), gen::set(&burst::bytes, sizes(capacity)), gen::set(&burst::sizes, spreads),
        gen::set(&burst::alignment, alignments()), gen::set(&burst::salt, number<std::uint32_t>(0, 0xfffffffe)));
}

const char* name_of(action a) {
    switch (a) {
        case action::malloc: return "malloc";
        case action::calloc: return "calloc";
        case action::aligned_alloc: return "aligned_alloc";
        case action::realloc: return "realloc";
        case action::free: return "free";
        case action::free_inside: return "free inside";
        default: return "nothing";
    }
}

void show(const burst& b, std::ostream& out) {
    out << absl::StrFormat("    warp %d, lanes 0x%08x: %s", b.warp, b.lanes, name_of(b.what));
    if (b.what == action::free || b.what == action::free_inside) {
        out << absl::StrFormat(" (blocks by salt %u)\n", b.salt);
        return;
    }
    std::string sizes;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
        if (b.has(lane)) {
            absl::StrAppend(&sizes, sizes.empty() ? "" : ", ", b.bytes_of(lane));
            if (b.sizes == spread::alike) {
                sizes += " each";
                break;
            }
        }
    }
    out << " of " << sizes << " B";
    if (b.what == action::aligned_alloc) {
        out << ", aligned to " << b.alignment;
    }
    if (b.what == action::realloc) {
        out << absl::StrFormat(" (blocks by salt %u)", b.salt);
    }
    out << "\n";
}

}  // namespace

std::uint64_t burst::bytes_of(std::uint32_t lane) const {
    const std::uint32_t random = device::mix(salt + 1 + lane * 0x9e3779b9u);
    switch (sizes) {
        case spread::up_to: return bytes == 0 ? 0 : 1 + random % bytes;
        case spread::mixed: return (bytes >> random % 3) + random / 4 % 4;
        default: return bytes;
    }
}

rc::Gen<program> programs(std::uint64_t capacity, int max_steps) {
    constexpr int max_bursts = 6;
    // One warp alone is as frequent as several at once, because only then the model knows exactly which requests must
    // be served.
    const auto of_bursts = gen::weightedOneOf<std::vector<burst>>(
        {{1, gen::container<std::vector<burst>>(1, bursts(capacity))},
         {1, gen::resize(max_bursts, gen::container<std::vector<burst>>(bursts(capacity)))}});
    const auto of_steps =
        gen::resize(max_steps, gen::container<std::vector<step>>(
                                   gen::map(of_bursts, [](std::vector<burst> all) { return step{std::move(all)}; })));
    return gen::map(of_steps, [](std::vector<step> all) { return program{std::move(all)}; });
}

void showValue(const program& p, std::ostream& out) {
    out << p.steps.size() << " launches\n";
    for (std::size_t i = 0; i < p.steps.size(); ++i) {
        out << "  launch " << i << "\n";
        for (const burst& b : p.steps[i].bursts) {
            show(b, out);
        }
    }
}

}  // namespace orchard::test
