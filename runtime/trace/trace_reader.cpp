// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Reading of trace files:
///
///     read_trace
///       check_prefix    magic and version
///       next_section    one section, with its checksum
///       then by kind    HEAD first, EVTS, FOOT last

#include "runtime/trace/trace_reader.hpp"

#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "runtime/text/input_file.hpp"

namespace orchard {
namespace {

using namespace detail::trace;

/// A section as it was read; its kind is empty at the end of the file.
struct read_section {
    std::string kind;
    std::uint32_t events = 0;
    std::string content;
};

/// A trace while it is read.
class reading {
public:
    reading(std::istream& from, const std::string& name) : from_{from}, name_{name} {}

    [[nodiscard]] std::uint64_t place() const { return place_; }
    /// Returns the version of the trace, after `check_prefix`.
    [[nodiscard]] std::uint32_t found_version() const { return found_version_; }
    /// Returns the error that something is wrong at the place where the last section begins.
    [[nodiscard]] absl::Status wrong(const std::string& what) const {
        return absl::DataLossError(absl::StrFormat("%s: at byte %d: %s", absl::CEscape(name_), begin_, what));
    }

    absl::Status check_prefix() {
        const std::string prefix = read(prefix_bytes);
        if (prefix.size() < prefix_bytes || !prefix.starts_with(magic)) {
            return wrong("this is no trace of Orchard; record one with --trace FILE");
        }
        found_version_ = word_at(prefix, magic.size());
        if (found_version_ < oldest_version || found_version_ > version) {
            return wrong(absl::StrFormat(
                "the trace has version %d, and this program reads versions %d to %d: use the program of the version "
                "that wrote it",
                found_version_, oldest_version, version));
        }
        return absl::OkStatus();
    }

    absl::StatusOr<read_section> next_section() {
        begin_ = place_;
        const std::string head = read(section_bytes);
        if (head.empty()) {
            return read_section{};
        }
        if (head.size() < section_bytes) {
            return cut_off();
        }
        read_section s{head.substr(0, 4), word_at(head, 8), {}};
        const std::uint32_t bytes = word_at(head, 4);
        if (s.kind != header_kind && s.kind != events_kind && s.kind != footer_kind) {
            return wrong("no section begins here: the file is damaged; record it again");
        }
        if (bytes > longest_content) {
            return wrong(
                absl::StrFormat("a section of %d bytes; none has more than %d: the file is damaged; record it again",
                                bytes, longest_content));
        }
        s.content = read(bytes);
        if (s.content.size() < bytes) {
            return cut_off();
        }
        if (crc32(std::string_view(head).substr(0, 12), s.content) != word_at(head, 12)) {
            return wrong("the checksum of this section is wrong: the file is damaged; record it again");
        }
        return s;
    }

    [[nodiscard]] absl::Status cut_off() const {
        return wrong(
            "the trace is cut off here: the program that wrote it ended before its heap, or the disk was full; record "
            "it again");
    }

private:
    std::string read(std::size_t bytes) {
        std::string text(bytes, '\0');
        from_.read(text.data(), static_cast<std::streamsize>(bytes));
        text.resize(static_cast<std::size_t>(from_.gcount()));
        place_ += text.size();
        return text;
    }

    std::istream& from_;
    const std::string& name_;
    std::uint64_t begin_ = 0;
    std::uint64_t place_ = 0;
    std::uint32_t found_version_ = 0;
};

/// Takes the footer: it must fit what was read, and be the end.
absl::Status take_footer(reading& file, const read_section& s, std::uint64_t events, trace_counts& counts) {
    if (!decode(s.content, file.found_version(), counts)) {
        return file.wrong("the footer is none: the file is damaged; record it again");
    }
    if (counts.events != events) {
        return file.wrong(
            absl::StrFormat("the footer counts %d events, and the trace has %d: sections are missing; record it again",
                            counts.events, events));
    }
    const auto after = file.next_section();
    if (!after.ok()) {
        return after.status();
    }
    return after->kind.empty() ? absl::OkStatus()
                               : file.wrong("there is more behind the footer: the file is damaged; record it again");
}

}  // namespace

absl::StatusOr<trace_summary> read_trace(std::istream& from, const std::string& name,
                                         const std::function<absl::Status(const std::vector<event>&)>& take) {
    reading file(from, name);
    if (absl::Status s = file.check_prefix(); !s.ok()) {
        return s;
    }
    trace_summary summary;
    std::uint64_t count = 0;
    std::vector<event> events;
    for (bool first = true;; first = false) {
        const auto s = file.next_section();
        if (!s.ok()) {
            return s.status();
        }
        if (s->kind.empty()) {
            return file.cut_off();
        }
        if (first != (s->kind == header_kind)) {
            return file.wrong(first ? "the header is missing: the file is damaged; record it again"
                                    : "a second header: the file is damaged; record it again");
        }
        if (first) {
            if (!decode(s->content, summary.info)) {
                return file.wrong("the header is none: the file is damaged; record it again");
            }
        } else if (s->kind == events_kind) {
            events.clear();
            if (!decode(s->content, s->events, events)) {
                return file.wrong("the events of this section are none: the file is damaged; record it again");
            }
            count += events.size();
            if (absl::Status taken = take ? take(events) : absl::OkStatus(); !taken.ok()) {
                return taken;
            }
        } else {
            if (absl::Status end = take_footer(file, *s, count, summary.counts); !end.ok()) {
                return end;
            }
            summary.bytes = file.place();
            return summary;
        }
    }
}

absl::StatusOr<trace_summary> read_trace(const std::string& path,
                                         const std::function<absl::Status(const std::vector<event>&)>& take) {
    auto file = detail::open_to_read(path);
    return file.ok() ? read_trace(*file, path, take) : file.status();
}

absl::StatusOr<whole_trace> load_trace(const std::string& path) {
    whole_trace whole;
    auto summary = read_trace(path, [&](const std::vector<event>& events) {
        whole.events.insert(whole.events.end(), events.begin(), events.end());
        return absl::OkStatus();
    });
    if (!summary.ok()) {
        return summary.status();
    }
    whole.summary = *std::move(summary);
    return whole;
}

}  // namespace orchard
