// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The reader of live pages. An input is the bytes of a page; it is read as it is, and again with the first words of its
// header set right, so that the table is reached.

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_split.h"
#include "profiling/top/formats.hpp"
#include "profiling/top/screen.hpp"
#include "runtime/live/live_snapshot.hpp"
#include "tests/fuzz/target.hpp"

namespace orchard::fuzz {
namespace {

using words = std::vector<std::uint64_t>;

void check(const live::snapshot& s) {
    for (const live::field& f : s.fields) {
        expect(!f.name.empty() && is_one_line(f.name), "a field without a name");
        expect(f.help.empty() || is_one_line(f.help), "a help of several lines");
        expect((f.kind == live::field_kind::text ? f.texts.size() : f.values.size()) != 0, "a field without values");
        expect(s.find(f.name) == &f, "a name occurs twice");
        expect(s.labels_of(f).size() == std::max(f.values.size(), f.texts.size()), "cells without names");
    }
    // What programs read has one form, whatever is in the page.
    const std::string text = top::to_prometheus(std::span(&s, 1), ~std::uint64_t{0});
    for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
        expect(line.front() == '#' || line.substr(0, 13) == "orchard_heap_", "a line that is none of the format's");
    }
    (void)top::to_json(s, 0).dump();
    (void)top::to_text(s, 0);
    top::history seen;
    seen.add(1, s);
    seen.add(2'000'000'001, s);
    for (const std::string& line : top::screen(seen, 80, 24, false)) {
        expect(line.size() <= 80, "a line that is too long");
    }
}

void try_page(const words& page) {
    const absl::StatusOr<live::snapshot> s = live::parse(page);
    if (s.ok()) {
        return check(*s);
    }
    expect_clear(s.status());
    expect(absl::IsDataLoss(s.status()) || absl::IsFailedPrecondition(s.status()) || absl::IsUnavailable(s.status()),
           "an error of its own: " + s.status().ToString());
}

}  // namespace
}  // namespace orchard::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace orchard;
    fuzz::words page(size / live::word_bytes);
    if (!page.empty()) {
        std::memcpy(page.data(), data, page.size() * live::word_bytes);
    }
    fuzz::try_page(page);
    if (page.size() >= live::header_words) {
        page[static_cast<std::uint32_t>(live::header::magic)] = live::magic_word;
        page[static_cast<std::uint32_t>(live::header::version)] = live::version_word;
        page[static_cast<std::uint32_t>(live::header::page_bytes)] = page.size() * live::word_bytes;
        fuzz::try_page(page);
    }
    return 0;
}
