// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/top/formats.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "runtime/options/byte_size.hpp"
#include "runtime/text/text_table.hpp"

namespace orchard::top {
namespace {

using live::field;
using live::field_kind;
using live::snapshot;
using nlohmann::ordered_json;

std::uint64_t age_ns(const snapshot& heap, std::uint64_t now_ns) {
    return now_ns - std::min(now_ns, heap.heartbeat_ns);
}

std::uint64_t count_of(std::span<const std::uint64_t> cells) {
    return std::accumulate(cells.begin(), cells.end() - 1, std::uint64_t{0});
}

/// Returns a number for people: bytes also in binary units.
std::string shown(const field& f, std::uint64_t value) {
    return f.unit == "bytes" && value >= kib ? absl::StrCat(value, " (", format_bytes(value), ")")
                                             : absl::StrCat(value);
}

/// Returns for each cell of an axis whether a field has another value than 0 there: other cells are not shown.
std::vector<bool> cells_in_use(const snapshot& heap, const std::string& axis) {
    std::vector<bool> used;
    for (const field& f : heap.fields) {
        for (std::size_t i = 0; f.axis == axis && i < f.values.size(); ++i) {
            used.resize(std::max(used.size(), i + 1));
            used[i] = used[i] || f.values[i] != 0;
        }
    }
    return used;
}

std::string escaped(const std::string& label) {
    return absl::StrReplaceAll(label, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
}

/// The lines of one field of several heaps: HELP and TYPE once, then all samples, as the format demands.
struct family {
    std::string help;
    std::string type;
    std::string samples;
};
using families = std::map<std::string, family>;

void add_sample(families& all, const std::string& name, const field& f, const std::string& suffix,
                const std::string& labels, std::uint64_t value) {
    family& one = all[name];
    one.type = f.kind == field_kind::counter ? "counter" : f.kind == field_kind::histogram ? "histogram" : "gauge";
    one.help = absl::StrReplaceAll(f.help, {{"\\", "\\\\"}, {"\n", " "}});
    absl::StrAppend(&one.samples, name, suffix, "{", labels, "} ", value, "\n");
}

/// Buckets count all values up to their end, as the format wants it; those behind the last value are left out.
void add_histogram(families& all, const std::string& name, const field& f, const std::string& labels) {
    if (f.values.size() < 2) {
        return;
    }
    const std::uint64_t count = count_of(f.values);
    std::uint64_t so_far = 0;
    for (std::uint32_t i = 0; i + 2 < f.values.size() && so_far < count; ++i) {
        so_far += f.values[i];
        add_sample(all, name, f, "_bucket", absl::StrCat(labels, ",le=\"", top_of_bucket(std::min(i, 63u)), "\""),
                   so_far);
    }
    add_sample(all, name, f, "_bucket", absl::StrCat(labels, ",le=\"+Inf\""), count);
    add_sample(all, name, f, "_sum", labels, f.values.back());
    add_sample(all, name, f, "_count", labels, count);
}

void add_field(families& all, const snapshot& heap, const field& f, const std::string& labels) {
    const std::string name = absl::StrCat("orchard_heap_", f.name, f.kind == field_kind::counter ? "_total" : "");
    if (f.kind == field_kind::histogram) {
        return add_histogram(all, name, f, labels);
    }
    if (f.axis.empty()) {
        return add_sample(all, name, f, "", labels, f.values.front());
    }
    const std::vector<bool> used = cells_in_use(heap, f.axis);
    const std::vector<std::string> cells = heap.labels_of(f);
    for (std::size_t i = 0; i < f.values.size(); ++i) {
        if (used[i]) {
            add_sample(all, name, f, "", absl::StrCat(labels, ",", f.axis, "=\"", escaped(cells[i]), "\""),
                       f.values[i]);
        }
    }
}

ordered_json json_of(const snapshot& heap, const field& f) {
    if (f.kind == field_kind::histogram && f.values.size() > 1) {
        ordered_json buckets = ordered_json::object();
        for (std::uint32_t i = 0; i + 1 < f.values.size(); ++i) {
            if (f.values[i] != 0) {
                buckets[i + 2 == f.values.size() ? "more" : absl::StrCat(top_of_bucket(std::min(i, 63u)))] =
                    f.values[i];
            }
        }
        return {{"count", count_of(f.values)}, {"sum", f.values.back()}, {"buckets", buckets}};
    }
    if (f.axis.empty()) {
        return f.values.front();
    }
    ordered_json cells = ordered_json::object();
    const std::vector<std::string> labels = heap.labels_of(f);
    for (std::size_t i = 0; i < f.values.size(); ++i) {
        if (f.values[i] != 0) {
            cells[labels[i]] = f.values[i];
        }
    }
    return cells;
}

}  // namespace

std::uint64_t percentile(std::span<const std::uint64_t> cells, double part) {
    if (cells.size() < 2) {
        return 0;
    }
    const std::uint64_t count = count_of(cells);
    std::uint64_t so_far = 0;
    for (std::uint32_t i = 0; i + 1 < cells.size(); ++i) {
        so_far += cells[i];
        if (so_far != 0 && static_cast<double>(so_far) >= part * static_cast<double>(count)) {
            return top_of_bucket(std::min(i, 63u));
        }
    }
    return 0;
}

std::string to_text(const snapshot& heap, std::uint64_t now_ns) {
    std::string text =
        absl::StrFormat("process %d, heap %d; statistics of version %d; the page is of %.1f s ago\n", heap.name.pid,
                        heap.name.heap, heap.statistics_version, static_cast<double>(age_ns(heap, now_ns)) / 1e9);
    std::vector<std::vector<std::string>> lines;
    for (const field& f : heap.fields) {
        if (f.kind == field_kind::histogram) {
            lines.push_back({f.name,
                             absl::StrFormat("50 %% up to %d, 99 %% up to %d, %d in all", percentile(f.values, 0.5),
                                             percentile(f.values, 0.99), f.values.size() < 2 ? 0 : count_of(f.values)),
                             f.unit, f.help});
        } else if (f.kind == field_kind::text && f.texts.size() == 1) {
            lines.push_back({f.name, f.texts.front(), f.unit, f.help});
        } else if (f.kind != field_kind::text && f.axis.empty()) {
            lines.push_back({f.name, shown(f, f.values.front()), f.unit, f.help});
        }
    }
    absl::StrAppend(&text, detail::in_columns(lines, "lrll"));
    // A table for each axis: a line for each cell in use.
    for (const field& axis : heap.fields) {
        const std::vector<bool> used = cells_in_use(heap, axis.name);
        if (axis.kind != field_kind::text || std::ranges::find(used, true) == used.end()) {
            continue;
        }
        std::vector<std::vector<std::string>> cells(1, {axis.name});
        for (std::size_t i = 0; i < used.size(); ++i) {
            if (used[i]) {
                cells.push_back({i < axis.texts.size() ? axis.texts[i] : absl::StrCat(i)});
            }
        }
        for (const field& f : heap.fields) {
            if (f.axis != axis.name || f.kind == field_kind::text) {
                continue;
            }
            cells.front().push_back(f.name);
            for (std::size_t i = 0, line = 1; i < used.size(); ++i) {
                if (used[i]) {
                    cells[line++].push_back(i < f.values.size() ? absl::StrCat(f.values[i]) : "");
                }
            }
        }
        absl::StrAppend(&text, "\n", detail::in_columns(cells, "r"));
    }
    return text;
}

ordered_json to_json(const snapshot& heap, std::uint64_t now_ns) {
    ordered_json json = {{"pid", heap.name.pid},
                         {"heap", heap.name.heap},
                         {"layout", absl::StrCat(live::major_version, ".", heap.minor)},
                         {"statistics_version", heap.statistics_version},
                         {"age_ns", age_ns(heap, now_ns)}};
    for (const field& f : heap.fields) {
        if (f.kind == field_kind::text && f.texts.size() == 1) {
            json[f.name] = f.texts.front();
        } else if (f.kind != field_kind::text) {
            json[f.name] = json_of(heap, f);
        }
    }
    return json;
}

std::string to_prometheus(std::span<const snapshot> heaps, std::uint64_t now_ns) {
    families all;
    for (const snapshot& heap : heaps) {
        const std::string gpu = heap.text("gpu");
        const std::string labels = absl::StrCat("gpu=\"", escaped(gpu.empty() ? heap.text("device") : gpu),
                                                "\",uuid=\"", escaped(heap.text("gpu_uuid")), "\",pid=\"",
                                                heap.name.pid, "\",heap=\"", heap.name.heap, "\"");
        std::string texts = absl::StrCat(labels, ",statistics_version=\"", heap.statistics_version, "\"");
        for (const field& f : heap.fields) {
            if (f.kind != field_kind::text) {
                add_field(all, heap, f, labels);
            } else if (f.texts.size() == 1 && f.name != "gpu" && f.name != "gpu_uuid") {
                absl::StrAppend(&texts, ",", f.name, "=\"", escaped(f.texts.front()), "\"");
            }
        }
        add_sample(all, "orchard_heap_info", {"info", "", "", "texts about the heap", field_kind::gauge, {}, {}}, "",
                   texts, 1);
        add_sample(all, "orchard_heap_page_age_ns",
                   {"page_age_ns", "ns", "", "how old the numbers are", field_kind::gauge, {}, {}}, "", labels,
                   age_ns(heap, now_ns));
    }
    std::string text;
    for (const auto& [name, one] : all) {
        absl::StrAppend(&text, "# HELP ", name, " ", one.help, "\n# TYPE ", name, " ", one.type, "\n", one.samples);
    }
    return text;
}

}  // namespace orchard::top
