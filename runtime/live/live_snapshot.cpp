// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The reader of a page's copy; see live_snapshot.hpp.

#include "runtime/live/live_snapshot.hpp"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace orchard::live {
namespace {

using words = std::span<const std::uint64_t>;

std::uint64_t at(words page, header h) { return page[static_cast<std::uint32_t>(h)]; }

/// Returns true if `count` units of `each` words from word `first` on lie within `size` words. No sum overflows: each
/// number is compared with what is left.
bool lies_within(std::uint64_t first, std::uint64_t count, std::uint64_t each, std::uint64_t size) {
    return first <= size && (each == 0 || count <= (size - first) / each);
}

/// Returns true for a name that can stand in JSON, in Prometheus' format and on a screen.
bool is_name(std::string_view text) {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
    return !text.empty() && is_letter(text.front()) &&
           std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

constexpr const char* remedy = "end the program that owns it, or ask its author";

absl::Status damaged(std::string_view what) {
    return absl::DataLossError(
        absl::StrCat("the page is damaged: ", absl::string_view(what.data(), what.size()), "; ", remedy));
}

/// Reads one row, without its values.
absl::StatusOr<field> field_of(words row_words) {
    field f;
    f.name = text_in(row_words.subspan(row::name, row::unit - row::name));
    f.unit = text_in(row_words.subspan(row::unit, row::axis - row::unit));
    f.axis = text_in(row_words.subspan(row::axis, row::help - row::axis));
    f.help = text_in(row_words.subspan(row::help, row::kind - row::help));
    if (!is_name(f.name) || (!f.unit.empty() && !is_name(f.unit)) || (!f.axis.empty() && !is_name(f.axis))) {
        return damaged("a field of it has no name, or a unit or an axis that is none");
    }
    if (row_words[row::kind] >= std::size(kind_names)) {
        return damaged(absl::StrFormat("field %s is of kind %d", f.name, row_words[row::kind]));
    }
    f.kind = static_cast<field_kind>(row_words[row::kind]);
    return f;
}

/// Reads the values of a field.
absl::Status read_values(words row_words, words values, field& f) {
    const std::uint64_t first = row_words[row::first];
    const std::uint64_t count = row_words[row::count];
    const std::uint64_t each = row_words[row::cell_words];
    if (count == 0 || each == 0 || each > values.size() || !lies_within(first, count, each, values.size())) {
        return damaged(absl::StrFormat("the values of field %s do not lie in it", f.name));
    }
    for (std::uint64_t i = 0; i < count; ++i) {
        const words cell = values.subspan(first + i * each, each);
        if (f.kind == field_kind::text) {
            f.texts.push_back(text_in(cell));
        } else {
            f.values.push_back(cell.front());
        }
    }
    return absl::OkStatus();
}

}  // namespace

const field* snapshot::find(std::string_view wanted) const {
    const auto found = std::ranges::find(fields, wanted, &field::name);
    return found == fields.end() ? nullptr : &*found;
}

std::uint64_t snapshot::number(std::string_view of) const {
    const field* const f = find(of);
    return f == nullptr || f->values.empty() ? 0 : f->values.front();
}

std::string snapshot::text(std::string_view of) const {
    const field* const f = find(of);
    return f == nullptr || f->texts.empty() ? "" : f->texts.front();
}

std::vector<std::string> snapshot::labels_of(const field& of) const {
    const std::size_t count = std::max(of.values.size(), of.texts.size());
    const field* const axis = of.axis.empty() ? nullptr : find(of.axis);
    std::vector<std::string> labels;
    for (std::size_t i = 0; i < count; ++i) {
        labels.push_back(axis != nullptr && i < axis->texts.size() ? axis->texts[i] : absl::StrCat(i));
    }
    return labels;
}

/// The magic first: nothing else means anything before it is right.
absl::Status check_header(words page, std::uint64_t bytes) {
    if (page.size() < header_words) {
        return absl::DataLossError(absl::StrFormat("it has %d bytes, and a live page has %d at least; %s", bytes,
                                                   header_words * word_bytes, remedy));
    }
    if (at(page, header::magic) == 0) {
        return absl::UnavailableError("the page is being made; try again");
    }
    if (at(page, header::magic) != magic_word) {
        return absl::DataLossError(absl::StrCat("it is no live page: its first bytes are not ORCHLIVE; ", remedy));
    }
    const std::uint64_t version = at(page, header::version);
    if (version >> 32 != major_version) {
        return absl::FailedPreconditionError(
            absl::StrFormat("the page has layout %d.%d, and this program reads %d.%d; use the `orchard` of the version "
                            "that the program was built with",
                            version >> 32, version & 0xffffffffu, major_version, minor_version));
    }
    const std::uint64_t promised = at(page, header::page_bytes);
    if (promised > bytes || promised > max_page_bytes || promised < header_words * word_bytes) {
        return absl::DataLossError(absl::StrFormat("the page is cut off or damaged: it has %d bytes, and says %d; %s",
                                                   bytes, promised, remedy));
    }
    return absl::OkStatus();
}

absl::StatusOr<snapshot> parse(words page) {
    if (absl::Status s = check_header(page, page.size() * word_bytes); !s.ok()) {
        return s;
    }
    page = page.first(at(page, header::page_bytes) / word_bytes);
    const std::uint64_t rows = at(page, header::table_rows);
    const std::uint64_t each = at(page, header::row_words);
    if (each < row::words || !lies_within(at(page, header::table_first), rows, each, page.size()) ||
        !lies_within(at(page, header::values_first), at(page, header::values_words), 1, page.size())) {
        return damaged("its table or its values do not lie in it");
    }
    const words values = page.subspan(at(page, header::values_first), at(page, header::values_words));
    snapshot s;
    s.name = {static_cast<pid_t>(at(page, header::pid)), static_cast<std::uint32_t>(at(page, header::heap))};
    s.start_ticks = at(page, header::start_ticks);
    s.heartbeat_ns = at(page, header::heartbeat_ns);
    s.state = static_cast<page_state>(std::min<std::uint64_t>(at(page, header::state), 2));
    s.minor = static_cast<std::uint32_t>(at(page, header::version));
    s.statistics_version = at(page, header::statistics_version);
    std::set<std::string> names;
    std::uint64_t left = max_page_bytes / word_bytes;  // of cells of all fields, which may share their places
    for (std::uint64_t i = 0; i < rows; ++i) {
        const words of_row = page.subspan(at(page, header::table_first) + i * each, each);
        absl::StatusOr<field> f = field_of(of_row);
        if (!f.ok()) {
            return f.status();
        }
        if (!names.insert(f->name).second) {
            return damaged(absl::StrFormat("field %s occurs twice", f->name));
        }
        if (of_row[row::count] > left) {
            return damaged("its fields have more values than a page holds");
        }
        left -= of_row[row::count];
        if (absl::Status read = read_values(of_row, values, *f); !read.ok()) {
            return read;
        }
        s.fields.push_back(*std::move(f));
    }
    return s;
}

}  // namespace orchard::live
