// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/cli/map/map_colours.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "uvm/geometry/size_classes.hpp"

namespace orchard::command_line::map_colours {
namespace {

// By enumerator. Memory in use has strong colours; memory that waits has the pale colour of what it was.
constexpr std::array<colour, segment_uses> use_colours{0xf0f0ee, 0xd3e6cd, 0xb7d3ea, 0xf0d9a8,
                                                       0x2a7fb0, 0xe58f2a, 0x8a63ad, 0x7d7d7d};
constexpr std::array<colour, portion_uses> portion_colours{0xf2a94e, 0xc26a17, 0xb7d3ea, 0xf0d9a8, 0x7d7d7d};
constexpr std::array<colour, map_tiers> tier_colours{0x4c9f70, on_host, 0x7a6bb0};

constexpr colour smallest = 0x1d2f7d;
constexpr colour middle = 0x2488b5;
constexpr colour largest = 0x45b58a;
// The share of a full colour in what is not in use: it must differ from free memory, and from what is in use.
constexpr double least_share = 0.2;

double channel(colour c, int shift) { return static_cast<double>(c >> shift & 0xff); }

}  // namespace

colour of(segment_use use) { return use_colours[static_cast<std::size_t>(use)]; }
colour of(portion_use use) { return portion_colours[static_cast<std::size_t>(use)]; }
colour of(map_tier tier) { return tier_colours[static_cast<std::size_t>(tier)]; }

colour of_class(std::uint32_t page_class) {
    const double at = static_cast<double>(page_class) / (class_count - 1);
    return at < 0.5 ? mixed(smallest, middle, 2 * at) : mixed(middle, largest, 2 * at - 1);
}

colour mixed(colour from, colour to, double share) {
    const double part = std::clamp(share, 0.0, 1.0);
    colour result = 0;
    for (const int shift : {16, 8, 0}) {
        const double value = channel(from, shift) * (1 - part) + channel(to, shift) * part;
        result |= static_cast<colour>(std::lround(value)) << shift;
    }
    return result;
}

colour unused(colour full) { return filled(full, 0); }
colour filled(colour full, double share) {
    return mixed(background, full, least_share + (1 - least_share) * std::clamp(share, 0.0, 1.0));
}
colour of_share(double share) { return mixed(0xf6e7a2, 0x8f1d3f, share); }

}  // namespace orchard::command_line::map_colours
