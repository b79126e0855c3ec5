// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// One picture for both formats:
///
///     title
///     offset | cells, 96 in a row at most                          | legend, totals
///
/// A cell of one segment shows its use as the page does: the part in use of a slab or a chunk, the leaves of portions,
/// a strip where memory is on the host.

#include "runtime/cli/map/map_picture.hpp"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/cli/map/drawing.hpp"
#include "runtime/cli/map/map_colours.hpp"
#include "runtime/options/byte_size.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard::command_line {
namespace {

/// What is known of one segment.
struct segment_look {
    segment_use use = segment_use::uncommitted;
    colour full = 0;
    double share = 0;      ///< of it in use
    bool on_host = false;  ///< all of it
    bool joined = false;   ///< the next segment belongs to the same chunk
};

/// Returns the looks of all segments up to the last one with memory; of the first one, if none has any.
std::vector<segment_look> looks_of(const heap_map& map) {
    std::vector<segment_look> all;
    std::size_t end = 1;
    for (const heap_map::use_run& r : map.uses) {
        segment_look one;
        one.use = r.use;
        one.full = map_colours::of(r.use);
        all.insert(all.end(), r.count, one);
        end = r.use != segment_use::uncommitted ? all.size() : end;
    }
    const auto each = [&all](std::uint64_t first, std::uint64_t count, auto f) {
        for (std::uint64_t i = first; i < std::min<std::uint64_t>(first + count, all.size()); ++i) {
            f(all[i]);
        }
    };
    for (const heap_map::slab_run& r : map.slabs) {
        each(r.first, r.count, [&r](segment_look& one) {
            one.full = map_colours::of_class(r.page_class);
            one.share = static_cast<double>(r.pages_in_use) / class_pages(r.page_class);
        });
    }
    for (const heap_map::chunk& c : map.chunks) {
        const std::uint32_t first = c.first_leaf / leaves_per_segment;
        each(first, c.segments, [&](segment_look& one) {
            one.full = c.interleaved ? map_colours::interleaved : one.full;
            one.share = static_cast<double>(c.live_lanes) / c.lanes;
            one.joined = true;
        });
        each(std::uint64_t{first} + c.segments - (c.segments != 0 ? 1 : 0), c.segments != 0 ? 1 : 0,
             [](segment_look& one) { one.joined = false; });
    }
    for (const heap_map::piece& p : map.portions) {
        if (p.use == portion_use::tail || p.use == portion_use::chunk) {
            each(p.first_leaf / leaves_per_segment, 1, [&p](segment_look& one) {
                one.share = std::min(1.0, one.share + static_cast<double>(p.leaves) / leaves_per_segment);
            });
        }
    }
    for (const heap_map::memory_run& r : map.tiers) {
        each(r.first, r.count, [&r](segment_look& one) { one.on_host = r.tier == map_tier::host; });
    }
    all.resize(std::min(end, std::max<std::size_t>(all.size(), 1)));
    return all;
}

bool is_in_use(segment_use use) {
    return use == segment_use::slab || use == segment_use::chunk || use == segment_use::portions;
}

colour colour_of(const segment_look& one) {
    return is_in_use(one.use) ? map_colours::filled(one.full, one.share) : one.full;
}

/// The sizes of a picture, in units.
struct picture_shape {
    static constexpr int margin = 16;
    static constexpr int head = 44;
    static constexpr int offsets = 66;
    static constexpr int legend = 300;
    static constexpr int line = 17;  ///< of the legend
    static constexpr std::uint32_t most_cells = 6144;

    std::uint32_t a_cell = 1;  ///< segments
    std::uint32_t columns = 1;
    std::uint32_t rows = 1;
    int side = 8;  ///< of a cell

    explicit picture_shape(std::size_t segments) {
        const auto count = static_cast<std::uint32_t>(std::max<std::size_t>(segments, 1));
        while (count / a_cell > most_cells) {
            a_cell *= 2;
        }
        const std::uint32_t cells = (count + a_cell - 1) / a_cell;
        columns = std::clamp(static_cast<std::uint32_t>(std::ceil(std::sqrt(1.6 * cells) / 8)) * 8, 8u, 96u);
        rows = (cells + columns - 1) / columns;
        side = std::clamp(768 / static_cast<int>(columns), 8, 32);
    }
    [[nodiscard]] int cells_left() const { return margin + offsets; }
    [[nodiscard]] int legend_left() const { return cells_left() + static_cast<int>(columns) * side + 24; }
    [[nodiscard]] int width() const { return legend_left() + legend + margin; }
    [[nodiscard]] int height(int legend_lines) const {
        return head + std::max(static_cast<int>(rows) * side, legend_lines * line) + margin;
    }
};

/// A line of the legend: a key, if it has a colour, a text, and a number.
struct legend_line {
    bool has_key = false;
    colour key = 0;
    std::string text;
    std::string value;
};

std::string size_of(std::uint64_t segments) { return format_bytes(segments * segment_bytes); }

/// Returns a size with at most three digits: "1.25 GiB" where `format_bytes` says "1279.5 MiB".
std::string short_size(std::uint64_t bytes) {
    const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; value >= 1000 && unit + 1 < std::size(units); ++unit) {
        value /= 1024;
    }
    return absl::StrFormat("%.*g %s", 3, value, units[unit]);
}

std::vector<legend_line> legend_of(const heap_map& map) {
    const map_totals t = totals_of(map);
    std::vector<legend_line> all;
    const auto add_use = [&](segment_use use, const std::string& text) {
        const std::uint64_t count = t.segments[static_cast<std::size_t>(use)];
        if (count != 0) {
            all.push_back({true, map_colours::of(use), text, short_size(count * segment_bytes)});
        }
    };
    all.push_back({false, 0, "Slabs, by size of page; filled: in use", ""});
    std::array<std::array<std::uint64_t, 2>, class_count> of_class{};
    for (const heap_map::slab_run& r : map.slabs) {
        of_class[r.page_class][0] += r.count;
        of_class[r.page_class][1] += std::uint64_t{r.count} * r.pages_in_use;
    }
    // Eight classes: those with the most slabs.
    std::vector<std::uint32_t> classes;
    for (std::uint32_t c = 0; c < class_count; ++c) {
        if (of_class[c][0] != 0) {
            classes.push_back(c);
        }
    }
    std::ranges::stable_sort(classes, [&](auto a, auto b) { return of_class[a][0] > of_class[b][0]; });
    const std::size_t others = classes.size() > 8 ? classes.size() - 8 : 0;
    classes.resize(classes.size() - others);
    std::ranges::sort(classes);
    for (const std::uint32_t c : classes) {
        const auto& [slabs, pages] = of_class[c];
        all.push_back(
            {true, map_colours::of_class(c), short_size(class_bytes(c)),
             absl::StrFormat("%s, %.0f %%", short_size(slabs * segment_bytes),
                             100.0 * static_cast<double>(pages) / (static_cast<double>(slabs) * class_pages(c)))});
    }
    if (others != 0) {
        all.push_back({false, 0, absl::StrFormat("and %d other classes", others), ""});
    }
    all.push_back({});
    all.push_back({false, 0, "Segments", ""});
    add_use(segment_use::chunk, "chunks");
    if (std::ranges::any_of(map.chunks, [](const auto& c) { return c.interleaved && c.segments != 0; })) {
        all.push_back({true, map_colours::interleaved, "  those of interleaved arrays", ""});
    }
    add_use(segment_use::portions, "shared by portions");
    add_use(segment_use::cached, "waiting in the segment cache");
    add_use(segment_use::stored, "waiting in the chunk store");
    add_use(segment_use::held, "handed out, not in use");
    add_use(segment_use::free, "free");
    if (!map.portions.empty()) {
        all.push_back({});
        all.push_back({false, 0, "Leaves in shared segments", ""});
        const char* const texts[] = {"tails of chunks", "chunks below 2 MiB", "in the segment cache",
                                     "in the chunk store", "held"};
        for (std::uint32_t i = 0; i < portion_uses; ++i) {
            const auto use = static_cast<portion_use>(i);
            std::uint64_t leaves = 0;
            for (const heap_map::piece& p : map.portions) {
                leaves += p.use == use ? p.leaves : 0;
            }
            if (leaves != 0) {
                all.push_back({true, map_colours::of(use), texts[i], short_size(leaves * big_page_bytes)});
            }
        }
    }
    all.push_back({});
    all.push_back({false, 0, "Committed", short_size(t.committed * segment_bytes)});
    if (t.on_host != 0) {
        all.push_back({true, map_colours::on_host, "  of it on the host", short_size(t.on_host * segment_bytes)});
    }
    all.push_back({false, 0, "Addresses without memory", short_size((map.segments - t.committed) * segment_bytes)});
    return all;
}

/// Draws one segment into its cell.
void draw_segment(drawing& on, const heap_map& map, std::uint32_t segment, const segment_look& one, double x, double y,
                  int side, bool last_of_row) {
    const double inner = side - 1;
    const double width = one.joined && !last_of_row ? side : inner;
    if (one.use == segment_use::portions) {
        on.rectangle(x, y, width, inner, map_colours::unused(one.full));
        auto p = std::ranges::lower_bound(map.portions, segment * leaves_per_segment, {}, &heap_map::piece::first_leaf);
        for (; p != map.portions.end() && p->first_leaf / leaves_per_segment == segment; ++p) {
            const double unit = inner / leaves_per_segment;
            const double seam = side >= 24 ? 1 : 0;  // between neighbours
            on.rectangle(x + unit * (p->first_leaf % leaves_per_segment), y, unit * p->leaves - seam, inner,
                         map_colours::of(p->use));
        }
        on.rectangle(x, y, width, side >= 24 ? 2 : 1, one.full);
    } else if (is_in_use(one.use)) {
        // Something in use is visible, however little.
        const double part = one.share > 0 ? std::max(std::round(inner * one.share), 1.0) : 0;
        on.rectangle(x, y, width, inner - part, map_colours::unused(one.full));
        on.rectangle(x, y + inner - part, width, part, one.full);
    } else {
        on.rectangle(x, y, width, inner, one.full);
    }
    if (one.on_host) {
        const double strip = side >= 24 ? 3 : 1;
        on.rectangle(x, y + inner - strip, width, strip, map_colours::on_host);
    }
}

/// Draws a cell of several segments in their mean colour.
void draw_mean(drawing& on, std::span<const segment_look> of, double x, double y, int side) {
    double sums[3] = {};
    std::size_t on_host = 0;
    for (const segment_look& one : of) {
        const colour c = colour_of(one);
        for (int i = 0; i < 3; ++i) {
            sums[i] += static_cast<double>(c >> (8 * i) & 0xff);
        }
        on_host += one.on_host ? 1 : 0;
    }
    colour mean = 0;
    for (int i = 0; i < 3; ++i) {
        mean |= static_cast<colour>(std::lround(sums[i] / static_cast<double>(of.size()))) << (8 * i);
    }
    on.rectangle(x, y, side, side, mean);
    if (2 * on_host > of.size()) {
        on.rectangle(x, y + side - 1, side, 1, map_colours::on_host);
    }
}

template <class Drawing>
std::string draw(const heap_map& map) {
    const std::vector<segment_look> looks = looks_of(map);
    const picture_shape shape(looks.size());
    const std::vector<legend_line> legend = legend_of(map);
    Drawing on(shape.width(), shape.height(static_cast<int>(legend.size())));
    const int top = picture_shape::head;
    on.text(picture_shape::margin, 10,
            absl::StrFormat("Heap of %s: %s, %s; one cell is %s", size_of(map.segments), map.device, map.backing,
                            shape.a_cell == 1 ? "a segment of 2 MiB" : size_of(shape.a_cell)),
            map_colours::text, false);
    on.text(picture_shape::margin, 25,
            map.is_exact ? "The segments agree with the heap's statistics."
                         : "Kernels ran meanwhile: the parts are of different moments.",
            map_colours::faint_text, false);
    for (std::uint32_t r = 0; r < shape.rows; ++r) {
        const double y = top + static_cast<double>(r) * shape.side;
        // A text is 12 units high.
        if (r % ((16 + shape.side - 1) / shape.side) == 0) {
            on.text(shape.cells_left() - 8, y,
                    short_size(std::uint64_t{r} * shape.columns * shape.a_cell * segment_bytes),
                    map_colours::faint_text, true);
        }
        for (std::uint32_t c = 0; c < shape.columns; ++c) {
            const std::uint64_t first = (std::uint64_t{r} * shape.columns + c) * shape.a_cell;
            if (first >= looks.size()) {
                break;
            }
            const double x = shape.cells_left() + static_cast<double>(c) * shape.side;
            if (shape.a_cell == 1) {
                draw_segment(on, map, static_cast<std::uint32_t>(first), looks[first], x, y, shape.side,
                             c + 1 == shape.columns);
            } else {
                const std::size_t count = std::min<std::size_t>(shape.a_cell, looks.size() - first);
                draw_mean(on, std::span(looks).subspan(first, count), x, y, shape.side);
            }
        }
    }
    double y = top;
    for (const legend_line& l : legend) {
        const double x = shape.legend_left();
        if (l.has_key) {
            on.rectangle(x, y + 1, 10, 10, l.key);
        }
        on.text(l.has_key ? x + 18 : x, y, l.text, map_colours::text, false);
        on.text(x + picture_shape::legend, y, l.value, map_colours::text, true);
        y += picture_shape::line;
    }
    return on.file();
}

}  // namespace

std::string map_svg(const heap_map& map) { return draw<svg_drawing>(map); }
std::string map_png(const heap_map& map) { return draw<png_drawing>(map); }

}  // namespace orchard::command_line
