// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The screen, part by part; see screen.hpp.
///
///     head()       heap, device, time
///     tiers()      device and host: granted, committed, budget
///     traffic()    mailbox: rate, answers, queue; growth; allocations
///     classes()    a bar for each page class in use, as many as fit
///     failures()   the reasons for which requests failed

#include "profiling/top/screen.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "profiling/top/formats.hpp"
#include "runtime/options/byte_size.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard::top {
namespace {

using live::snapshot;

constexpr const char* heights_unicode[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr const char* heights_ascii[] = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};

/// Returns a number with a letter for thousands: 12.3k.
std::string short_number(double n) {
    constexpr const char* letters[] = {"", "k", "M", "G", "T"};
    int power = 0;
    for (; n >= 1000 && power < 4; ++power) {
        n /= 1000;
    }
    return absl::StrFormat("%.*f%s", power == 0 && n == std::floor(n) ? 0 : 1, n, letters[power]);
}

/// Returns the part of a text that fits. Only the first `columns` characters of ASCII lines are counted: lines with
/// other characters are made to fit.
std::string cut(const std::string& line, int columns) {
    const auto most = static_cast<std::size_t>(columns);
    const bool ascii = std::ranges::all_of(line, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    return ascii && line.size() > most ? line.substr(0, most) : line;
}

std::string head(const history::sample& s) {
    const snapshot& h = s.heap;
    const std::string gpu = h.text("gpu");
    const std::uint64_t started = h.number("started_ns");
    std::string line =
        absl::StrFormat("process %d (%s), heap %d   %s   %s   %.0f s", h.name.pid, h.text("program"), h.name.heap,
                        gpu.empty() ? h.text("device") : absl::StrCat("GPU ", gpu, ", ", h.text("gpu_name")),
                        h.text("backing"), static_cast<double>(s.time_ns - std::min(s.time_ns, started)) / 1e9);
    const std::uint64_t age = s.time_ns - std::min(s.time_ns, h.heartbeat_ns);
    if (age > 1'000'000'000) {
        absl::StrAppendFormat(&line, "   no sign of life for %.0f s", static_cast<double>(age) / 1e9);
    }
    return line;
}

std::string tier(const char* name, bool is_guess, std::uint64_t in_use, std::uint64_t committed, std::uint64_t most,
                 int columns, bool unicode) {
    const int width = std::max(10, columns - 53);
    return absl::StrFormat("%-8s%s %s%s in use, %s of %s", name, bar(in_use, committed, most, width, unicode),
                           is_guess ? "~" : "", format_bytes(in_use), format_bytes(committed), format_bytes(most));
}

/// The two tiers. Memory in use is not counted by tier: it is shown as if the device's were used first. While memory is
/// committed on the host that is a guess, and marked as one.
void tiers(const snapshot& h, int columns, bool unicode, std::vector<std::string>& lines) {
    const std::uint64_t on_host = h.number("host_bytes");
    const std::uint64_t on_device = h.number("committed_bytes") - std::min(h.number("committed_bytes"), on_host);
    const std::uint64_t in_use = h.number("segments_granted") << segment_shift;
    const std::uint64_t first = std::min(in_use, on_device);
    const bool is_guess = on_host != 0;
    lines.push_back(tier("device", is_guess, first, on_device, h.number("device_budget_bytes"), columns, unicode));
    if (h.number("host_budget_bytes") != 0 || on_host != 0) {
        lines.push_back(
            tier("host", is_guess, in_use - first, on_host, h.number("host_budget_bytes"), columns, unicode));
    }
}

void traffic(const history& seen, int columns, bool unicode, std::vector<std::string>& lines) {
    const snapshot& h = seen.newest().heap;
    const int width = std::min(history_seconds, columns - 20);
    lines.push_back(absl::StrFormat("%-20s%s", "committed, 1 min",
                                    sparkline(seen.by_second("committed_bytes", false), width, unicode)));
    lines.push_back(
        absl::StrFormat("%-20s%s", "grants, 1 min", sparkline(seen.by_second("grants", true), width, unicode)));
    const auto answers = seen.recent("answer_ns");
    const auto depth = seen.recent("queue_depth");
    lines.push_back(
        absl::StrFormat("mailbox   %s requests/s, %s grants/s; answers %s (99 %%: %s); %d at once (99 %%: %d)",
                        short_number(seen.rate("host_requests")), short_number(seen.rate("grants")),
                        short_time(percentile(answers, 0.5)), short_time(percentile(answers, 0.99)),
                        percentile(depth, 0.5), percentile(depth, 0.99)));
    const live::field* commits = h.find("commit_ns");
    const std::vector<std::uint64_t> times = commits != nullptr ? commits->values : std::vector<std::uint64_t>();
    lines.push_back(absl::StrFormat(
        "growth    commits %s, %d failed; %d waits; %s/s released; moved %s in, %s out",
        short_time(percentile(times, 0.5)), h.number("failed_commits"), h.number("requests_parked"),
        format_bytes(static_cast<std::uint64_t>(seen.rate("released_bytes"))),
        format_bytes(h.number("moved_to_device_bytes")), format_bytes(h.number("moved_to_host_bytes"))));
    const std::uint64_t read_ns = h.number("device_read_ns");
    if (read_ns == 0) {
        lines.emplace_back("kernels   the device's counters have not been read yet");
        return;
    }
    lines.push_back(absl::StrFormat("kernels   %s allocated/s, %s freed/s, %s nulls so far; counted %s ago",
                                    short_number(seen.rate("allocations")), short_number(seen.rate("frees")),
                                    short_number(static_cast<double>(h.number("failed_allocations"))),
                                    short_time(seen.newest().time_ns - std::min(seen.newest().time_ns, read_ns))));
}

/// The classes with slabs, by size of page. Where not all fit, those with the most slabs, and a line that says how many
/// others there are.
void classes(const snapshot& h, int columns, int room, bool unicode, std::vector<std::string>& lines) {
    const live::field* const slabs = h.find("class_slabs");
    const live::field* const used = h.find("class_pages_in_use");
    const live::field* const free = h.find("class_pages_free");
    if (slabs == nullptr || used == nullptr || free == nullptr || room < 2) {
        return;
    }
    const std::vector<std::string> names = h.labels_of(*slabs);
    const std::size_t count = std::min({slabs->values.size(), used->values.size(), free->values.size()});
    std::vector<std::size_t> shown;
    for (std::size_t i = 0; i < count; ++i) {
        if (slabs->values[i] != 0) {
            shown.push_back(i);
        }
    }
    if (shown.empty()) {
        return;
    }
    lines.push_back(absl::StrFormat("%8s %7s %11s %11s  %s", "page", "slabs", "in use", "free", "fill"));
    const auto most = static_cast<std::size_t>(room - 1);
    const std::size_t left_out = shown.size() > most ? shown.size() - (most - 1) : 0;
    std::ranges::stable_sort(shown, std::greater(), [&](std::size_t i) { return slabs->values[i]; });
    shown.resize(shown.size() - left_out);
    std::ranges::sort(shown);
    for (const std::size_t i : shown) {
        const std::uint64_t all = used->values[i] + free->values[i];
        lines.push_back(
            absl::StrFormat("%6s B %7d %11d %11d  %s", names[i], slabs->values[i], used->values[i], free->values[i],
                            bar(used->values[i], used->values[i], all, std::max(8, columns - 44), unicode)));
    }
    if (left_out != 0) {
        lines.push_back(absl::StrFormat("%8s and %d more classes", "", left_out));
    }
}

std::vector<std::string> failures(const snapshot& h) {
    std::vector<std::string> lines;
    const live::field* const counts = h.find("failures");
    const live::field* const bytes = h.find("failure_bytes");
    if (counts == nullptr || bytes == nullptr) {
        return lines;
    }
    const std::vector<std::string> reasons = h.labels_of(*counts);
    for (std::size_t i = 0; i < std::min(counts->values.size(), bytes->values.size()); ++i) {
        if (counts->values[i] != 0) {
            lines.push_back(absl::StrFormat("failed    %s: %d requests, the newest of %s", reasons[i],
                                            counts->values[i], format_bytes(bytes->values[i])));
        }
    }
    return lines;
}

}  // namespace

void history::add(std::uint64_t time_ns, snapshot heap) {
    samples_.push_back({time_ns, std::move(heap)});
    constexpr std::uint64_t kept_ns = (history_seconds + 2) * std::uint64_t{1'000'000'000};
    while (samples_.size() > 2 && time_ns - samples_.front().time_ns > kept_ns) {
        samples_.pop_front();
    }
}

const history::sample& history::before(double seconds) const {
    const auto span_ns = static_cast<std::uint64_t>(seconds * 1e9);
    const auto found = std::find_if(samples_.rbegin(), samples_.rend(),
                                    [&](const sample& s) { return newest().time_ns - s.time_ns >= span_ns; });
    return found == samples_.rend() ? samples_.front() : *found;
}

double history::rate(std::string_view counter) const {
    const sample& old = before(2);
    const double seconds = static_cast<double>(newest().time_ns - old.time_ns) / 1e9;
    const std::uint64_t now = newest().heap.number(counter);
    const std::uint64_t then = std::min(now, old.heap.number(counter));
    return seconds > 0 ? static_cast<double>(now - then) / seconds : 0;
}

std::vector<std::uint64_t> history::recent(std::string_view histogram) const {
    const live::field* const now = newest().heap.find(histogram);
    const live::field* const then = samples_.front().heap.find(histogram);
    std::vector<std::uint64_t> cells = now != nullptr ? now->values : std::vector<std::uint64_t>();
    // The first sample of all has nothing before it: it counts whole.
    for (std::size_t i = 0; samples_.size() > 1 && then != nullptr && i < std::min(cells.size(), then->values.size());
         ++i) {
        cells[i] -= std::min(cells[i], then->values[i]);
    }
    return cells;
}

std::vector<double> history::by_second(std::string_view name, bool growth) const {
    std::vector<double> values;
    for (int second = history_seconds - 1; second >= 0; --second) {
        const sample& s = before(second);
        const double age = static_cast<double>(newest().time_ns - s.time_ns) / 1e9;
        if (age + 0.5 < second) {
            continue;  // before the first sample
        }
        const sample& old = before(second + 1);
        const double seconds = static_cast<double>(s.time_ns - old.time_ns) / 1e9;
        const auto now = static_cast<double>(s.heap.number(name));
        if (!growth) {
            values.push_back(now);
        } else if (seconds > 0) {
            values.push_back(std::max(0.0, now - static_cast<double>(old.heap.number(name))) / seconds);
        }
    }
    return values;
}

std::string bar(std::uint64_t in_use, std::uint64_t committed, std::uint64_t most, int width, bool unicode) {
    const auto cells = [&](std::uint64_t n) {
        const double part = most == 0 ? 0 : static_cast<double>(std::min(n, most)) / static_cast<double>(most);
        return static_cast<int>(std::ceil(part * width));
    };
    std::string text = "[";
    const int full = cells(in_use);
    const int half = cells(committed);
    for (int i = 0; i < width; ++i) {
        text += i < full ? (unicode ? "█" : "#") : i < half ? (unicode ? "░" : "-") : " ";
    }
    return text + "]";
}

std::string sparkline(const std::vector<double>& values, int width, bool unicode) {
    const auto room = static_cast<std::size_t>(std::max(width, 0));
    const std::size_t count = std::min(values.size(), room);
    const auto first = values.end() - static_cast<std::ptrdiff_t>(count);
    const double most = count == 0 ? 0 : *std::max_element(first, values.end());
    std::string text(room - count, ' ');
    for (auto v = first; v != values.end(); ++v) {
        // A value above 0 is never shown as nothing.
        const int height = most <= 0 ? 0 : std::clamp(static_cast<int>(std::ceil(*v / most * 8)), 0, 8);
        text += (unicode ? heights_unicode : heights_ascii)[height];
    }
    return text;
}

std::string short_time(std::uint64_t ns) {
    const auto n = static_cast<double>(ns);
    return ns < 1000        ? absl::StrFormat("%d ns", ns)
           : ns < 1'000'000 ? absl::StrFormat("%.3g us", n / 1e3)
           : n < 1e9        ? absl::StrFormat("%.3g ms", n / 1e6)
                            : absl::StrFormat("%.3g s", n / 1e9);
}

std::vector<std::string> screen(const history& seen, int columns, int rows, bool unicode) {
    if (columns < least_columns || rows < least_rows) {
        return {cut(absl::StrFormat("too small: %d x %d; orchard top needs %d x %d (q: quit)", columns, rows,
                                    least_columns, least_rows),
                    columns)};
    }
    std::vector<std::string> lines = {head(seen.newest())};
    const snapshot& h = seen.newest().heap;
    tiers(h, columns, unicode, lines);
    traffic(seen, columns, unicode, lines);
    const std::vector<std::string> failed = failures(h);
    // Failures come before classes where there is not room for both, and the last line is for the keys.
    const int room = rows - static_cast<int>(lines.size()) - static_cast<int>(failed.size()) - 1;
    classes(h, columns, room, unicode, lines);
    lines.insert(lines.end(), failed.begin(), failed.end());
    if (static_cast<int>(lines.size()) > rows - 1) {
        lines.resize(static_cast<std::size_t>(rows - 1));
    }
    lines.resize(static_cast<std::size_t>(rows - 1));
    lines.emplace_back("q: quit");
    for (std::string& line : lines) {
        line = cut(line, columns);
    }
    return lines;
}

}  // namespace orchard::top
