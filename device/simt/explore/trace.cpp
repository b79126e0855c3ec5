// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Names and texts of a timeline; see trace.hpp.

#include "device/simt/explore/trace.hpp"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace orchard::simt::explore {

std::string text_of(site where) {
    const std::string_view file = where.file;
    const std::size_t slash = file.rfind('/');
    const std::string_view name = slash == std::string_view::npos ? file : file.substr(slash + 1);
    return absl::StrCat(absl::string_view(name.data(), name.size()), ":", where.line);
}

void name_table::add(const void* first, std::size_t bytes, std::string name, std::size_t stride, bool bits) {
    ranges_.push_back({reinterpret_cast<std::uintptr_t>(first), bytes, stride, std::move(name), bits});
}

const name_table::range* name_table::find(std::uintptr_t at) const {
    // The last match counts: a part may be named after the whole range was.
    for (auto r = ranges_.rbegin(); r != ranges_.rend(); ++r) {
        // An address below the range wraps around to a large difference.
        if (at - r->first < r->bytes) {
            return &*r;
        }
    }
    return nullptr;
}

std::string name_table::name_of(const volatile void* at, std::uint32_t number) const {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    const range* const r = find(address);
    if (r == nullptr) {
        return absl::StrCat("word ", number);
    }
    const std::size_t offset = address - r->first;
    if (r->stride == 0) {
        return offset == 0 ? r->name : absl::StrCat(r->name, "+", offset);
    }
    // The place inside its word: the address may be of a member of a larger object.
    const std::size_t inside = offset % r->stride;
    return absl::StrCat(r->name, "[", offset / r->stride, "]", inside == 0 ? "" : absl::StrCat("+", inside));
}

std::optional<name_table::place> name_table::place_of(std::uint64_t value) const {
    if (const range* const r = find(static_cast<std::uintptr_t>(value)); r != nullptr) {
        return place{r, value - r->first, 0};
    }
    // Packed: bits 4 to 51 of an address below 16 other bits, or bits 4 to 47 above 20 other bits.
    struct packed {
        std::uint64_t address;
        std::uint64_t rest;
    };
    for (const packed& p :
         {packed{(value & 0xffff'ffff'ffff) << 4, value >> 48}, packed{value >> 20 << 4, value & 0xfffff}}) {
        if (const range* const r = find(static_cast<std::uintptr_t>(p.address)); r != nullptr) {
            return place{r, p.address - r->first, p.rest};
        }
    }
    return std::nullopt;
}

// The word is looked up last, since few values look like addresses.
std::optional<name_table::place> name_table::place_of(std::uint64_t value, const volatile void* word) const {
    const auto at = place_of(value);
    const range* const words = at ? find(reinterpret_cast<std::uintptr_t>(word)) : nullptr;
    return words != nullptr && words->bits ? std::nullopt : at;
}

std::string name_table::text_of_value(std::uint64_t value, const volatile void* word) const {
    const auto at = place_of(value, word);
    if (!at) {
        return absl::StrFormat("0x%x", value);
    }
    return absl::StrCat(at->rest == 0 ? "" : absl::StrCat(at->rest, ":"), "&", at->in->name, "+", at->offset);
}

// The number of the range begins at bit 48, what else is packed with an address at bit 32, and then comes the offset.
std::uint64_t name_table::portable(std::uint64_t value, const volatile void* word) const {
    const auto at = place_of(value, word);
    return at ? (static_cast<std::uint64_t>(at->in - ranges_.data()) << 48) + (at->rest << 32) + at->offset : value;
}

std::string trace::text() const {
    constexpr std::uint64_t ns_per_us = 1000;
    std::string text;
    for (const event& e : events_) {
        // Printed as integers, so that all machines round alike. The view comes last, because it may be long.
        std::string line = absl::StrFormat("%6d %6d.%02dus %-9s %-31s %-18s %-24s %-26s %s", e.point,
                                           e.time_ns / ns_per_us, e.time_ns % ns_per_us / 10, e.actor, e.operation,
                                           e.place, e.value, text_of(e.where), e.view);
        absl::StripTrailingAsciiWhitespace(&line);
        absl::StrAppend(&text, line, "\n");
    }
    return text;
}

}  // namespace orchard::simt::explore
